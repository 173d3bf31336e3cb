//! Reading by element, from TensorFlow's workers and ours.

mod ballot;
mod fetching;
mod free;
mod invariants;
mod rounds;
mod votes;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::fetching::Progress;
use self::rounds::Rounds;
use super::config::ByElement;
use super::membership;
use super::report::{Report, Stall};
use super::shared::{Purpose, Shared};
use super::types::{Answer, Delivery, Effect, RpcId};
use crate::element::Element;
use crate::ids::TaskId;
use crate::status::{Code, Status};
use crate::time::Time;

/// The protocol by which workers serve elements, among their transfer servers.
const PROTOCOL: &str = "grpc";

/// The tasks that elements come from, and the elements that have come.
#[derive(Clone, Debug)]
pub(super) struct Elements {
    way: ByElement,
    tasks: BTreeMap<TaskId, Progress>,
    /// Calls to workers under way, with the slot that waits for the answer.
    calls: BTreeMap<RpcId, Call>,
    /// In the order in which they are handed on.
    slots: VecDeque<Slot>,
    buffered_bytes: u64,
    /// Bytes of the largest element so far.
    largest: u64,
    /// In coordinated reads.
    rounds: Option<Rounds>,
    /// Whether the next heartbeat is likely to tell something.
    hurries: bool,
    /// Where the next turn of the tasks begins.
    turn: usize,
}

/// A call to a worker.
#[derive(Clone, Debug)]
struct Call {
    task: TaskId,
    worker: Arc<str>,
    /// The round it is for, in coordinated reads.
    round: Option<i64>,
}

/// A place in the order in which elements are handed on.
#[derive(Clone, Debug)]
enum Slot {
    /// An element of this task in this round is to come.
    Waiting(TaskId, i64),
    /// It has come.
    Ready(Element),
    /// There is none.
    Passed,
}

impl Elements {
    pub(super) fn new(way: ByElement) -> Self {
        let rounds = way.consumer.map(Rounds::of);
        Self {
            way,
            tasks: BTreeMap::new(),
            calls: BTreeMap::new(),
            slots: VecDeque::new(),
            buffered_bytes: 0,
            largest: 0,
            rounds,
            hurries: false,
            turn: 0,
        }
    }

    /// What a heartbeat says of rounds.
    pub(super) fn rounds(&self) -> membership::Rounds {
        self.rounds.as_ref().map_or((None, None), Rounds::told)
    }

    /// Whether the next heartbeat should go out soon; asked once.
    pub(super) fn takes_hurry(&mut self) -> bool {
        core::mem::take(&mut self.hurries)
    }

    /// The dispatcher has said which tasks there are, and before which round to stop. True if it
    /// should hear at once that this reader will.
    pub(super) fn told(&mut self, now: Time, block_round: Option<i64>, shared: &Shared) -> bool {
        let is_listed = |id: &TaskId| shared.tasks.iter().any(|task| task.id == *id);
        self.tasks.retain(|id, progress| is_listed(id) || !progress.is_idle());
        let listed = self.tasks.iter_mut().filter(|(id, _)| is_listed(id));
        listed.for_each(|(_, progress)| progress.doubt.listed(now));
        for (id, progress) in &mut self.tasks {
            progress.unlisted_since = match is_listed(id) {
                true => None,
                false => progress.unlisted_since.or(Some(now)),
            };
        }
        self.pass_unlisted(is_listed);
        self.rounds.as_mut().is_some_and(|rounds| rounds.block(block_round))
    }

    /// Whether something is about to change: there is nothing to read, all stop for a new task, or a list
    /// says what becomes of a held answer.
    pub(super) fn is_near_change(&self, now: Time, shared: &Shared) -> bool {
        if self.tasks.values().any(|progress| progress.doubt.awaits_lists(now)) {
            return true;
        }
        let has_ended = |id: &TaskId| self.tasks.get(id).is_some_and(|it| it.has_ended);
        let none_is_left = shared.tasks.iter().all(|task| has_ended(&task.id));
        none_is_left || self.rounds.as_ref().is_some_and(Rounds::is_blocked)
    }

    /// Takes a worker's answer, or the dispatcher's to the wish to give a task up.
    ///
    /// # Errors
    /// What ends the reader.
    pub(super) fn answered(
        &mut self,
        now: Time,
        (rpc, purpose): (RpcId, Purpose),
        (result, entropy): (Result<Answer, Status>, u64),
        shared: &mut Shared,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        match (purpose, result) {
            (Purpose::Remove(task), Ok(Answer::Removed(is_removed))) => {
                self.voted(now, task, Ok(is_removed), entropy, shared)
            }
            (Purpose::Remove(task), Err(status)) => {
                self.voted(now, task, Err(status), entropy, shared)
            }
            (_, Ok(Answer::Element(fetched))) => {
                self.fetched(now, rpc, (Ok(fetched), entropy), shared, out)
            }
            (_, Err(status)) => self.fetched(now, rpc, (Err(status), entropy), shared, out),
            (_, Ok(_)) => Err(Status::new(Code::Internal, "an answer to something else")),
        }
    }

    /// Does what can be done now; true when all has been read.
    ///
    /// # Errors
    /// What ends the reader.
    pub(super) fn go_on(
        &mut self,
        now: Time,
        shared: &mut Shared,
        out: &mut Vec<Effect>,
    ) -> Result<bool, Status> {
        if self.rounds.is_some() {
            self.take_held(now, shared)?;
            self.withdraw_removed(shared, out);
        }
        self.withdraw_unlisted(now, shared, out);
        self.deliver(shared, out);
        match self.rounds.is_some() {
            true => self.ask_in_rounds(now, shared, out),
            false => self.ask_freely(now, shared, out),
        }
        Ok(shared.is_finished && self.calls.is_empty() && self.slots.is_empty())
    }

    fn deliver(&mut self, shared: &mut Shared, out: &mut Vec<Effect>) {
        loop {
            match self.slots.pop_front() {
                Some(Slot::Passed) => {}
                Some(Slot::Ready(element)) if shared.wanted > 0 => {
                    shared.wanted = shared.wanted.saturating_sub(1);
                    self.buffered_bytes = self.buffered_bytes.saturating_sub(element.size_bytes());
                    out.push(Effect::Deliver(Delivery::Element(element)));
                }
                Some(slot) => return self.slots.push_front(slot),
                None => return,
            }
        }
    }

    /// Whether one more element may come.
    fn has_room(&self, shared: &Shared) -> bool {
        self.has_room_beside(self.calls.len(), shared)
    }

    /// The same if so many calls were under way.
    fn has_room_beside(&self, calls: usize, shared: &Shared) -> bool {
        let (least, under_way) = match self.rounds {
            // Each call has its slot already. A whole round may be under way: whoever waits for one
            // task must still notice that another one is dead, for which others may wait.
            Some(_) => (shared.tasks.len(), 0),
            None => (1, calls),
        };
        let open = self.slots.len().saturating_add(under_way);
        let config = &shared.config;
        let coming = (calls as u64).saturating_add(1).saturating_mul(self.largest);
        let has_bytes = self.buffered_bytes.saturating_add(coming) <= config.buffer_bytes_max;
        open < least || (open < config.buffer_deliveries_max && has_bytes)
    }

    /// When to go on.
    pub(super) fn deadline(&self, shared: &Shared) -> Option<Time> {
        let withdraws = self.withdrawal_due(shared);
        let waits_for_room = self.rounds.is_none() && !self.has_room(shared);
        if shared.is_finished || waits_for_room {
            return withdraws;
        }
        // A task that is no longer listed is neither asked again nor voted on.
        let listed = shared.tasks.iter().filter_map(|task| self.tasks.get(&task.id));
        listed.filter_map(Progress::deadline).chain(withdraws).min()
    }

    /// Adds how the elements stand.
    pub(super) fn report(&self, report: Report) -> Report {
        let is_ready = |slot: &&Slot| matches!(slot, Slot::Ready(_));
        Report {
            buffered: self.slots.iter().filter(is_ready).count(),
            buffered_bytes: self.buffered_bytes,
            round: self.rounds.as_ref().and_then(|rounds| rounds.told().0),
            ..report
        }
    }

    /// Why nothing moves, if nothing does.
    pub(super) fn stall(&self, now: Time, shared: &Shared) -> Option<Stall> {
        if shared.wanted == 0 {
            return (!self.slots.is_empty() && !self.has_room(shared))
                .then_some(Stall::Application);
        }
        if shared.is_told && shared.tasks.is_empty() && !shared.is_finished {
            return Some(Stall::NoWorkers { unsuited: 0 });
        }
        if let Some(round) = self.rounds.as_ref().and_then(Rounds::blocked_before) {
            return Some(Stall::Blocked { round });
        }
        self.worker_stall(now, shared)
    }

    fn worker_stall(&self, now: Time, shared: &Shared) -> Option<Stall> {
        let listed = || {
            let tasks = shared.tasks.iter();
            tasks.filter_map(|task| Some((task, self.tasks.get(&task.id)?)))
        };
        if let Some((task, _)) = listed().find(|(_, progress)| progress.doubt.held.is_some()) {
            return Some(Stall::Undecided { worker: task.worker.clone() });
        }
        let failing = listed().filter_map(|(task, progress)| {
            let (since, status) = progress.retry.why()?;
            Some((now.since(*since), task.worker.clone(), status))
        });
        let (since, worker, status) = failing.max_by_key(|(since, ..)| *since)?;
        let is_long = since >= shared.config.worker_patience;
        is_long.then(|| Stall::Workers { worker, since, status: status.clone() })
    }
}

//! Coordinated reads: giving a task up when its worker cannot be reached, by agreement of all
//! consumers in one round. Calls wait here for each other. A call that names [`ANY_ROUND`] agrees with
//! calls of any round. When it runs out of time it is told UNAVAILABLE, unlike one that another call's
//! round has ended: its consumer need not look for another round.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use super::machine::{Dispatcher, Effect, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::{Event, Reply};
use crate::ids::{CallId, Lsn, TaskId};
use crate::limits::ANY_ROUND;
use crate::time::Time;

/// The waiting calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Removals {
    pub(super) tasks: BTreeMap<TaskId, Vote>,
    pub(super) calls: BTreeMap<CallId, TaskId>,
    pub(super) deadlines: BTreeSet<(Time, CallId)>,
}

/// Consumers that would give up one task in one round, or in any.
#[derive(Clone, Debug, Default)]
pub(super) struct Vote {
    /// The round that calls name; `None` while all of them name [`ANY_ROUND`].
    round: Option<i64>,
    /// The calls that name it.
    naming: BTreeSet<CallId>,
    pub(super) waiting: BTreeMap<CallId, (i64, Time)>,
    /// How many calls each consumer has waiting.
    pub(super) consumers: BTreeMap<i64, usize>,
}

impl Vote {
    /// Whether this round and that of the calls that wait exclude each other.
    fn excludes(&self, round: i64) -> bool {
        round != ANY_ROUND && self.round.is_some_and(|named| named != round)
    }

    fn add(&mut self, call: CallId, round: i64, consumer: i64, until: Time) {
        if round != ANY_ROUND {
            self.round = Some(round);
            self.naming.insert(call);
        }
        self.waiting.insert(call, (consumer, until));
        let calls = self.consumers.entry(consumer).or_default();
        *calls = calls.saturating_add(1);
    }

    /// Takes a call out and says when it would have given up.
    fn withdraw(&mut self, call: CallId) -> Option<Time> {
        let (consumer, until) = self.waiting.remove(&call)?;
        self.naming.remove(&call);
        self.round = self.round.filter(|_| !self.naming.is_empty());
        let calls = self.consumers.entry(consumer).or_default();
        *calls = calls.saturating_sub(1);
        if *calls == 0 {
            self.consumers.remove(&consumer);
        }
        Some(until)
    }
}

impl Removals {
    /// The calls that would give this task up and have waited long enough. A server that was held up finds
    /// them before it has looked at the clock.
    fn overdue(&self, task: TaskId, now: Time) -> Vec<CallId> {
        if self.deadline().is_none_or(|first| first > now) {
            return Vec::new();
        }
        let waiting = self.tasks.get(&task).into_iter().flat_map(|vote| &vote.waiting);
        waiting.filter(|(_, (_, until))| *until <= now).map(|(call, _)| *call).collect()
    }

    /// When the first waiting call gives up.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    pub(super) fn add(
        &mut self,
        task: TaskId,
        round: i64,
        call: CallId,
        consumer: i64,
        until: Time,
    ) {
        self.tasks.entry(task).or_default().add(call, round, consumer, until);
        self.calls.insert(call, task);
        self.deadlines.insert((until, call));
    }

    /// Ends a vote and names the calls that waited.
    fn end(&mut self, task: TaskId) -> Vec<CallId> {
        let Some(vote) = self.tasks.remove(&task) else {
            return Vec::new();
        };
        for (call, (_, until)) in &vote.waiting {
            self.calls.remove(call);
            self.deadlines.remove(&(*until, *call));
        }
        vote.waiting.into_keys().collect()
    }

    /// Takes one call out of its vote. True if the call named a round.
    fn withdraw(&mut self, call: CallId) -> bool {
        let task = self.calls.remove(&call);
        let Some((task, vote)) = task.and_then(|task| Some((task, self.tasks.get_mut(&task)?)))
        else {
            return false;
        };
        let named = vote.naming.contains(&call);
        if let Some(until) = vote.withdraw(call) {
            self.deadlines.remove(&(until, call));
        }
        if vote.waiting.is_empty() {
            self.tasks.remove(&task);
        }
        named
    }

    fn is_unanimous(&self, task: TaskId, consumers: i64) -> bool {
        self.tasks.get(&task).is_some_and(|vote| {
            i64::try_from(vote.consumers.len()).is_ok_and(|count| count >= consumers)
        })
    }
}

impl Dispatcher {
    pub(super) fn maybe_remove_task(
        &mut self,
        turn: &mut Turn<'_>,
        call: CallId,
        task: TaskId,
        consumer: i64,
        round: i64,
    ) {
        match self.check_removal(task, consumer) {
            Err(refusal) => {
                let after = turn.log.last();
                turn.out.push(Effect::Reply { call, result: Err(refusal.into()), after });
            }
            Ok(None) => answer(turn, [call], true),
            Ok(Some(consumers)) => {
                // Their consumers no longer stand where they stood.
                for overdue in self.removals.overdue(task, turn.now) {
                    self.expire_removal(turn, overdue);
                }
                self.vote(turn, call, task, (consumer, round), consumers);
            }
        }
    }

    /// The number of consumers that must agree; `None` when the task is gone already.
    fn check_removal(&self, task: TaskId, consumer: i64) -> Result<Option<i64>, Refusal> {
        let Some(task) = self.state.tasks().get(&task) else {
            return Ok(None);
        };
        let job = self.iteration(task.iteration)?.job;
        let consumers = self.state.jobs().get(&job).and_then(|job| job.consumers);
        let Some(consumers) = consumers else {
            return Err(Refusal::NotCoordinated { task: task.id.get() });
        };
        if !(0..consumers).contains(&consumer) {
            let expected = format!("from 0 to {}", consumers.saturating_sub(1));
            return Err(Refusal::OutOfRange { field: "consumer_index", value: consumer, expected });
        }
        let bound = self.config.bounds.waiting_calls;
        if self.removals.calls.len() >= bound {
            return Err(Refusal::TooMany { what: "waiting calls", bound });
        }
        Ok(Some(consumers))
    }

    fn vote(
        &mut self,
        turn: &mut Turn<'_>,
        call: CallId,
        task: TaskId,
        (consumer, round): (i64, i64),
        consumers: i64,
    ) {
        if self.removals.tasks.get(&task).is_some_and(|vote| vote.excludes(round)) {
            // The consumers do not stand in the same round: none of them may drop the task.
            let waited = self.removals.end(task);
            return answer(turn, waited.into_iter().chain([call]), false);
        }
        let until = turn.now.after(self.config.removal_timeout);
        self.removals.add(task, round, call, consumer, until);
        if self.removals.is_unanimous(task, consumers) {
            let waited = self.removals.end(task);
            self.remove_task(turn, task, &waited);
        }
    }

    fn remove_task(&mut self, turn: &mut Turn<'_>, task: TaskId, waited: &[CallId]) {
        match self.commit(turn, [Record::RemoveTask { id: task, again: false }]) {
            Ok(_) => {
                turn.out.push(Effect::Observe(Event::TaskRemoved { task }));
                answer(turn, waited.iter().copied(), true);
            }
            Err(refusal) => {
                let after: Lsn = turn.log.last();
                for call in waited {
                    let result = Err(refusal.clone().into());
                    turn.out.push(Effect::Reply { call: *call, result, after });
                }
            }
        }
    }

    /// Forgets a waiting call whose caller is gone.
    pub fn cancel(&mut self, call: CallId) {
        self.removals.withdraw(call);
    }

    /// Forgets all waiting calls and names them.
    pub(crate) fn abandon_calls(&mut self) -> impl Iterator<Item = CallId> + use<> {
        core::mem::take(&mut self.removals).calls.into_keys()
    }

    /// Answers calls that have waited long enough.
    pub(super) fn expire_removals(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..self.config.bounds.expiries_per_step {
            let Some((until, call)) = self.removals.deadlines.first().copied() else {
                return;
            };
            if until > turn.now {
                return;
            }
            self.expire_removal(turn, call);
        }
    }

    /// Answers a call that has waited long enough.
    fn expire_removal(&mut self, turn: &mut Turn<'_>, call: CallId) {
        if self.removals.withdraw(call) {
            return answer(turn, [call], false);
        }
        let (result, after) = (Err(Refusal::ConsumersMissing.into()), turn.log.last());
        turn.out.push(Effect::Reply { call, result, after });
    }
}

fn answer(turn: &mut Turn<'_>, calls: impl IntoIterator<Item = CallId>, removed: bool) {
    let after = turn.log.last();
    for call in calls {
        turn.out.push(Effect::Reply { call, result: Ok(Reply::TaskRemoved(removed)), after });
    }
}

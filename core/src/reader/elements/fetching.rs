//! Calls to workers, and what their answers mean.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::votes::Doubt;
use super::{Call, Elements, PROTOCOL, Slot, rounds};
use crate::element::Element;
use crate::ids::TaskId;
use crate::reader::retry::Retry;
use crate::reader::shared::{Purpose, Shared};
use crate::reader::types::{Effect, FetchElement, Fetched, RpcId, Task};
use crate::status::Status;
use crate::time::{Duration, Time};

/// Longest pause before a task is asked again.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// First pause after "ask again", and the longest.
const SKIP_PAUSE_MIN: Duration = Duration::from_millis(1);
/// See [`SKIP_PAUSE_MIN`].
const SKIP_PAUSE_MAX: Duration = Duration::from_millis(50);
/// Elements in a row that a task cannot make before that is more than a few bad elements.
const ERRORS_MAX: u32 = 64;

/// How far a task has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Calls to it under way.
    pub(super) calls: usize,
    /// It has no more elements.
    pub(super) has_ended: bool,
    /// All consumers have given it up.
    pub(super) is_removed: bool,
    pub(super) retry: Retry,
    /// After "ask again".
    skip: Option<(Time, Duration)>,
    /// Elements in a row that it could not make.
    errors: u32,
    /// The round it is asked for, until it has answered or is passed over.
    pub(super) round: Option<i64>,
    /// Whether it is gone, in coordinated reads.
    pub(super) doubt: Doubt,
    pub(super) skipped_previous: bool,
    /// When the dispatcher stopped listing it.
    pub(super) unlisted_since: Option<Time>,
}

impl Progress {
    /// Whether something is still wanted of it that no call and no answer is there for.
    pub(super) const fn may_go_on(&self) -> bool {
        let is_wanted = !self.has_ended && !self.is_removed;
        is_wanted && self.calls == 0 && self.doubt.held.is_none()
    }

    /// Whether the consumer may vote on it.
    pub(super) fn may_vote(&self, now: Time) -> bool {
        self.wants_vote() && self.doubt.at().is_none_or(|at| at <= now)
    }

    const fn wants_vote(&self) -> bool {
        !self.is_removed && self.round.is_some() && self.doubt.wants_vote()
    }

    /// When it is asked again, or voted on, if one must wait.
    pub(super) fn deadline(&self) -> Option<Time> {
        let asks = self.at().filter(|_| self.may_go_on());
        let votes = self.doubt.at().filter(|_| self.wants_vote());
        asks.into_iter().chain(votes).chain(self.doubt.hurries_at()).min()
    }

    /// Whether no call to it and no vote on it is under way, and no answer is held.
    pub(super) const fn is_idle(&self) -> bool {
        self.calls == 0 && !self.doubt.is_voting() && self.doubt.held.is_none()
    }

    /// When it may be asked again, if one must wait.
    fn at(&self) -> Option<Time> {
        self.retry.at().max(self.skip.map(|(at, _)| at))
    }

    /// Whether it may be asked.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.at().is_none_or(|at| at <= now)
    }

    /// It has nothing ready. In a round, all others go on without it.
    fn skipped(&mut self, now: Time, round: Option<i64>) {
        self.skipped_previous = true;
        if round.is_some() {
            return;
        }
        let pause = self.skip.map_or(SKIP_PAUSE_MIN, |(_, pause)| {
            Duration::from_nanos(pause.as_nanos().saturating_mul(2)).min(SKIP_PAUSE_MAX)
        });
        self.skip = Some((now.after(pause), pause));
    }

    fn succeeded(&mut self) {
        self.retry.succeeded();
        (self.errors, self.doubt) = (0, Doubt::default());
    }
}

impl Elements {
    /// Asks a task for an element.
    pub(super) fn fetch(
        &mut self,
        task: &Task,
        round: Option<i64>,
        allow_skip: bool,
        shared: &mut Shared,
        out: &mut Vec<Effect>,
    ) {
        let rpc = shared.begin(Purpose::Fetch(task.id));
        let progress = self.tasks.entry(task.id).or_default();
        progress.calls = progress.calls.saturating_add(1);
        progress.retry.begin();
        progress.skip = progress.skip.map(|(_, pause)| (Time::ZERO, pause));
        let consumer = self.way.consumer.map(|consumer| i64::from(consumer.index));
        let fetch = FetchElement {
            task: task.id,
            round: consumer.zip(round),
            skipped_previous_round: progress.skipped_previous,
            allow_skip,
        };
        let load = &mut shared.worker(&task.worker).load;
        *load = load.saturating_add(1);
        self.calls.insert(rpc, Call { task: task.id, worker: task.worker.clone(), round });
        // Old workers and dispatchers name no servers: elements are served where a worker registered.
        let address = task.address(PROTOCOL).unwrap_or(&task.worker).clone();
        out.push(Effect::Fetch { rpc, address, fetch });
    }

    /// A worker has answered, or the call has failed.
    pub(super) fn fetched(
        &mut self,
        now: Time,
        rpc: RpcId,
        (result, entropy): (Result<Fetched, Status>, u64),
        shared: &mut Shared,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        let Some(call) = self.calls.remove(&rpc) else {
            return Ok(());
        };
        shared.unload(&call.worker);
        let progress = self.tasks.entry(call.task).or_default();
        progress.calls = progress.calls.saturating_sub(1);
        let is_soft = result.as_ref().is_err_and(|status| status.code.is_soft());
        if is_soft || !progress.doubt.is_unsure() {
            return self.take(now, call, result, entropy, shared);
        }
        if result.is_ok()
            && let Some(vote) = progress.doubt.withdraw()
        {
            shared.withdraw(vote, out);
        }
        progress.doubt.held = Some((call, result));
        Ok(())
    }

    /// Takes the result of a call to a worker.
    ///
    /// # Errors
    /// The status that ends the reader.
    pub(super) fn take(
        &mut self,
        now: Time,
        Call { task, worker, round }: Call,
        result: Result<Fetched, Status>,
        entropy: u64,
        shared: &mut Shared,
    ) -> Result<(), Status> {
        let progress = self.tasks.entry(task).or_default();
        match result {
            Ok(Fetched::Element(element)) => {
                progress.succeeded();
                (progress.skip, progress.skipped_previous) = (None, false);
                self.came((task, round), element, &worker, shared);
            }
            Ok(Fetched::End) => {
                progress.succeeded();
                progress.has_ended = true;
                self.hurries = true;
                self.pass(task, round);
            }
            Ok(Fetched::Skip) => {
                progress.succeeded();
                progress.skipped(now, round);
                self.pass(task, round);
            }
            Err(status) if status.code.is_soft() => {
                self.out_of_reach(now, (task, round), &worker, status, entropy, shared);
            }
            // All have given it up, and its worker has deleted it.
            Err(_) if round.is_some() && !is_listed(task, shared) => self.pass(task, round),
            Err(status) => self.cannot_be_made((task, round), &worker, status, shared)?,
        }
        self.forget_if_unlisted(task, shared);
        Ok(())
    }

    /// Forgets a task without calls that the dispatcher no longer lists: nothing asks it again.
    pub(super) fn forget_if_unlisted(&mut self, task: TaskId, shared: &Shared) {
        let is_idle = self.tasks.get(&task).is_some_and(Progress::is_idle);
        if is_idle && !is_listed(task, shared) {
            self.tasks.remove(&task);
        }
    }

    /// When the next call to a task that is no longer listed is withdrawn. Such a call may stay open
    /// unless the end waits for it, or its round, or other tasks cannot be asked for its sake.
    pub(super) fn withdrawal_due(&self, shared: &Shared) -> Option<Time> {
        let is_waited_for = shared.is_finished || self.rounds.is_some();
        if !is_waited_for && !self.unlisted_calls_take_room(shared) {
            return None;
        }
        let since = |call: &Call| self.tasks.get(&call.task)?.unlisted_since;
        let first = self.calls.values().filter_map(since).min()?;
        Some(first.after(shared.config.worker_patience))
    }

    /// Withdraws calls to tasks that left the list `worker_patience` ago: their workers were given
    /// up and may never answer.
    pub(super) fn withdraw_unlisted(
        &mut self,
        now: Time,
        shared: &mut Shared,
        out: &mut Vec<Effect>,
    ) {
        while self.withdrawal_due(shared).is_some_and(|at| at <= now) {
            let tasks = &self.tasks;
            let since = |call: &Call| tasks.get(&call.task).and_then(|it| it.unlisted_since);
            let unlisted = self.calls.iter().filter(|(_, call)| since(call).is_some());
            let oldest = unlisted.min_by_key(|(_, call)| since(call)).map(|(rpc, _)| *rpc);
            let Some(rpc) = oldest else {
                return;
            };
            self.withdraw(rpc, shared, out);
        }
    }

    /// Withdraws calls to tasks that all consumers have given up.
    pub(super) fn withdraw_removed(&mut self, shared: &mut Shared, out: &mut Vec<Effect>) {
        let is_removed = |task| self.tasks.get(task).is_some_and(|it| it.is_removed);
        let calls = self.calls.iter().filter(|(_, call)| is_removed(&call.task));
        let calls: Vec<RpcId> = calls.map(|(rpc, _)| *rpc).collect();
        for rpc in calls {
            self.withdraw(rpc, shared, out);
        }
    }

    /// Withdraws a call to a worker.
    fn withdraw(&mut self, rpc: RpcId, shared: &mut Shared, out: &mut Vec<Effect>) {
        let Some(call) = self.calls.remove(&rpc) else {
            return;
        };
        shared.withdraw(rpc, out);
        shared.unload(&call.worker);
        if let Some(progress) = self.tasks.get_mut(&call.task) {
            progress.calls = progress.calls.saturating_sub(1);
        }
        self.pass(call.task, call.round);
        self.forget_if_unlisted(call.task, shared);
    }

    /// Whether there is no room for one more call, and would be without those to tasks that are no
    /// longer listed.
    fn unlisted_calls_take_room(&self, shared: &Shared) -> bool {
        let is_listed = |call: &&Call| {
            self.tasks.get(&call.task).is_none_or(|task| task.unlisted_since.is_none())
        };
        let has_room_beside = |calls| self.has_room_beside(calls, shared);
        !has_room_beside(self.calls.len())
            && has_room_beside(self.calls.values().filter(is_listed).count())
    }

    fn came(
        &mut self,
        (task, round): (TaskId, Option<i64>),
        element: Element,
        worker: &Arc<str>,
        shared: &mut Shared,
    ) {
        let size = element.size_bytes();
        self.buffered_bytes = self.buffered_bytes.saturating_add(size);
        self.largest = self.largest.max(size);
        shared.count(worker, 1, size);
        match round {
            None => self.slots.push_back(Slot::Ready(element)),
            Some(round) => self.fill(task, round, Slot::Ready(element)),
        }
    }

    /// Nothing comes of a task in a round.
    pub(super) fn pass(&mut self, task: TaskId, round: Option<i64>) {
        if let Some(round) = round {
            self.fill(task, round, Slot::Passed);
        }
    }

    fn out_of_reach(
        &mut self,
        now: Time,
        (task, round): (TaskId, Option<i64>),
        worker: &Arc<str>,
        status: Status,
        entropy: u64,
        shared: &mut Shared,
    ) {
        shared.count_retry();
        if !is_listed(task, shared) {
            // Its elements are gone with it.
            return self.pass(task, round);
        }
        shared.worker(worker).retry.failed(now, status.clone(), entropy, PAUSE_MAX);
        let progress = self.tasks.entry(task).or_default();
        let pause_max = if round.is_some() { rounds::PAUSE_MAX } else { PAUSE_MAX };
        progress.retry.failed(now, status, entropy, pause_max);
        if round.is_some() && progress.retry.failures() > 1 {
            progress.doubt.failed(now);
        }
    }

    /// An element cannot be made.
    fn cannot_be_made(
        &mut self,
        (task, round): (TaskId, Option<i64>),
        worker: &str,
        status: Status,
        shared: &mut Shared,
    ) -> Result<(), Status> {
        let Status { code, message, details } = status;
        let text = format!("worker {worker}, task {task}: {message}");
        let progress = self.tasks.entry(task).or_default();
        progress.errors = progress.errors.saturating_add(1);
        if self.way.continues_on_error && round.is_none() && progress.errors <= ERRORS_MAX {
            shared.skipped(vec![text]);
            return Ok(());
        }
        Err(Status::new(code, text).with(details))
    }
}

fn is_listed(task: TaskId, shared: &Shared) -> bool {
    shared.tasks.iter().any(|it| it.id == task)
}

//! At least once: where lost splits are handed out again, nobody who reads is told that a pass is
//! over while splits of it are lost, and no iteration ends before somebody had a chance to take
//! those that were lost last. Nor does a lost split go to a worker that has no task to read it for, or
//! a fresh one to a lost worker that has none.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::control::Record;
use rondo_core::dispatcher::{self, Iteration, Reply, Request, State, Task, TaskSplits};
use rondo_core::ids::{CallId, ClientId, IterationId, TaskId, WorkerId};
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};

/// A source of an iteration, and the pass over it.
type Pass = (IterationId, u32, i64);

#[derive(Default)]
pub(super) struct Again {
    reissue: bool,
    /// Splits that each unfinished task took, by pass.
    held: BTreeMap<TaskId, BTreeMap<Pass, u64>>,
    /// Splits of lost tasks that nobody has taken again.
    lost: BTreeMap<Pass, u64>,
    /// Iterations in which no task has ended by itself since splits were lost.
    without_chance: BTreeSet<IterationId>,
    /// Calls of tasks for splits, with how many were lost of the pass when the call was taken.
    asking: CallMap<(Pass, u64)>,
    /// Calls for splits of those who say who they are and have no task of the iteration.
    idle: BTreeSet<CallId>,
    /// Those of them of lost workers.
    idle_workers: BTreeSet<CallId>,
}

impl Again {
    pub(super) fn new(reissue: bool) -> Self {
        Self { reissue, ..Self::default() }
    }

    fn taken(&mut self, call: CallId, request: &Request, shadow: &Shadow) {
        let state = shadow.state();
        let Request::GetSplit { iteration, repetition, source, asker: Some(asker) } = request
        else {
            return;
        };
        let worker = state.worker_at(asker);
        let reads = worker.and_then(|worker| state.task_of(worker.id, *iteration));
        match (reads, u32::try_from(*source)) {
            (Some(_), Ok(source)) => {
                let pass = (*iteration, source, *repetition);
                let lost = self.lost.get(&pass).copied().unwrap_or(0);
                self.asking.insert(call, (pass, lost));
            }
            (Some(_), Err(_)) => {}
            (None, _) => {
                self.idle.insert(call);
                self.idle_workers.extend(worker.filter(|of| of.lost).map(|_| call));
            }
        }
    }

    fn forget(&mut self, call: CallId) -> Option<(Pass, u64)> {
        self.idle.remove(&call);
        self.idle_workers.remove(&call);
        self.asking.remove(&call)
    }

    fn lose_tasks(&mut self, worker: WorkerId, state: &State) {
        for task in state.tasks().values().filter(|task| task.worker == worker) {
            self.lose_task(task);
        }
    }

    fn lose_task(&mut self, task: &Task) {
        for (pass, held) in self.held.remove(&task.id).unwrap_or_default() {
            let lost = self.lost.entry(pass).or_default();
            *lost = lost.saturating_add(held);
            self.without_chance.insert(task.iteration);
        }
    }

    /// Those who read by split take lost ones of the first pass, too.
    fn take_by_split(&mut self, client: ClientId, taken: &[u64], state: &State) {
        let of = state.clients().get(&client).map(|client| client.iteration);
        let Some(of) = of.and_then(|of| state.iterations().get(&of)) else {
            return;
        };
        let lost = taken.iter().filter(|place| is_lost(of, **place)).count() as u64;
        if let Some(left) = self.lost.get_mut(&(of.id, 0, 0)) {
            *left = left.saturating_sub(lost);
        }
    }

    fn hold(&mut self, task: TaskId, pass: Pass) {
        let held = self.held.entry(task).or_default().entry(pass).or_default();
        *held = held.saturating_add(1);
    }

    /// A split that did not leave goes back, and is the next of its pass.
    fn take_back(&mut self, task: TaskId, pass: Pass) {
        if let Some(held) = self.held.get_mut(&task).and_then(|held| held.get_mut(&pass)) {
            *held = held.saturating_sub(1);
        }
        let lost = self.lost.entry(pass).or_default();
        *lost = lost.saturating_add(1);
    }

    /// A record that has a list, or another process of a worker.
    fn record_of_lists(&mut self, record: &dispatcher::Record, state: &State) {
        match record {
            dispatcher::Record::UpdateWorker { id, profile } => {
                let before = state.workers().get(id).map(|worker| worker.profile.uid);
                if before.is_some_and(|before| before != profile.uid) {
                    self.lose_tasks(*id, state);
                }
            }
            dispatcher::Record::HoldSplits { client, taken, .. } => {
                self.take_by_split(*client, taken, state);
            }
            _ => {}
        }
    }

    fn record(&mut self, record: &Record, during: Option<CallId>, state: &State) -> Verdict {
        let Record::Dispatcher(record) = record else {
            return Ok(());
        };
        self.record_of_lists(record, state);
        match *record {
            dispatcher::Record::RemoveTask { id, again: true } => {
                if let Some(task) = state.tasks().get(&id) {
                    self.lose_task(task);
                }
            }
            dispatcher::Record::HandOutWaiting { iteration, task: Some(task), .. } => {
                self.hold(task, (iteration, 0, 0));
            }
            dispatcher::Record::ProduceSplit {
                iteration,
                source,
                repetition,
                task: Some(task),
                ..
            } => self.hold(task, (iteration, source, repetition)),
            dispatcher::Record::ProduceSplit { iteration, task: None, finished: false, .. }
                if during.is_some_and(|call| self.idle_workers.contains(&call)) =>
            {
                return Err(format!(
                    "a fresh split of iteration {iteration} went to a worker that has no task of it"
                ));
            }
            dispatcher::Record::RepeatSplit { iteration, source, repetition, task } => {
                let pass = (iteration, source, repetition);
                let lost = self.lost.entry(pass).or_default();
                *lost = lost.saturating_sub(1);
                if let Some(task) = task {
                    self.hold(task, pass);
                }
                if during.is_some_and(|call| self.idle.contains(&call)) {
                    return Err(format!("a lost split of {pass:?} went to one that reads nothing"));
                }
            }
            dispatcher::Record::FinishTask { id } => {
                self.held.remove(&id);
                if let Some(task) = state.tasks().get(&id) {
                    self.without_chance.remove(&task.iteration);
                }
            }
            dispatcher::Record::TakeBackSplit {
                iteration,
                source,
                repetition,
                task: Some(task),
                ..
            } => self.take_back(task, (iteration, source, repetition)),
            dispatcher::Record::LoseWorker { id, .. }
            | dispatcher::Record::RestartTasks { worker: id, .. } => self.lose_tasks(id, state),
            _ => {}
        }
        Ok(())
    }

    fn answered(&mut self, call: CallId, reply: &Reply, shadow: &Shadow) -> Verdict {
        let asked = self.forget(call);
        if self.reissue && asked.is_some() && matches!(reply, Reply::Split(None)) {
            reached(Check::Again);
        }
        match (asked, reply) {
            (Some((pass, lost)), Reply::Split(None)) if self.reissue && lost > 0 => {
                Err(format!("a task was told that {pass:?} is over, and {lost} of it are lost"))
            }
            (_, Reply::ClientHeartbeat(reply)) if reply.iteration_finished => {
                let first = reply.tasks.first().map(|task| task.iteration);
                first.map_or(Ok(()), |iteration| self.ended(iteration, shadow))
            }
            _ => Ok(()),
        }
    }

    fn ended(&self, iteration: IterationId, shadow: &Shadow) -> Verdict {
        let of = shadow.state().iterations().get(&iteration);
        let counts = of.is_some_and(|of| !of.collected) && self.without_chance.contains(&iteration);
        let passes = (iteration, 0, 0)..=(iteration, u32::MAX, i64::MAX);
        let lost: u64 = self.lost.range(passes).map(|(_, lost)| *lost).sum();
        if self.reissue && counts {
            reached(Check::Again);
        }
        match self.reissue && counts && lost > 0 {
            true => Err(format!("iteration {iteration} ended, and {lost} lost splits with it")),
            false => Ok(()),
        }
    }

    /// What was taken back with the records was never taken.
    fn recovered(&mut self, state: &State) {
        self.asking.clear();
        self.idle.clear();
        self.idle_workers.clear();
        self.held = state
            .tasks()
            .values()
            .filter(|task| !task.finished)
            .map(|task| (task.id, passes_of(task.iteration, &task.splits)))
            .collect();
        self.lost.clear();
        self.without_chance.clear();
        for iteration in state.iterations().values() {
            for run in iteration.splits.again.runs() {
                let lost = self.lost.entry((iteration.id, run.source, run.repetition)).or_default();
                *lost = lost.saturating_add(run.count);
            }
        }
    }
}

/// Whether a split of the first pass over the first source waits to be handed out again.
pub(super) fn is_lost(of: &Iteration, place: u64) -> bool {
    let mut runs = of.splits.again.runs().filter(|run| (run.source, run.repetition) == (0, 0));
    runs.any(|run| place.checked_sub(run.first).is_some_and(|at| at < run.count))
}

fn passes_of(iteration: IterationId, splits: &TaskSplits) -> BTreeMap<Pass, u64> {
    let mut passes = BTreeMap::new();
    for run in splits.remembered.runs() {
        let count: &mut u64 = passes.entry((iteration, run.source, run.repetition)).or_default();
        *count = count.saturating_add(run.count);
    }
    passes
}

impl Oracle for Again {
    fn name(&self) -> &'static str {
        "again"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Taken,
            SeenKind::Answered,
            SeenKind::GivenUp,
            SeenKind::Recovered,
            SeenKind::Configured,
            SeenKind::DispatcherRecord,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Taken { call, request, .. } => self.taken(*call, request, shadow),
            Seen::Recorded { record, during, .. } => {
                return self.record(record, *during, shadow.state());
            }
            Seen::Answered { call, answer: Ok(reply), .. } => {
                return self.answered(*call, reply, shadow);
            }
            Seen::Answered { call, .. } | Seen::GivenUp { call } => drop(self.forget(*call)),
            Seen::Configured(config) => self.reissue = config.reissue_lost_splits,
            Seen::Recovered { state, .. } => self.recovered(&state.dispatcher),
            _ => {}
        }
        Ok(())
    }
}

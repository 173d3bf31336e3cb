//! Tells the processes apart that run one after another at a worker's address.
//!
//! A process names itself by its uid. TensorFlow's open builds all say the same one, so a process of
//! theirs is known by what it runs: a worker holds a task until the dispatcher tells it to drop it,
//! and a new process begins without any.
//!
//! Volatile: after a restart of the dispatcher a process counts as running the tasks that took
//! splits, and no former process is known.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use super::request::WorkerHeartbeat;
use super::state::{State, Worker};
use crate::ids::{TaskId, WorkerId};
use crate::time::{Duration, Time};

/// The uid that TensorFlow's open builds say: it names no process.
const UID_OF_ANY_PROCESS: i64 = -1;
/// Longest time that a heartbeat counts as under way. A worker may have sent it before it learnt of
/// a task for which it took a split since.
const HEARTBEAT_UNDER_WAY_MAX: Duration = Duration::from_secs(5);
/// Former uids remembered of one worker; of more, the oldest is forgotten.
const FORMER_UIDS_MAX: usize = 16;

/// The processes at workers' addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct Processes(pub(super) BTreeMap<WorkerId, Process>);

/// The present process at one address, and those before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    /// Tasks that the process runs, if its uid does not name it, with the time from which each of
    /// its heartbeats names the task.
    runs: BTreeMap<TaskId, Time>,
    /// Uids of former processes, oldest first.
    former: VecDeque<i64>,
}

impl Processes {
    /// What a recovered state shows: a process runs the tasks for which it took splits.
    pub(super) fn of_survivors(state: &State, now: Time) -> Self {
        let mut processes = Self::default();
        for worker in state.workers().values().filter(|it| is_unnamed(it.profile.uid)) {
            let tasks = worker.tasks.iter().filter_map(|id| state.tasks().get(id));
            let took = tasks.filter(|task| task.splits.has_any());
            for task in took {
                processes.of(worker.id).runs.insert(task.id, now);
            }
        }
        processes
    }

    fn of(&mut self, worker: WorkerId) -> &mut Process {
        self.0.entry(worker).or_default()
    }

    /// Whether another process than before sends this heartbeat: it says another uid, or none that
    /// names it and no task that the process before it runs.
    pub(super) fn is_reborn(
        &self,
        worker: &Worker,
        heartbeat: &WorkerHeartbeat,
        now: Time,
    ) -> bool {
        if worker.profile.uid != heartbeat.uid {
            return true;
        }
        let process = self.0.get(&worker.id).filter(|_| is_unnamed(heartbeat.uid));
        let runs = process.into_iter().flat_map(|process| &process.runs);
        let due = |(id, from): &(&TaskId, &Time)| **from <= now && worker.tasks.contains(*id);
        let mut runs = runs.filter(due).map(|(id, _)| *id).peekable();
        let named = &heartbeat.current_tasks;
        if runs.peek().is_none_or(|first| named.contains(first)) {
            return false;
        }
        let named: BTreeSet<TaskId> = named.iter().copied().collect();
        !runs.any(|id| named.contains(&id))
    }

    /// Whether a process with this uid ran at a worker's address before the present one.
    pub(super) fn is_former(&self, worker: WorkerId, uid: i64) -> bool {
        self.0.get(&worker).is_some_and(|process| process.former.contains(&uid))
    }

    /// Notes that a process with the uid `now` has followed one with the uid `before`.
    pub(super) fn note_uid(&mut self, worker: WorkerId, before: i64, now: i64) {
        if before == now {
            return;
        }
        let former = &mut self.of(worker).former;
        former.retain(|uid| *uid != now && *uid != before);
        former.push_back(before);
        if former.len() > FORMER_UIDS_MAX {
            former.pop_front();
        }
    }

    /// Notes which of its tasks a worker named.
    pub(super) fn note_named(
        &mut self,
        worker: &Worker,
        named: &[TaskId],
        reborn: bool,
        now: Time,
    ) {
        let known = self.0.get_mut(&worker.id);
        if let Some(process) = known {
            process.runs.retain(|id, _| !reborn && worker.tasks.contains(id));
        }
        if is_unnamed(worker.profile.uid) {
            let own = named.iter().filter(|id| worker.tasks.contains(id));
            self.of(worker.id).runs.extend(own.map(|id| (*id, now)));
        }
    }

    /// Notes that a worker took a split for a task, so that it knows the task. A heartbeat under way
    /// need not name it.
    pub(super) fn note_split(&mut self, worker: &Worker, task: TaskId, now: Time) {
        if is_unnamed(worker.profile.uid) {
            let from = now.after(HEARTBEAT_UNDER_WAY_MAX);
            self.of(worker.id).runs.entry(task).or_insert(from);
        }
    }
}

const fn is_unnamed(uid: i64) -> bool {
    uid == UID_OF_ANY_PROCESS
}

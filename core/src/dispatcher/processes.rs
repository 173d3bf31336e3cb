//! Tells the processes apart that run one after another at a worker's address.
//!
//! A process names itself by its uid. TensorFlow's open builds all say the same one, so a process of
//! theirs is known by what it runs: a worker holds a task until the dispatcher tells it to drop it,
//! and a new process begins without any.
//!
//! Volatile: after a restart of the dispatcher a process counts as running the tasks that took
//! splits and the finished tasks of open iterations, and no former process is known.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use super::request::WorkerHeartbeat;
use super::state::{State, Task, Worker};
use crate::ids::{TaskId, WorkerId};
use crate::time::{Duration, Time};

/// The uid that TensorFlow's open builds say: it names no process.
const UID_OF_ANY_PROCESS: i64 = -1;
/// Longest time that a heartbeat counts as under way. A worker may have sent it before it learnt of
/// a task for which it took a split since.
const HEARTBEAT_UNDER_WAY_MAX: Duration = Duration::from_secs(5);
/// Former uids remembered of one worker; of more, the oldest is forgotten.
const FORMER_UIDS_MAX: usize = 16;
/// A former process has its address back with this many heartbeats in a row, none of the present
/// process between them. A process sends a heartbeat when the one before was answered or given up,
/// so those that arrive late after its end are fewer.
const HEARTBEATS_OF_RETURN: u32 = 3;

/// The processes at workers' addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct Processes(pub(super) BTreeMap<WorkerId, Process>);

/// The present process at one address, and those before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    /// Tasks that the process runs, if its uid does not name it, with the time from which each of
    /// its heartbeats names the task.
    runs: BTreeMap<TaskId, Time>,
    /// Finished tasks that the process has, as far as is known. It has a task whose end it reports, until
    /// a heartbeat does not name the task or the answer tells it to drop the task.
    kept: BTreeSet<TaskId>,
    /// Uids of former processes, oldest first.
    former: VecDeque<i64>,
    /// The former process heard since the present one was, and its heartbeats in a row.
    returning: Option<(i64, u32)>,
}

/// The process that sent a heartbeat, among those of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// The one that sent the heartbeat before.
    Present,
    /// Another one, which has the address from now on.
    Successor,
    /// One that another has followed. Its heartbeat was long under way, or two processes live at one
    /// address by mistake.
    Former,
}

impl Processes {
    /// What a recovered state shows: a process runs the tasks for which it took splits. A process may have
    /// each finished task of an open iteration. Its next heartbeat says which ones it has.
    pub(super) fn of_survivors(state: &State, now: Time) -> Self {
        let mut processes = Self::default();
        for worker in state.workers().values().filter(|it| is_unnamed(it.profile.uid)) {
            let tasks = worker.tasks.iter().filter_map(|id| state.tasks().get(id));
            let took = tasks.filter(|task| task.splits.has_any());
            for task in took {
                processes.of(worker.id).runs.insert(task.id, now);
            }
        }
        let open = state.open_iterations().iter().filter_map(|id| state.iterations().get(id));
        let tasks = open.flat_map(|of| &of.tasks).filter_map(|id| state.tasks().get(id));
        tasks.filter(|task| task.finished).for_each(|task| processes.note_finished(state, task));
        processes
    }

    fn of(&mut self, worker: WorkerId) -> &mut Process {
        self.0.entry(worker).or_default()
    }

    /// The process that sends this heartbeat of a known worker.
    pub(super) fn sender_of(
        &self,
        worker: &Worker,
        heartbeat: &WorkerHeartbeat,
        now: Time,
    ) -> Sender {
        if worker.profile.uid != heartbeat.uid {
            return self.sender_by_uid(worker, heartbeat.uid);
        }
        match self.names_no_task_it_runs(worker, heartbeat, now) {
            true => Sender::Successor,
            false => Sender::Present,
        }
    }

    /// The process with a uid that is not the present one's. While the worker is lost there is no
    /// present process.
    fn sender_by_uid(&self, worker: &Worker, uid: i64) -> Sender {
        let process = self.0.get(&worker.id);
        let process = process.filter(|of| !worker.lost && of.former.contains(&uid));
        match process.is_some_and(|of| of.heartbeats_with(uid) < HEARTBEATS_OF_RETURN) {
            true => Sender::Former,
            false => Sender::Successor,
        }
    }

    /// Notes a heartbeat of a former process.
    pub(super) fn note_former(&mut self, worker: WorkerId, uid: i64) {
        let process = self.of(worker);
        process.returning = Some((uid, process.heartbeats_with(uid)));
    }

    /// Whether a heartbeat with a uid that names no process names no task either that the present
    /// process runs.
    fn names_no_task_it_runs(
        &self,
        worker: &Worker,
        heartbeat: &WorkerHeartbeat,
        now: Time,
    ) -> bool {
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

    /// Notes that the process with the uid `now` has the address, which one with the uid `before`
    /// had.
    pub(super) fn note_present(&mut self, worker: WorkerId, before: i64, now: i64) {
        if let Some(process) = self.0.get_mut(&worker) {
            process.returning = None;
        }
        if before == now {
            return;
        }
        let former = &mut self.of(worker).former;
        former.retain(|uid| *uid != now && *uid != before);
        if is_unnamed(before) {
            return;
        }
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

    /// Notes that a worker still has a task that it has finished, if readers by split may need the task.
    pub(super) fn note_finished(&mut self, state: &State, task: &Task) {
        let of = &task.iteration;
        if state.open_iterations().contains(of) && !state.open_coordinated().contains(of) {
            self.of(task.worker).kept.insert(task.id);
        }
    }

    /// Notes the finished tasks that a worker named in a heartbeat and is not told to drop: it has no
    /// others.
    pub(super) fn note_kept(&mut self, worker: WorkerId, kept: BTreeSet<TaskId>) {
        if !kept.is_empty() {
            self.of(worker).kept = kept;
        } else if let Some(process) = self.0.get_mut(&worker) {
            process.kept.clear();
        }
    }

    /// Whether a worker has a task that it has finished, as far as is known.
    pub(super) fn has_kept(&self, task: &Task) -> bool {
        self.0.get(&task.worker).is_some_and(|process| process.kept.contains(&task.id))
    }

    /// The finished tasks that workers have.
    pub(super) fn kept_tasks(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.0.values().flat_map(|process| &process.kept).copied()
    }

    /// Forgets the processes of a worker.
    pub(super) fn forget_worker(&mut self, worker: WorkerId) {
        self.0.remove(&worker);
    }

    /// Forgets that a worker's process has a task, which is removed or freed.
    pub(super) fn forget_task(&mut self, worker: WorkerId, task: TaskId) {
        if let Some(process) = self.0.get_mut(&worker) {
            process.runs.remove(&task);
            process.kept.remove(&task);
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

impl Process {
    /// The heartbeats in a row of a former process, with one more.
    fn heartbeats_with(&self, uid: i64) -> u32 {
        let before = self.returning.filter(|(of, _)| *of == uid);
        before.map_or(1, |(_, heard)| heard.saturating_add(1))
    }
}

const fn is_unnamed(uid: i64) -> bool {
    uid == UID_OF_ANY_PROCESS
}

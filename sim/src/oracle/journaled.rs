//! What the records in the journal say of reading by split: as it is, and as it is for sure.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rondo_core::dispatcher::SplitProgress;
use rondo_core::ids::{ClientId, IterationId, Lsn, TaskId};

/// Records of splits by place, and whether those are all.
pub(super) type Places = BTreeMap<u64, (u64, bool)>;

/// What follows from records.
#[derive(Clone, Default)]
pub(super) struct Journaled {
    pub(super) of: BTreeMap<ClientId, IterationId>,
    pub(super) acknowledged: BTreeMap<IterationId, Places>,
    /// What it was when the iteration began.
    pub(super) began: BTreeMap<IterationId, Places>,
    pub(super) holders: BTreeMap<(IterationId, u64), ClientId>,
    /// Splits that workers were handed and that did not come back, with the tasks that have not ended.
    pub(super) with_workers: BTreeMap<(IterationId, u64), Option<TaskId>>,
    /// Iterations of repetitions that were finished before.
    pub(super) known_finished: BTreeMap<IterationId, ()>,
    pub(super) saved: BTreeMap<Arc<str>, Places>,
    /// By the job's name.
    pub(super) restored: BTreeMap<Arc<str>, Places>,
}

/// What a record changes.
#[derive(Clone)]
pub(super) enum Change {
    /// A client joined an iteration.
    Joined(ClientId, IterationId),
    /// A split was read so far.
    Read(IterationId, SplitProgress),
    /// A client holds a split.
    Held(IterationId, u64, ClientId),
    /// A worker was handed a split for a task, if one knows for which.
    ToWorker(IterationId, u64, Option<TaskId>),
    /// A split came back from a worker.
    CameBack(IterationId, u64),
    /// Tasks have ended, and what they were handed comes back if so.
    TasksEnded(Vec<TaskId>, bool),
    /// There is nothing to read in an iteration.
    KnownFinished(IterationId),
    /// A position is where these splits are.
    Saved(Arc<str>, Places),
    /// A job, by its name, waits at a position.
    Restored(Arc<str>, Arc<str>),
    /// An iteration begins where this job waits; at the beginning if it is none's.
    Resumed(IterationId, Option<Arc<str>>),
}

impl Journaled {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Joined(client, iteration) => drop(self.of.insert(client, iteration)),
            Change::Read(id, SplitProgress { place, records, finished }) => {
                self.acknowledged.entry(id).or_default().insert(place, (records, finished));
            }
            Change::Held(id, place, client) => drop(self.holders.insert((id, place), client)),
            Change::ToWorker(id, place, task) => {
                self.with_workers.insert((id, place), task);
                // It is read from its beginning.
                if let Some(places) = self.acknowledged.get_mut(&id) {
                    places.remove(&place);
                }
            }
            Change::CameBack(id, place) => drop(self.with_workers.remove(&(id, place))),
            Change::TasksEnded(tasks, again) => self.end_tasks(&tasks, again),
            Change::KnownFinished(id) => drop(self.known_finished.insert(id, ())),
            Change::Saved(name, places) => drop(self.saved.insert(name, places)),
            Change::Restored(job, name) => {
                let saved = self.saved.get(&name).cloned().unwrap_or_default();
                self.restored.insert(job, saved);
            }
            Change::Resumed(id, job) => {
                let began = job.and_then(|job| self.restored.remove(&job)).unwrap_or_default();
                self.began.insert(id, began.clone());
                self.acknowledged.insert(id, began);
            }
        }
    }

    fn end_tasks(&mut self, tasks: &[TaskId], again: bool) {
        let is_of = |task: &Option<TaskId>| task.is_some_and(|task| tasks.contains(&task));
        if again {
            self.with_workers.retain(|_, task| !is_of(task));
        }
        self.with_workers.values_mut().filter(|task| is_of(task)).for_each(|task| *task = None);
    }
}

/// Both, with what has yet to become sure.
#[derive(Default)]
pub(super) struct Journal {
    /// As it is.
    now: Journaled,
    /// As it is for sure.
    durable: Journaled,
    /// What may yet be lost, in order.
    pending: VecDeque<(Lsn, Change)>,
}

impl Journal {
    /// As it is.
    pub(super) const fn now(&self) -> &Journaled {
        &self.now
    }

    /// A record changes something.
    pub(super) fn change(&mut self, lsn: Lsn, change: Change) {
        self.now.apply(change.clone());
        self.pending.push_back((lsn, change));
    }

    /// Records up to this one are sure.
    pub(super) fn durable(&mut self, upto: Lsn) {
        let sure = self.pending.partition_point(|(lsn, _)| *lsn <= upto);
        for (_, change) in self.pending.drain(..sure) {
            self.durable.apply(change);
        }
    }

    /// Records up to this one are there after a start; the others never were.
    pub(super) fn recovered(&mut self, upto: Lsn) {
        self.durable(upto);
        if !self.pending.is_empty() {
            self.pending.clear();
            self.now = self.durable.clone();
        }
    }
}

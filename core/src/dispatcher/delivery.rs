//! Splits on their way to workers: an answer that waits for the journal, or to be taken by its caller,
//! may lose its caller, and the split comes back then.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::machine::{Dispatcher, Turn};
use super::record::Record;
use super::state::{Iteration, State};
use crate::ids::{CallId, IterationId, Lsn, TaskId};
use crate::limits::SPLIT_RUNS_AGAIN_MAX;
use crate::log::{ApplyError, missing};

/// A split that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HandedOut {
    pub(super) iteration: IterationId,
    pub(super) source: u32,
    pub(super) repetition: i64,
    /// Its place in the pass.
    pub(super) place: u64,
    /// The task it was handed to, if one knows.
    pub(super) task: Option<TaskId>,
}

impl From<HandedOut> for Record {
    fn from(split: HandedOut) -> Self {
        let HandedOut { iteration, source, repetition, place, task } = split;
        Self::TakeBackSplit { iteration, source, repetition, place, task }
    }
}

/// Answers to unknown callers that are remembered; of more, the oldest is forgotten.
const ANSWERS_TO_UNKNOWN_MAX: usize = 16;

/// Splits whose delivery is not decided.
#[derive(Clone, Debug, Default)]
pub(super) struct Deliveries {
    /// By the call that waits for the split, with the record that its answer waits for. `None` for a split
    /// that is counted as lost, or was given back, with the process that asked for it.
    under_way: BTreeMap<CallId, (Lsn, Option<HandedOut>)>,
    answered: Answered,
    /// Those whose callers left before the answer did. The journal did not take the news yet.
    undelivered: Vec<HandedOut>,
}

/// The splits that were answered last: a caller may leave before it takes its answer. A task that asks
/// for the next split of a source has taken the one before, so one of each source is remembered.
#[derive(Clone, Debug, Default)]
struct Answered {
    splits: BTreeMap<CallId, HandedOut>,
    /// The latest call of each task for each source.
    latest: BTreeMap<(TaskId, u32), CallId>,
    /// The latest calls of nobody known, oldest first.
    of_unknown: VecDeque<CallId>,
}

impl Answered {
    fn add(&mut self, call: CallId, split: HandedOut) {
        self.splits.insert(call, split);
        let former = match split.task {
            Some(task) => self.latest.insert((task, split.source), call),
            None => {
                self.of_unknown.push_back(call);
                let is_full = self.of_unknown.len() > ANSWERS_TO_UNKNOWN_MAX;
                is_full.then(|| self.of_unknown.pop_front()).flatten()
            }
        };
        if let Some(former) = former {
            self.splits.remove(&former);
        }
    }

    fn take(&mut self, call: CallId) -> Option<HandedOut> {
        let split = self.splits.remove(&call)?;
        match split.task {
            Some(task) => drop(self.latest.remove(&(task, split.source))),
            None => self.of_unknown.retain(|of| *of != call),
        }
        Some(split)
    }

    /// Forgets the splits of a task.
    fn forget(&mut self, task: TaskId) {
        let sources = self.latest.range((task, 0)..=(task, u32::MAX));
        let calls: Vec<CallId> = sources.map(|(_, call)| *call).collect();
        for call in calls {
            self.take(call);
        }
    }
}

impl Deliveries {
    /// Forgets the answers to tasks that have ended.
    pub(super) fn forget_tasks(&mut self, tasks: Vec<TaskId>) {
        tasks.into_iter().for_each(|task| self.answered.forget(task));
    }

    /// Tasks whose latest answers are remembered.
    pub(super) fn answered_tasks(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.answered.latest.keys().map(|(task, _)| *task)
    }

    pub(super) fn begin(&mut self, call: CallId, after: Lsn, split: HandedOut) {
        self.under_way.insert(call, (after, Some(split)));
    }

    /// Another process begins a task anew. The record of that has counted the splits of the process before,
    /// or given them back, so they do not come back once more.
    fn begin_anew(&mut self, task: TaskId) {
        for (_, split) in self.under_way.values_mut() {
            *split = split.filter(|split| split.task != Some(task));
        }
        self.undelivered.retain(|split| split.task != Some(task));
        self.answered.forget(task);
    }

    /// A finished task is removed: the splits on their way to it are no task's.
    pub(super) fn disown(&mut self, task: TaskId) {
        let under_way = self.under_way.values_mut().filter_map(|(_, split)| split.as_mut());
        for split in under_way.chain(&mut self.undelivered) {
            split.task = split.task.filter(|of| *of != task);
        }
    }
}

#[cfg(test)]
impl Deliveries {
    /// Remembers an answer, also one to a task that is not there.
    pub(super) fn remember_answer(&mut self, call: CallId, split: HandedOut) {
        self.answered.add(call, split);
    }
}

impl Dispatcher {
    /// The tasks that a record removes, and those of a worker that it gives up: they take no answers any
    /// more.
    pub(super) fn tasks_ended_by(&self, record: &Record) -> Vec<TaskId> {
        match record {
            Record::RemoveTask { id, .. } => vec![*id],
            Record::FinishTask { id } if self.state.is_pending(*id) => vec![*id],
            Record::LoseWorker { id, .. } => {
                let worker = self.state.workers().get(id);
                worker.map_or_else(Vec::new, |worker| worker.tasks.iter().copied().collect())
            }
            Record::FreeIteration { id, .. } => self.tasks_of_iteration(*id),
            Record::DeleteJob { name, .. } => {
                let job = self.state.job_named(name).map(|job| job.id);
                let iterations = job.into_iter().flat_map(|job| self.state.iterations_of(job));
                iterations.flat_map(|iteration| self.tasks_of_iteration(iteration.id)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Forgets the splits on their way to a worker's former process, if a record begins its tasks anew.
    pub(super) fn forget_deliveries_before(&mut self, record: &Record) {
        let Record::RestartTasks { worker, .. } = record else {
            return;
        };
        let worker = self.state.workers().get(worker);
        let tasks = worker.into_iter().flat_map(|worker| &worker.tasks);
        tasks.for_each(|task| self.deliveries.begin_anew(*task));
    }

    /// The tasks of an iteration, pending ones too.
    pub(super) fn tasks_of_iteration(&self, id: IterationId) -> Vec<TaskId> {
        let iteration = self.state.iterations().get(&id);
        iteration.map_or_else(Vec::new, |iteration| {
            let pending = iteration.pending.iter().map(|pending| pending.task);
            iteration.tasks.iter().copied().chain(pending).collect()
        })
    }

    /// The answer with a split leaves for its caller.
    pub(crate) fn split_leaves(&mut self, call: CallId) {
        let Some((_, Some(split))) = self.deliveries.under_way.remove(&call) else {
            return;
        };
        let is_there = |task: TaskId| self.state.tasks().contains_key(&task);
        if split.task.is_none_or(is_there) {
            self.deliveries.answered.add(call, split);
        }
    }

    /// Whether a call was answered with a split, and not long ago.
    pub(crate) fn is_split_answered(&self, call: CallId) -> bool {
        self.deliveries.answered.splits.contains_key(&call)
    }

    /// The record that a call's split waits for, if it waits for one.
    pub(crate) fn split_waits_for(&self, call: CallId) -> Option<Lsn> {
        self.deliveries.under_way.get(&call).map(|(after, _)| *after)
    }

    /// A call's split never arrives, since its caller is gone: others get it.
    pub(crate) fn split_stays(&mut self, turn: &mut Turn<'_>, call: CallId) {
        let under_way = self.deliveries.under_way.remove(&call).and_then(|(_, split)| split);
        let split = under_way.or_else(|| self.deliveries.answered.take(call));
        self.deliveries.undelivered.extend(split);
        self.take_back_undelivered(turn);
    }

    /// Takes back the splits that did not leave, unless the journal takes no records now: then when
    /// it takes them again.
    pub(crate) fn take_back_undelivered(&mut self, turn: &mut Turn<'_>) {
        if self.deliveries.undelivered.is_empty() || turn.log.refuses().is_some() {
            return;
        }
        for split in core::mem::take(&mut self.deliveries.undelivered) {
            if !self.state.may_take_back(&split) {
                continue;
            }
            // A record that does not fit has already asked the node to stop; there is nobody to
            // tell.
            let _ = self.commit(turn, [split.into()]);
            let _ = self.make_reader(turn, split.iteration);
        }
    }
}

impl State {
    /// Whether a split that was handed out is still with its task. A split whose task was lost, or
    /// begun anew by another process, was counted or given back then.
    fn may_take_back(&self, split: &HandedOut) -> bool {
        let HandedOut { source, repetition, place, .. } = *split;
        let Some(of) = self.iterations().get(&split.iteration) else {
            return false;
        };
        let has = match split.task.map(|id| self.tasks().get(&id)) {
            None => true,
            Some(None) => false,
            Some(Some(task)) => {
                task.finished || task.splits.remembered.contains(source, repetition, place)
            }
        };
        has && of.has_handed_out(split) && !of.splits.again.contains(source, repetition, place)
    }

    /// Gives a split back that did not reach its caller. One without a task stays among the
    /// unattributed ones: of those only an upper bound is known.
    pub(super) fn take_back_split(
        &mut self,
        lsn: Lsn,
        split: &HandedOut,
    ) -> Result<(), ApplyError> {
        let HandedOut { iteration, source, repetition, place, .. } = *split;
        let of = self.iterations.get_mut(&iteration);
        let of = of.ok_or_else(|| missing("iteration", iteration))?;
        if !of.has_handed_out(split) || of.splits.again.contains(source, repetition, place) {
            return Err(missing("split to be taken back at place", place));
        }
        if let Some(id) = split.task {
            let task = self.tasks.get_mut(&id).ok_or_else(|| missing("task", id))?;
            if !task.finished && !task.splits.remembered.take(source, repetition, place) {
                return Err(missing("split to be taken back at place", place));
            }
        }
        let is_room = of.splits.again.run_count() < SPLIT_RUNS_AGAIN_MAX;
        if of.finished || !is_room {
            of.splits.lost = of.splits.lost.saturating_add(1);
        } else {
            of.splits.again.insert(source, repetition, place);
            of.splits.tried = None;
        }
        of.splits_changed = lsn;
        Ok(())
    }
}

impl Iteration {
    /// Whether a split was handed out, and does not wait for a client.
    fn has_handed_out(&self, split: &HandedOut) -> bool {
        let source = usize::try_from(split.source).ok().and_then(|at| self.sources.get(at));
        let produced = source.is_some_and(|at| match split.repetition.cmp(&at.repetition) {
            Ordering::Less => split.repetition >= 0 && split.place < at.source.len(),
            Ordering::Equal => split.place < at.index,
            Ordering::Greater => false,
        });
        let first_pass = (split.source, split.repetition) == (0, 0);
        produced && !(first_pass && self.by_split.waiting.contains_key(&split.place))
    }
}

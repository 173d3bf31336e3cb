//! How split records change the durable state.

use alloc::string::ToString;

use super::handed_out::TaskSplits;
use super::record::Record;
use super::state::{Iteration, SourcePosition, State};
use crate::ids::{IterationId, Lsn, TaskId};
use crate::log::{ApplyError, missing};

impl State {
    pub(super) fn apply_split(&mut self, lsn: Lsn, record: &Record) -> Result<(), ApplyError> {
        match *record {
            Record::ProduceSplit { iteration, source, repetition, finished, task } => {
                self.check_holder(iteration, task)?;
                let of = self.iteration_mut(iteration)?;
                let place = produce(position_mut(of, source)?, repetition, finished);
                of.splits_changed = lsn;
                if !finished {
                    self.hand_out(iteration, (source, repetition, place), task)?;
                }
                Ok(())
            }
            Record::RepeatSplit { iteration, source, repetition, task } => {
                self.check_holder(iteration, task)?;
                let of = self.iteration_mut(iteration)?;
                let again = of.splits.again.take_first_of(source, repetition);
                let place =
                    again.ok_or_else(|| missing("split to be repeated of source", source))?;
                of.splits_changed = lsn;
                self.hand_out(iteration, (source, repetition, place), task)
            }
            _ => Err(ApplyError("the record hands out no split".to_string())),
        }
    }

    pub(super) fn check_holder(
        &self,
        iteration: IterationId,
        task: Option<TaskId>,
    ) -> Result<(), ApplyError> {
        let Some(id) = task else { return Ok(()) };
        let task = self.tasks.get(&id).ok_or_else(|| missing("task", id))?;
        if task.iteration == iteration && !task.finished {
            return Ok(());
        }
        let text = alloc::format!("task {id} cannot take splits of iteration {iteration}");
        Err(ApplyError(text))
    }

    pub(super) fn hand_out(
        &mut self,
        iteration: IterationId,
        (source, repetition, place): (u32, i64, u64),
        task: Option<TaskId>,
    ) -> Result<(), ApplyError> {
        match task.and_then(|id| self.tasks.get_mut(&id)) {
            Some(task) => task.splits.add(source, repetition, place),
            None => {
                let splits = &mut self.iteration_mut(iteration)?.splits;
                splits.unattributed = splits.unattributed.saturating_add(1);
            }
        }
        Ok(())
    }

    /// Takes a task's splits from it: whoever had them is gone.
    pub(super) fn forsake_splits(
        &mut self,
        lsn: Lsn,
        id: TaskId,
        again: bool,
    ) -> Result<(), ApplyError> {
        let task = self.tasks.get_mut(&id).ok_or_else(|| missing("task", id))?;
        let of = self.iterations.get_mut(&task.iteration);
        let of = of.ok_or_else(|| missing("iteration", task.iteration))?;
        if task.finished || !task.splits.may_hold_any(&of.splits) {
            return Ok(());
        }
        let splits = core::mem::replace(&mut task.splits, TaskSplits::beginning(&of.splits));
        let coordinated = self.index.open_coordinated.contains(&of.id);
        of.splits.take_back(splits, again && !coordinated);
        of.splits_changed = lsn;
        of.changed = lsn;
        Ok(())
    }

    /// True when there are tasks, and all of them are finished.
    pub(super) fn has_only_finished_tasks(&self, iteration: &Iteration) -> bool {
        let finished = |task: &TaskId| self.tasks.get(task).is_some_and(|t| t.finished);
        !iteration.tasks.is_empty() && iteration.tasks.iter().all(finished)
    }

    /// True when some task is not finished.
    pub(super) fn has_reader(&self, iteration: &Iteration) -> bool {
        let unfinished = |task: &TaskId| self.tasks.get(task).is_some_and(|t| !t.finished);
        iteration.tasks.iter().any(unfinished)
    }

    /// True when an iteration lacks a reader after the tasks that it had.
    fn needs_reader(&self, iteration: &Iteration) -> bool {
        !iteration.tasks.is_empty() && self.lacks_reader(iteration)
    }

    /// True when splits are to be handed out again and nobody could ask for them: no unfinished task,
    /// and no client that reads by split.
    pub(super) fn lacks_reader(&self, iteration: &Iteration) -> bool {
        iteration.to_be_handed_out_again() > 0
            && iteration.by_split.held == 0
            && !self.has_reader(iteration)
    }

    /// True when a worker could be handed splits again and there is no unfinished task, though readers by
    /// split hold others.
    pub(super) fn lacks_reader_beside_readers_by_split(&self, iteration: &Iteration) -> bool {
        let has_some =
            !iteration.splits.again.is_empty() || iteration.by_split.first_for_workers().is_some();
        has_some
            && iteration.by_split.held > 0
            && !iteration.finished
            && !self.has_reader(iteration)
    }

    /// Remembers how much there is to do for a task that is about to join the list.
    pub(super) fn note_reader_tried(&mut self, id: IterationId) -> Result<(), ApplyError> {
        let iteration = self.iterations.get(&id);
        let iteration = iteration.ok_or_else(|| missing("iteration", id))?;
        if self.needs_reader(iteration) {
            let iteration = self.iteration_mut(id)?;
            iteration.splits.tried = Some(iteration.to_be_handed_out_again());
        }
        Ok(())
    }

    /// Nobody asks for the splits to be handed out again if not even the task made for their sake
    /// did: a pipeline need not read to the end of every source.
    pub(super) fn give_up_in_vain(&mut self, id: IterationId) -> Result<(), ApplyError> {
        let iteration = self.iterations.get(&id);
        let iteration = iteration.ok_or_else(|| missing("iteration", id))?;
        let in_vain = iteration.splits.tried == Some(iteration.to_be_handed_out_again());
        if self.needs_reader(iteration) && in_vain {
            let iteration = self.iteration_mut(id)?;
            let waiting = core::mem::take(&mut iteration.by_split.waiting);
            let waiting = u64::try_from(waiting.len()).unwrap_or(u64::MAX);
            iteration.splits.lost = iteration.splits.lost.saturating_add(waiting);
            iteration.splits.give_up();
        }
        Ok(())
    }
}

/// Moves a source on; says where in its pass the split was.
fn produce(position: &mut SourcePosition, repetition: i64, finished: bool) -> u64 {
    if repetition > position.repetition {
        position.repetition = repetition;
        position.index = 0;
    }
    let place = position.index;
    if finished {
        position.repetition = position.repetition.saturating_add(1);
        position.index = 0;
    } else {
        position.index = position.index.saturating_add(1);
    }
    place
}

fn position_mut(iteration: &mut Iteration, source: u32) -> Result<&mut SourcePosition, ApplyError> {
    let position = usize::try_from(source).ok().and_then(|at| iteration.sources.get_mut(at));
    position.ok_or_else(|| missing("split source", source))
}

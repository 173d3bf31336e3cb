//! Readers by split beside readers by element: a split that a worker was handed is no reader's before it
//! comes back, and what a reader holds, or has read to its end, goes to no worker.

use rondo_core::dispatcher::{Record, State};
use rondo_core::ids::{IterationId, Lsn, TaskId, WorkerId};

use super::super::journaled::Change;
use super::super::{Shadow, Verdict};
use super::{Reading, STRAYED};
use crate::checks::{Check, reached};

impl Reading {
    /// What a record says of splits with workers, where some read by element.
    pub(super) fn of_workers(&mut self, lsn: Lsn, record: &Record, shadow: &Shadow) -> Verdict {
        use Record as R;
        if !self.shape.is_some_and(|shape| shape.beside_elements) {
            return Ok(());
        }
        let state = shadow.state();
        let change = match *record {
            R::ProduceSplit { iteration, source: 0, repetition: 0, finished: false, task } => {
                let place = next_place(iteration, state);
                return self.handed_to_worker(lsn, (iteration, place, task), state);
            }
            R::RepeatSplit { iteration, source: 0, repetition: 0, task } => {
                let place = first_lost(iteration, state);
                return self.handed_to_worker(lsn, (iteration, place, task), state);
            }
            R::HandOutWaiting { iteration, place, task } => {
                return self.handed_to_worker(lsn, (iteration, Some(place), task), state);
            }
            R::TakeBackSplit { iteration, source: 0, repetition: 0, place, .. } => {
                // One of an iteration that is over counts as lost.
                let is_over = state.iterations().get(&iteration).is_none_or(|of| of.finished);
                (!is_over).then_some(Change::CameBack(iteration, place))
            }
            R::FinishTask { id } => Some(Change::TasksEnded(vec![id], false)),
            R::RemoveTask { id, again } => Some(Change::TasksEnded(vec![id], again)),
            R::LoseWorker { id, again } | R::RestartTasks { worker: id, again } => {
                Some(Change::TasksEnded(unfinished_of(id, state), again))
            }
            _ => None,
        };
        if let Some(change) = change {
            self.journal.change(lsn, change);
        }
        Ok(())
    }

    fn handed_to_worker(
        &mut self,
        lsn: Lsn,
        (iteration, place, task): (IterationId, Option<u64>, Option<TaskId>),
        state: &State,
    ) -> Verdict {
        let Some(place) = place else {
            return Ok(());
        };
        if !self.has_strayed(iteration) {
            self.may_go_to_worker(iteration, place, state)?;
        }
        if let Some(promised) = self.promised.get_mut(&iteration) {
            promised.remove(&place);
        }
        self.journal.change(lsn, Change::ToWorker(iteration, place, task));
        Ok(())
    }

    /// Whether a worker may be handed a split.
    fn may_go_to_worker(&self, iteration: IterationId, place: u64, state: &State) -> Verdict {
        reached(Check::ReadingBesideElements);
        let text =
            |what: &str| Err(format!("split {place} of {iteration} goes to a worker, {what}"));
        if self.known(iteration, place).1 {
            return text("and a reader has read it to its end");
        }
        if self.journal.now().with_workers.contains_key(&(iteration, place)) {
            return text("and one was handed it before");
        }
        let mut clients = state.clients().values().filter(|of| of.iteration == iteration);
        if clients.any(|of| of.splits.contains_key(&place)) {
            return text("and a reader holds it");
        }
        Ok(())
    }

    /// Whether a reader may be handed a split as far as workers go.
    pub(super) fn not_with_workers(&self, iteration: IterationId, place: u64) -> Verdict {
        let with = self.journal.now().with_workers.get(&(iteration, place));
        match with.filter(|_| !self.has_strayed(iteration)) {
            None => Ok(()),
            Some(task) => Err(format!(
                "a reader is to read split {place} of {iteration}, which {task:?} was handed"
            )),
        }
    }

    /// Whether a worker was handed a split and has read it, or it counts as lost.
    ///
    /// # Errors
    /// When its task has not ended.
    pub(super) fn is_workers(&self, iteration: IterationId, place: u64) -> Result<bool, String> {
        match self.journal.now().with_workers.get(&(iteration, place)) {
            None => Ok(false),
            Some(None) => Ok(true),
            Some(Some(task)) => {
                Err(format!("iteration {iteration} is over, and task {task} has split {place}"))
            }
        }
    }

    pub(super) fn has_strayed(&self, iteration: IterationId) -> bool {
        let places = self.journal.now().acknowledged.get(&iteration);
        places.is_some_and(|places| places.contains_key(&STRAYED))
    }
}

/// The place of the first source's next split in its first pass.
fn next_place(iteration: IterationId, state: &State) -> Option<u64> {
    let source = state.iterations().get(&iteration)?.sources.first()?;
    (source.repetition == 0).then_some(source.index)
}

/// The first of the splits that wait to be handed out again.
fn first_lost(iteration: IterationId, state: &State) -> Option<u64> {
    let runs = state.iterations().get(&iteration)?.splits.again.runs();
    let runs = runs.filter(|run| (run.source, run.repetition) == (0, 0));
    runs.map(|run| run.first).min()
}

fn unfinished_of(worker: WorkerId, state: &State) -> Vec<TaskId> {
    let tasks = state.tasks().values().filter(|task| task.worker == worker && !task.finished);
    tasks.map(|task| task.id).collect()
}

//! Records about named positions, applied.

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::position::{Position, Restoration};
use super::record::Record;
use super::repetitions::Repetitions;
use super::state::State;
use crate::ids::{IterationId, JobId, Lsn};
use crate::log::{ApplyError, missing};
use crate::time::Time;

impl State {
    pub(super) fn apply_position(&mut self, lsn: Lsn, record: &Record) -> Result<(), ApplyError> {
        match record {
            Record::CreateFinishedIteration { id, job, repetition } => {
                self.add_iteration(lsn, *id, (*job, *repetition), Vec::new())?;
                self.close_iteration(lsn, *id)
            }
            Record::ResumeIteration { id, job, repetition, sources, waiting } => {
                self.add_iteration(lsn, *id, (*job, *repetition), sources.clone())?;
                let waiting = waiting.iter().map(|split| (split.place, split.records));
                self.iteration_mut(*id)?.by_split.waiting = waiting.collect();
                self.leave_position(lsn, *job, *repetition);
                Ok(())
            }
            Record::SavePosition { .. } => self.save_position(lsn, record),
            Record::RestorePosition { name, job, at } => self.restore_position(lsn, name, job, *at),
            Record::DeletePosition { name } => {
                let deleted = self.positions.remove(name);
                deleted.ok_or_else(|| missing("position", name))?;
                self.restorations.retain(|_, waits| waits.position != *name);
                Ok(())
            }
            _ => Err(ApplyError("the record is of no kind that positions have".to_string())),
        }
    }

    fn save_position(&mut self, lsn: Lsn, record: &Record) -> Result<(), ApplyError> {
        let Record::SavePosition { name, job, at, finished, abandoned, reading } = record else {
            return Err(ApplyError("the record saves no position".to_string()));
        };
        let dataset = self.job_named(job).map(|job| job.dataset.clone());
        let position = Position {
            name: name.clone(),
            job: job.clone(),
            definition: dataset.as_ref().and_then(|id| self.definition_of(id)),
            dataset,
            saved: *at,
            finished: finished.clone(),
            abandoned: abandoned.clone(),
            reading: reading.clone(),
            changed: lsn,
        };
        self.positions.insert(name.clone(), position);
        Ok(())
    }

    fn restore_position(
        &mut self,
        lsn: Lsn,
        name: &Arc<str>,
        job: &Arc<str>,
        at: Time,
    ) -> Result<(), ApplyError> {
        let restoration = self.restoration_at(lsn, name, job)?;
        self.restorations.insert(job.clone(), restoration);
        let Some(id) = self.job_named(job).map(|job| job.id) else {
            if self.retired.get(job).is_some() {
                let begins = self.take_beginning(job);
                self.retired.set_back(job, begins, lsn);
            }
            return Ok(());
        };
        let (finished, abandoned) = self.take_beginning(job);
        for iteration in self.iterations_to_end(id, &finished) {
            self.collect_iteration(lsn, iteration, at)?;
        }
        self.change_job(id, |job| {
            job.departed.retain(|_, reader| finished.contains(reader.repetition));
            job.finished = finished;
            job.abandoned = abandoned;
            job.changed = lsn;
        })
    }

    /// How a job of this name waits at a position.
    fn restoration_at(
        &self,
        lsn: Lsn,
        name: &Arc<str>,
        job: &Arc<str>,
    ) -> Result<Restoration, ApplyError> {
        let position = self.positions.get(name);
        let position = position.ok_or_else(|| missing("position", name))?;
        let (dataset, definition) = match self.dataset_of_job(job) {
            Some(of) => (Some(of.id.clone()), of.definition),
            None => (position.dataset.clone(), position.definition),
        };
        Ok(Restoration {
            job: job.clone(),
            position: name.clone(),
            dataset,
            definition,
            finished: position.finished.clone(),
            abandoned: position.abandoned.clone(),
            waiting: position.reading.clone(),
            changed: lsn,
        })
    }

    /// Iterations of a job that a restored position contradicts: all but those finished there too.
    fn iterations_to_end(&self, job: JobId, finished: &Repetitions) -> Vec<IterationId> {
        let newest = self.newest_iterations_of(job);
        let wrong = newest.filter(|iteration| {
            let agreed = iteration.finished && finished.contains(iteration.repetition);
            !iteration.collected && !agreed
        });
        wrong.map(|iteration| iteration.id).collect()
    }

    /// The repetitions that a new job of this name counts as finished, and those that it counts as given up.
    pub(super) fn take_beginning(&mut self, job: &Arc<str>) -> (Repetitions, Repetitions) {
        let Some(waits) = self.restorations.get(job) else {
            return Default::default();
        };
        let begins = (waits.finished.clone(), waits.abandoned.clone());
        if waits.waiting.is_empty() {
            self.restorations.remove(job);
        }
        begins
    }

    /// A repetition began at its position, and does so once.
    fn leave_position(&mut self, lsn: Lsn, job: JobId, repetition: i64) {
        let Some(job) = self.jobs.get(&job) else {
            return;
        };
        let Some(waits) = self.restorations.get_mut(&job.name) else {
            return;
        };
        waits.waiting.retain(|saved| saved.repetition != repetition);
        waits.changed = lsn;
        if waits.waiting.is_empty() {
            self.restorations.remove(&job.name);
        }
    }
}

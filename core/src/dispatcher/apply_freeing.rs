//! Records about what is used and what is freed, applied.

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Display;

use super::record::Record;
use super::retired::RetiredJob;
use super::state::{Job, State};
use crate::ids::{DatasetId, IterationId, JobId, Lsn};
use crate::log::{ApplyError, missing};
use crate::time::Time;

fn in_use(kind: &str, id: impl Display) -> ApplyError {
    ApplyError(alloc::format!("{kind} {id} is in use"))
}

impl State {
    pub(super) fn apply_freeing(&mut self, lsn: Lsn, record: &Record) -> Result<(), ApplyError> {
        match record {
            Record::FreeIteration { id, at } => self.free_iteration(lsn, *id, *at),
            Record::FreeJob { id, at } => self.free_job(*id, *at).map(|_| ()),
            Record::RetireJob { id, at } => self.retire_job(lsn, *id, *at),
            Record::DeleteJob { name, at } => self.delete_job(lsn, name, *at),
            Record::FreeDataset { id } => self.free_dataset(id),
            Record::UseJob { id, at } => self.change_job(*id, |job| {
                job.asked = job.asked.max(*at);
                job.changed = lsn;
            }),
            Record::UseDataset { id, at } => {
                self.use_dataset(id, *at);
                let dataset = self.datasets.get_mut(id);
                dataset.ok_or_else(|| missing("dataset", id))?.changed = lsn;
                Ok(())
            }
            _ => Err(ApplyError("the record is of no kind that frees".to_string())),
        }
    }

    fn free_iteration(&mut self, lsn: Lsn, id: IterationId, at: Time) -> Result<(), ApplyError> {
        let iteration = self.iterations.get(&id);
        let iteration = iteration.ok_or_else(|| missing("iteration", id))?;
        if !(iteration.finished && iteration.clients.is_empty()) {
            return Err(in_use("iteration", id));
        }
        self.job_or_missing(iteration.job)?;
        for task in iteration.tasks.clone() {
            if let Some(task) = self.tasks.remove(&task) {
                self.detach_task(lsn, task.id, (task.worker, id))?;
                self.index.tasks_on.remove(&(task.worker, id, task.id));
            }
        }
        let Some(iteration) = self.iterations.remove(&id) else {
            return Ok(());
        };
        let key = (iteration.job, iteration.repetition, id);
        self.index.iteration_by_key.remove(&key);
        let was_last = self.index.idle.iteration_removed(&iteration);
        self.change_job(iteration.job, |job| {
            if !iteration.collected {
                job.finished.insert(iteration.repetition);
            }
            if was_last {
                job.idle_since = job.idle_since.max(at);
            }
            job.changed = lsn;
        })
    }

    fn free_job(&mut self, id: JobId, at: Time) -> Result<Job, ApplyError> {
        self.job_or_missing(id)?;
        if self.index.idle.has_iterations(id) {
            return Err(in_use("job", id));
        }
        let job = self.jobs.remove(&id).ok_or_else(|| missing("job", id))?;
        self.index.job_by_name.remove(&job.name);
        let dataset = self.datasets.get(&job.dataset);
        self.index.idle.job_removed(&job, dataset);
        if !self.index.idle.has_jobs(&job.dataset) {
            self.use_dataset(&job.dataset, at);
        }
        Ok(job)
    }

    fn retire_job(&mut self, lsn: Lsn, id: JobId, at: Time) -> Result<(), ApplyError> {
        let job = self.free_job(id, at)?;
        self.retired.insert(RetiredJob {
            id: Some(job.id),
            first_id: job.first_id,
            parameters: Some(job.parameters()),
            definition: self.definition_of(&job.dataset),
            dataset: Some(job.dataset),
            name: job.name,
            finished: job.finished,
            abandoned: job.abandoned,
            changed: lsn,
        });
        Ok(())
    }

    fn delete_job(&mut self, lsn: Lsn, name: &Arc<str>, at: Time) -> Result<(), ApplyError> {
        let job = self.job_named(name).map(|job| job.id);
        if !self.knows_job(name) {
            return Err(missing("job with name", name));
        }
        let iterations: Vec<IterationId> =
            job.into_iter().flat_map(|job| self.iterations_of(job)).map(|it| it.id).collect();
        if job.is_some_and(|job| self.clients_of(job) > 0) {
            return Err(in_use("job with name", name));
        }
        for id in iterations {
            if self.index.open_iterations.contains(&id) {
                self.collect_iteration(lsn, id, at)?;
            }
            self.free_iteration(lsn, id, at)?;
        }
        if let Some(job) = job {
            self.free_job(job, at)?;
        }
        self.retired.remove(name);
        self.restorations.remove(name);
        Ok(())
    }

    fn free_dataset(&mut self, id: &DatasetId) -> Result<(), ApplyError> {
        if !self.datasets.contains_key(id) {
            return Err(missing("dataset", id));
        }
        if self.index.idle.has_jobs(id) || self.needed_by(id).is_some() {
            return Err(in_use("dataset", id));
        }
        if let Some(dataset) = self.datasets.remove(id) {
            self.index.idle.dataset_removed(&dataset);
            self.index.unshare_definition(dataset.definition.digest);
            self.forget_version(id);
        }
        Ok(())
    }
}

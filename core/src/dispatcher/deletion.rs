//! What an operator deletes: jobs, datasets, lost workers. Never what somebody uses.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::machine::{Answer, Dispatcher, Effect, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::{Event, Reply};
use super::state::Iteration;
use super::undeletable::Undeletable;
use crate::ids::{DatasetId, IterationId, Lsn, TaskId, WorkerId};

impl Dispatcher {
    /// Deletes a job that nobody reads, and all that is known under its name.
    pub(super) fn delete_job(&mut self, turn: &mut Turn<'_>, name: &str) -> Answer {
        let job = self.state.job_named(name);
        if !self.state.knows_job(name) {
            return Err(Refusal::UnknownJobName(name.into()));
        }
        let iterations: Vec<&Iteration> =
            job.into_iter().flat_map(|job| self.state.iterations_of(job.id)).collect();
        let clients: usize = iterations.iter().map(|it| it.clients.len()).sum();
        if clients > 0 || iterations.iter().any(|it| self.is_voted_on(it)) {
            return Err(Undeletable::JobInUse { name: name.into(), clients }.into());
        }
        let iterations: Vec<IterationId> = iterations.into_iter().map(|it| it.id).collect();
        let name: Arc<str> = name.into();
        let tasks = self.tasks_by_worker(&iterations);
        let lsn = self.commit(turn, [Record::DeleteJob { name: name.clone(), at: turn.now }])?;
        for (worker, task) in tasks {
            self.forget_task(worker, task);
        }
        iterations.into_iter().for_each(|id| self.forget_of_iteration(id));
        self.forget_stale_agreements();
        turn.out.push(Effect::Observe(Event::JobDeleted { job_name: name }));
        Ok((Reply::JobDeleted, lsn))
    }

    /// Deletes a dataset that no job has, with all its versions.
    pub(super) fn delete_dataset(&mut self, turn: &mut Turn<'_>, id: &DatasetId) -> Answer {
        let versions = self.versions_to_delete(id);
        if versions.is_empty() {
            return Err(Refusal::UnknownDataset(id.clone()));
        }
        for version in &versions {
            self.check_unused(version)?;
            let needed_by = self.state.needed_by(version).filter(|of| of.name != *id);
            if let Some(of) = needed_by {
                let (id, name) = (version.clone(), of.name.clone());
                return Err(Undeletable::CurrentVersion { id, name }.into());
            }
        }
        let mut lsn = Lsn::NONE;
        for version in versions {
            lsn = self.remove_dataset(turn, version)?;
        }
        Ok((Reply::DatasetDeleted, lsn))
    }

    fn check_unused(&self, id: &DatasetId) -> Result<(), Undeletable> {
        let is_used = self.state.index.idle.has_jobs(id);
        let mut users = self.state.jobs().values().filter(|job| is_used && job.dataset == *id);
        if let Some(job) = users.next() {
            let (job, others) = (job.name.clone(), users.count());
            return Err(Undeletable::DatasetInUse { id: id.clone(), job, others });
        }
        match self.may_be_chosen(id) {
            true => Err(Undeletable::NumberToCome(id.clone())),
            false => Ok(()),
        }
    }

    /// Forgets a lost worker that has no tasks.
    pub(super) fn remove_worker(&mut self, turn: &mut Turn<'_>, address: &str) -> Answer {
        let worker = self.state.worker_at(address);
        let worker = worker.ok_or_else(|| Refusal::UnknownWorker(address.into()))?;
        if !worker.lost {
            let address = worker.address.clone();
            return Err(match self.config.worker_timeout {
                Some(_) => Undeletable::WorkerLives(address).into(),
                None => Undeletable::WorkerNeverLost(address).into(),
            });
        }
        if self.state.has_tasks(worker.id) {
            return Err(Undeletable::WorkerInUse {
                address: worker.address.clone(),
                job: self.job_with_task_on(worker.id),
            }
            .into());
        }
        let id = worker.id;
        if let Some(follower) = self.follower_of(id) {
            return Err(Undeletable::WorkerHasFollower {
                address: worker.address.clone(),
                follower: follower.address.clone(),
            }
            .into());
        }
        let lsn = self.free_worker(turn, id)?;
        Ok((Reply::WorkerRemoved, lsn))
    }

    /// The name of a job that has a task on a worker.
    fn job_with_task_on(&self, worker: WorkerId) -> Arc<str> {
        let mut tasks = self.state.tasks().values().filter(|task| task.worker == worker);
        let iteration = tasks.next().and_then(|task| self.state.iterations().get(&task.iteration));
        let job = iteration.and_then(|iteration| self.state.jobs().get(&iteration.job));
        job.map_or_else(|| String::new().into(), |job| job.name.clone())
    }

    fn tasks_by_worker(&self, of: &[IterationId]) -> Vec<(WorkerId, TaskId)> {
        let tasks = of.iter().flat_map(|id| self.tasks_of_iteration(*id));
        let tasks = tasks.filter_map(|id| self.state.tasks().get(&id));
        tasks.map(|task| (task.worker, task.id)).collect()
    }
}

//! What operators delete in the model.

use rondo_core::dispatcher::Reply;
use rondo_core::ids::{DatasetId, IterationId};
use rondo_core::status::Code;
use rondo_core::time::Time;

use super::{Heard, Kept, Model};

impl Model {
    pub(super) fn delete_job(&mut self, now: Time, name: &str) -> Heard {
        let job = self.kept.job_named(name).map(|job| job.id);
        let is_known = self.kept.retired.contains_key(name) || self.kept.waits.contains_key(name);
        if job.is_none() && !is_known {
            return Err(Code::NotFound);
        }
        let iterations = self.kept.iterations.iter().filter(|of| Some(of.job) == job);
        let iterations: Vec<IterationId> = iterations.map(|of| of.id).collect();
        let is_read = iterations.iter().any(|id| !self.kept.clients_of(*id).is_empty());
        if is_read || iterations.iter().any(|id| self.is_voted_on(*id)) {
            return Err(Code::FailedPrecondition);
        }
        for id in iterations {
            self.kept.end(id);
            self.kept.free_iteration(id, now);
            self.forget_rounds(id);
        }
        if let Some(id) = job {
            self.kept.free_job(now, id);
            self.kept.departed.retain(|departed| departed.job != id);
        }
        self.kept.retired.remove(name);
        self.kept.waits.remove(name);
        Ok(Reply::JobDeleted)
    }

    fn is_voted_on(&self, id: IterationId) -> bool {
        let tasks = self.votes.keys().filter_map(|task| self.kept.tasks.get(task));
        tasks.into_iter().any(|task| task.iteration == id)
    }

    pub(super) fn remove_worker(&mut self, address: &str) -> Heard {
        if !self.kept.workers.iter().any(|worker| worker.address == address) {
            return Err(Code::NotFound);
        }
        if !self.kept.lost.contains(address) || self.kept.has_tasks(address) {
            return Err(Code::FailedPrecondition);
        }
        if self.moves_others(address) {
            return Err(Code::FailedPrecondition);
        }
        self.free_worker(address);
        Ok(Reply::WorkerRemoved)
    }
}

impl Kept {
    pub(super) fn delete_dataset(&mut self, id: &DatasetId) -> Heard {
        let versions = self.versions_to_delete(id);
        if versions.is_empty() {
            return Err(Code::NotFound);
        }
        let is_kept = |version: &DatasetId| {
            let number = version.as_str().parse::<i64>();
            number.is_ok_and(|number| number >= self.above + 1000 + self.chosen)
                || self.jobs.iter().any(|job| job.request.dataset == *version)
                || self.needed_by(version).is_some_and(|name| name != id)
        };
        if versions.iter().any(is_kept) {
            return Err(Code::FailedPrecondition);
        }
        versions.iter().for_each(|version| self.remove_dataset(version));
        Ok(Reply::DatasetDeleted)
    }
}

//! What the model frees.

use std::collections::BTreeSet;

use rondo_core::dispatcher::GetOrCreateJob;
use rondo_core::ids::{DatasetId, IterationId, JobId};
use rondo_core::time::{Duration, Time};

use super::Model;
use super::kept::{Job, Kept, Retired};

const SLACK: Duration = Duration::from_secs(60);

/// A use counts when the last one that did is half a minute old.
pub(super) fn note_use(used: &mut Time, now: Time) {
    if now.since(*used) >= Duration::from_secs(30) {
        *used = now;
    }
}

impl Model {
    pub(super) fn free(&mut self, now: Time) {
        let (iterations, jobs) = (self.unused_iterations(now), self.unused_jobs(now));
        let (datasets, workers) = (self.unused_datasets(now), self.unused_workers(now));
        for id in iterations {
            self.kept.free_iteration(id, now);
            self.forget_rounds(id);
        }
        for id in jobs {
            let job = self.kept.free_job(now, id);
            let read = self.kept.read(&job.request.dataset);
            let is_known = !(job.finished.is_empty() && job.abandoned.is_empty());
            if let (true, Some(name)) = (is_known, job.request.name.clone()) {
                let request = GetOrCreateJob { name: Some(name.clone()), ..job.request };
                let (finished, abandoned) = (job.finished, job.abandoned);
                self.kept.retired.insert(name, Retired { request, read, finished, abandoned });
            }
        }
        for id in datasets {
            self.kept.remove_dataset(&id);
        }
        workers.iter().for_each(|address| self.free_worker(address));
    }

    /// Workers lost for long enough of which no task is left.
    fn unused_workers(&self, now: Time) -> Vec<String> {
        let Some(retention) = self.config.lost_worker_retention else {
            return Vec::new();
        };
        let over = self.lost_since.iter().filter(|(address, since)| {
            self.held_up.less_since(**since, now) >= since.after(retention)
                && !self.kept.has_tasks(address)
                && !self.moves_others(address)
        });
        over.map(|(address, _)| address.clone()).collect()
    }

    pub(super) fn free_worker(&mut self, address: &str) {
        self.kept.end_straying(address, false);
        self.kept.workers.retain(|worker| worker.address != address);
        self.kept.lost.remove(address);
        self.lost_since.remove(address);
        self.signs.remove(address);
        self.processes.remove(address);
    }

    fn unused_iterations(&self, now: Time) -> Vec<IterationId> {
        let Some(timeout) = self.config.job_gc_timeout else {
            return Vec::new();
        };
        let unused = self.kept.iterations.iter().filter(|iteration| {
            let voted_on = |task| self.votes.contains_key(task);
            iteration.finished
                && self.kept.clients_of(iteration.id).is_empty()
                && {
                    let released = iteration.released.unwrap();
                    released.after(timeout) <= self.held_up.less_since(released, now)
                }
                && !iteration.active.iter().any(voted_on)
        });
        unused.map(|iteration| iteration.id).collect()
    }

    fn unused_jobs(&self, now: Time) -> Vec<JobId> {
        let busy: BTreeSet<JobId> = self.kept.iterations.iter().map(|i| i.job).collect();
        let unused = self.kept.jobs.iter().filter(|job| {
            let retention = match job.request.name {
                Some(_) => self.config.named_job_retention,
                None => self.config.job_gc_timeout,
            };
            !busy.contains(&job.id)
                && now >= self.started.after(SLACK)
                && self.is_over(
                    &[(job.asked, SLACK), (job.idle_since, Duration::ZERO)],
                    retention,
                    now,
                )
        });
        unused.map(|job| job.id).collect()
    }

    fn unused_datasets(&self, now: Time) -> Vec<DatasetId> {
        let jobs = self.kept.jobs.iter();
        let busy: BTreeSet<&DatasetId> = jobs.map(|job| &job.request.dataset).collect();
        let next = self.kept.above + 1000 + self.kept.chosen;
        let unused = self.kept.datasets.iter().filter(|(id, dataset)| {
            let is_given = |number: &i64| number.to_string() == id.as_str();
            let number = id.as_str().parse::<i64>().ok().filter(is_given);
            let ahead = number.is_some_and(|number| number >= next);
            !busy.contains(id)
                && !ahead
                && self.kept.needed_by(id).is_none()
                && now >= self.started.after(SLACK)
                && self.is_over(&[(dataset.used, SLACK)], self.config.dataset_retention, now)
        });
        unused.map(|(id, _)| id.clone()).collect()
    }
}

impl Model {
    /// Whether the dispatcher has kept a thing for its retention since the latest use. Each use is a time at
    /// which the dispatcher noted it, and how much later it may have happened. Hold-ups since then do not
    /// count.
    fn is_over(&self, uses: &[(Time, Duration)], retention: Option<Duration>, now: Time) -> bool {
        let latest = uses.iter().max_by_key(|(noted, later)| noted.after(*later));
        let (noted, later) = *latest.unwrap();
        let hearing = self.held_up.less_since(noted, now);
        retention.is_some_and(|retention| hearing >= noted.after(later).after(retention))
    }
}

impl Kept {
    /// Takes away a job without iterations.
    pub(super) fn free_job(&mut self, now: Time, id: JobId) -> Job {
        let at = self.jobs.iter().position(|job| job.id == id).unwrap();
        let job = self.jobs.remove(at);
        let is_used = self.jobs.iter().any(|j| j.request.dataset == job.request.dataset);
        if let Some(dataset) = self.datasets.get_mut(&job.request.dataset)
            && !is_used
        {
            dataset.used = now;
        }
        job
    }

    /// Whether some task is or was a worker's, and is there.
    pub(super) fn has_tasks(&self, address: &str) -> bool {
        self.tasks.values().any(|task| task.address == address)
    }

    pub(super) fn free_iteration(&mut self, id: IterationId, now: Time) {
        let at = self.iterations.iter().position(|i| i.id == id).unwrap();
        let freed = self.iterations.remove(at);
        self.tasks.retain(|_, task| task.iteration != id);
        let is_last = !self.iterations.iter().any(|i| i.job == freed.job);
        let job = self.jobs.iter_mut().find(|job| job.id == freed.job);
        let job = job.unwrap();
        if !freed.collected {
            job.finished.insert(freed.repetition);
        }
        if is_last {
            job.idle_since = now;
        }
    }
}

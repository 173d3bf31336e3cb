//! What nobody uses at present, in the order in which it may be freed. All derived from the rest.

use alloc::collections::{BTreeMap, BTreeSet};

use super::state::{Dataset, Iteration, Job, State};
use crate::ids::{DatasetId, IterationId, JobId};
use crate::limits::USE_SLACK;
use crate::log::{ApplyError, missing};
use crate::time::Time;

/// Idle things by the time since when they are, and how many users everything has.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Idle {
    /// Finished iterations without clients, by when the last one left.
    pub(super) iterations: BTreeSet<(Time, IterationId)>,
    /// Jobs without iterations: whether they are anonymous, and the start of their retention.
    pub(super) jobs: BTreeSet<(bool, Time, JobId)>,
    /// Datasets without jobs, by the start of their retention.
    pub(super) datasets: BTreeSet<(Time, DatasetId)>,
    iterations_of: BTreeMap<JobId, u64>,
    jobs_of: BTreeMap<DatasetId, u64>,
}

impl Idle {
    /// The same, made anew from what it is derived from.
    pub(super) fn derived_from(state: &State) -> Self {
        let mut idle = Self::default();
        for dataset in state.datasets.values() {
            idle.dataset_added(dataset);
        }
        for job in state.jobs.values() {
            idle.job_added(job, state.datasets.get(&job.dataset));
        }
        for iteration in state.iterations.values() {
            if let Some(job) = state.jobs.get(&iteration.job) {
                idle.iteration_added(iteration, job);
            }
        }
        idle
    }

    pub(super) fn dataset_added(&mut self, dataset: &Dataset) {
        if !self.jobs_of.contains_key(&dataset.id) {
            self.datasets.insert(dataset_key(dataset));
        }
    }

    pub(super) fn dataset_removed(&mut self, dataset: &Dataset) {
        self.datasets.remove(&dataset_key(dataset));
    }

    pub(super) fn job_added(&mut self, job: &Job, dataset: Option<&Dataset>) {
        more(&mut self.jobs_of, &job.dataset);
        if let Some(dataset) = dataset {
            self.datasets.remove(&dataset_key(dataset));
        }
        self.jobs.insert(job_key(job));
    }

    pub(super) fn job_removed(&mut self, job: &Job, dataset: Option<&Dataset>) {
        fewer(&mut self.jobs_of, &job.dataset);
        if let Some(dataset) = dataset {
            self.dataset_added(dataset);
        }
        self.jobs.remove(&job_key(job));
    }

    pub(super) fn iteration_added(&mut self, iteration: &Iteration, job: &Job) {
        more(&mut self.iterations_of, &job.id);
        self.jobs.remove(&job_key(job));
        self.iterations.extend(iteration_key(iteration));
    }

    /// Takes an iteration away; true if it was its job's last.
    pub(super) fn iteration_removed(&mut self, iteration: &Iteration) -> bool {
        if let Some(key) = iteration_key(iteration) {
            self.iterations.remove(&key);
        }
        fewer(&mut self.iterations_of, &iteration.job);
        !self.iterations_of.contains_key(&iteration.job)
    }

    pub(super) fn has_jobs(&self, dataset: &DatasetId) -> bool {
        self.jobs_of.contains_key(dataset)
    }

    pub(super) fn has_iterations(&self, job: JobId) -> bool {
        self.iterations_of.contains_key(&job)
    }
}

impl State {
    /// Changes an iteration, and its place among the idle ones with it.
    pub(super) fn change_iteration(
        &mut self,
        id: IterationId,
        change: impl FnOnce(&mut Iteration),
    ) -> Result<(), ApplyError> {
        let iteration = self.iterations.get_mut(&id);
        let iteration = iteration.ok_or_else(|| missing("iteration", id))?;
        let before = iteration_key(iteration);
        change(iteration);
        let after = iteration_key(iteration);
        if before != after {
            if let Some(before) = before {
                self.index.idle.iterations.remove(&before);
            }
            self.index.idle.iterations.extend(after);
        }
        Ok(())
    }

    /// Changes a job, and its place among the idle ones with it.
    pub(super) fn change_job(
        &mut self,
        id: JobId,
        change: impl FnOnce(&mut Job),
    ) -> Result<(), ApplyError> {
        let job = self.jobs.get_mut(&id).ok_or_else(|| missing("job", id))?;
        self.index.idle.jobs.remove(&job_key(job));
        change(job);
        if !self.index.idle.has_iterations(id) {
            self.index.idle.jobs.insert(job_key(job));
        }
        Ok(())
    }

    /// Notes that a dataset was used.
    pub(super) fn use_dataset(&mut self, id: &DatasetId, at: Time) {
        let Some(dataset) = self.datasets.get_mut(id) else {
            return;
        };
        let idle = &mut self.index.idle;
        idle.dataset_removed(dataset);
        dataset.used = dataset.used.max(at);
        idle.dataset_added(dataset);
    }
}

/// Since when a finished iteration has had no clients.
fn iteration_key(iteration: &Iteration) -> Option<(Time, IterationId)> {
    let idle = iteration.finished && iteration.clients.is_empty();
    // Whoever creates an iteration is its first client, so there always was a last one.
    let since = iteration.last_release.unwrap_or(Time::ZERO);
    idle.then_some((since, iteration.id))
}

fn job_key(job: &Job) -> (bool, Time, JobId) {
    let since = job.asked.after(USE_SLACK).max(job.idle_since);
    (job.anonymous, since, job.id)
}

fn dataset_key(dataset: &Dataset) -> (Time, DatasetId) {
    (dataset.used.after(USE_SLACK), dataset.id.clone())
}

fn more<K: Ord + Clone>(counts: &mut BTreeMap<K, u64>, key: &K) {
    let count = counts.entry(key.clone()).or_default();
    *count = count.saturating_add(1);
}

fn fewer<K: Ord + Clone>(counts: &mut BTreeMap<K, u64>, key: &K) {
    let left = counts.get(key).map_or(0, |count| count.saturating_sub(1));
    match left {
        0 => counts.remove(key),
        _ => counts.insert(key.clone(), left),
    };
}

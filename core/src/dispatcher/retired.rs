//! Jobs that were freed, by name: what was read of them stays known, so that a reader that comes back
//! does not read everything again.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use super::repetitions::Repetitions;
use super::types::{ShardingPolicy, TargetWorkers};
use crate::ids::{DatasetId, Digest, JobId, Lsn};
use crate::limits::RETIRED_JOBS_MAX;

/// The parameters of a job. A later request for the job must have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobParameters {
    /// How the dataset is divided.
    pub sharding: ShardingPolicy,
    /// Whether workers keep elements for other trainers.
    pub use_cross_trainer_cache: bool,
    /// Which workers clients read from.
    pub target_workers: TargetWorkers,
}

/// A named job that was freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetiredJob {
    /// Its name.
    pub name: Arc<str>,
    /// Its id; `None` in journals from before it was kept.
    pub id: Option<JobId>,
    /// The first of the jobs that it continued ([`Job::first_id`](super::Job::first_id)).
    pub first_id: Option<JobId>,
    /// The dataset that it read; `None` in journals from before it was kept.
    pub dataset: Option<DatasetId>,
    /// The digest of that dataset's definition. Its id may stand for another pipeline by now. `None` in
    /// journals from before it was kept.
    pub definition: Option<Digest>,
    /// Its parameters; `None` in journals from before they were kept.
    pub parameters: Option<JobParameters>,
    /// Repetitions that were read to their end.
    pub finished: Repetitions,
    /// Repetitions that were given up before their end.
    pub abandoned: Repetitions,
    /// The record that freed it.
    pub changed: Lsn,
}

/// The freed jobs, at most [`RETIRED_JOBS_MAX`]; one more displaces the one that was freed first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetiredJobs {
    by_name: BTreeMap<Arc<str>, RetiredJob>,
    /// Derived from the rest.
    by_age: BTreeSet<(Lsn, Arc<str>)>,
}

impl RetiredJobs {
    /// The retired job of a name.
    pub fn get(&self, name: &str) -> Option<&RetiredJob> {
        self.by_name.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &RetiredJob> {
        self.by_name.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(super) fn insert(&mut self, job: RetiredJob) {
        self.remove(&job.name);
        self.by_age.insert((job.changed, job.name.clone()));
        self.by_name.insert(job.name.clone(), job);
        while self.by_name.len() > RETIRED_JOBS_MAX {
            let Some((_, oldest)) = self.by_age.pop_first() else {
                break;
            };
            self.by_name.remove(&oldest);
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<RetiredJob> {
        let job = self.by_name.remove(name)?;
        self.by_age.remove(&(job.changed, job.name.clone()));
        Some(job)
    }

    /// A job that is set back to a position counts these repetitions as read and as given up from now on.
    pub(super) fn set_back(
        &mut self,
        name: &str,
        (finished, abandoned): (Repetitions, Repetitions),
        lsn: Lsn,
    ) {
        if let Some(job) = self.remove(name) {
            self.insert(RetiredJob { finished, abandoned, changed: lsn, ..job });
        }
    }

    /// Whether the order of age agrees with the jobs.
    pub(super) fn is_ordered(&self) -> bool {
        let by_age: BTreeSet<(Lsn, Arc<str>)> =
            self.iter().map(|job| (job.changed, job.name.clone())).collect();
        by_age == self.by_age
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn job(number: u64) -> RetiredJob {
        RetiredJob {
            name: format!("job {number}").into(),
            id: None,
            first_id: None,
            dataset: None,
            definition: None,
            parameters: None,
            finished: Repetitions::default(),
            abandoned: Repetitions::default(),
            changed: Lsn::new(number),
        }
    }

    #[test]
    fn one_job_more_than_the_bound_displaces_the_one_freed_first() {
        let mut jobs = RetiredJobs::default();
        let bound = u64::try_from(RETIRED_JOBS_MAX).unwrap();
        (1..=bound).for_each(|number| jobs.insert(job(number)));
        assert_eq!(jobs.len(), RETIRED_JOBS_MAX);
        jobs.insert(job(bound + 1));
        assert_eq!(jobs.len(), RETIRED_JOBS_MAX);
        assert!(jobs.get("job 1").is_none());
        assert!(jobs.get("job 2").is_some());
    }

    #[test]
    fn a_job_that_is_freed_twice_is_known_once() {
        let mut jobs = RetiredJobs::default();
        jobs.insert(job(1));
        let again = RetiredJob { changed: Lsn::new(9), ..job(1) };
        jobs.insert(again.clone());
        assert_eq!(jobs.iter().collect::<alloc::vec::Vec<_>>(), [&again]);
        assert!(jobs.is_ordered());
        assert_eq!(jobs.remove("job 1"), Some(again));
        assert!(jobs.is_ordered() && jobs.is_empty());
    }
}

//! Jobs: named and anonymous, and the match of parameters when a name is used again.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use super::freeing::is_worth_noting;
use super::machine::{Answer, Dispatcher, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::Reply;
use super::request::GetOrCreateJob;
use super::retired::JobParameters;
use crate::ids::{DatasetId, JobId, Lsn};
use crate::limits::CONSUMERS_MAX;
use crate::time::Time;

impl Dispatcher {
    pub(super) fn get_or_create_job(
        &mut self,
        turn: &mut Turn<'_>,
        request: GetOrCreateJob,
        entropy: u64,
    ) -> Answer {
        if let Some(job) = request.name.as_ref().and_then(|name| self.state.job_named(name)) {
            check_same_parameters(&job.name, &job.parameters(), &request)?;
            check_same_dataset(&job.name, &job.dataset, &request)?;
            let (id, asked, changed) = (job.id, job.asked, job.changed);
            return self.use_job_again(turn, id, (asked, changed));
        }
        self.check_retired(&request)?;
        check_consumers(request.consumers)?;
        // A job on a dataset that is not there could never be read, and its name would be taken.
        self.dataset(&request.dataset)?;
        let bound = self.config.bounds.jobs;
        if self.state.jobs().len() >= bound {
            return Err(Refusal::TooMany { what: "jobs", bound });
        }
        let id = self.state.counters().job;
        let anonymous = request.name.is_none();
        let name = request.name.map_or_else(|| self.anonymous_name(entropy), Arc::from);
        let record = Record::CreateJob {
            id,
            name,
            dataset: request.dataset,
            sharding: request.sharding,
            consumers: request.consumers,
            use_cross_trainer_cache: request.use_cross_trainer_cache,
            target_workers: request.target_workers,
            anonymous,
            at: turn.now,
        };
        let lsn = self.commit(turn, [record])?;
        Ok((Reply::Job(id), lsn))
    }

    /// Answers with a job that is there, and notes that somebody asked for it.
    fn use_job_again(
        &mut self,
        turn: &mut Turn<'_>,
        id: JobId,
        (asked, changed): (Time, Lsn),
    ) -> Answer {
        let after = match is_worth_noting(asked, turn.now) {
            true => self.commit(turn, [Record::UseJob { id, at: turn.now }])?,
            false => changed,
        };
        Ok((Reply::Job(id), after))
    }

    /// A freed job comes back with its own parameters only, and for a reader that asks for that on its own
    /// dataset only.
    fn check_retired(&self, request: &GetOrCreateJob) -> Result<(), Refusal> {
        let retired = request.name.as_ref().and_then(|name| self.state.retired().get(name));
        let Some(job) = retired else {
            return Ok(());
        };
        if let Some(known) = &job.parameters {
            check_same_parameters(&job.name, known, request)?;
        }
        match &job.dataset {
            Some(has) => check_same_dataset(&job.name, has, request),
            None => Ok(()),
        }
    }

    /// A name nobody else uses, not even on purpose.
    fn anonymous_name(&self, entropy: u64) -> Arc<str> {
        let id = self.state.counters().job;
        let mut suffix = entropy;
        loop {
            let name = format!("anonymous_job_{id}_{suffix}");
            if self.state.job_named(&name).is_none() {
                return name.into();
            }
            suffix = suffix.wrapping_add(1);
        }
    }
}

/// A reader of one dataset is not given the records of another.
fn check_same_dataset(
    name: &Arc<str>,
    has: &DatasetId,
    request: &GetOrCreateJob,
) -> Result<(), Refusal> {
    match !request.same_dataset || request.dataset == *has {
        true => Ok(()),
        false => Err(Refusal::OtherDataset {
            name: name.clone(),
            has: has.clone(),
            asked: request.dataset.clone(),
        }),
    }
}

fn check_consumers(consumers: Option<i64>) -> Result<(), Refusal> {
    match consumers {
        Some(value) if !(1..=CONSUMERS_MAX).contains(&value) => Err(Refusal::OutOfRange {
            field: "num_consumers",
            value,
            expected: format!("from 1 to {CONSUMERS_MAX}"),
        }),
        _ => Ok(()),
    }
}

/// The dataset and the number of consumers are not compared: each consumer of a shared job
/// registers the dataset by itself and gets an id of its own.
fn check_same_parameters(
    name: &Arc<str>,
    known: &JobParameters,
    request: &GetOrCreateJob,
) -> Result<(), Refusal> {
    let mut difference = String::new();
    let mut differ = |what: &str, existing: &str, got: &str| {
        if existing != got {
            difference.push_str(&format!("Existing {what}: <{existing}>; got <{got}>. "));
        }
    };
    differ("processing mode", known.sharding.name(), request.sharding.name());
    differ(
        "cross-trainer cache",
        enabled(known.use_cross_trainer_cache),
        enabled(request.use_cross_trainer_cache),
    );
    differ("target workers", known.target_workers.name(), request.target_workers.name());
    if difference.is_empty() {
        return Ok(());
    }
    Err(Refusal::OtherParameters { name: name.clone(), difference })
}

const fn enabled(flag: bool) -> &'static str {
    if flag { "enabled" } else { "disabled" }
}

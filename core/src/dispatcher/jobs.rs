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
use crate::ids::{JobId, Lsn};
use crate::limits::CONSUMERS_MAX;
use crate::time::Time;

impl Dispatcher {
    pub(super) fn get_or_create_job(
        &mut self,
        turn: &mut Turn<'_>,
        request: GetOrCreateJob,
        entropy: u64,
    ) -> Answer {
        self.check_job(&request)?;
        if let Some(job) = request.name.as_ref().and_then(|name| self.state.job_named(name)) {
            let (id, asked, changed) = (job.id, job.asked, job.changed);
            if !request.same_dataset {
                return self.use_job_again(turn, id, (asked, changed));
            }
            if request.dataset != job.dataset {
                self.use_dataset_again(turn, &request.dataset)?;
            }
            // Which dataset a reader asks for may have changed after the job.
            return self.use_job_again(turn, id, (asked, turn.log.last()));
        }
        self.check_beginning(&request)?;
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

    /// Refuses a job that the dispatcher would not give or create. A job that is there or was freed has its
    /// own parameters only, and for a reader that asks for that its own dataset only.
    pub(super) fn check_job(&self, request: &GetOrCreateJob) -> Result<(), Refusal> {
        let name = request.name.as_deref();
        let there = name.and_then(|name| self.state.job_named(name));
        let freed = name.and_then(|name| self.state.retired().get(name));
        let known = there.map(|job| (&job.name, Some(job.parameters())));
        let known = known.or_else(|| freed.map(|job| (&job.name, job.parameters)));
        if let Some((name, Some(parameters))) = known {
            check_same_parameters(name, &parameters, request)?;
        }
        let kept = name.and_then(|name| self.state.dataset_of_job(name));
        self.check_kept_dataset(kept, request)?;
        if there.is_some() { Ok(()) } else { self.check_new_job(request) }
    }

    /// A job begins at a position on the dataset that the position was saved of.
    fn check_beginning(&self, request: &GetOrCreateJob) -> Result<(), Refusal> {
        let name = request.name.as_deref();
        let name = name.filter(|name| self.state.retired().get(name).is_none());
        let kept = name.and_then(|name| self.state.dataset_of_restoration(name));
        self.check_kept_dataset(kept, request)
    }

    fn check_new_job(&self, request: &GetOrCreateJob) -> Result<(), Refusal> {
        check_consumers(request.consumers)?;
        // A job on a dataset that is not there could never be read, and its name would be taken.
        self.dataset(&request.dataset)?;
        self.check_room("jobs", self.state.jobs().len(), self.config.bounds.jobs)
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

//! What nobody uses any more is freed: finished iterations, jobs, datasets, and with a dataset its
//! definition. Never what somebody uses, and no sooner than the retentions say.

use alloc::vec::Vec;

use super::machine::{Dispatcher, Effect, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::state::Iteration;
use crate::ids::{DatasetId, IterationId, JobId, Lsn, WorkerId};
use crate::limits::{USE_NOTED_AFTER, USE_SLACK};
use crate::time::{Duration, Time};

impl Dispatcher {
    /// One slice of freeing. True when there is more to do at once.
    pub(super) fn free_unused(&mut self, turn: &mut Turn<'_>) -> Result<bool, Refusal> {
        let iterations = self.unused_iterations(turn.now);
        let jobs = self.unused_jobs(turn.now);
        let datasets = self.unused_datasets(turn.now);
        let most = iterations.len().max(jobs.len()).max(datasets.len());
        let frees_tasks = !iterations.is_empty();
        for id in iterations {
            self.forget_tasks_of(id);
            self.commit(turn, [Record::FreeIteration { id, at: turn.now }])?;
            self.forget_of_iteration(id);
        }
        if frees_tasks {
            let workers = self.state.workers();
            let is_current =
                |id: &WorkerId, of: Lsn| workers.get(id).is_some_and(|it| it.changed == of);
            self.agreed.retain(|id, (version, _)| is_current(id, *version));
        }
        for id in jobs {
            self.free_job(turn, id)?;
        }
        for id in datasets {
            self.free_dataset(turn, id)?;
        }
        Ok(most >= self.config.bounds.expiries_per_step)
    }

    /// Forgets which processes run the tasks of an iteration that is freed. A worker that is not heard any
    /// more names no others.
    fn forget_tasks_of(&mut self, id: IterationId) {
        let tasks = self.state.iterations().get(&id).map(|iteration| &iteration.tasks);
        for id in tasks.into_iter().flatten() {
            if let Some(task) = self.state.tasks().get(id) {
                self.processes.forget_task(task.worker, *id);
            }
        }
    }

    /// Finished iterations whose last client left long enough ago. A collected one is kept as long
    /// again, so that its workers are told off before they ask in vain.
    fn unused_iterations(&self, now: Time) -> Vec<IterationId> {
        let timeout = self.config.job_gc_timeout;
        let iterations = self.state.index.idle.iterations.iter();
        let due = iterations.take_while(|(since, _)| self.is_over(*since, *since, timeout, now));
        let due = due.filter_map(|(_, id)| self.state.iterations().get(id));
        let unused = due.filter(|iteration| !self.is_voted_on(iteration));
        let ids = unused.map(|iteration| iteration.id);
        ids.take(self.config.bounds.expiries_per_step).collect()
    }

    /// Whether consumers wait for each other over one of its tasks.
    fn is_voted_on(&self, iteration: &Iteration) -> bool {
        let votes = &self.removals.tasks;
        !votes.is_empty() && iteration.tasks.iter().any(|task| votes.contains_key(task))
    }

    fn unused_jobs(&self, now: Time) -> Vec<JobId> {
        let jobs = &self.state.index.idle.jobs;
        let due = |anonymous, retention: Option<Duration>| {
            let of_kind = jobs.range((anonymous, Time::ZERO, JobId::new(i64::MIN))..);
            of_kind.take_while(move |(kind, since, _)| {
                *kind == anonymous && self.is_over(*since, used(*since), retention, now)
            })
        };
        let due = due(true, self.config.job_gc_timeout)
            .chain(due(false, self.config.named_job_retention))
            .filter(|_| now >= self.free_from);
        due.map(|(.., id)| *id).take(self.config.bounds.expiries_per_step).collect()
    }

    fn unused_datasets(&self, now: Time) -> Vec<DatasetId> {
        let retention = self.config.dataset_retention;
        let datasets = self.state.index.idle.datasets.iter();
        let due = |since: Time| self.is_over(since, used(since), retention, now);
        let due = datasets.take_while(|(since, _)| due(*since));
        let due = due.filter(|(_, id)| now >= self.free_from && !self.may_be_chosen(id));
        due.map(|(_, id)| id.clone()).take(self.config.bounds.expiries_per_step).collect()
    }

    /// Whether the next numbers would lead to this id, which some client wished: while it is taken
    /// it is passed over, and freed it would be given to other data.
    fn may_be_chosen(&self, id: &DatasetId) -> bool {
        let number = id.as_str().parse::<i64>();
        number.is_ok_and(|number| number >= self.state.counters().dataset)
    }

    /// Whether something idle since then has been kept long enough; without a retention it never has.
    /// In a hold-up nobody could come to use it, so hold-ups since it was `used` do not count.
    pub(super) fn is_over(
        &self,
        since: Time,
        used: Time,
        retention: Option<Duration>,
        now: Time,
    ) -> bool {
        let ends = retention.map(|retention| since.after(retention)).filter(|ends| *ends <= now);
        ends.is_some_and(|ends| ends.after(self.leases.held_up.since(used)) <= now)
    }

    fn free_job(&mut self, turn: &mut Turn<'_>, id: JobId) -> Result<(), Refusal> {
        let job = self.state.jobs().get(&id);
        let record = match job.is_some_and(|job| job.asked == Time::ZERO) {
            // Written before times were: its retention begins now.
            true => Record::UseJob { id, at: turn.now },
            false => Record::FreeJob { id, at: turn.now },
        };
        self.commit(turn, [record])?;
        Ok(())
    }

    fn free_dataset(&mut self, turn: &mut Turn<'_>, id: DatasetId) -> Result<(), Refusal> {
        let Some(dataset) = self.state.datasets().get(&id) else {
            return Ok(());
        };
        if dataset.used == Time::ZERO {
            // As above.
            let at = turn.now;
            self.commit(turn, [Record::UseDataset { id, at }])?;
            return Ok(());
        }
        let (digest, is_blob) = (dataset.definition.digest, dataset.definition.inline.is_none());
        let lsn = self.commit(turn, [Record::FreeDataset { id }])?;
        if is_blob && !self.state.defines(digest) {
            turn.out.push(Effect::ForgetBlob { digest, after: lsn });
        }
        Ok(())
    }
}

/// The last use of a job or a dataset whose retention begins at `since`, or somewhat earlier.
const fn used(since: Time) -> Time {
    Time::from_nanos(since.as_nanos().saturating_sub(USE_SLACK.as_nanos()))
}

/// Whether a use is worth a record, the last one noted being this old.
pub(super) fn is_worth_noting(noted: Time, now: Time) -> bool {
    now.since(noted) >= USE_NOTED_AFTER
}

//! What nobody uses any more is freed: finished iterations, jobs, datasets, and with a dataset its
//! definition. Never what somebody uses, and no sooner than the retentions say.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::machine::{Dispatcher, Effect, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::repetitions::Repetitions;
use super::reply::Event;
use super::state::{Iteration, Job, Worker};
use super::worker_list::WorkerList;
use crate::ids::{DatasetId, IterationId, JobId, Lsn, WorkerId};
use crate::limits::{FREED_AFTER_START, USE_NOTED_AFTER, USE_SLACK};
use crate::time::{Duration, Time};

impl Dispatcher {
    /// One slice of freeing. True when there is more to do at once.
    pub(super) fn free_unused(&mut self, turn: &mut Turn<'_>) -> Result<bool, Refusal> {
        let iterations = self.unused_iterations(turn.now);
        let jobs = self.unused_jobs(turn.now);
        let datasets = self.unused_datasets(turn.now);
        let workers = self.unused_workers(turn.now);
        let most = iterations.len().max(jobs.len()).max(datasets.len()).max(workers.len());
        let frees_tasks = !iterations.is_empty();
        for id in iterations {
            self.forget_tasks_of(id);
            self.commit(turn, [Record::FreeIteration { id, at: turn.now }])?;
            self.forget_of_iteration(id);
        }
        if frees_tasks {
            self.forget_stale_agreements();
        }
        for id in jobs {
            self.free_job(turn, id)?;
        }
        for id in datasets {
            self.free_dataset(turn, id)?;
        }
        for id in workers {
            self.free_worker(turn, id)?;
        }
        Ok(most >= self.config.bounds.expiries_per_step)
    }

    /// Forgets what workers said they run that have other tasks now.
    pub(super) fn forget_stale_agreements(&mut self) {
        let workers = self.state.workers();
        let is_current =
            |id: &WorkerId, of: Lsn| workers.get(id).is_some_and(|it| it.changed == of);
        self.agreed.retain(|id, (version, _)| is_current(id, *version));
    }

    /// Whether this process may free what is kept for so long. A client that was between two calls when
    /// the process before it ended needs a moment, and a clock that was wrong at the start a day.
    pub(super) fn may_free(&self, retention: Option<Duration>, now: Time) -> bool {
        let long = retention.is_some_and(|retention| retention >= FREED_AFTER_START);
        now >= self.started.after(if long { FREED_AFTER_START } else { USE_SLACK })
    }

    /// Lost workers without tasks that were lost long enough ago, as far as this process saw it.
    fn unused_workers(&self, now: Time) -> Vec<WorkerId> {
        let retention = self.config.lost_worker_retention;
        let lost = self.leases.lost_since.iter();
        let unused = lost.filter(|(id, since)| {
            self.is_over(**since, **since, retention, now)
                && !self.state.has_tasks(**id)
                && self.follower_of(**id).is_none()
        });
        let ids = unused.map(|(id, _)| *id);
        ids.take(self.config.bounds.expiries_per_step).collect()
    }

    /// A worker that would get another index if this one were forgotten: entries of one host go to its
    /// workers in the order in which they registered.
    pub(super) fn follower_of(&self, id: WorkerId) -> Option<&Worker> {
        let configured = &self.config.worker_addresses;
        let worker = self.state.workers().get(&id)?;
        if !WorkerList::has_several_for(configured, &worker.address) {
            return None;
        }
        let mut others = self.state.workers().values().filter(|other| other.id != id);
        let without = WorkerList::of(configured, others.clone());
        others.find(|other| {
            self.worker_list.place_of(&other.address) != without.place_of(&other.address)
        })
    }

    /// Forgets a lost worker without tasks. One that comes to its address later is a new one.
    pub(super) fn free_worker(
        &mut self,
        turn: &mut Turn<'_>,
        id: WorkerId,
    ) -> Result<Lsn, Refusal> {
        let address = self.state.workers().get(&id).map(|worker| worker.address.clone());
        let lsn = self.commit(turn, [Record::FreeWorker { id }])?;
        self.last_worker_freed = lsn;
        self.leases.forget_worker(id);
        self.processes.forget_worker(id);
        self.agreed.remove(&id);
        self.worker_list = WorkerList::with(&self.config.worker_addresses, &self.state);
        let freed = address.map(|address| Effect::Observe(Event::WorkerFreed { address }));
        turn.out.extend(freed);
        Ok(lsn)
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
    pub(super) fn is_voted_on(&self, iteration: &Iteration) -> bool {
        // Tasks that wait to be part of the read are voted on too.
        let tasks = self.removals.tasks.keys().filter_map(|id| self.state.tasks().get(id));
        tasks.into_iter().any(|task| task.iteration == iteration.id)
    }

    fn unused_jobs(&self, now: Time) -> Vec<JobId> {
        let jobs = &self.state.index.idle.jobs;
        let due = |anonymous, retention: Option<Duration>| {
            let of_kind = jobs.range((anonymous, Time::ZERO, JobId::new(i64::MIN))..);
            let old = of_kind.take_while(move |(kind, since, _)| {
                *kind == anonymous
                    && self.may_free(retention, now)
                    && is_old(*since, retention, now)
            });
            // A hold-up counts for a job that was used before it, and not for one that fell idle after it.
            let used = |id: &JobId| self.state.jobs().get(id).map(last_use);
            old.filter(move |(_, since, id)| {
                used(id).is_some_and(|used| self.is_over(*since, used, retention, now))
            })
        };
        let due = due(true, self.config.job_gc_timeout)
            .chain(due(false, self.config.named_job_retention));
        due.map(|(.., id)| *id).take(self.config.bounds.expiries_per_step).collect()
    }

    fn unused_datasets(&self, now: Time) -> Vec<DatasetId> {
        let retention = self.config.dataset_retention;
        let datasets = self.state.index.idle.datasets.iter();
        let used =
            |since: Time| Time::from_nanos(since.as_nanos().saturating_sub(USE_SLACK.as_nanos()));
        let due =
            datasets.take_while(|(since, _)| self.is_over(*since, used(*since), retention, now));
        let due = due.filter(|(_, id)| self.may_free(retention, now) && !self.may_be_chosen(id));
        let due = due.filter(|(_, id)| self.state.needed_by(id).is_none());
        due.map(|(_, id)| id.clone()).take(self.config.bounds.expiries_per_step).collect()
    }

    /// Whether the next numbers would lead to this id, which some client wished: while it is taken
    /// it is passed over, and freed it would be given to other data.
    pub(super) fn may_be_chosen(&self, id: &DatasetId) -> bool {
        let number = id.as_str().parse::<i64>().ok();
        // `+7` and `007` are no numbers that are given.
        let number = number.filter(|number| number.to_string() == id.as_str());
        number.is_some_and(|number| number >= self.state.counters().dataset)
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
        is_old(since, retention, now) && {
            let held_up = self.leases.held_up.since(used);
            is_old(since.after(held_up), retention, now)
        }
    }

    fn free_job(&mut self, turn: &mut Turn<'_>, id: JobId) -> Result<(), Refusal> {
        let Some(job) = self.state.jobs().get(&id) else {
            return Ok(());
        };
        let at = turn.now;
        let record = match job {
            // Written before times were: its retention begins now.
            job if job.asked == Time::ZERO => Record::UseJob { id, at },
            job if job.is_worth_remembering() => Record::RetireJob { id, at },
            _ => Record::FreeJob { id, at },
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
        self.remove_dataset(turn, id)?;
        Ok(())
    }

    /// Removes a dataset that no job has, and its definition with the last dataset that has it.
    pub(super) fn remove_dataset(
        &mut self,
        turn: &mut Turn<'_>,
        id: DatasetId,
    ) -> Result<Lsn, Refusal> {
        let definition = self.state.datasets().get(&id).map(|dataset| &dataset.definition);
        let blob = definition.filter(|it| it.inline.is_none()).map(|it| it.digest);
        let after = self.commit(turn, [Record::FreeDataset { id }])?;
        if let Some(digest) = blob.filter(|digest| !self.state.defines(*digest)) {
            turn.out.push(Effect::ForgetBlob { digest, after });
        }
        Ok(after)
    }
}

impl Job {
    /// Whether a reader that comes back would miss what is known of the job.
    fn is_worth_remembering(&self) -> bool {
        let known = |of: &Repetitions| !of.ranges().is_empty();
        !self.anonymous && (known(&self.finished) || known(&self.abandoned))
    }
}

/// When a job without iterations was used last: it was asked for, or its last iteration was freed.
fn last_use(job: &Job) -> Time {
    match job.idle_since < job.asked.after(USE_SLACK) {
        true => job.asked,
        false => job.idle_since,
    }
}

/// Whether a retention that began then is over, hold-ups left aside.
fn is_old(since: Time, retention: Option<Duration>, now: Time) -> bool {
    retention.is_some_and(|retention| since.after(retention) <= now)
}

/// Whether a use is worth a record, the last one noted being this old.
pub(super) fn is_worth_noting(noted: Time, now: Time) -> bool {
    now.since(noted) >= USE_NOTED_AFTER
}

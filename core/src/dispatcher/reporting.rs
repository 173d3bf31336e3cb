//! Makes the picture of the state that `rondo status` prints.

use alloc::string::{String, ToString};

use super::by_split::SavedSplit;
use super::machine::Dispatcher;
use super::position::{Position, SavedRepetition, SavedSource};
use super::repetitions::RepetitionRange;
use super::report::{
    ClientReport, DatasetReport, FreedJobReport, IterationReport, JobReport, PositionReport,
    Report, SavedRepetitionReport, SavedSourceReport, SavedSplitReport, SourceReport, TaskReport,
    WorkerReport,
};
use super::retired::RetiredJob;
use super::state::{Client, Dataset, Iteration, Job, SourcePosition, State, Task, Worker};
use super::types::SplitPlan;
use crate::ids::{JobId, TaskId};
use crate::time::{Duration, Time};

impl Dispatcher {
    /// The picture at `now`. It promises nothing, and is wanted most when the journal takes no
    /// records, so nothing has to be durable before it is shown.
    pub fn report(&self, now: Time) -> Report {
        let state = &self.state;
        Report {
            datasets: state.datasets().values().map(|it| dataset_report(it, state)).collect(),
            workers: state.workers().values().map(|w| self.worker_report(w, now)).collect(),
            jobs: state.jobs().values().map(job_report).collect(),
            freed_jobs: state.retired().iter().map(freed_job_report).collect(),
            iterations: state.iterations().values().map(|i| self.iteration_report(i)).collect(),
            tasks: state.tasks().values().map(|task| self.task_report(task)).collect(),
            clients: state.clients().values().map(|c| self.client_report(c, now)).collect(),
        }
    }

    pub(super) fn position_report(&self, position: &Position) -> PositionReport {
        let waits = self.state.restorations().values();
        let waiting = waits.filter(|waits| waits.position == position.name);
        PositionReport {
            name: position.name.to_string(),
            job: position.job.to_string(),
            dataset: position.dataset.as_ref().map(ToString::to_string),
            saved_ms: position.saved.since(Time::ZERO).as_millis(),
            finished: position.finished.ranges().iter().map(range).collect(),
            reading: position.reading.iter().map(saved_repetition).collect(),
            waiting: waiting.map(|waits| waits.job.to_string()).collect(),
        }
    }

    fn worker_report(&self, worker: &Worker, now: Time) -> WorkerReport {
        WorkerReport {
            address: worker.address.to_string(),
            uid: worker.profile.uid,
            tags: worker.profile.tags.to_vec(),
            tasks: count(worker.tasks.len()),
            silent_ms: self.leases.workers.silence(worker.id, now).map(Duration::as_millis),
            lost: worker.lost,
        }
    }

    fn iteration_report(&self, iteration: &Iteration) -> IterationReport {
        let finished = iteration.tasks.iter().filter(|task| self.is_finished(**task)).count();
        let job = self.state.jobs().get(&iteration.job);
        IterationReport {
            id: iteration.id.get(),
            job: job.map_or_else(String::new, |job| job.name.to_string()),
            repetition: iteration.repetition,
            state: iteration_state(iteration).into(),
            clients: count(iteration.clients.len()),
            tasks: count(iteration.tasks.len()),
            tasks_finished: count(finished),
            tasks_pending: count(iteration.pending.len()),
            round: self.rounds.get(&iteration.id).and_then(|rounds| rounds.reported),
            block_round: iteration.pending.front().map(|front| front.target_round),
            sources: iteration.sources.iter().map(source_report).collect(),
            splits_lost: iteration.splits.lost,
            splits_again: iteration.splits.again.count(),
            splits_in_doubt: iteration.splits.doubt.count,
            splits_held: iteration.by_split.held,
            splits_waiting: iteration.by_split.waiting_count(),
            records_acknowledged: iteration.by_split.acknowledged,
        }
    }

    fn is_finished(&self, task: TaskId) -> bool {
        self.state.tasks().get(&task).is_some_and(|task| task.finished)
    }

    fn task_report(&self, task: &Task) -> TaskReport {
        let iteration = self.state.iterations().get(&task.iteration);
        let is_pending = |of: &Iteration| of.pending.iter().any(|p| p.task == task.id);
        let state = match task.finished {
            true => "finished",
            false if iteration.is_some_and(is_pending) => "pending",
            false => "running",
        };
        let worker = self.state.workers().get(&task.worker);
        TaskReport {
            id: task.id.get(),
            iteration: task.iteration.get(),
            worker: worker.map_or_else(String::new, |worker| worker.address.to_string()),
            state: state.into(),
            starting_round: task.starting_round,
        }
    }

    fn client_report(&self, client: &Client, now: Time) -> ClientReport {
        ClientReport {
            id: client.id.get(),
            iteration: client.iteration.get(),
            silent_ms: self.leases.client_silence(client.id, now).map(Duration::as_millis),
            splits_held: count(client.splits.len()),
            first_split: client.splits.keys().next().copied(),
            records_acknowledged: client.splits.values().fold(0, |sum, n| sum.saturating_add(*n)),
        }
    }
}

fn dataset_report(dataset: &Dataset, state: &State) -> DatasetReport {
    let (split_sources, unsplittable) = match &dataset.plan {
        SplitPlan::Splittable(sources) => (Some(count(sources.len())), None),
        SplitPlan::Unsplittable { message, .. } => (None, Some(message.clone())),
    };
    let versions = state.versions_with(&dataset.id);
    DatasetReport {
        id: dataset.id.to_string(),
        version_of: versions.map(|versions| versions.name.to_string()),
        current: versions.is_none_or(|versions| versions.current == dataset.id),
        digest: dataset.definition.digest.to_string(),
        size_bytes: dataset.definition.size_bytes,
        cardinality: dataset.metadata.cardinality,
        split_sources,
        unsplittable,
        compression_disabled: dataset.compression_disabled,
    }
}

fn freed_job_report(job: &RetiredJob) -> FreedJobReport {
    FreedJobReport {
        name: job.name.to_string(),
        id: job.id.map(JobId::get),
        first_id: job.first_id.map(JobId::get),
        finished: job.finished.ranges().iter().map(range).collect(),
        abandoned: job.abandoned.ranges().iter().map(range).collect(),
    }
}

fn job_report(job: &Job) -> JobReport {
    JobReport {
        id: job.id.get(),
        first_id: job.first_id.map(JobId::get),
        name: job.name.to_string(),
        dataset: job.dataset.to_string(),
        sharding: job.sharding.name().into(),
        consumers: job.consumers,
        target_workers: job.target_workers.name().into(),
        use_cross_trainer_cache: job.use_cross_trainer_cache,
        finished: job.finished.ranges().iter().map(range).collect(),
        abandoned: job.abandoned.ranges().iter().map(range).collect(),
    }
}

fn iteration_state(iteration: &Iteration) -> &'static str {
    match (iteration.collected, iteration.finished) {
        (true, _) => "collected",
        (false, true) => "finished",
        (false, false) => "running",
    }
}

fn source_report(position: &SourcePosition) -> SourceReport {
    SourceReport {
        repetition: position.repetition,
        produced: position.index,
        total: position.source.len(),
    }
}

fn range(range: &RepetitionRange) -> String {
    match range.first == range.last {
        true => range.first.to_string(),
        false => alloc::format!("{}-{}", range.first, range.last),
    }
}

fn saved_repetition(saved: &SavedRepetition) -> SavedRepetitionReport {
    let source = |source: &SavedSource| SavedSourceReport {
        repetition: source.repetition,
        produced: source.index,
    };
    let split =
        |split: &SavedSplit| SavedSplitReport { place: split.place, records: split.records };
    SavedRepetitionReport {
        repetition: saved.repetition,
        sources: saved.sources.iter().map(source).collect(),
        splits: saved.splits.iter().map(split).collect(),
    }
}

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}

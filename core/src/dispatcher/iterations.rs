//! Iterations: one per job and repetition, with a task for every worker and a client for every
//! reader.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::machine::{Answer, Dispatcher, Effect, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::Reply;
use super::state::{Job, Task};
use super::types::{ShardingPolicy, SplitPlan, SplitSource, TaskDef};
use crate::ids::{IterationId, JobId, TaskId};
use crate::time::Time;

impl Dispatcher {
    /// A new client joins the iteration, which is created if there is none.
    pub(super) fn join(&mut self, turn: &mut Turn<'_>, job: JobId, repetition: i64) -> Answer {
        let records = self.decide_iteration(job, repetition, turn.now)?;
        let client = self.state.counters().client;
        let created: Vec<TaskId> = records.iter().filter_map(created_task).collect();
        let lsn = self.commit(turn, records)?;
        self.leases.expect_client(client, turn.now);
        let iteration = self.iteration(self.client(client)?.iteration)?;
        if iteration.clients.len() == 1 {
            self.leases.expect_consumers(iteration.id, turn.now);
        }
        for task in created {
            // Without this push a worker would hear of the task at its next heartbeat only.
            if let Some(task) = self.state.tasks().get(&task).and_then(|task| self.task_def(task)) {
                turn.out.push(Effect::Push { task, after: lsn });
            }
        }
        Ok((Reply::Client(client), lsn))
    }

    fn decide_iteration(
        &self,
        job: JobId,
        repetition: i64,
        now: Time,
    ) -> Result<Vec<Record>, Refusal> {
        let job = self.state.jobs().get(&job).ok_or(Refusal::UnknownJob(job))?;
        if repetition < 0 {
            let expected = "at least 0".to_string();
            return Err(Refusal::OutOfRange { field: "repetition", value: repetition, expected });
        }
        let there = self.state.clients().len();
        self.check_room_of_jobs("clients", there, self.config.bounds.clients)?;
        let live = self.state.iteration_of(job.id, repetition).filter(|known| !known.collected);
        let (iteration, mut records) = match live {
            Some(iteration) => (iteration.id, Vec::new()),
            None => self.decide_new_iteration(job, repetition)?,
        };
        let id = self.state.counters().client;
        records.push(Record::AcquireClient { id, iteration, at: now });
        Ok(records)
    }

    fn decide_new_iteration(
        &self,
        job: &Job,
        repetition: i64,
    ) -> Result<(IterationId, Vec<Record>), Refusal> {
        let there = self.state.iterations().len();
        self.check_room_of_jobs("iterations", there, self.config.bounds.iterations)?;
        let bound = self.config.bounds.tasks;
        if self.state.tasks().len().saturating_add(self.state.workers().len()) > bound {
            return Err(Refusal::TooMany { what: "tasks", bound });
        }
        let iteration = self.state.counters().iteration;
        let first = self.decide_beginning(iteration, job, repetition)?;
        if matches!(first, Record::CreateFinishedIteration { .. }) {
            return Ok((iteration, alloc::vec![first]));
        }
        let mut records = alloc::vec![first];
        let workers = self.state.workers().values().filter(|worker| !worker.lost);
        records.extend(self.task_ids().zip(workers).map(|(id, worker)| Record::CreateTask {
            id,
            iteration,
            worker: worker.id,
        }));
        Ok((iteration, records))
    }

    /// How an iteration begins: finished, at a restored position, or at the beginning.
    fn decide_beginning(
        &self,
        id: IterationId,
        job: &Job,
        repetition: i64,
    ) -> Result<Record, Refusal> {
        if job.abandoned.contains(repetition) {
            return Err(Refusal::Abandoned { job: job.name.clone(), repetition });
        }
        let (finished, job, dataset) = (job.finished.contains(repetition), job.id, job);
        if finished {
            return Ok(Record::CreateFinishedIteration { id, job, repetition });
        }
        let sources = self.sources_of(dataset)?;
        self.check_worker_indices(dataset)?;
        let restored = self.restored_sources(job, repetition)?;
        Ok(match restored {
            Some((sources, waiting)) => {
                Record::ResumeIteration { id, job, repetition, sources, waiting }
            }
            None => Record::CreateIteration { id, job, repetition, sources },
        })
    }

    /// The dataset's sources of splits, if the job's sharding asks for them.
    fn sources_of(&self, job: &Job) -> Result<Vec<SplitSource>, Refusal> {
        let dataset = self.state.datasets().get(&job.dataset);
        let dataset = dataset.ok_or_else(|| Refusal::UnknownDataset(job.dataset.clone()))?;
        match (&dataset.plan, job.sharding) {
            (SplitPlan::Splittable(sources), ShardingPolicy::Dynamic) => Ok(sources.clone()),
            (SplitPlan::Unsplittable { code, message }, ShardingPolicy::Dynamic) => {
                Err(Refusal::Unsplittable { code: *code, message: message.clone() })
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Under static sharding every worker that is not lost needs an index; refusing here, before anything is
    /// recorded, is what tells the reader.
    fn check_worker_indices(&self, job: &Job) -> Result<(), Refusal> {
        if !job.sharding.is_static() {
            return Ok(());
        }
        let mut workers = self.state.workers().values().filter(|worker| !worker.lost).peekable();
        if self.worker_list.len() == 0 && workers.peek().is_none() {
            return self.worker_list.index_of("(any)").map(|_| ());
        }
        workers.try_for_each(|worker| self.worker_list.index_of(&worker.address).map(|_| ()))
    }

    /// A task as its worker is told of it; `None` when something it rests on is gone, which the
    /// invariants exclude.
    pub(super) fn task_def(&self, task: &Task) -> Option<TaskDef> {
        let iteration = self.state.iterations().get(&task.iteration)?;
        let job = self.state.jobs().get(&iteration.job)?;
        let dataset = self.state.datasets().get(&job.dataset)?;
        let worker = self.state.workers().get(&task.worker)?;
        let index = match job.sharding.is_static() {
            true => Some(self.worker_list.index_of(&worker.address).ok()?),
            false => None,
        };
        Some(TaskDef {
            task: task.id,
            iteration: iteration.id,
            dataset: dataset.id.clone(),
            definition: dataset.definition.clone(),
            worker_address: worker.address.clone(),
            sharding: job.sharding,
            consumers: job.consumers,
            split_providers: wire_count(iteration.sources.len()),
            workers: index.map_or(0, |_| wire_count(self.worker_list.len())),
            worker_index: index.map_or(0, wire_count),
            use_cross_trainer_cache: job.use_cross_trainer_cache,
        })
    }
}

fn created_task(record: &Record) -> Option<TaskId> {
    match record {
        Record::CreateTask { id, .. } => Some(*id),
        _ => None,
    }
}

fn wire_count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

//! What clients do in the model: join, heartbeat, leave; and splits.

use rondo_core::dispatcher::{
    ClientHeartbeat, ClientHeartbeatReply, Reply, ShardingPolicy, SplitPlan, SplitSource, TaskInfo,
};
use rondo_core::ids::{ClientId, IterationId, JobId, TaskId};
use rondo_core::status::Code;
use rondo_core::time::Time;

use super::kept::{Client, Iteration, Kept};
use super::{Heard, Model};

impl Model {
    pub(super) fn join(&mut self, now: Time, job: JobId, repetition: i64) -> Heard {
        if !self.kept.jobs.iter().any(|known| known.id == job) {
            return Err(Code::NotFound);
        }
        if repetition < 0 {
            return Err(Code::InvalidArgument);
        }
        let live = |iteration: &&Iteration| {
            (iteration.job, iteration.repetition) == (job, repetition) && !iteration.collected
        };
        let live = self.kept.iterations.iter().find(live).map(|iteration| iteration.id);
        let iteration = match live {
            Some(id) => id,
            None => self.new_iteration(job, repetition)?,
        };
        let id = ClientId::new(3000 + self.kept.clients_ever);
        self.kept.clients_ever += 1;
        self.kept.clients.insert(id, Client { iteration, joined: now });
        Ok(Reply::Client(id))
    }

    fn new_iteration(&mut self, job: JobId, repetition: i64) -> Result<IterationId, Code> {
        let request = &self.kept.jobs.iter().find(|known| known.id == job).unwrap().request;
        let dataset = self.kept.datasets.get(&request.dataset).ok_or(Code::NotFound)?;
        let sources = match (&dataset.registered.plan, request.sharding) {
            (SplitPlan::Unsplittable { code, .. }, ShardingPolicy::Dynamic) => return Err(*code),
            (SplitPlan::Splittable(sources), ShardingPolicy::Dynamic) => sources.clone(),
            _ => Vec::new(),
        };
        if request.sharding.is_static() {
            let slots = self.slots();
            let listed = |address: &String| slots.contains(address);
            if slots.is_empty() || !self.kept.workers.iter().all(|w| listed(&w.address)) {
                return Err(Code::NotFound);
            }
        }
        let id = IterationId::new(2000 + self.kept.iterations.len() as i64);
        let addresses: Vec<String> = self.kept.workers.iter().map(|w| w.address.clone()).collect();
        let active = addresses.iter().map(|address| self.kept.new_task(id, address)).collect();
        self.kept.iterations.push(Iteration {
            id,
            job,
            repetition,
            sources: sources.into_iter().map(|source| (source, 0, 0)).collect(),
            active,
            pending: Default::default(),
            released: None,
            finished: false,
            collected: false,
        });
        Ok(id)
    }

    pub(super) fn client_heartbeat(&mut self, now: Time, heartbeat: &ClientHeartbeat) -> Heard {
        let client = self.kept.clients.get(&heartbeat.client).ok_or(Code::NotFound)?;
        let id = client.iteration;
        self.heard.insert(heartbeat.client, now);
        if self.kept.iteration(id).unwrap().collected {
            return Err(Code::FailedPrecondition);
        }
        self.negotiate(id, heartbeat);
        let iteration = self.kept.iteration(id).unwrap();
        let tasks = iteration.active.iter().map(|task| self.info(*task));
        Ok(Reply::ClientHeartbeat(ClientHeartbeatReply {
            tasks: tasks.collect(),
            iteration_finished: iteration.finished,
            block_round: iteration.pending.front().map(|front| front.target),
            deployment_mode: self.config.deployment_mode,
        }))
    }

    fn info(&self, id: TaskId) -> TaskInfo {
        let task = &self.kept.tasks[&id];
        let worker = self.kept.workers.iter().find(|w| w.address == task.address).unwrap();
        TaskInfo {
            worker_address: task.address.as_str().into(),
            task: id,
            iteration: task.iteration,
            starting_round: task.starting_round,
            worker_tags: worker.tags.as_slice().into(),
            worker_uid: worker.uid,
            transfer_servers: worker.transfer_servers.as_slice().into(),
        }
    }

    pub(super) fn release(&mut self, now: Time, client: ClientId) -> Heard {
        match self.kept.release(now, client) {
            true => Ok(Reply::ClientReleased),
            false => Err(Code::NotFound),
        }
    }
}

impl Kept {
    pub(super) fn split(&mut self, id: IterationId, repetition: i64, source: i64) -> Heard {
        let iteration = self.iteration(id).ok_or(Code::NotFound)?;
        if self.job_of(iteration).sharding != ShardingPolicy::Dynamic {
            return Err(Code::FailedPrecondition);
        }
        let at = usize::try_from(source).map_err(|_| Code::InvalidArgument)?;
        if at >= iteration.sources.len() || !(0..i64::MAX).contains(&repetition) {
            return Err(Code::InvalidArgument);
        }
        if iteration.collected || repetition < iteration.sources[at].1 {
            return Ok(Reply::Split(None));
        }
        let (source, pass, given) = &mut self.iteration_mut(id).unwrap().sources[at];
        if repetition > *pass {
            (*pass, *given) = (repetition, 0);
        }
        let split = nth(source, *given);
        match split {
            Some(_) => *given += 1,
            None => (*pass, *given) = (*pass + 1, 0),
        }
        Ok(Reply::Split(split))
    }
}

/// The nth number of a range, by counting.
fn nth(source: &SplitSource, n: usize) -> Option<i64> {
    let inside = |value: i64| match source.step > 0 {
        true => value < source.stop,
        false => value > source.stop,
    };
    let mut value = source.start;
    for _ in 0..n {
        value = value.checked_add(source.step).filter(|value| inside(*value))?;
    }
    inside(value).then_some(value)
}

//! What clients do in the model: join, heartbeat, leave; and splits.

use std::collections::BTreeMap;

use rondo_core::dispatcher::{
    ClientHeartbeat, ClientHeartbeatReply, Reply, ShardingPolicy, SplitPlan, TaskInfo,
};
use rondo_core::ids::{ClientId, IterationId, JobId, TaskId};
use rondo_core::status::Code;
use rondo_core::time::Time;

use super::kept::{Client, Iteration};
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
        let id = ClientId::new(self.kept.above + 3000 + self.kept.clients_ever);
        self.kept.clients_ever += 1;
        let splits = BTreeMap::new();
        let client = Client { iteration, joined: now, splits, held_any: false };
        self.kept.clients.insert(id, client);
        self.joined.insert(id, self.held_up.less(now));
        if self.kept.clients_of(iteration).len() == 1 {
            self.elements_until.insert(iteration, now);
        }
        Ok(Reply::Client(id))
    }

    fn new_iteration(&mut self, job: JobId, repetition: i64) -> Result<IterationId, Code> {
        let known = self.kept.jobs.iter().find(|known| known.id == job);
        let known = known.unwrap();
        if known.abandoned.contains(&repetition) {
            return Err(Code::FailedPrecondition);
        }
        if known.finished.contains(&repetition) {
            return Ok(self.kept.finished_iteration(job, repetition));
        }
        let request = &known.request;
        let dataset = self.kept.datasets.get(&request.dataset).ok_or(Code::NotFound)?;
        let sources = match (&dataset.registered.plan, request.sharding) {
            (SplitPlan::Unsplittable { code, .. }, ShardingPolicy::Dynamic) => return Err(*code),
            (SplitPlan::Splittable(sources), ShardingPolicy::Dynamic) => sources.clone(),
            _ => Vec::new(),
        };
        if request.sharding.is_static() {
            let slots = self.slots();
            let listed = |address: &String| slots.contains(address);
            let lost = |address: &String| self.kept.lost.contains(address);
            let mut addresses = self.kept.workers.iter().map(|worker| &worker.address);
            if slots.is_empty() || !addresses.all(|address| listed(address) || lost(address)) {
                return Err(Code::NotFound);
            }
        }
        let (begun, shared) = self.kept.resume(job, repetition, &sources)?;
        let id = IterationId::new(self.kept.above + 2000 + self.kept.iterations_ever);
        self.kept.iterations_ever += 1;
        let addresses: Vec<String> = self
            .kept
            .workers
            .iter()
            .map(|w| w.address.clone())
            .filter(|address| !self.kept.lost.contains(address))
            .collect();
        let active = addresses.iter().map(|address| self.kept.new_task(id, address)).collect();
        self.kept.iterations.push(Iteration {
            id,
            job,
            repetition,
            sources: begun,
            active,
            pending: Default::default(),
            released: None,
            given: Default::default(),
            shared,
            finished: false,
            collected: false,
        });
        Ok(id)
    }

    pub(super) fn client_heartbeat(&mut self, now: Time, heartbeat: &ClientHeartbeat) -> Heard {
        let client = self.kept.clients.get(&heartbeat.client).ok_or(Code::NotFound)?;
        let id = client.iteration;
        let is_known = self.spoke.contains_key(&heartbeat.client);
        self.hear_client(now, heartbeat.client);
        if self.kept.iteration(id).unwrap().collected {
            return Err(Code::FailedPrecondition);
        }
        let holds =
            self.kept.clients.get(&heartbeat.client).is_some_and(|it| !it.splits.is_empty());
        if is_known && !holds && !self.by_split.contains(&heartbeat.client) {
            self.make_task_for_elements(id);
        }
        self.negotiate(id, heartbeat);
        let iteration = self.kept.iteration(id).unwrap();
        let tasks = iteration.active.iter().map(|task| self.info(*task));
        let reply = ClientHeartbeatReply {
            tasks: tasks.collect(),
            iteration_finished: iteration.finished,
            block_round: iteration.pending.front().map(|front| front.target),
            deployment_mode: self.config.deployment_mode,
        };
        self.let_go(id, heartbeat, reply.block_round);
        Ok(Reply::ClientHeartbeat(reply))
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

    pub(super) fn end_reader(&mut self, now: Time, client: ClientId, name: &str) -> Heard {
        let named = self.kept.jobs.iter().find(|job| job.request.name.as_deref() == Some(name));
        let job = named.ok_or(Code::NotFound)?.id;
        if let Some(present) = self.kept.clients.get(&client) {
            let iteration = self.kept.iteration(present.iteration).unwrap();
            if iteration.job != job || iteration.collected || !present.held_any {
                return Err(Code::NotFound);
            }
            self.release(now, client)?;
        }
        let mut departed = self.kept.departed.iter();
        let departed = departed.find(|departed| (departed.client, departed.job) == (client, job));
        Ok(Reply::ReaderEnded(departed.ok_or(Code::NotFound)?.reader.clone()))
    }

    pub(super) fn release(&mut self, now: Time, client: ClientId) -> Heard {
        let held = self.kept.clients.get(&client).filter(|client| !client.splits.is_empty());
        let bereaved = held.map(|client| client.iteration);
        if !self.part_with(now, client) {
            return Err(Code::NotFound);
        }
        bereaved.into_iter().for_each(|id| self.kept.make_reader(id));
        Ok(Reply::ClientReleased)
    }
}

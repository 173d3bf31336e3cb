//! Workers: registration, heartbeats that bring and take tasks, progress.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::machine::{Answer, Dispatcher, Effect, Turn};
use super::record::{Record, WorkerProfile};
use super::refusal::Refusal;
use super::reply::{Event, Reply, WorkerHeartbeatReply};
use super::request::WorkerHeartbeat;
use super::state::Worker;
use crate::ids::{IterationId, Lsn, TaskId, WorkerId};
use crate::limits::{TASKS_MAX, WORKERS_MAX};

impl Dispatcher {
    pub(super) fn worker_heartbeat(
        &mut self,
        turn: &mut Turn<'_>,
        heartbeat: &WorkerHeartbeat,
    ) -> Answer {
        let records = match self.state.worker_at(&heartbeat.address) {
            Some(worker) => self.decide_known_worker(worker, heartbeat),
            None => self.decide_new_worker(heartbeat)?,
        };
        let events: Vec<Event> = records.iter().filter_map(|r| event_of(r, heartbeat)).collect();
        let recorded = !records.is_empty();
        let registered = matches!(records.first(), Some(Record::RegisterWorker { .. }));
        let lsn = self.commit(turn, records)?;
        turn.out.extend(events.into_iter().map(Effect::Observe));
        if registered {
            self.worker_list.admit(&heartbeat.address);
        }
        let Some(worker) = self.state.worker_at(&heartbeat.address) else {
            return Err(Refusal::Defect("a worker is gone right after its registration".into()));
        };
        self.leases.hear_worker(worker.id, turn.now);
        let after = if recorded { lsn } else { worker.changed };
        Ok((Reply::WorkerHeartbeat(self.tasks_to_change(worker, heartbeat)), after))
    }

    fn decide_known_worker(&self, worker: &Worker, heartbeat: &WorkerHeartbeat) -> Vec<Record> {
        let mut records = Vec::new();
        if !says_the_same(&worker.profile, heartbeat) {
            // A worker that came back elsewhere would otherwise be dialled at dead addresses.
            records.push(Record::UpdateWorker { id: worker.id, profile: profile_of(heartbeat) });
        }
        let mut task = self.state.counters().task;
        for iteration in self.coordinated_without(worker) {
            records.push(self.pending_task(task, iteration, worker.id));
            task = task.next();
        }
        records
    }

    /// Coordinated reads that gave up their task on this worker, which is back.
    fn coordinated_without(&self, worker: &Worker) -> Vec<IterationId> {
        let open = self.state.open_coordinated();
        if open.is_empty() {
            return Vec::new();
        }
        let iteration_of = |id| Some(self.state.tasks().get(id)?.iteration);
        let has: BTreeSet<IterationId> = worker.tasks.iter().filter_map(iteration_of).collect();
        open.difference(&has).copied().collect()
    }

    fn decide_new_worker(&self, heartbeat: &WorkerHeartbeat) -> Result<Vec<Record>, Refusal> {
        self.worker_list.check(&heartbeat.address)?;
        if self.state.workers().len() >= WORKERS_MAX {
            return Err(Refusal::TooMany { what: "workers", bound: WORKERS_MAX });
        }
        let open = self.state.open_iterations();
        if self.state.tasks().len().saturating_add(open.len()) > TASKS_MAX {
            return Err(Refusal::TooMany { what: "tasks", bound: TASKS_MAX });
        }
        let id = self.state.counters().worker;
        let address: Arc<str> = heartbeat.address.as_str().into();
        let profile = profile_of(heartbeat);
        let mut records = alloc::vec![Record::RegisterWorker { id, address, profile }];
        let mut task = self.state.counters().task;
        for iteration in open {
            records.push(match self.state.open_coordinated().contains(iteration) {
                true => self.pending_task(task, *iteration, id),
                false => Record::CreateTask { id: task, iteration: *iteration, worker: id },
            });
            task = task.next();
        }
        Ok(records)
    }

    fn pending_task(&self, id: TaskId, iteration: IterationId, worker: WorkerId) -> Record {
        let target_round = self.first_target_round(iteration);
        Record::CreatePendingTask { id, iteration, worker, target_round }
    }

    /// What the worker should run and does not, and what it runs and should not.
    fn tasks_to_change(
        &self,
        worker: &Worker,
        heartbeat: &WorkerHeartbeat,
    ) -> WorkerHeartbeatReply {
        let current: BTreeSet<TaskId> = heartbeat.current_tasks.iter().copied().collect();
        let missing = worker.tasks.difference(&current);
        let new_tasks = missing.filter_map(|id| self.task_def(self.state.tasks().get(id)?));
        WorkerHeartbeatReply {
            new_tasks: new_tasks.collect(),
            tasks_to_delete: current.difference(&worker.tasks).copied().collect(),
        }
    }

    /// Tasks nobody knows are passed over: a worker repeats everything unacknowledged, so refusing
    /// one task of an earlier life would hold back all the others for ever.
    pub(super) fn worker_update(
        &mut self,
        turn: &mut Turn<'_>,
        worker_address: &str,
        progress: &[(TaskId, bool)],
    ) -> Answer {
        let mut after = Lsn::NONE;
        for (id, completed) in progress {
            let Some(task) = self.state.tasks().get(id) else {
                let worker_address = worker_address.into();
                let event = Event::UnknownTaskReported { worker_address, task: *id };
                turn.out.push(Effect::Observe(event));
                continue;
            };
            after = after.max(self.iteration(task.iteration)?.changed);
            if *completed && !task.finished {
                after = self.commit(turn, [Record::FinishTask { id: *id }])?;
            }
        }
        Ok((Reply::WorkerUpdated, after))
    }

    pub(super) fn workers(&self) -> (Reply, Lsn) {
        let workers = self.state.workers().values();
        let after = workers.clone().map(|worker| worker.changed).max().unwrap_or(Lsn::NONE);
        (Reply::Workers(workers.map(|worker| worker.address.clone()).collect()), after)
    }
}

fn says_the_same(profile: &WorkerProfile, heartbeat: &WorkerHeartbeat) -> bool {
    profile.uid == heartbeat.uid
        && *profile.tags == *heartbeat.tags
        && *profile.transfer_servers == *heartbeat.transfer_servers
}

fn profile_of(heartbeat: &WorkerHeartbeat) -> WorkerProfile {
    WorkerProfile {
        uid: heartbeat.uid,
        tags: heartbeat.tags.as_slice().into(),
        transfer_servers: heartbeat.transfer_servers.as_slice().into(),
    }
}

fn event_of(record: &Record, heartbeat: &WorkerHeartbeat) -> Option<Event> {
    let address = || heartbeat.address.as_str().into();
    match record {
        Record::RegisterWorker { .. } => Some(Event::WorkerRegistered { address: address() }),
        Record::UpdateWorker { .. } => Some(Event::WorkerChanged { address: address() }),
        _ => None,
    }
}

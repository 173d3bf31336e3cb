//! Garbage collection never takes what is in use: no client or worker before it was silent long enough, no
//! iteration that has clients, no job or dataset that somebody used within its retention, no
//! position that nobody deleted, no task that its worker is to run.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::control::Record;
use rondo_core::dispatcher::{self, Config, Reply, Request, ShardingPolicy};
use rondo_core::ids::{CallId, ClientId, DatasetId, IterationId, JobId, TaskId, WorkerId};
use rondo_core::time::{Duration, Time};

use super::{Oracle, Seen, SeenKind, Shadow, Verdict, broken_if};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};

pub(super) struct Collection {
    config: Config,
    /// What each call under way uses when it is answered.
    asked: CallMap<(Uses, Time)>,
    /// When each client was last heard, and whether it ever was.
    heard: BTreeMap<ClientId, Time>,
    workers_heard: BTreeMap<String, Time>,
    jobs_used: BTreeMap<JobId, Time>,
    datasets_used: BTreeMap<DatasetId, Time>,
    /// When the present process began.
    began: Time,
    last_release: BTreeMap<IterationId, Time>,
    positions: BTreeSet<String>,
}

enum Uses {
    /// The tasks of the worker at this address.
    Tasks(String),
    Job,
    Dataset,
    SavePosition(String),
    /// An operator deletes something.
    Deletion,
}

impl Collection {
    pub(super) fn new(config: Config) -> Self {
        Self {
            config,
            asked: CallMap::default(),
            heard: BTreeMap::new(),
            workers_heard: BTreeMap::new(),
            jobs_used: BTreeMap::new(),
            datasets_used: BTreeMap::new(),
            began: Time::ZERO,
            last_release: BTreeMap::new(),
            positions: BTreeSet::new(),
        }
    }

    fn taken(&mut self, now: Time, call: CallId, request: &Request) {
        let uses = match request {
            Request::GetOrCreateJob(_) => Uses::Job,
            Request::RegisterDataset(_) | Request::GetRegistered { .. } => Uses::Dataset,
            Request::SavePosition { name, .. } => Uses::SavePosition(name.clone()),
            Request::DeleteJob { .. }
            | Request::DeleteDataset { .. }
            | Request::RemoveWorker { .. } => Uses::Deletion,
            Request::WorkerHeartbeat(heartbeat) => {
                self.workers_heard.insert(heartbeat.address.clone(), now);
                Uses::Tasks(heartbeat.address.clone())
            }
            Request::ClientHeartbeat(heartbeat) => {
                if let Some(heard) = self.heard.get_mut(&heartbeat.client) {
                    *heard = now;
                }
                return;
            }
            Request::HoldSplits(request) => {
                if let Some(heard) = self.heard.get_mut(&request.client) {
                    *heard = now;
                }
                return;
            }
            _ => return,
        };
        self.asked.insert(call, (uses, now));
    }

    fn answered(&mut self, call: CallId, reply: &Reply, shadow: &Shadow) -> Verdict {
        match (self.asked.remove(&call), reply) {
            (Some((Uses::Job, at)), Reply::Job(id)) => drop(self.jobs_used.insert(*id, at)),
            (Some((Uses::Dataset, at)), Reply::Dataset(id)) => {
                self.datasets_used.insert(id.clone(), at);
            }
            // It may have been deleted while this answer waited.
            (Some((Uses::SavePosition(name), _)), Reply::Position(_))
                if shadow.state().positions().contains_key(name.as_str()) =>
            {
                self.positions.insert(name);
            }
            (Some((Uses::Tasks(address), _)), Reply::WorkerHeartbeat(reply)) => {
                if !reply.tasks_to_delete.is_empty() {
                    reached(Check::CollectionTask);
                }
                let mut dropped = reply.tasks_to_delete.iter();
                let live = dropped.find(|task| runs(shadow, &address, **task));
                return broken_if(live.is_some(), || {
                    format!("worker {address} was told to drop task {live:?}, which it is to run")
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn record(
        &mut self,
        now: Time,
        record: &Record,
        during: Option<CallId>,
        shadow: &Shadow,
    ) -> Verdict {
        let Record::Dispatcher(record) = record else {
            return Ok(());
        };
        let asked = during.and_then(|call| self.asked.get(&call));
        let deleted = asked.is_some_and(|(uses, _)| matches!(uses, Uses::Deletion));
        let asked_for = during.is_some();
        match record {
            dispatcher::Record::AcquireClient { id, .. } => drop(self.heard.insert(*id, now)),
            dispatcher::Record::ReleaseClient { id, .. } => {
                let client = shadow.state().clients().get(id);
                self.last_release.extend(client.map(|client| (client.iteration, now)));
                return self.released(now, *id, asked_for, shadow);
            }
            dispatcher::Record::LoseWorker { id, .. } => return self.lost(now, *id, shadow),
            dispatcher::Record::CollectIteration { id, .. } => {
                return self.collected(now, *id, shadow);
            }
            dispatcher::Record::AbandonIteration { id, .. } => {
                return self.abandoned(now, *id, shadow);
            }
            dispatcher::Record::FreeWorker { id } => {
                return self.worker_freed(now, *id, deleted, shadow);
            }
            dispatcher::Record::DeleteJob { name, .. } => {
                return job_deleted(name, deleted, shadow);
            }
            dispatcher::Record::FreeIteration { id, .. } => {
                let open = shadow.state().clients().values().find(|client| client.iteration == *id);
                self.last_release.remove(id);
                reached(Check::CollectionFreed);
                return broken_if(open.is_some(), || {
                    format!("iteration {id} was freed with clients")
                });
            }
            dispatcher::Record::FreeJob { id, .. } | dispatcher::Record::RetireJob { id, .. } => {
                return self.job_freed(now, *id, shadow);
            }
            dispatcher::Record::FreeDataset { id } => {
                return self.dataset_freed(now, id, deleted, shadow);
            }
            dispatcher::Record::DeletePosition { name } => {
                self.positions.remove(&**name);
            }
            _ => {}
        }
        Ok(())
    }

    fn released(&mut self, now: Time, id: ClientId, asked_for: bool, shadow: &Shadow) -> Verdict {
        let heard = self.heard.remove(&id).unwrap_or(self.began);
        let silent = now.since(heard.max(self.began));
        let holds = shadow.state().clients().get(&id).is_some_and(|of| !of.splits.is_empty());
        let patience = match holds {
            true => self.config.reader_timeout,
            false => self.config.client_timeout.min(self.config.client_first_heartbeat_timeout),
        };
        if !asked_for {
            reached(Check::CollectionClient);
        }
        broken_if(!asked_for && silent <= patience, || {
            format!("client {id} was released after {} ms of silence", silent.as_millis())
        })
    }

    fn lost(&self, now: Time, id: WorkerId, shadow: &Shadow) -> Verdict {
        let worker = shadow.state().workers().get(&id);
        let heard = worker.and_then(|worker| self.workers_heard.get(&*worker.address));
        let silent = now.since(heard.copied().unwrap_or(self.began).max(self.began));
        let patience = self.config.worker_timeout;
        reached(Check::CollectionWorker);
        broken_if(patience.is_none_or(|patience| silent <= patience), || {
            format!("worker {id} was given up after {} ms of silence", silent.as_millis())
        })
    }

    fn collected(&mut self, now: Time, id: IterationId, shadow: &Shadow) -> Verdict {
        let state = shadow.state();
        reached(Check::CollectionIteration);
        let open = state.clients().values().any(|client| client.iteration == id);
        broken_if(open, || format!("iteration {id} was collected with clients"))?;
        let iteration = state.iterations().get(&id);
        let job = iteration.and_then(|iteration| state.jobs().get(&iteration.job));
        let dynamic = job.is_some_and(|job| job.sharding == ShardingPolicy::Dynamic);
        broken_if(dynamic && !self.config.gc_dynamic_sharding_jobs, || {
            format!("iteration {id} has DYNAMIC sharding and was collected")
        })?;
        let left = self.last_release.get(&id).copied().unwrap_or(Time::ZERO);
        let timeout = self.config.job_gc_timeout;
        broken_if(timeout.is_none_or(|timeout| now < left.after(timeout)), || {
            format!("iteration {id} was collected too early")
        })
    }

    fn job_freed(&mut self, now: Time, id: JobId, shadow: &Shadow) -> Verdict {
        reached(Check::CollectionFreed);
        let in_use = shadow.state().iterations().values().any(|iteration| iteration.job == id);
        broken_if(in_use, || format!("job {id} was freed with iterations"))?;
        let used = self.jobs_used.remove(&id);
        let anonymous = shadow.state().jobs().get(&id).is_some_and(|job| job.anonymous);
        let retention = match anonymous {
            true => self.config.job_gc_timeout,
            false => self.config.named_job_retention,
        };
        broken_if(too_early(used, retention, now), || format!("job {id} was freed too early"))
    }

    /// An iteration that readers by split or by element had to share is given up only after its retention.
    fn abandoned(&mut self, now: Time, id: IterationId, shadow: &Shadow) -> Verdict {
        let state = shadow.state();
        reached(Check::CollectionAbandoned);
        let open = state.clients().values().any(|client| client.iteration == id);
        broken_if(open, || format!("iteration {id} was abandoned with clients"))?;
        let left = self.last_release.get(&id).copied().unwrap_or(Time::ZERO);
        let retention = self.config.abandoned_iteration_retention;
        broken_if(retention.is_none_or(|retention| now < left.after(retention)), || {
            format!("iteration {id} was abandoned too early")
        })
    }

    fn worker_freed(&mut self, now: Time, id: WorkerId, deleted: bool, shadow: &Shadow) -> Verdict {
        let state = shadow.state();
        reached(Check::CollectionWorkerFreed);
        let busy = state.tasks().values().any(|task| task.worker == id);
        broken_if(busy, || format!("worker {id} was forgotten with tasks"))?;
        let worker = state.workers().get(&id);
        broken_if(worker.is_some_and(|worker| !worker.lost), || {
            format!("worker {id} was forgotten, and is not lost")
        })?;
        let heard = worker.and_then(|worker| self.workers_heard.get(&*worker.address)).copied();
        let retention = self.config.lost_worker_retention;
        broken_if(!deleted && too_early(heard, retention, now), || {
            format!("worker {id} was forgotten too early")
        })
    }

    fn dataset_freed(
        &mut self,
        now: Time,
        id: &DatasetId,
        deleted: bool,
        shadow: &Shadow,
    ) -> Verdict {
        reached(Check::CollectionFreed);
        let in_use = shadow.state().jobs().values().any(|job| job.dataset == *id);
        broken_if(in_use, || format!("dataset {id} was freed with jobs"))?;
        let used = self.datasets_used.remove(id);
        broken_if(!deleted && too_early(used, self.config.dataset_retention, now), || {
            format!("dataset {id} was freed too early")
        })
    }

    /// Positions that were acknowledged are there.
    fn recovered(&mut self, now: Time, state: &dispatcher::State, disk_lied: bool) -> Verdict {
        (self.began, self.asked) = (now, CallMap::default());
        // A wall clock may be behind what it was.
        let all = self.heard.values_mut();
        all.chain(self.jobs_used.values_mut())
            .chain(self.datasets_used.values_mut())
            .chain(self.workers_heard.values_mut())
            .for_each(|at| *at = (*at).min(now));
        // A client that came and went may have been taken back with its records.
        let left = state.iterations().values();
        let left = left.filter_map(|of| Some((of.id, of.last_release?.min(now))));
        self.last_release = left.collect();
        if disk_lied {
            self.positions.clear();
        }
        if !self.positions.is_empty() {
            reached(Check::CollectionPosition);
        }
        let missing =
            self.positions.iter().find(|name| !state.positions().contains_key(name.as_str()));
        broken_if(missing.is_some(), || format!("position {missing:?} is gone"))
    }
}

/// Only an operator deletes a job, and only one that nobody reads.
fn job_deleted(name: &str, deleted: bool, shadow: &Shadow) -> Verdict {
    let state = shadow.state();
    reached(Check::CollectionDeleted);
    broken_if(!deleted, || format!("job {name:?} was deleted, and nobody asked for that"))?;
    let job = state.jobs().values().find(|job| *job.name == *name).map(|job| job.id);
    let of_job = |id: &IterationId| state.iterations().get(id).map(|of| of.job) == job;
    let client = state.clients().values().find(|it| job.is_some() && of_job(&it.iteration));
    broken_if(client.is_some(), || format!("job {name:?} was deleted while {client:?} read it"))
}

/// Whether a task is one that the worker at an address is to run.
fn runs(shadow: &Shadow, address: &str, task: TaskId) -> bool {
    let state = shadow.state();
    let task = state.tasks().get(&task).filter(|task| !task.finished);
    let worker = task.and_then(|task| state.workers().get(&task.worker));
    worker.is_some_and(|worker| *worker.address == *address)
}

fn too_early(used: Option<Time>, retention: Option<Duration>, now: Time) -> bool {
    match (used, retention) {
        (Some(used), Some(retention)) => now < used.after(retention),
        (_, None) => true,
        (None, _) => false,
    }
}

impl Oracle for Collection {
    fn name(&self) -> &'static str {
        "collection"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Taken,
            SeenKind::Answered,
            SeenKind::GivenUp,
            SeenKind::Recovered,
            SeenKind::Configured,
            SeenKind::DispatcherRecord,
        ]
    }

    fn see(&mut self, now: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Taken { call, request, .. } => self.taken(now, *call, request),
            Seen::Recorded { record, during, .. } => {
                return self.record(now, record, *during, shadow);
            }
            Seen::Answered { call, answer: Ok(reply), .. } => {
                return self.answered(*call, reply, shadow);
            }
            Seen::Answered { call, .. } | Seen::GivenUp { call } => {
                self.asked.remove(call);
            }
            Seen::Configured(config) => self.config.clone_from(config),
            Seen::Recovered { state, disk_lied } => {
                return self.recovered(now, &state.dispatcher, *disk_lied);
            }
            _ => {}
        }
        Ok(())
    }
}

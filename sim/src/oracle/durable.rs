//! An answer is true after a crash at any time: when one leaves, what it tells holds in the state that
//! the records make which are durable by then. The crash is played in a second state beside the live
//! one, so that each answer is judged, and nothing is taken from the core's own bookkeeping of what an
//! answer waits for.
//!
//! An answer may wait while others change the same things again. So a claim counts as broken only when
//! the live state still agrees with it and the durable one does not.

mod service;

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_core::coordination;
use rondo_core::dispatcher::{Reply, Request, State};
use rondo_core::ids::{CallId, ClientId, DatasetId, TaskId};
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};

/// What the answer to a call tells, beside what stands in it.
#[derive(Debug)]
enum Claim {
    /// These tasks are over, as far as they are of the worker at this address.
    Over(String, Vec<TaskId>),
    /// The client is no more.
    Left(ClientId),
    /// The task is no more, if the answer says so.
    Removed(TaskId),
    /// There is such a position.
    Saved(String),
    /// There is none.
    Deleted(String),
    /// There is no such job, nor is anything known of it.
    JobDeleted(String),
    /// There is no such dataset.
    DatasetDeleted(DatasetId),
    /// There is no worker at this address.
    WorkerRemoved(String),
    /// The worker at this address is not to run the tasks that it is told to delete.
    Runs(String),
}

impl Claim {
    /// Whether the claim is about the worker that has a task.
    fn is_of(&self, state: &State, task: TaskId) -> bool {
        matches!(self, Self::Runs(address) if has_task(state, address, task))
    }
}

#[derive(Default)]
pub(super) struct Durable {
    claims: CallMap<Claim>,
    /// The same of calls to the coordination service, with their namespaces.
    of_service: CallMap<(Arc<str>, service::Claim)>,
}

impl Durable {
    fn taken(&mut self, call: CallId, request: &Request) {
        let claim = match request {
            Request::WorkerUpdate { worker_address, progress } => {
                let over = progress.iter().filter(|(_, is_over)| *is_over);
                Claim::Over(worker_address.clone(), over.map(|(task, _)| *task).collect())
            }
            Request::ReleaseClient { client } => Claim::Left(*client),
            Request::MaybeRemoveTask { task, .. } => Claim::Removed(*task),
            Request::SavePosition { name, .. } => Claim::Saved(name.clone()),
            Request::DeletePosition { name } => Claim::Deleted(name.clone()),
            Request::DeleteJob { name } => Claim::JobDeleted(name.clone()),
            Request::DeleteDataset { dataset } => Claim::DatasetDeleted(dataset.clone()),
            Request::RemoveWorker { address } => Claim::WorkerRemoved(address.clone()),
            Request::WorkerHeartbeat(heartbeat) => Claim::Runs(heartbeat.address.clone()),
            _ => return,
        };
        self.claims.insert(call, claim);
    }

    /// The coordination service has answered.
    fn told(&mut self, call: CallId, reply: &coordination::Reply, shadow: &Shadow) -> Verdict {
        let Some((namespace, claim)) = self.of_service.remove(&call) else {
            return Ok(());
        };
        let states = (shadow.coordination(), shadow.durable_coordination());
        reached(Check::DurableService);
        match claim.is_taken_back(&namespace, reply, states) {
            false => Ok(()),
            true => Err(format!(
                "call {call} to {namespace} got {reply:?} ({claim:?}), and a crash after record {} \
                 takes it back",
                shadow.durable()
            )),
        }
    }

    fn answered(&mut self, call: CallId, reply: &Reply, shadow: &Shadow) -> Verdict {
        let (live, kept) = (shadow.state(), shadow.durable_state());
        let claim = self.claims.remove(&call);
        let broken = match reply {
            Reply::Dataset(id) => is_new(live.datasets(), kept.datasets(), id),
            Reply::Job(id) => is_new(live.jobs(), kept.jobs(), id),
            Reply::Client(id) => is_new(live.clients(), kept.clients(), id),
            Reply::ClientHeartbeat(reply) => {
                reply.tasks.iter().any(|task| is_new(live.tasks(), kept.tasks(), &task.task))
            }
            // A worker that is named no more is gone for good.
            Reply::Workers(addresses) => {
                let named = |address: &str| addresses.iter().any(|it| **it == *address);
                let mut kept = kept.workers().values().map(|worker| &*worker.address);
                kept.any(|address| !named(address) && !has_worker(live, address))
            }
            Reply::WorkerHeartbeat(reply) => {
                let new = |task| is_new(live.tasks(), kept.tasks(), task);
                let of_worker =
                    |task: &TaskId| claim.as_ref().is_some_and(|it| it.is_of(kept, *task));
                let gone = |task: &TaskId| !runs(live, *task) && runs(kept, *task);
                reply.new_tasks.iter().any(|task| new(&task.task))
                    || reply.tasks_to_delete.iter().any(|task| of_worker(task) && gone(task))
            }
            _ => claim.as_ref().is_some_and(|claim| is_broken(claim, reply, live, kept)),
        };
        reached(Check::Durable);
        match broken {
            false => Ok(()),
            true => Err(format!(
                "call {call} got {reply:?} ({claim:?}), and a crash after record {} takes it back",
                shadow.durable()
            )),
        }
    }
}

/// Whether a crash takes back what an answer tells.
fn is_broken(claim: &Claim, reply: &Reply, live: &State, kept: &State) -> bool {
    match (claim, reply) {
        (Claim::Over(address, tasks), Reply::WorkerUpdated) => {
            let mut own = tasks.iter().filter(|task| has_task(kept, address, **task));
            own.any(|task| !runs(live, *task) && runs(kept, *task))
        }
        (Claim::Left(client), Reply::ClientReleased) => {
            is_new(kept.clients(), live.clients(), client)
        }
        (Claim::Removed(task), Reply::TaskRemoved(true)) => {
            is_new(kept.tasks(), live.tasks(), task)
        }
        (Claim::Saved(name), Reply::Position(_)) => {
            live.positions().contains_key(&**name) && !kept.positions().contains_key(&**name)
        }
        (Claim::Deleted(name), Reply::PositionDeleted) => {
            kept.positions().contains_key(&**name) && !live.positions().contains_key(&**name)
        }
        (Claim::JobDeleted(name), Reply::JobDeleted) => {
            knows_job(kept, name) && !knows_job(live, name)
        }
        (Claim::DatasetDeleted(id), Reply::DatasetDeleted) => {
            is_new(kept.datasets(), live.datasets(), id)
        }
        (Claim::WorkerRemoved(address), Reply::WorkerRemoved) => {
            has_worker(kept, address) && !has_worker(live, address)
        }
        _ => false,
    }
}

fn knows_job(state: &State, name: &str) -> bool {
    let mut jobs = state.jobs().values();
    jobs.any(|job| *job.name == *name)
        || state.retired().get(name).is_some()
        || state.restorations().contains_key(name)
}

fn has_worker(state: &State, address: &str) -> bool {
    state.workers().values().any(|worker| *worker.address == *address)
}

/// Whether a key is in one map and not in the other.
fn is_new<K: Ord, V>(one: &BTreeMap<K, V>, other: &BTreeMap<K, V>, key: &K) -> bool {
    one.contains_key(key) && !other.contains_key(key)
}

/// Whether a task is of the worker at an address.
pub(super) fn has_task(state: &State, address: &str, task: TaskId) -> bool {
    let worker = state.tasks().get(&task).and_then(|task| state.workers().get(&task.worker));
    worker.is_some_and(|worker| *worker.address == *address)
}

/// Whether a task is there and not over.
fn runs(state: &State, task: TaskId) -> bool {
    state.tasks().get(&task).is_some_and(|task| !task.finished)
}

impl Oracle for Durable {
    fn name(&self) -> &'static str {
        "durable"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Taken,
            SeenKind::Answered,
            SeenKind::Asked,
            SeenKind::Told,
            SeenKind::GivenUp,
            SeenKind::Died,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Taken { call, request, .. } => self.taken(*call, request),
            Seen::Answered { call, answer: Ok(reply), .. } => {
                return self.answered(*call, reply, shadow);
            }
            Seen::Asked { call, asked, .. } => {
                let claim = service::Claim::of(asked, shadow.last(), shadow.coordination());
                self.of_service.insert(*call, (asked.namespace.clone(), claim));
            }
            Seen::Told { call, answer: Ok(reply), .. } => return self.told(*call, reply, shadow),
            Seen::Answered { call, .. } | Seen::Told { call, .. } | Seen::GivenUp { call } => {
                self.claims.remove(call);
                self.of_service.remove(call);
            }
            Seen::Died => {
                self.claims.clear();
                self.of_service.clear();
            }
            _ => {}
        }
        Ok(())
    }
}

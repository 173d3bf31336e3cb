//! When clients and workers were last heard from. Volatile: a restart counts as a sign of life.

use alloc::collections::{BTreeMap, BTreeSet};

use super::state::State;
use crate::ids::{ClientId, WorkerId};
use crate::time::{Duration, Time};

/// Signs of life.
#[derive(Clone, Debug, Default)]
pub(super) struct Leases {
    pub(super) clients: BTreeMap<ClientId, Time>,
    pub(super) workers: BTreeMap<WorkerId, Time>,
    pub(super) lost: BTreeSet<WorkerId>,
}

impl Leases {
    /// Everybody in a recovered state has just been heard from.
    pub(super) fn of_survivors(state: &State, now: Time) -> Self {
        Self {
            clients: state.clients().keys().map(|id| (*id, now)).collect(),
            workers: state.workers().keys().map(|id| (*id, now)).collect(),
            lost: BTreeSet::new(),
        }
    }

    pub(super) fn hear_client(&mut self, id: ClientId, now: Time) {
        self.clients.insert(id, now);
    }

    pub(super) fn hear_worker(&mut self, id: WorkerId, now: Time) {
        self.workers.insert(id, now);
        self.lost.remove(&id);
    }

    pub(super) fn forget_client(&mut self, id: ClientId) {
        self.clients.remove(&id);
    }

    /// How long a client has been silent; `None` before its first heartbeat.
    pub(super) fn client_silence(&self, id: ClientId, now: Time) -> Option<Duration> {
        self.clients.get(&id).map(|heard| now.since(*heard))
    }

    /// How long a worker has been silent.
    pub(super) fn worker_silence(&self, id: WorkerId, now: Time) -> Option<Duration> {
        self.workers.get(&id).map(|heard| now.since(*heard))
    }

    /// Whether the worker counts as lost.
    pub(super) fn is_lost(&self, id: WorkerId) -> bool {
        self.lost.contains(&id)
    }

    /// Marks workers silent for longer than `timeout` as lost, and names those newly so.
    pub(super) fn lose_silent_workers(
        &mut self,
        now: Time,
        timeout: Duration,
    ) -> BTreeSet<WorkerId> {
        let silent = self.workers.iter().filter(|(_, heard)| now.since(**heard) > timeout);
        let newly: BTreeSet<WorkerId> =
            silent.map(|(id, _)| *id).filter(|id| !self.lost.contains(id)).collect();
        self.lost.extend(newly.iter());
        newly
    }
}

//! When clients and workers were last heard from. Volatile: a restart counts as a sign of life.

use alloc::collections::BTreeMap;

use super::config::Config;
use super::readers::ReaderAlarms;
use super::rhythm::WorkerLeases;
use super::state::State;
use crate::ids::ClientId;
use crate::time::{Duration, Time};

/// Signs of life.
#[derive(Clone, Debug, Default)]
pub(super) struct Leases {
    pub(super) clients: BTreeMap<ClientId, Time>,
    pub(super) workers: WorkerLeases,
    /// Clients that hold splits.
    pub(super) readers: ReaderAlarms,
}

impl Leases {
    /// Everybody in a recovered state has just been heard from.
    pub(super) fn of_survivors(state: &State, config: &Config, now: Time) -> Self {
        Self {
            clients: state.clients().keys().map(|id| (*id, now)).collect(),
            workers: WorkerLeases::of_survivors(state, config.worker_timeout, now),
            readers: ReaderAlarms::of_survivors(state, config.reader_timeout, now),
        }
    }

    pub(super) fn hear_client(&mut self, id: ClientId, now: Time) {
        self.clients.insert(id, now);
    }

    pub(super) fn forget_client(&mut self, id: ClientId) {
        self.clients.remove(&id);
        self.readers.forget(id);
    }

    /// How long a client has been silent; `None` before its first heartbeat.
    pub(super) fn client_silence(&self, id: ClientId, now: Time) -> Option<Duration> {
        self.clients.get(&id).map(|heard| now.since(*heard))
    }
}

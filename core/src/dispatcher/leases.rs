//! When clients and workers were last heard from. Volatile: a restart counts as a sign of life.

use alloc::collections::BTreeMap;

use super::config::Config;
use super::held_up::{HeldUp, Watched};
use super::readers::ReaderAlarms;
use super::rhythm::WorkerLeases;
use super::state::State;
use crate::ids::{ClientId, IterationId, TaskId, WorkerId};
use crate::time::{Duration, Time};

/// Signs of life.
#[derive(Clone, Debug)]
pub(super) struct Leases {
    /// When this process began.
    pub(super) begun: Time,
    pub(super) clients: BTreeMap<ClientId, ClientLease>,
    /// When the last client left that may have read by element, or a client came where there was none,
    /// as far as this process saw it.
    pub(super) consumers_left: BTreeMap<IterationId, Time>,
    /// How many splits were to be handed out again when a task was last made for consumers by element, and
    /// the task.
    pub(super) consumers_tried: BTreeMap<IterationId, (u64, TaskId)>,
    /// Less the hold-ups, but for what is reported.
    pub(super) workers: WorkerLeases,
    /// Lost workers, and since when, as far as this process saw it.
    pub(super) lost_since: BTreeMap<WorkerId, Time>,
    /// Clients that hold splits.
    pub(super) readers: ReaderAlarms,
    /// Time in which nobody could be heard.
    pub(super) held_up: HeldUp,
    /// Whether there is maintenance: silent clients are given up, and unused things freed.
    has_maintenance: bool,
    /// Whether lost workers are freed.
    frees_workers: bool,
}

/// A client's last sign of life.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientLease {
    /// When it was heard or, before its first heartbeat, when it joined; less the hold-ups then.
    since: Time,
    /// Whether it has sent a heartbeat.
    heard: bool,
    /// When this process heard it; absent while it knows of the client from the journal only.
    spoke: Option<Time>,
    /// Whether this process heard it ask for splits to hold.
    by_split: bool,
}

impl Leases {
    /// Everybody in a recovered state has just been heard from.
    pub(super) fn of_survivors(state: &State, config: &Config, now: Time) -> Self {
        let lease = ClientLease { since: now, heard: true, spoke: None, by_split: false };
        let mut leases = Self {
            begun: now,
            clients: state.clients().keys().map(|id| (*id, lease)).collect(),
            consumers_left: BTreeMap::new(),
            consumers_tried: BTreeMap::new(),
            workers: WorkerLeases::of_survivors(state, config.worker_timeout, now),
            lost_since: lost_workers(state).map(|id| (id, now)).collect(),
            readers: ReaderAlarms::of_survivors(state, config.reader_timeout, now),
            held_up: HeldUp::beginning(now),
            has_maintenance: config.job_gc_timeout.is_some(),
            frees_workers: config.lost_worker_retention.is_some(),
        };
        leases.end_step(state);
        leases
    }

    /// Notes whether the machine was held up before the step that begins now.
    pub(super) fn begin_step(&mut self, now: Time) {
        self.held_up.begin_step(now);
    }

    /// Ends a step.
    pub(super) fn end_step(&mut self, state: &State) {
        let has_clients = self.has_maintenance && !self.clients.is_empty();
        let hears = has_clients || !self.workers.alarms.is_empty() || !self.readers.at.is_empty();
        let frees_workers = self.frees_workers && !self.lost_since.is_empty();
        let kept = !state.datasets().is_empty() || frees_workers;
        let has_things = self.has_maintenance && kept;
        self.held_up.end_step(match hears {
            true => Watched::Somebody,
            false if has_things => Watched::Things,
            false => Watched::Nothing,
        });
    }

    /// When the machine wants to be woken: some worker, or some client that holds splits, may have
    /// been silent for too long, or a hold-up would be noticed.
    pub(super) fn deadline(&self) -> Time {
        let workers = self.held_up.as_of_now(self.workers.deadline());
        workers.min(self.readers.deadline()).min(self.held_up.wake_at())
    }

    /// Takes a worker's heartbeat; `reborn` when it is another process's than the one before.
    pub(super) fn hear_worker(&mut self, id: WorkerId, reborn: bool, now: Time) {
        self.workers.hear(id, reborn, self.held_up.heard_upto(now), now);
        self.lost_since.remove(&id);
    }

    /// A worker is forgotten.
    pub(super) fn forget_worker(&mut self, id: WorkerId) {
        self.lost_since.remove(&id);
        self.workers.forget(id);
    }

    /// A worker whose patience has ended, named once; see [`WorkerLeases::take_silent`].
    pub(super) fn take_silent_worker(
        &mut self,
        excused: bool,
        now: Time,
        budget: &mut usize,
    ) -> Option<WorkerId> {
        self.workers.take_silent(excused, self.held_up.heard_upto(now), budget)
    }

    /// A client has joined, and sent no heartbeat yet.
    pub(super) fn expect_client(&mut self, id: ClientId, now: Time) {
        let since = self.held_up.heard_upto(now);
        self.clients.insert(id, ClientLease { since, heard: false, spoke: None, by_split: false });
    }

    pub(super) fn hear_client(&mut self, id: ClientId, now: Time) {
        let since = self.held_up.heard_upto(now);
        let by_split = self.reads_by_split(id);
        self.clients.insert(id, ClientLease { since, heard: true, spoke: Some(now), by_split });
    }

    /// A client gets its time again, though it was not heard.
    pub(super) fn excuse_client(&mut self, id: ClientId, now: Time) {
        let since = self.held_up.heard_upto(now);
        if let Some(lease) = self.clients.get_mut(&id) {
            lease.since = since;
        }
    }

    /// A client that reads by split is heard.
    pub(super) fn hear_reader(&mut self, id: ClientId, now: Time) {
        self.hear_client(id, now);
        if let Some(lease) = self.clients.get_mut(&id) {
            lease.by_split = true;
        }
    }

    /// Whether a client is known to read by split. Of one that this process knows from the journal
    /// only that is not known before it asks.
    pub(super) fn reads_by_split(&self, id: ClientId) -> bool {
        self.clients.get(&id).is_some_and(|lease| lease.by_split)
    }

    /// Whether this process has heard a client, and never that it reads by split. Of a client that has just
    /// come that is not known.
    pub(super) fn reads_by_element(&self, id: ClientId) -> bool {
        self.clients.get(&id).is_some_and(|lease| lease.spoke.is_some() && !lease.by_split)
    }

    /// Whether this process heard a client after a time.
    pub(super) fn has_spoken_since(&self, id: ClientId, time: Time) -> bool {
        let spoke = self.clients.get(&id).and_then(|lease| lease.spoke);
        spoke.is_some_and(|at| at > time)
    }

    /// A client has come to an iteration that had none: others may follow.
    pub(super) fn expect_consumers(&mut self, of: IterationId, now: Time) {
        self.consumers_left.insert(of, now);
    }

    /// A client of an iteration is gone.
    pub(super) fn forget_client(&mut self, id: ClientId, of: IterationId, now: Time) {
        if !self.reads_by_split(id) {
            self.consumers_left.insert(of, now);
        }
        self.clients.remove(&id);
        self.readers.forget(id);
    }

    /// Since when an iteration has had no client that reads by element, if all there are read by split.
    /// Nobody could come while the server was away.
    pub(super) fn without_consumers_since(&self, of: IterationId) -> Time {
        self.consumers_left.get(&of).map_or(self.begun, |left| (*left).max(self.begun))
    }

    pub(super) fn forget_iteration(&mut self, id: IterationId) {
        self.consumers_left.remove(&id);
        self.consumers_tried.remove(&id);
    }

    /// When a client was last heard, later by the hold-ups since then.
    pub(super) fn client_heard(&self, id: ClientId) -> Option<Time> {
        let lease = self.clients.get(&id).filter(|lease| lease.heard)?;
        Some(self.held_up.as_of_now(lease.since))
    }

    /// How long a client has been silent, less the hold-ups; `None` before its first heartbeat.
    pub(super) fn client_silence(&self, id: ClientId, now: Time) -> Option<Duration> {
        self.client_heard(id).map(|heard| now.since(heard))
    }

    /// How long a client has been without a first heartbeat, less the hold-ups.
    pub(super) fn client_awaited(&self, id: ClientId, now: Time) -> Duration {
        let lease = self.clients.get(&id);
        lease.map_or(Duration::ZERO, |it| self.held_up.heard_upto(now).since(it.since))
    }
}

fn lost_workers(state: &State) -> impl Iterator<Item = WorkerId> + '_ {
    state.workers().values().filter(|worker| worker.lost).map(|worker| worker.id)
}

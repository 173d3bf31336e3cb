//! Calls under way: those sent to the server, and those that wait until they can be.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::clients::Identity;
use super::lanes::Number;
use super::types::{Asked, Kind, Task};
use crate::ids::{CallId, ConnectionId, Incarnation};
use crate::time::{Duration, Time};

/// All calls under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    pub(super) calls: BTreeMap<CallId, Pending>,
    /// Those that wait until they can be sent, in the order in which they came.
    pub(super) queue: BTreeSet<CallId>,
    /// Those of the queue that are heartbeats, and may be answered from what is known.
    pub(super) heartbeats: BTreeSet<CallId>,
    /// Those that were sent.
    pub(super) in_flight: BTreeSet<CallId>,
    /// Heartbeats that were sent, by when they are answered from what is known.
    pub(super) alarms: BTreeSet<(Time, CallId)>,
    /// Calls in flight that a server answers without waiting for other callers, with when they were sent.
    pub(super) prompt: BTreeMap<CallId, Time>,
    /// Heartbeats in flight that were answered from what is known: at most one of each run of a task.
    pub(super) stood_in: BTreeMap<(Task, Incarnation), CallId>,
    /// Messages of all together, in bytes.
    pub(super) held_bytes: u64,
}

/// One call.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) asked: Asked,
    pub(super) number: Option<Number>,
    /// The identity that its connection had when it came.
    pub(super) identity: Identity,
    /// Whether somebody waits for the answer.
    pub(super) waits: bool,
    alarm: Option<Time>,
}

impl Pending {
    pub(super) const fn new(asked: Asked, number: Option<Number>, identity: Identity) -> Self {
        Self { asked, number, identity, waits: true, alarm: None }
    }

    const fn is_heartbeat(&self) -> bool {
        matches!(self.asked.kind, Kind::Heartbeat(_))
    }

    fn run(&self) -> Option<(Task, Incarnation)> {
        match &self.asked.kind {
            Kind::Heartbeat(who) => Some((who.task.clone(), who.incarnation)),
            _ => None,
        }
    }
}

impl Calls {
    pub(super) fn add(&mut self, call: CallId, pending: Pending) {
        self.held_bytes = self.held_bytes.saturating_add(pending.asked.message.len() as u64);
        self.put_in_queue(call, &pending);
        self.calls.insert(call, pending);
    }

    fn put_in_queue(&mut self, call: CallId, pending: &Pending) {
        self.queue.insert(call);
        if pending.is_heartbeat() {
            self.heartbeats.insert(call);
        }
    }

    /// A call goes to the server; a heartbeat will be answered at `alarm`.
    pub(super) fn send(&mut self, now: Time, call: CallId, alarm: Time) -> Option<&Pending> {
        let pending = self.calls.get_mut(&call)?;
        self.queue.remove(&call);
        self.heartbeats.remove(&call);
        self.in_flight.insert(call);
        if pending.asked.kind.is_prompt() {
            self.prompt.insert(call, now);
        }
        if pending.is_heartbeat() && pending.waits {
            pending.alarm = Some(alarm);
            self.alarms.insert((alarm, call));
        }
        Some(pending)
    }

    /// Since when a call is in flight that a server answers promptly. Earlier calls are sent earlier.
    pub(super) fn asked_since(&self) -> Option<Time> {
        self.prompt.first_key_value().map(|(_, since)| *since)
    }

    /// Counts the calls in flight as sent later by `lost`.
    pub(super) fn postpone(&mut self, lost: Duration) {
        for since in self.prompt.values_mut() {
            *since = since.after(lost);
        }
    }

    /// All that were sent must be sent again. Returns those of which nobody needs to know.
    pub(super) fn unsend(&mut self) -> BTreeSet<CallId> {
        self.alarms.clear();
        self.prompt.clear();
        self.stood_in.clear();
        let mut needless = BTreeSet::new();
        for call in core::mem::take(&mut self.in_flight) {
            let Some(mut pending) = self.calls.remove(&call) else {
                continue;
            };
            pending.alarm = None;
            if !pending.waits && !pending.asked.kind.outlives_client() {
                needless.insert(call);
            }
            self.put_in_queue(call, &pending);
            self.calls.insert(call, pending);
        }
        needless
    }

    /// Nobody waits for a call any more, but its answer still matters.
    pub(super) fn leave(&mut self, call: CallId) {
        if let Some(pending) = self.calls.get_mut(&call) {
            pending.waits = false;
            self.heartbeats.remove(&call);
        }
    }

    /// A heartbeat in flight was answered from what is known. It stays in flight, unless an older one of
    /// the same run of the task already does. Returns whether it stays.
    pub(super) fn stand_in(&mut self, call: CallId) -> bool {
        self.leave(call);
        let Some(run) = self.calls.get(&call).and_then(Pending::run) else {
            return false;
        };
        *self.stood_in.entry(run).or_insert(call) == call
    }

    /// The heartbeats of a connection that are in flight and that the relay has answered.
    pub(super) fn stood_in_of(&self, client: ConnectionId) -> Vec<CallId> {
        let is_of_client = |call: &&CallId| {
            self.calls.get(*call).is_some_and(|pending| pending.asked.client == client)
        };
        self.stood_in.values().filter(is_of_client).copied().collect()
    }

    /// A call ends.
    pub(super) fn end(&mut self, call: CallId) -> Option<Pending> {
        let pending = self.calls.remove(&call)?;
        self.queue.remove(&call);
        self.heartbeats.remove(&call);
        self.in_flight.remove(&call);
        self.prompt.remove(&call);
        if let Some(run) = pending.run().filter(|run| self.stood_in.get(run) == Some(&call)) {
            self.stood_in.remove(&run);
        }
        if let Some(alarm) = pending.alarm {
            self.alarms.remove(&(alarm, call));
        }
        self.held_bytes = self.held_bytes.saturating_sub(pending.asked.message.len() as u64);
        Some(pending)
    }
}

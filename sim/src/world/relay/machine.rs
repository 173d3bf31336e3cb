//! A relay's machine and its process.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::coordination::Method;
use rondo_core::ids::{CallId, ConnectionId, RelayId};
use rondo_core::relay::{self, Link};

use super::papers::Papers;
use super::{RELAYED_CALLS, Wire};
use crate::clock::Clock;
use crate::rng::{Source, Stream};
use crate::swarm::{RelaySettings, RelayShape, Swarm};
use crate::world::letter::CallOf;
use crate::world::machine::{Being, drawn_clock};

/// All relays, and what their messages stand for.
#[derive(Debug)]
pub(in crate::world) struct Relays {
    pub(in crate::world) all: Vec<RelayMachine>,
    pub(super) papers: Papers,
    /// Calls of tasks that wait for their relays' answers.
    pub(super) open: BTreeMap<CallId, CallOf>,
    next_call: u64,
    next_number: u64,
}

impl Relays {
    pub(in crate::world) fn new(source: &Source, swarm: &Swarm) -> Self {
        let shapes = swarm.coordination.iter().flat_map(|shape| &shape.relays);
        let all = (0..).zip(shapes).map(|(number, shape)| {
            let mut stream = source.stream("relay", number);
            let clock = drawn_clock(&swarm.faults, &mut stream);
            RelayMachine::new(shape.clone(), clock, stream)
        });
        Self {
            all: all.collect(),
            papers: Papers::default(),
            open: BTreeMap::new(),
            next_call: RELAYED_CALLS,
            next_number: 0,
        }
    }

    /// How many there are.
    pub(in crate::world) fn count(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(0)
    }

    pub(super) fn at(&mut self, relay: u32) -> Option<&mut RelayMachine> {
        self.all.get_mut(relay as usize)
    }

    pub(super) fn draw_call(&mut self) -> CallId {
        self.next_call = self.next_call.saturating_add(1);
        CallId::new(self.next_call)
    }

    /// A number that no other relay has, whatever is decided.
    pub(super) fn entropy(&mut self) -> u64 {
        self.next_number = self.next_number.saturating_add(1);
        self.next_number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// The call that a task knows by its own number.
    pub(super) fn call_of(&self, of: CallOf) -> Option<CallId> {
        self.open.iter().find(|(_, waits)| **waits == of).map(|(call, _)| *call)
    }
}

/// A relay's machine.
#[derive(Debug)]
pub(in crate::world) struct RelayMachine {
    pub(in crate::world) shape: RelayShape,
    pub(in crate::world) being: Being,
    /// Whether it takes part after the rest has healed.
    pub(in crate::world) core: bool,
    pub(in crate::world) held: Vec<u32>,
    pub(in crate::world) stream: Stream,
    /// What the next process is started with.
    pub(super) settings: RelaySettings,
    /// Counts its processes.
    pub(super) life: u32,
    pub(super) process: Option<Box<Process>>,
    pub(super) clock: Clock,
    pub(super) tick_at_ns: u64,
}

impl RelayMachine {
    fn new(shape: RelayShape, clock: Clock, stream: Stream) -> Self {
        Self {
            settings: shape.settings,
            shape,
            being: Being::Down,
            core: true,
            held: Vec::new(),
            stream,
            life: 0,
            process: None,
            clock,
            tick_at_ns: u64::MAX,
        }
    }
}

/// A relay's process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) relay: relay::Relay,
    /// How it calls itself.
    pub(super) id: RelayId,
    /// The connection that is tried.
    pub(super) trying: Option<Link>,
    /// The connection there is, and whether it is known to be broken.
    pub(super) wire: Option<(Wire, bool)>,
    /// Calls that were sent on it.
    pub(super) sent: BTreeSet<CallId>,
    /// Whose each call is.
    pub(super) callers: BTreeMap<CallId, (CallOf, Method)>,
    /// Calls that go on though nobody waits for them.
    pub(super) alone: BTreeSet<CallId>,
    /// Connections of tasks, by actor.
    pub(super) clients: BTreeMap<u32, ConnectionId>,
    pub(super) next_client: u64,
}

impl Process {
    pub(super) fn new(relay: relay::Relay, id: RelayId) -> Self {
        Self {
            relay,
            id,
            trying: None,
            wire: None,
            sent: BTreeSet::new(),
            callers: BTreeMap::new(),
            alone: BTreeSet::new(),
            clients: BTreeMap::new(),
            next_client: 1,
        }
    }

    /// The connection of a task's process.
    pub(super) fn client(&mut self, actor: u32) -> ConnectionId {
        let next = self.next_client;
        let client = *self.clients.entry(actor).or_insert(ConnectionId::new(next));
        self.next_client = self.next_client.max(client.get().saturating_add(1));
        client
    }
}

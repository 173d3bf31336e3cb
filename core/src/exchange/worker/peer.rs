//! A server as a worker sees it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::exchange::clock::Clock;
use crate::exchange::ids::{Handler, InstanceRank, Key, RequestNumber};
use crate::exchange::message::Credits;
use crate::exchange::refusal::PeerLost;
use crate::ids::{ConnectionId, Incarnation};
use crate::time::Time;

/// The way to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exchange) enum Link {
    /// There is nobody to connect to.
    Idle,
    /// The driver connects.
    Connecting,
    /// The next attempt is made then.
    Pausing { until: Time },
    /// There is a connection, and the server has not answered the greeting.
    Greeting { connection: ConnectionId },
    /// Requests pass.
    Ready { connection: ConnectionId },
}

/// A request that was sent and is not over, or whose memory on the server is not free.
#[derive(Clone, Debug)]
pub(in crate::exchange) struct Open {
    pub(in crate::exchange) handler: Handler,
    /// Bytes that it pushes.
    pub(in crate::exchange) bytes: u64,
    /// Keys that it pushes, each once.
    pub(in crate::exchange) keys: Vec<Key>,
    /// Whether the server will answer, or was to.
    pub(in crate::exchange) awaits_answer: bool,
    /// Whether all that is awaited of the server for whoever waits has come.
    pub(in crate::exchange) is_over: bool,
    /// Whether the server is done with what was pushed.
    pub(in crate::exchange) is_released: bool,
}

/// A server.
#[derive(Clone, Debug)]
pub(in crate::exchange) struct Peer {
    pub(in crate::exchange) rank: InstanceRank,
    pub(in crate::exchange) incarnation: Incarnation,
    pub(in crate::exchange) addresses: Vec<Arc<str>>,
    pub(in crate::exchange) host: Arc<str>,
    /// Why it is lost, if it is.
    pub(in crate::exchange) lost: Option<(PeerLost, Time)>,
    pub(in crate::exchange) link: Link,
    /// Since when requests do not pass.
    pub(in crate::exchange) down: Option<Time>,
    /// Greetings of this run of it.
    pub(in crate::exchange) greetings: u64,
    /// Attempts to connect since then.
    pub(in crate::exchange) attempts: u32,
    /// What the server allows; as it said last.
    pub(in crate::exchange) credits: Credits,
    /// Requests that are not sent yet, in their order.
    pub(in crate::exchange) queue: BTreeSet<Handler>,
    pub(in crate::exchange) last: RequestNumber,
    pub(in crate::exchange) open: BTreeMap<RequestNumber, Open>,
    /// How many open requests that are not released push each key.
    pub(in crate::exchange) keys: BTreeMap<Key, u32>,
    /// Bytes of open requests that are not released.
    pub(in crate::exchange) bytes: u64,
    /// Answers that have come and were not acknowledged.
    pub(in crate::exchange) acknowledge: Vec<RequestNumber>,
    /// When they are at the latest.
    pub(in crate::exchange) acknowledge_at: Option<Time>,
    pub(in crate::exchange) clock: Clock,
}

impl Peer {
    pub(super) fn new(rank: InstanceRank) -> Self {
        Self {
            rank,
            incarnation: Incarnation::default(),
            addresses: Vec::new(),
            host: Arc::from(""),
            lost: None,
            link: Link::Idle,
            down: None,
            greetings: 0,
            attempts: 0,
            credits: Credits { requests: 0, bytes: 0, per_key: 0 },
            queue: BTreeSet::new(),
            last: RequestNumber::default(),
            open: BTreeMap::new(),
            keys: BTreeMap::new(),
            bytes: 0,
            acknowledge: Vec::new(),
            acknowledge_at: None,
            clock: Clock::default(),
        }
    }

    /// The connection, if there is one.
    pub(super) const fn connection(&self) -> Option<ConnectionId> {
        match self.link {
            Link::Greeting { connection } | Link::Ready { connection } => Some(connection),
            Link::Idle | Link::Connecting | Link::Pausing { .. } => None,
        }
    }

    /// That it is lost, and for this reason.
    pub(super) fn loss(&self, why: &str) -> PeerLost {
        PeerLost {
            role: crate::exchange::role::Role::Server,
            rank: self.rank,
            incarnation: self.incarnation,
            address: self.addresses.first().cloned().unwrap_or_else(|| Arc::from("")),
            why: why.into(),
        }
    }

    /// Whether a request of so many bytes and these keys may be sent now.
    pub(super) fn has_credit(&self, bytes: u64, keys: &[Key]) -> bool {
        let free =
            |key: &Key| self.keys.get(key).is_none_or(|pushing| *pushing < self.credits.per_key);
        self.open.len() < usize::try_from(self.credits.requests).unwrap_or(usize::MAX)
            && self.bytes.saturating_add(bytes) <= self.credits.bytes
            && keys.iter().all(free)
    }

    /// A request is sent.
    pub(super) fn open(&mut self, number: RequestNumber, open: Open) {
        self.bytes = self.bytes.saturating_add(open.bytes);
        for key in &open.keys {
            let pushing = self.keys.entry(*key).or_default();
            *pushing = pushing.saturating_add(1);
        }
        self.last = number;
        self.open.insert(number, open);
    }

    /// The server is done with what a request pushed, or never had it.
    pub(super) fn release(&mut self, number: RequestNumber) {
        let Some(open) = self.open.get_mut(&number).filter(|open| !open.is_released) else {
            return;
        };
        open.is_released = true;
        self.bytes = self.bytes.saturating_sub(open.bytes);
        for key in &open.keys {
            if let Some(pushing) = self.keys.get_mut(key) {
                *pushing = pushing.saturating_sub(1);
                if *pushing == 0 {
                    self.keys.remove(key);
                }
            }
        }
        self.close_if_done(number);
    }

    /// Nothing more is awaited for who waits for a request.
    pub(super) fn over(&mut self, number: RequestNumber) {
        if let Some(open) = self.open.get_mut(&number) {
            open.is_over = true;
        }
        self.close_if_done(number);
    }

    fn close_if_done(&mut self, number: RequestNumber) {
        if self.open.get(&number).is_some_and(|open| open.is_over && open.is_released) {
            self.open.remove(&number);
        }
    }

    /// Takes back a request that the server does not have.
    pub(super) fn take_back(&mut self, number: RequestNumber) -> Option<Handler> {
        let handler = self.open.get(&number)?.handler;
        self.release(number);
        self.open.remove(&number);
        Some(handler)
    }
}

//! A worker as a server sees it.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::exchange::ids::{InstanceRank, Key, RequestNumber, UnitHandler, WorkerRank};
use crate::exchange::message::{Pull, Request, Tensor};
use crate::exchange::refusal::PeerLost;
use crate::exchange::role::Role;
use crate::exchange::stamps::Stamps;
use crate::ids::{ConnectionId, Incarnation};
use crate::status::Status;
use crate::time::Time;

/// How far a request is.
#[derive(Clone, Debug)]
pub(in crate::exchange) enum Phase<T> {
    /// Its unit waits to be given out.
    Queued { unit: UnitHandler, tensors: Vec<Tensor<T>> },
    /// Its unit was given out.
    GivenOut { unit: UnitHandler },
    /// It was answered; the answer is kept until the worker has it.
    Answered { tensors: Vec<Tensor<T>> },
    /// It was refused, which is kept until the worker knows.
    Refused { status: Status },
}

/// A request that has arrived, as long as anything is to be known of it.
#[derive(Clone, Debug)]
pub(in crate::exchange) struct Record<T> {
    pub(in crate::exchange) phase: Phase<T>,
    pub(in crate::exchange) pulls: Vec<Pull>,
    pub(in crate::exchange) is_single: bool,
    /// Bytes that it pushes.
    pub(in crate::exchange) bytes: u64,
    /// Keys that it pushes, each once.
    pub(in crate::exchange) keys: Vec<Key>,
    /// Of these, those whose tensor lies in a registered slot.
    pub(in crate::exchange) slots: Vec<Key>,
    /// Whether what was pushed is not read any more.
    pub(in crate::exchange) is_released: bool,
    pub(in crate::exchange) has_pushes: bool,
    pub(in crate::exchange) stamps: Stamps,
}

impl<T> Record<T> {
    /// A request that is taken on, of which these keys lie in slots.
    pub(super) fn queued(
        unit: UnitHandler,
        request: Request<T>,
        slots: Vec<Key>,
        stamps: Stamps,
    ) -> Self {
        let mut keys: Vec<Key> = request.pushes.iter().map(|push| push.key).collect();
        keys.sort_unstable();
        keys.dedup();
        Self {
            is_single: request.is_single(),
            bytes: request.bytes(),
            has_pushes: !request.pushes.is_empty(),
            phase: Phase::Queued { unit, tensors: request.pushes },
            pulls: request.pulls,
            keys,
            slots,
            is_released: false,
            stamps,
        }
    }

    /// A request that is refused.
    pub(super) fn refused(status: Status) -> Self {
        Self {
            phase: Phase::Refused { status },
            pulls: Vec::new(),
            is_single: false,
            bytes: 0,
            keys: Vec::new(),
            slots: Vec::new(),
            is_released: true,
            has_pushes: false,
            stamps: Stamps::default(),
        }
    }

    /// Whether it must be answered.
    pub(in crate::exchange) const fn owes_answer(&self) -> bool {
        self.is_single || !self.pulls.is_empty()
    }
}

/// A request whose tensors are being read from a connection.
#[derive(Clone, Debug)]
pub(in crate::exchange) struct Arriving {
    pub(in crate::exchange) worker: WorkerRank,
    pub(in crate::exchange) number: RequestNumber,
    /// Keys of those that go to registered slots.
    pub(in crate::exchange) slots: Vec<Key>,
}

/// A worker.
#[derive(Clone, Debug)]
pub(in crate::exchange) struct Peer<T> {
    pub(in crate::exchange) rank: InstanceRank,
    pub(in crate::exchange) incarnation: Incarnation,
    /// Whether the scheduler says that it takes part.
    pub(in crate::exchange) is_member: bool,
    pub(in crate::exchange) connection: Option<ConnectionId>,
    /// Which of its connections that is, or was.
    pub(in crate::exchange) attempt: u64,
    /// Since when there is no connection, after there was one.
    pub(in crate::exchange) down: Option<Time>,
    /// Why it is lost, if it is.
    pub(in crate::exchange) lost: Option<PeerLost>,
    /// The last request that arrived.
    pub(in crate::exchange) received: RequestNumber,
    /// Requests up to this one were given up if they are not among the records.
    pub(in crate::exchange) given_up: RequestNumber,
    pub(in crate::exchange) records: BTreeMap<RequestNumber, Record<T>>,
    /// Requests whose units wait to be given out.
    pub(in crate::exchange) queue: VecDeque<RequestNumber>,
    /// How many requests that are not released push each key.
    pub(in crate::exchange) keys: BTreeMap<Key, u32>,
    /// Bytes of requests that are not released.
    pub(in crate::exchange) bytes: u64,
}

impl<T> Peer<T> {
    pub(super) const fn new(rank: InstanceRank, incarnation: Incarnation) -> Self {
        Self {
            rank,
            incarnation,
            is_member: true,
            connection: None,
            attempt: 0,
            down: None,
            lost: None,
            received: RequestNumber::new(0),
            given_up: RequestNumber::new(0),
            records: BTreeMap::new(),
            queue: VecDeque::new(),
            keys: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// That it is lost, and for this reason.
    pub(super) fn loss(&self, why: &str) -> PeerLost {
        let (rank, incarnation) = (self.rank, self.incarnation);
        let (role, address, why) = (Role::Worker, Arc::from(""), Arc::from(why));
        PeerLost { role, rank, incarnation, address, why }
    }

    /// Counts what a request pushes.
    pub(super) fn count(&mut self, bytes: u64, keys: &[Key]) {
        self.bytes = self.bytes.saturating_add(bytes);
        for key in keys {
            let pushing = self.keys.entry(*key).or_default();
            *pushing = pushing.saturating_add(1);
        }
    }

    /// What a request pushed is free.
    pub(super) fn uncount(&mut self, bytes: u64, keys: &[Key]) {
        self.bytes = self.bytes.saturating_sub(bytes);
        for key in keys {
            if let Some(pushing) = self.keys.get_mut(key) {
                *pushing = pushing.saturating_sub(1);
                if *pushing == 0 {
                    self.keys.remove(key);
                }
            }
        }
    }
}

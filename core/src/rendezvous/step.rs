//! One step: which worker it is of, and what is in it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::device::{Device, Worker};
use super::key::Key;
use super::refusal;
use super::room::Held;
use super::table::Table;
use super::types::{Args, Delivery, Session, Value};
use crate::ids::{CallId, RequestId};
use crate::status::Status;
use crate::time::Time;

/// The worker that steps are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Home {
    pub(super) name: Arc<str>,
    /// The components of its name, which every call is compared with.
    job: Arc<str>,
    replica: u32,
    task: u32,
}

impl Home {
    /// # Errors
    /// When the name is not that of a worker.
    pub(super) fn of(session: &Session) -> Result<Self, Status> {
        let name = &session.worker_name;
        let device = Device::parse(name).filter(|device| device.kind().is_none());
        let worker = device.and_then(|device| device.worker());
        let Worker { job, replica, task } = worker.ok_or_else(|| refusal::no_worker_name(name))?;
        Ok(Self { name: name.clone(), job: job.into(), replica, task })
    }

    /// Whether a device is one of this worker.
    pub(super) fn has(&self, device: &Device<'_>) -> bool {
        let is_ours = |of: Worker<'_>| {
            of.task == self.task && of.replica == self.replica && *of.job == *self.job
        };
        device.worker().is_some_and(is_ours) || device.is_implicit()
    }
}

/// Something asked of a step that is not initialised.
#[derive(Clone, Debug)]
pub(super) enum Deferred<T> {
    /// A tensor; its sender, if that waits for room.
    Send { key: Key, args: Args, value: Value<T>, sender: Option<CallId> },
    /// A receiver.
    Recv { call: CallId, key: Key, args: Args },
    /// A receiver of this worker's tensors; the request, if what answers it is kept.
    RecvLocal { call: CallId, key: Key, kept: Option<RequestId> },
}

/// What answers a request, which is kept.
#[derive(Clone, Debug)]
pub(super) struct Kept<T> {
    pub(super) key: Key,
    pub(super) answer: Answer<T>,
}

/// See [`Kept`].
#[derive(Clone, Debug)]
pub(super) enum Answer<T> {
    /// One call waits for it, and these others besides.
    Awaited { followers: Vec<CallId> },
    /// It was given.
    Given(Delivery<T>),
}

impl<T> Answer<T> {
    /// One of those who wait for it besides, who is taken out.
    pub(super) fn next_follower(&mut self) -> Option<CallId> {
        match self {
            Self::Awaited { followers } => followers.pop(),
            Self::Given(_) => None,
        }
    }
}

/// What is in a step.
#[derive(Clone, Debug)]
pub(super) struct Contents<T> {
    pub(super) table: Table<T>,
    pub(super) deferred: BTreeMap<u64, Deferred<T>>,
    pub(super) fetches: BTreeSet<CallId>,
    pub(super) kept: BTreeMap<RequestId, Kept<T>>,
    /// Tensors for which the step's own bounds leave no room.
    pub(super) parked: BTreeSet<u64>,
}

impl<T> Default for Contents<T> {
    fn default() -> Self {
        Self {
            table: Table::default(),
            deferred: BTreeMap::new(),
            fetches: BTreeSet::new(),
            kept: BTreeMap::new(),
            parked: BTreeSet::new(),
        }
    }
}

impl<T> Contents<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.table.queues.is_empty()
            && self.deferred.is_empty()
            && self.fetches.is_empty()
            && self.kept.is_empty()
    }
}

/// A step.
#[derive(Clone, Debug)]
pub(super) struct Step<T> {
    /// The worker it is of, once it is initialised.
    pub(super) home: Option<Home>,
    /// Why it ended, if it did.
    pub(super) status: Option<Status>,
    pub(super) contents: Contents<T>,
    /// Of its contents, what counts against the bounds.
    pub(super) held: Held,
    /// Tells steps of one id apart, of which each begins after the one before was cleaned up.
    pub(super) serial: u64,
    /// When something last happened with it.
    pub(super) used: Time,
    /// When somebody looks whether it is still in use.
    pub(super) expires: Option<Time>,
}

impl<T> Step<T> {
    pub(super) fn new(home: Option<Home>, serial: u64, now: Time, expires: Option<Time>) -> Self {
        let (contents, held) = (Contents::default(), Held::default());
        Self { home, status: None, contents, held, serial, used: now, expires }
    }

    /// Its worker, if what is asked of it can be done now: nothing that was asked before is still to be
    /// done.
    pub(super) fn ready(&self) -> Option<&Home> {
        self.home.as_ref().filter(|_| self.contents.deferred.is_empty())
    }
}

//! The service's durable state. Only [`super::apply`] changes it, live and in replay alike.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use bytes::Bytes;

use super::record::{Kept, Participants};
use super::request::Stamp;
use super::store::Store;
use super::types::{BarrierKey, Dialect, Fault, Phase, TaskInfo, TaskState};
use crate::ids::{
    Digest, Incarnation, Lsn, NamespaceId, RelayId, Revision, ServiceIncarnation, TaskIndex,
};
use crate::limits::COORDINATION_TASKS_MAX;
use crate::status::Code;
use crate::time::{Duration, Time};

/// All that survives a restart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    pub(super) namespaces: BTreeMap<NamespaceId, Namespace>,
    pub(super) by_name: BTreeMap<Arc<str>, NamespaceId>,
}

/// A namespace in its present life.
#[derive(Clone, Debug, PartialEq)]
pub struct Namespace {
    pub(super) head: Head,
    /// Tasks that registered in this life.
    pub(super) tasks: BTreeMap<TaskIndex, Task>,
    pub(super) barriers: BTreeMap<BarrierKey, Barrier>,
    pub(super) store: Store,
    pub(super) relays: BTreeMap<RelayId, Relay>,
    pub(super) index: Index,
}

/// A namespace's own facts.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// Its id.
    pub id: NamespaceId,
    /// Its name.
    pub name: Arc<str>,
    /// Counts its lives, from 1.
    pub life: u64,
    /// The present life, as clients know it.
    pub incarnation: ServiceIncarnation,
    /// When the present life began.
    pub begun: Time,
    /// Number of tasks, once known.
    pub size: Option<u32>,
    /// Grows with every change of a task, over all lives.
    pub version: i64,
    /// Whether some task has polled for errors in this life.
    pub polled: bool,
    /// The error with which every poll ends.
    pub sticky: Option<Arc<Fault>>,
    /// Counts changes of keys, over all lives.
    pub revision: Revision,
    /// Changes up to this revision are not remembered.
    pub forgotten: Revision,
    /// The incarnations tasks had in the life before: beats of those may still come.
    pub former: BTreeMap<TaskIndex, Incarnation>,
    /// The newest record about the namespace itself.
    pub changed: Lsn,
    /// The newest record about its keys.
    pub keys_changed: Lsn,
}

/// A coordination task that has registered.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its number.
    pub index: TaskIndex,
    /// Its newest incarnation.
    pub incarnation: Incarnation,
    /// Whether it may come back after its death.
    pub recoverable: bool,
    /// What it speaks.
    pub dialect: Dialect,
    /// How it stands.
    pub phase: Phase,
    /// Its error, exactly when it is in error.
    pub fault: Option<Arc<Fault>>,
    /// Since when it stands so.
    pub since: Time,
    /// Its encoded `DeviceInfo`, once told.
    pub devices: Option<Bytes>,
    /// The newest record about it.
    pub changed: Lsn,
}

impl Task {
    /// Its error, for one that is in error.
    pub(super) fn fault(&self) -> Arc<Fault> {
        self.fault.clone().unwrap_or_else(|| Arc::new(Fault::new(Code::Unknown, "no reason known")))
    }
}

/// A barrier: its newest instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Barrier {
    /// Which one.
    pub key: BarrierKey,
    /// The instance.
    pub counter: i64,
    /// Who must come; `None` when that never was settled, or is not remembered.
    pub participants: Option<Participants>,
    /// When the instance was opened.
    pub opened: Time,
    /// How long its participants may take.
    pub timeout: Duration,
    /// Who came first.
    pub initiator: Option<TaskIndex>,
    /// Who has come; empty once it has ended.
    pub arrived: BTreeMap<TaskIndex, Arrival>,
    /// How it ended; `None` while tasks wait.
    pub outcome: Option<Outcome>,
    /// The newest record about it.
    pub changed: Lsn,
}

/// A task's coming to a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Time,
    /// The relay's mark on its call.
    pub stamp: Option<Stamp>,
}

/// How a barrier's instance ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All came.
    Passed,
    /// It failed.
    Failed(Arc<Fault>),
}

/// What is known of a relay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Relay {
    /// It has the results up to this number.
    pub acknowledged: u64,
    /// Results it may not have, by the request's number.
    pub results: BTreeMap<u64, Kept>,
    /// Answers to who is alive that it may not have, by the request's number. All who were told the same
    /// share it.
    pub alive: BTreeMap<u64, Arc<[(TaskIndex, Incarnation)]>>,
}

/// Ways to find things; all derived from the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Index {
    /// Barriers that tasks wait at.
    pub(super) open: BTreeSet<BarrierKey>,
    /// Clients' barriers that have ended, the oldest first.
    pub(super) ended: BTreeSet<(Lsn, BarrierKey)>,
    /// Those of them that have a list of participants, the oldest first.
    pub(super) ended_with_list: BTreeSet<(Lsn, BarrierKey)>,
    /// How many tasks the lists of participants of all barriers name together.
    pub(super) listed: usize,
    pub(super) by_incarnation: BTreeSet<(Incarnation, TaskIndex)>,
    /// How many tasks are there, or wait to be.
    pub(super) present: usize,
}

/// One more than the largest task number in a job of this size, if its size is known.
pub(super) fn bound_of(size: Option<u32>) -> u32 {
    let most = u32::try_from(COORDINATION_TASKS_MAX).unwrap_or(u32::MAX);
    size.unwrap_or(most)
}

impl State {
    /// Namespaces by id.
    pub const fn namespaces(&self) -> &BTreeMap<NamespaceId, Namespace> {
        &self.namespaces
    }

    /// The namespace of a name.
    pub fn named(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.get(self.by_name.get(name)?)
    }

    /// The blobs that values are in, with their sizes in bytes.
    pub fn blobs(&self) -> BTreeMap<Digest, u64> {
        let stores = self.namespaces.values().map(|namespace| &namespace.store);
        stores.flat_map(Store::blobs).collect()
    }

    /// Whether some value is in this blob.
    pub fn names_blob(&self, digest: Digest) -> bool {
        self.namespaces.values().any(|namespace| namespace.store.names_blob(digest))
    }
}

/// Read access, for deciding, for reports and for invariants.
impl Namespace {
    /// Its own facts.
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// Tasks that registered in this life, by number.
    pub const fn tasks(&self) -> &BTreeMap<TaskIndex, Task> {
        &self.tasks
    }

    /// Barriers, by key.
    pub const fn barriers(&self) -> &BTreeMap<BarrierKey, Barrier> {
        &self.barriers
    }

    /// Its keys.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Relays that have results here.
    pub const fn relays(&self) -> &BTreeMap<RelayId, Relay> {
        &self.relays
    }

    /// Barriers that tasks wait at.
    pub fn open_barriers(&self) -> impl Iterator<Item = &Barrier> {
        self.index.open.iter().filter_map(|key| self.barriers.get(key))
    }

    /// The task whose process runs under this incarnation.
    pub fn task_of(&self, incarnation: Incarnation) -> Option<TaskIndex> {
        let first = (incarnation, TaskIndex::new(i32::MIN));
        let (found, task) = self.index.by_incarnation.range(first..).next()?;
        (*found == incarnation).then_some(*task)
    }

    /// One more than the largest task number there can be.
    pub fn bound(&self) -> u32 {
        bound_of(self.head.size)
    }

    /// Whether the job can have a task of this number.
    pub fn can_have(&self, task: TaskIndex) -> bool {
        u32::try_from(task.get()).is_ok_and(|index| index < self.bound())
    }

    /// Whether all who registered in this life have left or died.
    pub fn is_over(&self) -> bool {
        !self.tasks.is_empty() && self.index.present == 0
    }

    /// Whether all tasks have registered once.
    pub fn has_begun(&self) -> bool {
        let register = self.barriers.get(&BarrierKey::Register);
        register.is_some_and(|barrier| barrier.outcome == Some(Outcome::Passed))
    }

    /// What clients are told of a task.
    pub fn info(&self, index: TaskIndex) -> TaskInfo {
        match self.tasks.get(&index) {
            Some(task) => TaskInfo {
                index,
                state: task.phase.state(),
                fault: task.fault.clone(),
                incarnation: task.incarnation,
            },
            None => TaskInfo {
                index,
                state: TaskState::Disconnected,
                fault: None,
                incarnation: Incarnation::new(0),
            },
        }
    }

    /// All tasks' numbers: of the job if its size is known, else those that registered.
    pub fn indexes(&self) -> impl Iterator<Item = TaskIndex> + '_ {
        let size = i32::try_from(self.head.size.unwrap_or(0)).unwrap_or(i32::MAX);
        let known = (0..size).map(TaskIndex::new);
        let registered = self.tasks.keys().copied().filter(move |task| task.get() >= size);
        known.chain(registered)
    }

    /// Who has not come to a barrier that is open.
    pub fn missing_at<'a>(&'a self, barrier: &'a Barrier) -> impl Iterator<Item = TaskIndex> + 'a {
        let expected = self.indexes().filter(|task| {
            barrier.participants.as_ref().is_some_and(|participants| participants.contains(*task))
        });
        expected.filter(|task| !barrier.arrived.contains_key(task))
    }

    /// How many must come to a barrier; `None` if that is not known.
    pub fn expected_at(&self, barrier: &Barrier) -> Option<usize> {
        match barrier.participants.as_ref()? {
            Participants::All => usize::try_from(self.head.size?).ok(),
            Participants::Some(tasks) => Some(tasks.len()),
        }
    }

    /// Whether all have come to a barrier.
    pub fn is_complete(&self, barrier: &Barrier) -> bool {
        self.expected_at(barrier).is_some_and(|expected| barrier.arrived.len() >= expected)
    }
}

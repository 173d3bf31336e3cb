//! What the coordination service answers, and what it tells its driver.

use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

use super::record::Change;
use super::report::Report;
use super::types::{TaskInfo, Value};
use crate::ids::{Incarnation, Revision, ServiceIncarnation, TaskIndex};
use crate::time::Duration;

/// One answer. Keys are echoed by the driver, which knows how they were asked for; blobs are read
/// by it.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The task is registered, in this life.
    Registered(ServiceIncarnation),
    /// The heartbeat is taken, in this life.
    Heartbeat(ServiceIncarnation),
    /// The task has left.
    ShutDown,
    /// The task's error is forgotten.
    Reset,
    /// The error is taken.
    ErrorReported,
    /// Tasks in the order asked for.
    TaskStates(Vec<TaskInfo>),
    /// All tasks, at a version.
    Tasks {
        /// The tasks by number.
        tasks: Arc<[TaskInfo]>,
        /// The version to ask with next.
        version: i64,
    },
    /// The connected ones of the tasks asked for, by number, with their incarnations.
    Alive(Arc<[(TaskIndex, Incarnation)]>),
    /// Encoded `DeviceInfo`s of all tasks, by number: concatenated, the encoding of one with all
    /// devices.
    Devices(Arc<[Bytes]>),
    /// All have come to the barrier's instance of this number.
    BarrierPassed {
        /// The instance.
        counter: i64,
    },
    /// The barrier is cancelled.
    BarrierCancelled,
    /// The key is put.
    Put {
        /// With this revision.
        revision: Revision,
    },
    /// The key's value.
    Value {
        /// The value.
        value: Value,
        /// The revision of its newest change.
        revision: Revision,
    },
    /// The keys under the directory, in order. Answers that are under way at once share them while no
    /// key of the namespace changes.
    Directory(Arc<Vec<KeyEntry>>),
    /// The key is gone.
    Deleted {
        /// The revision from which on.
        revision: Revision,
    },
    /// Changes of a watched key and of what is under it.
    Changes {
        /// The changes, in order.
        changes: Vec<Change>,
        /// The revision up to which the caller now knows everything.
        upto: Revision,
    },
    /// A watched key and what is under it, in place of all that the caller knows: it knew nothing,
    /// or too little for the changes that are remembered.
    Keys {
        /// What is there, by key.
        entries: Vec<KeyEntry>,
        /// The revision up to which the caller now knows everything.
        upto: Revision,
    },
    /// The namespace has begun this life.
    LifeBegun(ServiceIncarnation),
    /// A picture of all namespaces.
    Report(Report),
}

/// A key as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyEntry {
    /// The key, in normal form.
    pub key: Arc<str>,
    /// Its value.
    pub value: Value,
    /// The revision of its newest change.
    pub revision: Revision,
}

/// Something worth a log line, a counter or a mark; nothing depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A namespace begins a life.
    LifeBegun {
        /// The namespace's name.
        namespace: Arc<str>,
        /// Counts its lives, from 1.
        life: u64,
        /// The life.
        incarnation: ServiceIncarnation,
    },
    /// A job's size became known.
    SizeLearnt {
        /// The namespace's name.
        namespace: Arc<str>,
        /// The number of tasks.
        tasks: u32,
    },
    /// Relays that had been silent for too long were forgotten.
    RelaysForgotten {
        /// The namespace's name.
        namespace: Arc<str>,
        /// How many.
        count: usize,
    },
    /// All tasks have registered.
    AllRegistered {
        /// The namespace's name.
        namespace: Arc<str>,
    },
    /// A task came back with another incarnation.
    TaskReturned {
        /// The namespace's name.
        namespace: Arc<str>,
        /// The task.
        task: TaskIndex,
    },
    /// A task is in error.
    TaskFailed {
        /// The namespace's name.
        namespace: Arc<str>,
        /// The task.
        task: TaskIndex,
        /// Why.
        reason: Arc<str>,
    },
    /// A task has left.
    TaskLeft {
        /// The namespace's name.
        namespace: Arc<str>,
        /// The task.
        task: TaskIndex,
    },
    /// An error reaches all tasks that poll for one.
    ErrorSpread {
        /// The namespace's name.
        namespace: Arc<str>,
        /// The error.
        reason: Arc<str>,
    },
    /// A barrier failed.
    BarrierFailed {
        /// The namespace's name.
        namespace: Arc<str>,
        /// Why.
        reason: Arc<str>,
    },
    /// Tasks stay where they are while others go on.
    NoProgress {
        /// The namespace's name.
        namespace: Arc<str>,
        /// The tasks, as ranges.
        tasks: Arc<str>,
        /// Where they are, where the others are, and what is known of them.
        reason: Arc<str>,
    },
    /// A task that was stuck goes on.
    ProgressAgain {
        /// The namespace's name.
        namespace: Arc<str>,
        /// The task.
        task: TaskIndex,
    },
    /// The service could hear nobody for so long; nobody is blamed for silence in that time.
    HeldUp {
        /// How much later than due it was woken.
        late: Duration,
    },
}

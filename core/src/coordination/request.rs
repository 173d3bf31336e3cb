//! What is asked of the coordination service: both dialects' methods and `rondo.v1`'s, already
//! checked field by field. Where dialects differ, [`Caller`] says which one speaks.
//!
//! Methods of the wire that are not named like their [`Method`], or not only:
//!
//! | on the wire | dialects | here | answer |
//! |---|---|---|---|
//! | `RegisterTask` | T, X | [`Method::RegisterTask`]; X has no `recoverable` | `Registered` |
//! | `WatchJobState` | T | [`Method::WatchTasks`]; `job_name` is not looked at | `Tasks` |
//! | `WatchTasks` | X | [`Method::WatchTasks`] | `Tasks` |
//! | `InsertKeyValue` | T, X | [`Method::PutKeyValue`]; `allow_overwrite` is [`Condition::Always`] | `Put` |
//! | `DeleteKeyValue` | T, X | [`Method::DeleteKeyValue`]; `is_directory` is not looked at | `Deleted` |
//! | `PollForError` | T, X | [`Method::PollForError`] | always a refusal |
//! | `Heartbeat` | T, X | [`Method::Heartbeat`]; X's `incarnation`, field 2 | `Heartbeat` |
//!
//! Every other method has the same name here. Of X's block `incarnations`, `service_incarnation`
//! is [`Caller::life`] in every request but RegisterTask, even when it is 0 or absent, and
//! `task_incarnation` is [`Caller::incarnation`]. A task's number without a job's name is
//! [`TaskName::of`]; in T both go into [`TaskName`].

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

use super::types::{Dialect, TaskName, Value};
use crate::ids::{Incarnation, Revision, ServiceIncarnation, TaskIndex};
pub use crate::stamp::Stamp;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// To a namespace.
    Call(Box<Call>),
    /// A picture of all namespaces for people (`rondo status`). It waits for nothing, so it may
    /// show what is not durable yet.
    Report,
}

/// A request to a namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The namespace's name.
    pub namespace: Arc<str>,
    /// Who asks.
    pub caller: Caller,
    /// What for.
    pub method: Method,
}

/// Who asks, as far as the connection and the request tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The dialect spoken.
    pub dialect: Dialect,
    /// The life the request is meant for. Dialect X says it in every request but RegisterTask; of
    /// dialect T it is the life in which the connection registered, if any.
    pub life: Option<ServiceIncarnation>,
    /// The task, if the connection or a relay tells.
    pub task: Option<TaskIndex>,
    /// The calling process's incarnation, as dialect X says it, or as the connection knows it. Requests
    /// for keys are taken from any process; requests for a task only from its newest one.
    pub incarnation: Option<Incarnation>,
    /// The address it asks from.
    pub peer: Option<Arc<str>>,
    /// What the relay between says, if there is one.
    pub stamp: Option<Stamp>,
}

/// What is asked of a namespace.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// `RegisterTask`.
    RegisterTask {
        /// Who registers.
        task: TaskName,
        /// The run of its process.
        incarnation: Incarnation,
        /// Whether it may come back after its death (dialect T's flag).
        recoverable: bool,
        /// The number of tasks, from who knows it (agents and relays).
        tasks: Option<u32>,
    },
    /// `Heartbeat`.
    Heartbeat {
        /// Whose.
        task: TaskName,
        /// The run of its process.
        incarnation: Incarnation,
    },
    /// `ShutdownTask`.
    ShutdownTask {
        /// Who leaves.
        task: TaskName,
    },
    /// `ResetTask`.
    ResetTask {
        /// Whose error is forgotten.
        task: TaskName,
    },
    /// `PollForError`.
    PollForError {
        /// Who waits.
        task: TaskName,
    },
    /// `ReportErrorToService`.
    ReportErrorToService {
        /// Whose error it is.
        task: TaskName,
        /// Its code's number on the wire.
        code: i32,
        /// Its text.
        message: String,
    },
    /// `ReportErrorToTask`, which agents serve, not this service.
    ReportErrorToTask,
    /// `GetTaskState`.
    GetTaskState {
        /// Of whom, in order.
        tasks: Vec<TaskName>,
    },
    /// `GetJobState`.
    GetJobState {
        /// Of which job.
        job: Arc<str>,
    },
    /// `WatchTasks` and `WatchJobState`.
    WatchTasks {
        /// The version seen last; negative for none.
        version: i64,
    },
    /// `GetAliveTasks`.
    GetAliveTasks {
        /// Who asks.
        requester: TaskName,
        /// Of whom; the requester among them.
        tasks: Vec<TaskName>,
    },
    /// `WaitForAllTasks`.
    WaitForAllTasks {
        /// Who waits.
        task: TaskName,
        /// Its encoded `DeviceInfo`: concatenated, several are the encoding of all their devices.
        devices: Bytes,
    },
    /// `Barrier`.
    Barrier {
        /// The barrier.
        id: Arc<str>,
        /// Its instance.
        counter: i64,
        /// How long the first one waits for the last, in ms.
        timeout_ms: i64,
        /// Who must come; empty for all tasks.
        tasks: Vec<TaskName>,
        /// Who comes.
        source: TaskName,
    },
    /// `CancelBarrier`.
    CancelBarrier {
        /// The barrier.
        id: Arc<str>,
        /// Its instance.
        counter: i64,
    },
    /// `InsertKeyValue`, and `rondo.v1`'s update, compare-and-swap and leased keys.
    PutKeyValue {
        /// The key as asked.
        key: String,
        /// The value. If it is a blob, the driver has made it durable already.
        value: Value,
        /// When to put it.
        condition: Condition,
        /// The task with which the key dies.
        lease: Option<TaskIndex>,
    },
    /// `GetKeyValue`: waits until the key is there.
    GetKeyValue {
        /// The key as asked.
        key: String,
    },
    /// `TryGetKeyValue`.
    TryGetKeyValue {
        /// The key as asked.
        key: String,
    },
    /// `IncrementKeyValue`.
    IncrementKeyValue {
        /// The key as asked.
        key: String,
        /// By how much.
        increment: i64,
    },
    /// `GetKeyValueDir`.
    GetKeyValueDir {
        /// The directory as asked.
        directory: String,
    },
    /// `DeleteKeyValue`: the key and all under it.
    DeleteKeyValue {
        /// The key as asked.
        key: String,
    },
    /// `rondo.v1`: waits for a change of a key or of what is under it.
    WatchKeys {
        /// The key or directory as asked; "" for all.
        key: String,
        /// The revision up to which the caller knows everything; `None` brings the present keys.
        from: Option<Revision>,
    },
    /// Begins a new life (`rondo namespace reset`).
    ResetNamespace,
}

impl Method {
    /// The task for which the calling process acts, in requests that only that task's own process may
    /// make. A registration and a heartbeat say their incarnation themselves. A process that takes the
    /// place of a dead one resets the task before it registers, so anybody may reset one.
    pub(super) const fn spoken_for(&self, caller: &Caller) -> Option<TaskIndex> {
        match self {
            Self::ShutdownTask { task }
            | Self::PollForError { task }
            | Self::ReportErrorToService { task, .. }
            | Self::GetAliveTasks { requester: task, .. }
            | Self::WaitForAllTasks { task, .. }
            | Self::Barrier { source: task, .. } => Some(task.index),
            Self::CancelBarrier { .. } => caller.task,
            _ => None,
        }
    }
}

/// When a key is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// When it is not there.
    Absent,
    /// In any case.
    Always,
    /// When it is there.
    Present,
    /// When its newest change has this revision; 0 when it is not there.
    Revision(Revision),
}

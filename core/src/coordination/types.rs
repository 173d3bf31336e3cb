//! Values the service keeps and hands out.

use alloc::string::String;
use alloc::sync::Arc;
use bytes::Bytes;
use core::fmt;

use crate::ids::{Digest, Incarnation, TaskIndex};
use crate::status::{Code, Detail, Status};

/// The wire dialect a caller speaks. It decides how tasks are called in texts and what becomes of
/// a request that is meant for another life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialect {
    /// `tensorflow.CoordinationService`: tasks have a job's name.
    T,
    /// `xla.coordination.CoordinationService`: tasks are bare numbers.
    #[default]
    X,
    /// `rondo.v1`.
    Rondo,
}

/// A task as a request names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskName {
    /// Its job; `None` stands for the namespace's own, as dialect X has no other.
    pub job: Option<Arc<str>>,
    /// Its number in the job.
    pub index: TaskIndex,
}

impl TaskName {
    /// A task of the namespace's own job.
    pub const fn of(index: i32) -> Self {
        Self { job: None, index: TaskIndex::new(index) }
    }
}

/// How a task stands, as clients see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskState {
    /// Not there: never registered, still waiting for the others to register, or gone in order.
    Disconnected,
    /// There.
    Connected,
    /// In error.
    Error,
}

/// How a task stands, as the service knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Waits for the others to register.
    Registering,
    /// Takes part in the job.
    Connected,
    /// Has left in order, or was reset.
    Disconnected,
    /// In error.
    Error,
}

impl Phase {
    /// What clients are told.
    pub const fn state(self) -> TaskState {
        match self {
            Self::Registering | Self::Disconnected => TaskState::Disconnected,
            Self::Connected => TaskState::Connected,
            Self::Error => TaskState::Error,
        }
    }
}

/// A lasting error: of a task, of a barrier, or of the whole job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its code.
    pub code: Code,
    /// Its text.
    pub message: Arc<str>,
    /// Whether a task reported it.
    pub reported: bool,
    /// The task it comes from, if it is one's.
    pub source: Option<TaskIndex>,
}

impl Fault {
    /// An error the service found itself.
    pub fn new(code: Code, message: impl Into<Arc<str>>) -> Self {
        Self { code, message: message.into(), reported: false, source: None }
    }

    /// As whoever polls for errors is told.
    pub fn status(&self) -> Status {
        Status::new(self.code, String::from(&*self.message)).with([self.detail()])
    }

    pub(super) const fn detail(&self) -> Detail {
        Detail::CoordinationService { is_reported: self.reported, source: self.source }
    }
}

/// A code in the words of JAX and TensorFlow, as texts quote it.
pub(super) const fn code_name(code: Code) -> &'static str {
    match code {
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", code_name(self.code), self.message)
    }
}

/// A barrier within a life.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BarrierKey {
    /// All tasks wait here to register.
    Register,
    /// All tasks wait here to leave together.
    Shutdown,
    /// All tasks wait here for each other's devices.
    Devices,
    /// A client's own, by its id.
    Named(Arc<str>),
}

impl BarrierKey {
    /// The id that stands in texts and payloads.
    pub fn id(&self) -> &str {
        match self {
            Self::Register => "[Init]Wait_for_all_tasks_to_register",
            Self::Shutdown => "Shutdown",
            Self::Devices => "WaitForAllTasks",
            Self::Named(id) => id,
        }
    }
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Its bytes.
    Inline(Bytes),
    /// Its bytes are a blob; the driver has made that durable before.
    Blob {
        /// Names the blob.
        digest: Digest,
        /// How long it is.
        size_bytes: u64,
    },
}

impl Value {
    /// How long it is, in bytes.
    pub const fn size_bytes(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Blob { size_bytes, .. } => *size_bytes,
        }
    }

    /// The blob it is in, if it is in one.
    pub const fn blob(&self) -> Option<Digest> {
        match self {
            Self::Inline(_) => None,
            Self::Blob { digest, .. } => Some(*digest),
        }
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Inline(Bytes::from_static(text.as_bytes()))
    }
}

/// What clients are told of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// The task.
    pub index: TaskIndex,
    /// How it stands.
    pub state: TaskState,
    /// Its error, if it is in error.
    pub fault: Option<Arc<Fault>>,
    /// Its newest incarnation; 0 if it never registered.
    pub incarnation: Incarnation,
}

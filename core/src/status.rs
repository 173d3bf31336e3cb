//! How a request is refused: a gRPC code, a text for people, and what programs need beside them.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;

use crate::ids::{ServiceIncarnation, TaskIndex};

/// A gRPC status code (TensorFlow's status codes are the same numbers). OK is not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The caller gave up, or the server shuts down.
    Cancelled = 1,
    /// Of unknown kind.
    Unknown = 2,
    /// The request is wrong whatever the state.
    InvalidArgument = 3,
    /// Not done in time.
    DeadlineExceeded = 4,
    /// What the request names does not exist.
    NotFound = 5,
    /// What the request would create exists.
    AlreadyExists = 6,
    /// Not allowed.
    PermissionDenied = 7,
    /// A bound is reached.
    ResourceExhausted = 8,
    /// The request is wrong in the present state.
    FailedPrecondition = 9,
    /// Given up because of a concurrent request; retry.
    Aborted = 10,
    /// Past the valid range.
    OutOfRange = 11,
    /// Not offered here.
    Unimplemented = 12,
    /// Broken on our side.
    Internal = 13,
    /// Not now; retry.
    Unavailable = 14,
    /// Data is lost for good.
    DataLoss = 15,
    /// Who asks is not known.
    Unauthenticated = 16,
}

impl Code {
    /// Whether a refusal says nothing of what was asked for: it may be granted later, or by another.
    pub const fn is_soft(self) -> bool {
        matches!(self, Self::Unavailable | Self::Aborted | Self::Cancelled | Self::DeadlineExceeded)
    }

    /// Whether the same request may succeed later: the refusal is soft, the server had no room, or a
    /// proxy answered in its place.
    pub const fn may_pass(self) -> bool {
        self.is_soft() || matches!(self, Self::Unknown | Self::Internal | Self::ResourceExhausted)
    }

    /// Whether a failure says nothing of the call, so that nobody knows whether it arrived. A
    /// connection fails so, and a server that starts or ends.
    pub const fn is_of_connection(self) -> bool {
        matches!(self, Self::Unavailable | Self::Cancelled | Self::Unknown | Self::DeadlineExceeded)
    }

    /// The number on the wire.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The code of a number on the wire; `None` for OK and for what is no code.
    pub const fn of_number(number: i32) -> Option<Self> {
        Some(match number {
            1 => Self::Cancelled,
            2 => Self::Unknown,
            3 => Self::InvalidArgument,
            4 => Self::DeadlineExceeded,
            5 => Self::NotFound,
            6 => Self::AlreadyExists,
            7 => Self::PermissionDenied,
            8 => Self::ResourceExhausted,
            9 => Self::FailedPrecondition,
            10 => Self::Aborted,
            11 => Self::OutOfRange,
            12 => Self::Unimplemented,
            13 => Self::Internal,
            14 => Self::Unavailable,
            15 => Self::DataLoss,
            16 => Self::Unauthenticated,
            _ => return None,
        })
    }
}

/// A refusal as it leaves for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The gRPC code.
    pub code: Code,
    /// What is wrong, with the offending value, and what would be right.
    pub message: String,
    /// What programs read; most refusals have nothing of it.
    pub details: Vec<Detail>,
}

/// Something that a refusal tells a program. On the wire each is a payload of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Detail {
    /// `CoordinationServiceError`: the coordination service itself refuses, not the way to it.
    CoordinationService {
        /// Whether a task reported the error.
        is_reported: bool,
        /// The task it comes from, if any.
        source: Option<TaskIndex>,
    },
    /// `BarrierError`.
    Barrier {
        /// The barrier.
        id: Arc<str>,
        /// Its instance, from which clients take the next one.
        counter: i64,
    },
    /// `ServiceMismatchError`: the request is meant for another life of the namespace.
    ServiceMismatch {
        /// The present life.
        incarnation: ServiceIncarnation,
    },
    /// All that stands beside the refusal, encoded elsewhere and passed on.
    Encoded(Bytes),
}

impl Detail {
    /// The empty `CoordinationServiceError` of most refusals of the coordination service.
    pub const SERVICE: Self = Self::CoordinationService { is_reported: false, source: None };
}

impl Status {
    /// A status of this code and text.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Vec::new() }
    }

    /// The same with this besides.
    #[must_use]
    pub fn with(mut self, details: impl IntoIterator<Item = Detail>) -> Self {
        self.details.extend(details);
        self
    }
}

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}: {}", self.code, self.message)
    }
}

impl core::error::Error for Status {}

//! How a request is refused: a gRPC code and a text for people.

use alloc::string::String;
use core::fmt;

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
    /// The number on the wire.
    pub const fn number(self) -> i32 {
        self as i32
    }
}

/// A refusal as it leaves for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The gRPC code.
    pub code: Code,
    /// What is wrong, with the offending value, and what would be right.
    pub message: String,
}

impl Status {
    /// A status of this code and text.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}: {}", self.code, self.message)
    }
}

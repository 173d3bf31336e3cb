//! Why a call failed.

use std::fmt;

use rondo_core::exchange::message::Failure;
use rondo_core::exchange::{PeerLost, Refusal};
use rondo_core::status::Status;

/// Why a call of the exchange failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// For people, and by its code for programs.
    pub status: Status,
    /// Who is lost, if that is why.
    pub lost: Option<PeerLost>,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.status.message)
    }
}

impl std::error::Error for Error {}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self { status, lost: None }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let lost = match &refusal {
            Refusal::PeerLost(lost) => Some(lost.clone()),
            _ => None,
        };
        Self { status: refusal.into(), lost }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let lost = match &failure {
            Failure::PeerLost(lost) => Some(lost.clone()),
            Failure::Refused(_) => None,
        };
        Self { status: failure.into(), lost }
    }
}

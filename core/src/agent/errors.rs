//! Refusals of the agent itself.

use alloc::format;

use super::types::State;
use super::watching::WATCHES_MAX;
use crate::status::{Code, Status};

pub(super) fn uninitialized() -> Status {
    Status::new(Code::FailedPrecondition, "the agent is not initialized: call Initialize first")
}

/// Not possible in this state.
pub(super) fn wrong_state(what: &str, wanted: &str, found: State) -> Status {
    let found = match found {
        State::Uninitialized => "UNINITIALIZED",
        State::Disconnected => "DISCONNECTED",
        State::Running => "RUNNING",
        State::Error => "ERROR",
    };
    let text = format!("{what} needs an agent that is {wanted}; it is {found}");
    Status::new(Code::FailedPrecondition, text)
}

pub(super) fn already(what: &str) -> Status {
    Status::new(Code::FailedPrecondition, format!("{what} already"))
}

/// The task has left while something waited.
pub(super) fn left() -> Status {
    Status::new(Code::Cancelled, "the task has left the job")
}

/// There is no such watch.
pub(super) fn not_watched(key: &str) -> Status {
    Status::new(Code::NotFound, format!("the key {key:?} is not watched"))
}

/// One watch more than there may be.
pub(super) fn too_many_watches() -> Status {
    let text = format!("{WATCHES_MAX} keys are watched already, which is the bound");
    Status::new(Code::ResourceExhausted, text)
}

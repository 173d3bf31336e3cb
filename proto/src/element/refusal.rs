//! What is wrong with an element that a peer sent.

use std::fmt::Display;

use rondo_core::status::{Code, Status};

use crate::graph::GraphError;

/// The peer broke the format.
pub(super) fn broken(what: impl Display) -> Status {
    Status::new(Code::Internal, what.to_string())
}

/// The bytes are no message.
pub(super) fn malformed(error: GraphError) -> Status {
    broken(error)
}

/// The same, said of a component.
pub(super) fn of_component(index: usize, status: Status) -> Status {
    let text = format!("component {index} of the element: {}", status.message);
    Status { message: text, ..status }
}

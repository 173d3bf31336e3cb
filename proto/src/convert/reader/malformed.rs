//! Answers that are not what they should be.

use std::fmt::Display;

use bytes::{Buf, Bytes};
use prost::Message;
use rondo_core::limits::NAME_BYTES_MAX;
use rondo_core::status::{Code, Status};

/// The refusal of an answer.
pub(super) fn malformed(name: &str, what: impl Display) -> Status {
    Status::new(Code::Internal, format!("the answer {name} is malformed: {what}"))
}

/// Decodes the answer called `name`.
pub(super) fn answer<M: Message + Default>(name: &str, bytes: &Bytes) -> Result<M, Status> {
    taken(name, bytes.clone())
}

/// Decodes the answer called `name`, however its bytes lie.
pub(super) fn taken<M: Message + Default>(name: &str, bytes: impl Buf) -> Result<M, Status> {
    M::decode(bytes).map_err(|error| malformed(name, error))
}

/// A list of no more than so many.
pub(super) fn bounded<T>(
    name: &str,
    field: &str,
    items: Vec<T>,
    max: usize,
) -> Result<Vec<T>, Status> {
    if items.len() <= max {
        return Ok(items);
    }
    let found = items.len();
    Err(malformed(name, format_args!("{field} has {found} items; at most {max} are allowed")))
}

/// A name no longer than all names may be.
pub(super) fn name(message: &str, field: &str, value: String) -> Result<String, Status> {
    if value.len() <= NAME_BYTES_MAX {
        return Ok(value);
    }
    let found = value.len();
    let what = format_args!("{field} is {found} bytes long; at most {NAME_BYTES_MAX} are allowed")
        .to_string();
    Err(malformed(message, what))
}

//! Checks of single fields. Each refusal names the message, the field, the value, and what would
//! be right.

use std::fmt::Display;

use bytes::Bytes;
use prost::Message;
use rondo_core::limits::{HEARTBEAT_ITEMS_MAX, NAME_BYTES_MAX};
use rondo_core::status::{Code, Status};

/// Longest piece of a refused name that a refusal repeats, in characters.
const QUOTED_CHARS_MAX: usize = 64;

/// A field of a message, for refusals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) message: &'static str,
    pub(super) name: &'static str,
}

/// The field `name` of `message`.
pub(super) const fn field(message: &'static str, name: &'static str) -> Field {
    Field { message, name }
}

impl Field {
    /// Refuses the value found, saying what would be right.
    pub(super) fn refuse(self, found: impl Display, right: impl Display) -> Status {
        let text = format!("{}.{} is {found}; {right}", self.message, self.name);
        Status::new(Code::InvalidArgument, text)
    }

    /// A name no longer than all names may be.
    pub(super) fn name(self, value: String) -> Result<String, Status> {
        if value.len() <= NAME_BYTES_MAX {
            return Ok(value);
        }
        let start: String = value.chars().take(QUOTED_CHARS_MAX).collect();
        Err(self.refuse(
            format_args!("{} bytes long (\"{}…\")", value.len(), start.escape_debug()),
            format_args!("at most {NAME_BYTES_MAX} bytes are allowed"),
        ))
    }

    /// A name that says something.
    pub(super) fn present_name(self, value: String) -> Result<String, Status> {
        if value.is_empty() {
            return Err(self.refuse("empty", "it must name the sender, as `host:port`"));
        }
        self.name(value)
    }

    /// A list no longer than all lists may be.
    pub(super) fn items<T>(self, items: Vec<T>) -> Result<Vec<T>, Status> {
        if items.len() <= HEARTBEAT_ITEMS_MAX {
            return Ok(items);
        }
        Err(self.refuse(
            format_args!("a list of {} items", items.len()),
            format_args!("at most {HEARTBEAT_ITEMS_MAX} are allowed"),
        ))
    }

    /// Opaque bytes, bounded.
    pub(super) fn bytes(self, value: Bytes, bytes_max: usize) -> Result<Bytes, Status> {
        if value.len() <= bytes_max {
            return Ok(value);
        }
        Err(self.refuse(
            format_args!("{} bytes long", value.len()),
            format_args!("at most {bytes_max} bytes are allowed"),
        ))
    }
}

/// Decodes the message called `name`.
pub(super) fn message<M: Message + Default>(name: &str, bytes: &Bytes) -> Result<M, Status> {
    M::decode(bytes.clone()).map_err(|error| {
        let text = format!("the {} bytes received are no {name}: {error}", bytes.len());
        Status::new(Code::InvalidArgument, text)
    })
}

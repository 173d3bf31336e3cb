//! Checks of single fields. Each refusal names the message, the field, the value, and what would
//! be right.

use std::fmt::Display;

use bytes::{Buf, Bytes};
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

/// Most steps in which a message with lists is decoded: one for each key, length and value, also of messages
/// within it. Two bytes can stand for a value that takes a hundred bytes in memory.
const STEPS_MAX: usize = 1 << 20;

/// The same of a message that names all members of an exchange.
pub(super) const MEMBERS_STEPS_MAX: usize = 1 << 21;

/// The same of a message whose only long field is one value.
const FEW_STEPS_MAX: usize = 4096;

/// Decodes the message called `name`.
pub(super) fn message<M: Message + Default>(name: &str, bytes: &Bytes) -> Result<M, Status> {
    bounded(name, bytes, STEPS_MAX)
}

/// Decodes the message called `name`, which may be long and has no list.
pub(super) fn long_message<M: Message + Default>(name: &str, bytes: &Bytes) -> Result<M, Status> {
    bounded(name, bytes, FEW_STEPS_MAX)
}

/// Decodes the message called `name`, in at most so many steps.
pub(super) fn bounded<M: Message + Default>(
    name: &str,
    bytes: &Bytes,
    steps_max: usize,
) -> Result<M, Status> {
    let mut counted = Counted { bytes: bytes.clone(), left: steps_max };
    let decoded = M::decode(&mut counted);
    if counted.left == 0 {
        let text = format!(
            "{name} of {} bytes holds too many fields: it takes more than {steps_max} steps to decode",
            bytes.len()
        );
        return Err(Status::new(Code::ResourceExhausted, text));
    }
    decoded.map_err(|error| {
        let text = format!("the {} bytes received are no {name}: {error}", bytes.len());
        Status::new(Code::InvalidArgument, text)
    })
}

/// Bytes that end after so many steps: the decoder takes a step for each key, length and value.
struct Counted {
    bytes: Bytes,
    left: usize,
}

impl Buf for Counted {
    fn remaining(&self) -> usize {
        if self.left == 0 { 0 } else { self.bytes.remaining() }
    }

    fn chunk(&self) -> &[u8] {
        if self.left == 0 { &[] } else { self.bytes.chunk() }
    }

    fn advance(&mut self, count: usize) {
        self.left = self.left.saturating_sub(1);
        self.bytes.advance(count);
    }

    // Within a value the decoder trusts what remained when the value began.
    fn get_u8(&mut self) -> u8 {
        match self.bytes.has_remaining() {
            true => self.bytes.get_u8(),
            false => 0,
        }
    }

    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        self.left = self.left.saturating_sub(1);
        self.bytes.copy_to_bytes(length)
    }
}

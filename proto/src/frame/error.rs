//! Why bytes are no records, and the walk over raw bytes that names an unknown kind.

use std::fmt::Display;

/// Why bytes are no records, or no part of a snapshot, that this release can read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// No protobuf message.
    #[error("not a rondo.journal.v1.{message}: {reason}")]
    Malformed {
        /// The message expected.
        message: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A later release wrote it.
    #[error(
        "kind {machine}.{kind} at index {index} is not known to this release: use the release that \
         wrote it, or a later one"
    )]
    UnknownKind {
        /// Index among the group's records, from 0; 0 for a part.
        index: usize,
        /// The machine's field number.
        machine: u32,
        /// The kind's field number within the machine; 0 when there is none.
        kind: u32,
    },
    /// A field without which the message makes no sense.
    #[error("the field {field} is missing")]
    Missing {
        /// Message and field.
        field: &'static str,
    },
    /// A value that no release writes.
    #[error("{field} is {value}; {right}")]
    Value {
        /// Message and field, or the value's type.
        field: &'static str,
        /// What stands there.
        value: String,
        /// What would be right.
        right: &'static str,
    },
}

impl FrameError {
    /// Whether a later release wrote the bytes: they are whole.
    pub const fn is_of_later_release(&self) -> bool {
        matches!(self, Self::UnknownKind { .. })
    }
}

/// Bytes that are not the message expected.
pub(super) fn malformed(message: &'static str, error: &prost::DecodeError) -> FrameError {
    FrameError::Malformed { message, reason: error.to_string() }
}

/// A value that no release writes.
pub(super) fn wrong(field: &'static str, value: impl Display, right: &'static str) -> FrameError {
    FrameError::Value { field, value: value.to_string(), right }
}

/// The value of a field that must be there.
pub(super) fn required<T>(field: &'static str, value: Option<T>) -> Result<T, FrameError> {
    value.ok_or(FrameError::Missing { field })
}

/// Says what kind an entry, decoded without one, is of.
pub(super) fn unknown_kind(index: usize, entry: &[u8]) -> FrameError {
    let Some((machine, record)) = submessages(entry).next() else {
        return FrameError::Missing { field: "machine" };
    };
    let kind = submessages(record).next().map_or(0, |(kind, _)| kind);
    FrameError::UnknownKind { index, machine, kind }
}

/// The submessages of a message, as field number and bytes, up to the first field that is none.
pub(super) fn submessages(mut rest: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    const LENGTH_DELIMITED: usize = 2;
    std::iter::from_fn(move || {
        let key = prost::decode_length_delimiter(&mut rest).ok()?;
        let length = prost::decode_length_delimiter(&mut rest).ok()?;
        let (bytes, after) = rest.split_at_checked(length)?;
        rest = after;
        let number = u32::try_from(key >> 3).ok()?;
        (key & 7 == LENGTH_DELIMITED).then_some((number, bytes))
    })
}

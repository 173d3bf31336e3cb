//! How many parts a long header has: decoded, each takes many times the memory of its bytes, so they are
//! counted first.

use bytes::{Buf, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use rondo_core::status::{Code, Status};

/// Shorter headers cannot have too many parts.
const SHORT_BYTES: usize = 64 << 10;
/// Lists' items, texts and messages in one header: those of a membership of as many processes as there may
/// be, with several addresses each.
const ITEMS_MAX: usize = 1 << 19;

/// A message that has lists of messages in it.
#[derive(Clone, Copy)]
enum Within {
    Frame,
    Register,
    Assigned,
    Membership,
    Known,
    Traces,
    /// One whose parts have no lists.
    Flat,
}

impl Within {
    /// The message in this field, if that is to be looked into.
    const fn field(self, tag: u32) -> Option<Self> {
        match (self, tag) {
            (Self::Frame, 10) => Some(Self::Register),
            (Self::Frame, 15) => Some(Self::Assigned),
            (Self::Frame, 16) | (Self::Register, 8) | (Self::Assigned, 3) => Some(Self::Membership),
            (Self::Frame, 23) => Some(Self::Known),
            (Self::Frame, 24) => Some(Self::Traces),
            (Self::Frame, _) | (Self::Membership, 3) | (Self::Known, 2) | (Self::Traces, 4) => {
                Some(Self::Flat)
            }
            _ => None,
        }
    }
}

/// Refuses a header of too many parts.
///
/// # Errors
/// RESOURCE_EXHAUSTED, naming the bound.
pub(super) fn check(header: &Bytes) -> Result<(), Status> {
    if header.len() <= SHORT_BYTES {
        return Ok(());
    }
    let mut left = ITEMS_MAX;
    // What is malformed is refused where it is decoded.
    if count(header.clone(), Within::Frame, &mut left).is_some() || left > 0 {
        return Ok(());
    }
    let text = format!(
        "the ExchangeFrame of {} bytes has more than {ITEMS_MAX} items, texts and messages, the most that \
         are allowed",
        header.len()
    );
    Err(Status::new(Code::ResourceExhausted, text))
}

/// Takes the parts of a message off `left`. `None` if it is malformed, or none are left.
fn count(mut bytes: Bytes, within: Within, left: &mut usize) -> Option<()> {
    while bytes.has_remaining() {
        let (tag, wire) = decode_key(&mut bytes).ok()?;
        if wire != WireType::LengthDelimited {
            skip_field(wire, tag, &mut bytes, DecodeContext::default()).ok()?;
            continue;
        }
        *left = left.checked_sub(1)?;
        let length = usize::try_from(decode_varint(&mut bytes).ok()?).ok()?;
        if length > bytes.len() {
            return None;
        }
        let part = bytes.split_to(length);
        if let Some(within) = within.field(tag) {
            count(part, within, left)?;
        }
    }
    Some(())
}

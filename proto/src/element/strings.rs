//! Tensors of strings.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use rondo_core::element::{Shape, Tensor};
use rondo_core::status::{Code, Status};

use super::budget::Budget;
use super::refusal::{broken, malformed};
use crate::graph::wire::{Message, put_varint};

const STRING_VAL: u64 = 8;
/// Memory for where a string ends.
const END_BYTES: u64 = size_of::<u32>() as u64;

/// Reads the strings of a `TensorProto` from its content, or else from its `string_val`.
pub(super) fn read(
    owner: &Bytes,
    proto: Message<'_>,
    content: &[u8],
    shape: Shape,
    budget: &mut Budget,
) -> Result<Tensor, Status> {
    if shape.elements() == 0 {
        return tensor(shape, Bytes::new(), Vec::new());
    }
    if content.is_empty() {
        return from_list(proto, shape, budget);
    }
    from_content(owner, content, shape, budget)
}

/// All lengths, then all bytes.
fn from_content(
    owner: &Bytes,
    content: &[u8],
    shape: Shape,
    budget: &mut Budget,
) -> Result<Tensor, Status> {
    let strings = shape.elements();
    if strings > content.len() as u64 {
        let found = content.len();
        return Err(broken(format_args!(
            "{found} bytes cannot hold the lengths of {strings} strings"
        )));
    }
    let mut rest = content;
    let bytes = budget.take(strings.saturating_mul(END_BYTES))?;
    let mut lengths = Vec::with_capacity(bytes / size_of::<u32>());
    let mut ends = Ends::new(&mut lengths);
    for index in 0..strings {
        let length = prost::decode_length_delimiter(&mut rest);
        let length = length.map_err(|error| {
            broken(format_args!("the length of string {index} cannot be read: {error}"))
        })?;
        ends.push(length as u64)?;
    }
    let (needed, found) = (ends.end, rest.remaining());
    if u64::from(needed) != found as u64 {
        return Err(broken(format_args!(
            "its strings have {needed} bytes by their lengths, but {found} bytes follow"
        )));
    }
    tensor(shape, owner.slice_ref(rest), lengths)
}

/// Strings that a message may leave out: each takes time, however short the message is.
const REPEATED_MAX: usize = 1 << 16;

/// One after the other; what is missing repeats the last one, or is empty if there is none.
fn from_list(proto: Message<'_>, shape: Shape, budget: &mut Budget) -> Result<Tensor, Status> {
    let strings = budget.take(shape.elements().saturating_mul(END_BYTES))? / size_of::<u32>();
    let (mut ends, mut bytes) = (Vec::with_capacity(strings), Vec::new());
    let mut counted = Ends::new(&mut ends);
    let mut last: &[u8] = &[];
    for string in proto.chunks(STRING_VAL).take(strings) {
        last = string.map_err(malformed)?.bytes;
        budget.take(last.len() as u64)?;
        counted.push(last.len() as u64)?;
        bytes.extend_from_slice(last);
    }
    let missing = strings.saturating_sub(counted.ends.len());
    if missing > REPEATED_MAX {
        let found = strings.saturating_sub(missing);
        let text = format!(
            "its shape has {strings} strings, and the message has {found}: at most {REPEATED_MAX} may repeat \
             the last one"
        );
        return Err(Status::new(Code::ResourceExhausted, text));
    }
    budget.take((missing as u64).saturating_mul(last.len() as u64))?;
    for _ in 0..missing {
        counted.push(last.len() as u64)?;
        bytes.extend_from_slice(last);
    }
    tensor(shape, bytes.into(), ends)
}

fn tensor(shape: Shape, bytes: Bytes, ends: Vec<u32>) -> Result<Tensor, Status> {
    Tensor::strings(shape, bytes, Arc::from(ends)).map_err(broken)
}

/// Where strings end, from their lengths.
pub(super) struct Ends<'a> {
    ends: &'a mut Vec<u32>,
    end: u32,
}

impl<'a> Ends<'a> {
    /// Of strings that follow each other, from byte 0 on.
    pub(super) const fn new(ends: &'a mut Vec<u32>) -> Self {
        Self { ends, end: 0 }
    }

    /// A string of this many bytes.
    pub(super) fn push(&mut self, length: u64) -> Result<(), Status> {
        let end = u32::try_from(length).ok().and_then(|length| self.end.checked_add(length));
        self.end = end.ok_or_else(|| {
            let end = u64::from(self.end).saturating_add(length);
            broken(format_args!(
                "its strings have {end} bytes or more; at most {} can be",
                u32::MAX
            ))
        })?;
        self.ends.push(self.end);
        Ok(())
    }
}

/// The lengths of strings with these ends, each as a varint.
pub(super) fn encode_lengths(ends: &[u32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(ends.len());
    for length in lengths(ends) {
        put_varint(&mut out, length);
    }
    out
}

/// The lengths of strings with these ends.
pub(super) fn lengths(ends: &[u32]) -> impl Iterator<Item = u64> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends).map(|(from, to)| u64::from(to.saturating_sub(from)))
}

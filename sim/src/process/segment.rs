//! Frames in a segment's bytes: one behind the other at multiples of 8 bytes.

use bytes::Bytes;
use rondo_core::ids::Lsn;
use rondo_core::journal::GroupHeader;
use rondo_proto::frame::{decode, peek};

const ALIGNMENT: usize = 8;
/// Where segments lie.
pub(super) const DIR: &str = "journal";

/// A stretch of a segment: a frame's end, its header and payload, or why it is none.
pub(super) struct Stretch {
    /// Where it begins.
    pub(super) offset: usize,
    /// Where the next one begins.
    pub(super) end: usize,
    /// The group, or what is wrong.
    pub(super) group: Result<(GroupHeader, Bytes), String>,
}

/// The length of a frame with the zeros behind it.
pub(super) const fn aligned(len: usize) -> usize {
    len.next_multiple_of(ALIGNMENT)
}

/// The path of the segment that begins with a record.
pub(super) fn path(first: Lsn) -> String {
    format!("{DIR}/{:020}", first.get())
}

/// The record that a segment of this name begins with.
pub(super) fn first_of(name: &str) -> Option<Lsn> {
    name.parse().ok().map(Lsn::new)
}

/// All stretches, in order; zeros up to the end are none.
pub(super) fn scan(segment: &Bytes) -> Vec<Stretch> {
    let used = segment.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let mut found = Vec::new();
    let mut offset = 0;
    while offset < used {
        let stretch = stretch_at(segment, offset, used);
        offset = stretch.end;
        found.push(stretch);
    }
    found
}

fn stretch_at(segment: &Bytes, offset: usize, used: usize) -> Stretch {
    let rest = segment.slice(offset..);
    match peek(&rest) {
        Ok(peek) => {
            let frame = rest.slice(..peek.frame_len.min(rest.len()));
            let end = offset.saturating_add(aligned(peek.frame_len));
            Stretch { offset, end, group: decode(&frame).map_err(|error| error.to_string()) }
        }
        Err(error) => {
            let mut later = (offset.saturating_add(ALIGNMENT)..used).step_by(ALIGNMENT);
            let next = later.find(|at| peek(&segment.slice(*at..)).is_ok());
            let end = next.unwrap_or_else(|| aligned(used));
            Stretch { offset, end, group: Err(error.to_string()) }
        }
    }
}

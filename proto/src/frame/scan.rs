//! Finds the frames that lie one behind the other in a segment's bytes, also behind damage.

use super::envelope::{FRAME_HEADER_BYTES, header, peek};
use bytes::Bytes;
use rondo_core::journal::GroupHeader;

/// Frames begin at multiples of this many bytes.
pub const FRAME_ALIGNMENT: usize = 8;

/// One stretch of a segment: a frame, or damage between frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Where it begins.
    pub offset: usize,
    /// Where the next one begins.
    pub end: usize,
    /// The frame and what it says of itself, or why the bytes are none. A later release may have written it.
    pub frame: Result<(GroupHeader, Bytes), String>,
}

/// The length of a frame with the zeros behind it.
pub const fn aligned(len: usize) -> usize {
    len.next_multiple_of(FRAME_ALIGNMENT)
}

/// Finds all stretches, in order. Zeros up to the end are what was set aside and not yet used.
pub fn scan(segment: &Bytes) -> Vec<Stretch> {
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

/// The stretch that begins at `offset`, the last byte that is not zero being before `used`.
fn stretch_at(segment: &Bytes, offset: usize, used: usize) -> Stretch {
    let rest = segment.slice(offset..);
    let Err(error) = peek(&rest) else {
        return frame_at(&rest, offset);
    };
    let end = next_header(segment, offset).unwrap_or_else(|| aligned(used));
    let reason = if rest.iter().take(FRAME_HEADER_BYTES).all(|byte| *byte == 0) {
        "zeros where a frame should be".into()
    } else {
        error.to_string()
    };
    let reason = format!("{reason} (the {} bytes up to offset {end} are no frame)", end - offset);
    Stretch { offset, end, frame: Err(reason) }
}

/// The frame that `rest` begins with, its header being good.
fn frame_at(rest: &Bytes, offset: usize) -> Stretch {
    let len = peek(rest).map_or(0, |peek| peek.frame_len);
    let frame = rest.slice(..len.min(rest.len()));
    let frame = header(&frame).map_err(|error| error.to_string()).map(|header| (header, frame));
    Stretch { offset, end: offset.saturating_add(aligned(len)), frame }
}

/// The first place behind `offset` with a good header.
fn next_header(segment: &Bytes, offset: usize) -> Option<usize> {
    let later = (offset.saturating_add(FRAME_ALIGNMENT)..segment.len()).step_by(FRAME_ALIGNMENT);
    later.into_iter().find(|at| segment.get(*at..).is_some_and(|bytes| peek(bytes).is_ok()))
}

#[cfg(test)]
mod tests {
    use super::super::encode;
    use super::*;
    use proptest::prelude::*;
    use rondo_core::ids::Lsn;

    /// A frame of one record at `first`, with zeros behind it.
    fn frame(first: u64, payload: &[u8]) -> Vec<u8> {
        let durable_upto = Lsn::new(first - 1);
        let header = GroupHeader { first: Lsn::new(first), count: 1, durable_upto };
        let mut bytes = encode(&header, payload).unwrap().to_vec();
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

    fn firsts(segment: &[u8]) -> Vec<Option<u64>> {
        let found = scan(&Bytes::copy_from_slice(segment));
        found.into_iter().map(|s| s.frame.ok().map(|(header, _)| header.first.get())).collect()
    }

    #[test]
    fn zeros_are_the_end() {
        assert!(firsts(&[]).is_empty());
        assert!(firsts(&[0; 100]).is_empty());
        let segment = [frame(1, b"one"), frame(2, b"two"), vec![0; 4096]].concat();
        assert_eq!(firsts(&segment), [Some(1), Some(2)]);
    }

    #[test]
    fn a_group_that_never_reached_the_disk_shows_as_zeros() {
        let missing = vec![0; frame(2, b"two").len()];
        let segment = [frame(1, b"one"), missing, frame(3, b"three")].concat();
        assert_eq!(firsts(&segment), [Some(1), None, Some(3)]);
        let found = scan(&segment.into());
        assert!(found[1].frame.as_ref().unwrap_err().contains("zeros"), "{found:?}");
    }

    #[test]
    fn headers_inside_a_payload_are_not_taken_for_frames() {
        let inner = frame(9, b"someone's journal");
        let mut damaged = frame(1, &inner);
        *damaged.last_mut().unwrap() ^= 1;
        let segment = [damaged, frame(2, b"two")].concat();
        assert_eq!(firsts(&segment), [None, Some(2)]);
    }

    proptest! {
        #[test]
        fn one_flipped_bit_costs_one_frame(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..6),
            at: prop::sample::Index,
        ) {
            let frames: Vec<_> = (1..).zip(&payloads).map(|(n, bytes)| frame(n, bytes)).collect();
            let mut segment = frames.concat();
            let bit = at.index(segment.len() * 8);
            segment[bit / 8] ^= 1 << (bit % 8);
            let found = scan(&Bytes::from(segment.clone()));
            let mut start = 0;
            let mut next = found.iter();
            for (n, frame) in (1..).zip(&frames) {
                let hit = (start..start + frame.len()).contains(&(bit / 8));
                let pad = bit / 8 >= start + 48 + payloads[n as usize - 1].len();
                start += frame.len();
                let stretch = next.next().unwrap();
                if hit && !pad {
                    prop_assert!(stretch.frame.is_err());
                } else {
                    prop_assert_eq!(stretch.frame.as_ref().unwrap().0.first, Lsn::new(n));
                }
            }
            prop_assert!(next.next().is_none());
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            let found = scan(&Bytes::from(bytes.clone()));
            prop_assert!(found.windows(2).all(|pair| pair[0].end == pair[1].offset));
            let end = found.last().map_or(0, |last| last.end);
            prop_assert!(bytes.iter().skip(end).all(|byte| *byte == 0));
        }
    }
}

//! Answers put together: from the pieces in which a connection brings them, over as many connections as
//! it takes.

use bytes::{Buf, Bytes};
use rondo_core::limits::ELEMENT_BYTES_MAX;
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{FetchChunk, content_of_received_tensor};
use rondo_proto::pieces::Pieces;

use crate::tensor::BufferBuilder;

/// Bytes of an answer in which everything stands that is before its values.
const HEAD_BYTES: usize = 4 << 10;

/// What has come of an answer.
#[derive(Debug, Default)]
pub(super) struct Partial {
    /// Bytes of the whole answer; `None` before it is known.
    total: Option<u64>,
    came: Came,
}

#[derive(Debug, Default)]
enum Came {
    #[default]
    Nothing,
    /// All of it in one piece, where it was read.
    Whole(Bytes),
    Some(BufferBuilder),
}

impl Partial {
    /// Bytes that came.
    pub(super) fn len(&self) -> u64 {
        match &self.came {
            Came::Nothing => 0,
            Came::Whole(bytes) => bytes.len() as u64,
            Came::Some(builder) => builder.len() as u64,
        }
    }

    /// Bytes of the whole answer, as far as that is known.
    pub(super) fn total(&self) -> u64 {
        self.total.unwrap_or(0)
    }

    /// Forgets what came, but not how long the answer is.
    pub(super) fn forget(&mut self) {
        self.came = Came::Nothing;
    }

    /// Whether all is there.
    pub(super) fn is_whole(&self) -> bool {
        self.total == Some(self.len())
    }

    /// Adds a piece.
    ///
    /// # Errors
    /// INTERNAL for one that is not the next of this answer.
    pub(super) fn push(&mut self, chunk: FetchChunk<Pieces>) -> Result<(), Status> {
        let (offset, here) = (chunk.offset, self.len());
        if chunk.total_bytes > 0 && self.total.is_some_and(|total| total != chunk.total_bytes) {
            let (before, now) = (self.total(), chunk.total_bytes);
            return Err(broken(format!("it had {before} bytes when it began, and has {now} now")));
        }
        let total = match (self.total, chunk.total_bytes) {
            (Some(total), _) => total,
            (None, 1..=ELEMENT_BYTES_MAX) => chunk.total_bytes,
            (None, total) => {
                let text = format!("it has {total} bytes; 1 to {ELEMENT_BYTES_MAX} can be");
                return Err(broken(text));
            }
        };
        let left = total.saturating_sub(here);
        if offset != here || chunk.data.len() as u64 > left || chunk.data.is_empty() {
            let length = chunk.data.len();
            return Err(broken(format!(
                "a piece of {length} bytes comes from {offset} on; {left} are left from {here} on"
            )));
        }
        self.total = Some(total);
        self.add(total, chunk.data);
        Ok(())
    }

    fn add(&mut self, total: u64, mut data: Pieces) {
        let length = data.len();
        if matches!(self.came, Came::Nothing) {
            if length as u64 == total && data.chunk().len() == length {
                self.came = Came::Whole(data.join());
                return;
            }
            self.came = Came::Some(builder(total, &data));
        }
        if let Came::Some(builder) = &mut self.came {
            while data.has_remaining() {
                builder.extend(data.chunk());
                data.advance(data.chunk().len());
            }
        }
    }

    /// The answer.
    pub(super) fn finish(self) -> Bytes {
        match self.came {
            Came::Nothing => Bytes::new(),
            Came::Whole(bytes) => bytes,
            Came::Some(builder) => builder.finish(),
        }
    }
}

/// Memory for an answer that begins so, in which its values will be aligned.
fn builder(total: u64, begin: &Pieces) -> BufferBuilder {
    let head = begin.clone().split_to(HEAD_BYTES).join();
    let aligned = content_of_received_tensor(&head).unwrap_or(0);
    BufferBuilder::with_capacity(usize::try_from(total).unwrap_or(0), aligned)
}

/// An answer that came in one message, in one piece. It is copied, so that its values are aligned, if
/// it came in several.
pub(super) fn joined(message: Pieces) -> Bytes {
    let mut all = Partial::default();
    all.add(message.len() as u64, message);
    all.finish()
}

fn broken(what: String) -> Status {
    Status::new(Code::Internal, format!("the answer to Fetch is broken: {what}"))
}

#[cfg(test)]
#[cfg(not(madsim))]
mod tests {
    use super::*;
    use crate::tensor::{ALIGNMENT, HostBuffer};
    use rondo_core::element::{Dtype, Shape, Tensor};
    use rondo_proto::convert::{ReceivedTensor, decode_received_tensor, encode_received_tensor};

    fn answer() -> (ReceivedTensor, Bytes) {
        let values: Vec<u8> = (0..40_000_u32).map(|at| at as u8).collect();
        let tensor = Tensor::fixed(Dtype::Uint8, Shape::list(40_000).unwrap(), values.into());
        let answer = ReceivedTensor {
            tensor: tensor.unwrap(),
            is_dead: false,
            send_start_micros: 0,
            require_ack: false,
        };
        let bytes = encode_received_tensor(&answer).unwrap().join();
        (answer, bytes)
    }

    fn chunk(total_bytes: u64, offset: u64, data: Bytes) -> FetchChunk<Pieces> {
        FetchChunk { total_bytes, offset, data: data.into() }
    }

    #[test]
    fn an_answer_in_pieces_is_the_answer_and_its_values_are_aligned() {
        let (expected, bytes) = answer();
        for length in [1, 50, 9_000, 39_999] {
            let mut partial = Partial::default();
            for (index, piece) in bytes.chunks(length).enumerate() {
                assert!(!partial.is_whole());
                let total = if index == 0 { bytes.len() as u64 } else { 0 };
                let offset = (index * length) as u64;
                partial.push(chunk(total, offset, Bytes::copy_from_slice(piece))).unwrap();
            }
            assert!(partial.is_whole());
            let found = decode_received_tensor(&partial.finish(), 0).unwrap();
            assert!(found == expected, "pieces of {length}");
            let is_aligned = HostBuffer::of(&found.tensor).is_aligned_to(ALIGNMENT);
            assert!(is_aligned || length < 20, "pieces of {length}: its head came in several");
        }
    }

    #[test]
    fn an_answer_in_one_piece_stays_where_it_is() {
        let (_, bytes) = answer();
        let mut partial = Partial::default();
        partial.push(chunk(bytes.len() as u64, 0, bytes.clone())).unwrap();
        assert_eq!(partial.finish().as_ptr(), bytes.as_ptr());
        assert_eq!(joined(bytes.clone().into()).as_ptr(), bytes.as_ptr());
    }

    #[test]
    fn what_does_not_follow_is_refused() {
        let piece = || Bytes::from_static(&[1; 10]);
        let begun = || {
            let mut partial = Partial::default();
            partial.push(chunk(30, 0, piece())).unwrap();
            partial
        };
        for (total, offset, data) in [
            (0, 9, piece()),
            (0, 11, piece()),
            (29, 10, piece()),
            (30, 10, Bytes::new()),
            (0, 10, Bytes::from_static(&[1; 21])),
        ] {
            let refused = begun().push(chunk(total, offset, data)).unwrap_err();
            assert_eq!(refused.code, Code::Internal, "{refused}");
        }
        for total in [0, ELEMENT_BYTES_MAX + 1, u64::MAX] {
            Partial::default().push(chunk(total, 0, piece())).unwrap_err();
        }
    }
}

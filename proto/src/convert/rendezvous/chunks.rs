//! Pieces of an answer to Fetch: `FetchChunk`.

use bytes::Bytes;
use prost::encoding::decode_varint;
use rondo_core::status::{Code, Status};

use super::content_of_received_tensor;
use crate::graph::wire::{Field, Message, Value, chunk_header, put_varint};
use crate::pieces::Pieces;

const NAME: &str = "FetchChunk";
/// Its fields.
const TOTAL_BYTES: u64 = 1;
const OFFSET: u64 = 2;
const DATA: u64 = 3;
/// Bytes that they take at most, but for the data.
const HEAD_BYTES_MAX: usize = 33;

/// A piece of an answer; `D` is its bytes, in one piece or several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchChunk<D> {
    /// Bytes of the whole answer, in the first piece of a stream; 0 in others.
    pub total_bytes: u64,
    /// The place of the piece in it.
    pub offset: u64,
    /// The piece.
    pub data: D,
}

/// Encodes `FetchChunk`. What is long is not copied.
pub fn encode_fetch_chunk(chunk: FetchChunk<Pieces>) -> Pieces {
    let mut head = Vec::new();
    for (field, value) in [(TOTAL_BYTES, chunk.total_bytes), (OFFSET, chunk.offset)] {
        if value != 0 {
            put_varint(&mut head, field << 3);
            put_varint(&mut head, value);
        }
    }
    head.extend(chunk_header(DATA, chunk.data.len()));
    let mut message = Pieces::with_capacity(head.len());
    message.push_slice(&head);
    message.append(chunk.data);
    message
}

/// Decodes `FetchChunk`, whose data is a slice of `bytes`.
///
/// # Errors
/// INTERNAL for what is none.
pub fn decode_fetch_chunk(bytes: &Bytes) -> Result<FetchChunk<Bytes>, Status> {
    let mut chunk = FetchChunk::default();
    for field in Message::root(bytes, NAME).fields() {
        match field.map_err(|error| Status::new(Code::Internal, error.to_string()))? {
            Field { number: TOTAL_BYTES, value: Value::Varint(total), .. } => {
                chunk.total_bytes = total;
            }
            Field { number: OFFSET, value: Value::Varint(offset), .. } => chunk.offset = offset,
            Field { number: DATA, value: Value::Chunk(data), .. } => {
                chunk.data = bytes.slice_ref(data.bytes);
            }
            _ => {}
        }
    }
    Ok(chunk)
}

/// As [`decode_fetch_chunk`], of a message that lies in pieces: they are not put together if the data
/// stand last, as they do where we encode. Of a message whose end is missing it is what there is of the
/// data.
///
/// # Errors
/// As [`decode_fetch_chunk`].
pub fn decode_fetch_chunk_in_pieces(message: Pieces) -> Result<FetchChunk<Pieces>, Status> {
    let head = message.clone().split_to(HEAD_BYTES_MAX).join();
    if let Some((chunk, start)) = head_of(&head, message.len()) {
        let mut data = message;
        drop(data.split_to(start));
        return Ok(FetchChunk { data, ..chunk });
    }
    let chunk = decode_fetch_chunk(&message.join())?;
    let FetchChunk { total_bytes, offset, data } = chunk;
    Ok(FetchChunk { total_bytes, offset, data: data.into() })
}

/// Where the values of the tensor begin in the first piece of an answer, seen from the first bytes of an
/// encoded `FetchChunk`; `None` for another piece, and if those bytes do not show it.
pub fn content_of_fetch_chunk(begin: &[u8]) -> Option<usize> {
    let (chunk, _, start) = before_data(begin)?;
    let answer = begin.get(start..).filter(|_| chunk.offset == 0)?;
    start.checked_add(content_of_received_tensor(answer)?)
}

/// What stands before the data, and where they begin, if nothing stands behind them.
fn head_of(head: &[u8], length: usize) -> Option<(FetchChunk<Pieces>, usize)> {
    let (chunk, data, start) = before_data(head)?;
    let is_last = data >= length.saturating_sub(start) as u64;
    is_last.then_some((chunk, start))
}

/// What stands before the data, how long these are, and where they begin.
fn before_data(head: &[u8]) -> Option<(FetchChunk<Pieces>, u64, usize)> {
    let mut chunk = FetchChunk::default();
    let mut rest = head;
    loop {
        let tag = decode_varint(&mut rest).ok()?;
        let value = decode_varint(&mut rest).ok()?;
        match (tag >> 3, tag & 7) {
            (TOTAL_BYTES, 0) => chunk.total_bytes = value,
            (OFFSET, 0) => chunk.offset = value,
            (DATA, 2) => return Some((chunk, value, head.len().saturating_sub(rest.len()))),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin as wire;
    use prost::Message as _;

    #[test]
    fn the_values_are_found_in_front_and_what_is_there_of_a_chunk_is_taken() {
        let values = Bytes::from(vec![9; 5000]);
        let shape = rondo_core::element::Shape::list(5000).unwrap();
        let tensor = rondo_core::element::Tensor::fixed(
            rondo_core::element::Dtype::Uint8,
            shape,
            values.clone(),
        );
        let answer = super::super::ReceivedTensor {
            tensor: tensor.unwrap(),
            is_dead: false,
            send_start_micros: 0,
            require_ack: false,
        };
        let data = super::super::encode_received_tensor(&answer).unwrap();
        let total_bytes = data.len() as u64;
        let first = encode_fetch_chunk(FetchChunk { total_bytes, offset: 0, data: data.clone() });
        let first = first.join();
        let found = content_of_fetch_chunk(&first[..100]).unwrap();
        assert_eq!(first[found..], values[..]);
        assert_eq!(content_of_fetch_chunk(&first[..5]), None);
        let later = encode_fetch_chunk(FetchChunk { total_bytes, offset: 7, data: data.clone() });
        assert_eq!(content_of_fetch_chunk(&later.join()), None);
        for length in [50, 1000, first.len() - 1] {
            let begun = decode_fetch_chunk_in_pieces(first.slice(..length).into()).unwrap();
            let there = begun.data.len();
            assert_eq!(there, length + data.len() - first.len());
            assert!(begun.data.join() == data.clone().join()[..there]);
        }
    }

    #[test]
    fn a_chunk_in_pieces_is_the_message_as_any_client_reads_it() {
        let long = Bytes::from(vec![7; 100_000]);
        for (total_bytes, offset, data) in [
            (0, 0, vec![]),
            (300, 0, vec![Bytes::from_static(b"short")]),
            (u64::MAX, 1 << 40, vec![Bytes::from_static(b"short"), long]),
        ] {
            let plain = wire::FetchChunk { total_bytes, offset, data: data.concat().into() };
            let data = data.into_iter().collect();
            let encoded = encode_fetch_chunk(FetchChunk { total_bytes, offset, data }).join();
            assert_eq!(wire::FetchChunk::decode(encoded.clone()), Ok(plain.clone()));
            let expected = FetchChunk { total_bytes, offset, data: plain.data };
            assert_eq!(decode_fetch_chunk(&encoded), Ok(expected.clone()));
            let FetchChunk { total_bytes, offset, data } = expected;
            let expected = FetchChunk { total_bytes, offset, data: data.into() };
            let pieces = encoded.chunks(5000).map(Bytes::copy_from_slice).collect();
            assert_eq!(decode_fetch_chunk_in_pieces(pieces), Ok(expected));
        }
        let other_order = Bytes::from_static(&[26, 1, 7, 16, 5]);
        let found = decode_fetch_chunk_in_pieces(other_order.into()).unwrap();
        assert_eq!((found.offset, found.data.join().as_ref()), (5, &[7][..]));
        let refused = decode_fetch_chunk(&Bytes::from_static(&[26, 5, 1])).unwrap_err();
        assert_eq!(refused.code, Code::Internal);
    }
}

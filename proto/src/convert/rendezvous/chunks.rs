//! Pieces of an answer to Fetch: `FetchChunk`.

use bytes::Bytes;
use rondo_core::status::{Code, Status};

use crate::graph::wire::{Field, Message, Value, chunk_header, put_varint};
use crate::pieces::Pieces;

const NAME: &str = "FetchChunk";
/// Its fields.
const TOTAL_BYTES: u64 = 1;
const OFFSET: u64 = 2;
const DATA: u64 = 3;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin as wire;
    use prost::Message as _;

    #[test]
    fn a_chunk_in_pieces_is_the_message_as_any_client_reads_it() {
        let long = Bytes::from(vec![7; 100_000]);
        for (total_bytes, offset, data) in [
            (0, 0, vec![]),
            (300, 0, vec![Bytes::from_static(b"short")]),
            (u64::MAX, 1 << 40, vec![Bytes::from_static(b"short"), long.clone()]),
        ] {
            let plain = wire::FetchChunk { total_bytes, offset, data: data.concat().into() };
            let data = data.into_iter().collect();
            let encoded = encode_fetch_chunk(FetchChunk { total_bytes, offset, data }).join();
            assert_eq!(wire::FetchChunk::decode(encoded.clone()), Ok(plain.clone()));
            let expected = FetchChunk { total_bytes, offset, data: plain.data };
            assert_eq!(decode_fetch_chunk(&encoded), Ok(expected));
        }
        let refused = decode_fetch_chunk(&Bytes::from_static(&[26, 5, 1])).unwrap_err();
        assert_eq!(refused.code, Code::Internal);
    }
}

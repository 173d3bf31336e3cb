//! Writes a tensor as a `TensorProto`, byte for byte as TensorFlow's workers send it to each other. What
//! is long of its values is not copied.

use bytes::Bytes;
use rondo_core::element::{Shape, Tensor, Values};
use rondo_core::status::{Code, Status};

use super::strings::encode_lengths;
use super::write::head;
use crate::graph::wire::{chunk_header, put_varint};
use crate::pieces::Pieces;

/// Fields of `TensorProto`, of `TensorShapeProto`, and of its `Dim`.
const DTYPE: u64 = 1;
const SHAPE: u64 = 2;
const CONTENT: u64 = 4;
const DIM: u64 = 2;
const SIZE: u64 = 1;

/// Encodes a `TensorProto`.
///
/// # Errors
/// UNIMPLEMENTED for variants and resources, which mean nothing elsewhere.
pub fn encode_tensor(tensor: &Tensor) -> Result<Pieces, Status> {
    match tensor.values() {
        Values::Fixed(bytes) => Ok(fixed(tensor, bytes)),
        Values::Strings { bytes, ends } => Ok(strings(tensor, bytes, ends)),
        Values::Encoded(_) => {
            let dtype = tensor.dtype();
            let text = format!("a tensor of {dtype} cannot be sent to another worker");
            Err(Status::new(Code::Unimplemented, text))
        }
    }
}

/// TensorFlow writes these by hand: a scalar has no shape, a size of 0 is written, and so is a content
/// without bytes.
fn fixed(tensor: &Tensor, values: &Bytes) -> Pieces {
    let mut head = Vec::new();
    put_number(&mut head, DTYPE, u64::from(tensor.dtype().number().unsigned_abs()));
    let dims = dims(tensor.shape());
    if !dims.is_empty() {
        head.extend(chunk_header(SHAPE, dims.len()));
        head.extend(dims);
    }
    head.extend(chunk_header(CONTENT, values.len()));
    joined(&head, values)
}

fn dims(shape: &Shape) -> Vec<u8> {
    let mut dims = Vec::new();
    for size in shape.sizes() {
        let mut dim = Vec::new();
        put_number(&mut dim, SIZE, *size);
        dims.extend(chunk_header(DIM, dim.len()));
        dims.extend(dim);
    }
    dims
}

/// A field of wire type 0.
fn put_number(out: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(out, field << 3);
    put_varint(out, value);
}

/// TensorFlow leaves these to protobuf: a scalar has an empty shape, and what is 0 or empty is left out.
fn strings(tensor: &Tensor, bytes: &Bytes, ends: &[u32]) -> Pieces {
    joined(&head(tensor, &encode_lengths(ends), bytes.len()), bytes)
}

fn joined(head: &[u8], values: &Bytes) -> Pieces {
    let mut pieces = Pieces::with_capacity(head.len());
    pieces.push_slice(head);
    pieces.push(values.clone());
    pieces
}

//! Writes elements uncompressed. Their values are copied once, into the message that leaves.

use bytes::Bytes;
use prost::Message;
use rondo_core::element::{Dtype, Element, Tensor, Values};
use rondo_core::status::{Code, Status};

use super::check_size;
use super::described::encode_shape;
use super::strings::encode_lengths;
use crate::graph::wire::chunk_header;
use crate::tf;

/// Fields that lead to a component, from the outside in: `GetElementResponse.uncompressed`,
/// `UncompressedElement.components`, `TensorProto.tensor_content`.
const UNCOMPRESSED: u64 = 5;
const COMPONENTS: u64 = 1;
const CONTENT: u64 = 4;

/// A `TensorProto` in pieces: what describes the values, and the values.
struct Pieces<'a> {
    head: Vec<u8>,
    values: &'a [u8],
}

impl Pieces<'_> {
    const fn len(&self) -> usize {
        self.head.len().saturating_add(self.values.len())
    }
}

/// The element as a `GetElementResponse`, if a message can be so long.
pub(super) fn answer(element: &Element) -> Result<Bytes, Status> {
    check_lone(element)?;
    let components: Vec<_> = element.components.iter().map(pieces).collect();
    let headers: Vec<_> =
        components.iter().map(|piece| chunk_header(COMPONENTS, piece.len())).collect();
    let sizes = components.iter().zip(&headers).map(|(piece, header)| piece.len() + header.len());
    let size = sizes.fold(0, usize::saturating_add);
    let start = chunk_header(UNCOMPRESSED, size);
    let whole = start.len().saturating_add(size);
    check_size(whole)?;
    let mut out = Vec::with_capacity(whole);
    out.extend_from_slice(&start);
    for (piece, header) in components.iter().zip(&headers) {
        out.extend_from_slice(header);
        out.extend_from_slice(&piece.head);
        out.extend_from_slice(piece.values);
    }
    Ok(out.into())
}

/// TensorFlow takes a lone scalar variant for a compressed element.
fn check_lone(element: &Element) -> Result<(), Status> {
    match element.components.as_slice() {
        [only] if only.dtype() == Dtype::Variant && only.shape().sizes().is_empty() => {
            let text = "an element of nothing but one scalar variant (a ragged tensor or an \
                        optional) cannot be sent uncompressed; compress it, or put it in a tuple \
                        with another component";
            Err(Status::new(Code::FailedPrecondition, text))
        }
        _ => Ok(()),
    }
}

fn pieces(tensor: &Tensor) -> Pieces<'_> {
    let (lengths, values): (_, &[u8]) = match tensor.values() {
        Values::Encoded(proto) => return Pieces { head: Vec::new(), values: proto },
        Values::Fixed(bytes) => (Vec::new(), bytes),
        Values::Strings { bytes, ends } => (encode_lengths(ends), bytes),
    };
    Pieces { head: head(tensor, &lengths, values.len()), values }
}

/// What stands before the values in a `TensorProto`, as protobuf writes it: of strings their lengths too.
pub(super) fn head(tensor: &Tensor, lengths: &[u8], values: usize) -> Vec<u8> {
    let described = tf::TensorProto {
        dtype: tensor.dtype().number(),
        tensor_shape: Some(encode_shape(tensor.shape())),
        ..Default::default()
    };
    let mut head = described.encode_to_vec();
    let size = lengths.len().saturating_add(values);
    if size > 0 {
        head.extend(chunk_header(CONTENT, size));
        head.extend(lengths);
    }
    head
}

//! Elements on the wire: uncompressed, compressed, and the structure they stand in.
//!
//! They come from a peer, so nothing is believed: each length is checked against the bytes there
//! are, and memory is taken only within what the caller allows. Read in place; values are slices of
//! the message (or of the decompressed block) wherever they stand in it as they stand in memory.

mod budget;
mod compressed;
mod described;
mod pieces;
mod plain;
mod refusal;
mod spec;
mod spec_encoding;
mod strings;
mod typed;
mod write;

use bytes::Bytes;
use prost::Message as _;
use rondo_core::element::{Element, Tensor};
use rondo_core::limits::ELEMENT_BYTES_MAX;
use rondo_core::status::{Code, Status};

use self::budget::Budget;
use crate::graph::wire::Message;
use crate::tf::data as wire;

pub use self::compressed::COMPRESSIBLE_BYTES_MAX;
pub use self::pieces::encode_tensor;
pub use self::spec::decode_spec;
pub use self::spec_encoding::encode_spec;

/// Decodes a `TensorProto`. A tensor of variants or resources is kept as it came.
///
/// # Errors
/// INTERNAL for what is no tensor, RESOURCE_EXHAUSTED for one that takes more than `bytes_max`
/// bytes of memory beside the message.
pub fn decode_tensor(proto: &Bytes, bytes_max: u64) -> Result<Tensor, Status> {
    let message = Message::root(proto, "TensorProto");
    plain::read_tensor(proto, message, &mut Budget::new(bytes_max))
}

/// Decodes an `UncompressedElement` that lies in `owner`.
pub(crate) fn uncompressed(
    owner: &Bytes,
    element: Message<'_>,
    bytes_max: u64,
) -> Result<Element, Status> {
    plain::read(owner, element, &mut Budget::new(bytes_max))
}

/// Decodes a `CompressedElement`.
pub(crate) fn compressed(element: Message<'_>, bytes_max: u64) -> Result<Element, Status> {
    compressed::read(element, &mut Budget::new(bytes_max))
}

/// Encodes a `GetElementResponse` with the element as it is.
///
/// # Errors
/// FAILED_PRECONDITION for a lone scalar variant, which clients would misread; RESOURCE_EXHAUSTED
/// for an element longer than a message can be.
pub fn encode_uncompressed(element: &Element) -> Result<Bytes, Status> {
    write::answer(element)
}

/// Encodes a `GetElementResponse` with the element compressed by snappy.
///
/// # Errors
/// OUT_OF_RANGE for an element of 4 GiB or more, RESOURCE_EXHAUSTED for one that is longer than a
/// message can be even compressed.
pub fn encode_compressed(element: &Element) -> Result<Bytes, Status> {
    use wire::get_element_response::Element as Form;
    let element = Some(Form::Compressed(compressed::encode(element)?));
    let answer = wire::GetElementResponse { element, ..Default::default() };
    check_size(answer.encoded_len())?;
    Ok(answer.encode_to_vec().into())
}

/// Whether a message may have so many bytes; nothing is allocated for one that may not.
fn check_size(size: usize) -> Result<(), Status> {
    if size as u64 <= ELEMENT_BYTES_MAX {
        return Ok(());
    }
    let text = format!("an element takes {size} bytes; a message has at most {ELEMENT_BYTES_MAX}");
    Err(Status::new(Code::ResourceExhausted, text))
}

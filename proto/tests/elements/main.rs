//! Elements, tensors and specs on the wire, against what TensorFlow 2.21 wrote and read
//! (`generate.py`), and against arbitrary bytes. That TensorFlow reads them is a test of the whole.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

mod arbitrary;
mod bounds;
mod broken;
mod cases;
mod recorded;
mod requests;
mod specs;
mod tensors;

use bytes::Bytes;
use rondo_core::element::{Dtype, Element, Tensor, Values};
use rondo_proto::convert::{ElementAnswer, decode_element_answer};

use cases::{described, recorded, text, unhex};

/// Enough for every element here.
const BYTES_MAX: u64 = 1 << 20;

/// The type, shape and values, without bits that mean nothing.
fn meaning(tensor: &Tensor) -> (Dtype, Vec<u64>, Vec<Bytes>) {
    let mask = match tensor.dtype() {
        Dtype::Int4 | Dtype::Uint4 | Dtype::Float4E2m1fn => 0x0f,
        Dtype::Int2 | Dtype::Uint2 => 0x03,
        _ => 0xff,
    };
    let values = match tensor.values() {
        Values::Strings { .. } => tensor.each_string().collect(),
        Values::Fixed(bytes) | Values::Encoded(bytes) => {
            vec![bytes.iter().map(|byte| byte & mask).collect()]
        }
    };
    (tensor.dtype(), tensor.shape().sizes().to_vec(), values)
}

/// The element in an answer.
fn element(answer: &Bytes) -> Element {
    match decode_element_answer(answer, BYTES_MAX).unwrap() {
        ElementAnswer::Element(element) => element,
        other => panic!("{other:?}"),
    }
}

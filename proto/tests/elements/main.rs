//! Elements, tensors and specs on the wire, against what TensorFlow 2.21 wrote and read
//! (`generate.py`), against arbitrary bytes, and read by TensorFlow itself.

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
mod recorded;
mod requests;
mod specs;
mod tensorflow;
mod tensors;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::element::{Dtype, Element, Shape, Tensor, Values};
use rondo_proto::convert::{ElementAnswer, decode_element_answer};
use serde_json::Value;

/// Enough for every element here.
const BYTES_MAX: u64 = 1 << 20;

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/elements"))
}

/// What was recorded in this file.
fn recorded(file: &str) -> Value {
    let text = fs::read_to_string(folder().join("recorded").join(file)).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn unhex(text: &Value) -> Bytes {
    let digits = text.as_str().unwrap().as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The tensor described, made without a decoder.
fn described(tensor: &Value) -> Tensor {
    let sizes = tensor["shape"].as_array().unwrap().iter().map(|size| size.as_i64().unwrap());
    let shape = Shape::of(sizes).unwrap();
    let dtype =
        Dtype::of_number(i32::try_from(tensor["dtype"].as_i64().unwrap()).unwrap()).unwrap();
    if dtype != Dtype::String {
        return Tensor::fixed(dtype, shape, unhex(&tensor["bytes"])).unwrap();
    }
    let strings: Vec<Bytes> = tensor["strings"].as_array().unwrap().iter().map(unhex).collect();
    text(shape, &strings)
}

/// A tensor of these strings.
fn text(shape: Shape, strings: &[impl AsRef<[u8]>]) -> Tensor {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for string in strings {
        bytes.extend_from_slice(string.as_ref());
        ends.push(u32::try_from(bytes.len()).unwrap());
    }
    Tensor::strings(shape, bytes.into(), Arc::from(ends)).unwrap()
}

/// The type, shape and values, without bits that mean nothing.
fn meaning(tensor: &Tensor) -> (Dtype, Vec<u64>, Vec<Bytes>) {
    let mask = match tensor.dtype() {
        Dtype::Int4 | Dtype::Uint4 => 0x0f,
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

//! Elements that TensorFlow wrote, with what is in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::element::{Dtype, Shape, Tensor};
use serde_json::Value;

/// Where they lie, also for the test of another crate.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/tests/elements")
}

/// What was recorded in this file.
pub(crate) fn recorded(file: &str) -> Value {
    let text = fs::read_to_string(folder().join("recorded").join(file)).unwrap();
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn unhex(text: &Value) -> Bytes {
    let digits = text.as_str().unwrap().as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The tensor described, made without a decoder.
pub(crate) fn described(tensor: &Value) -> Tensor {
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
pub(crate) fn text(shape: Shape, strings: &[impl AsRef<[u8]>]) -> Tensor {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for string in strings {
        bytes.extend_from_slice(string.as_ref());
        ends.push(u32::try_from(bytes.len()).unwrap());
    }
    Tensor::strings(shape, bytes.into(), Arc::from(ends)).unwrap()
}

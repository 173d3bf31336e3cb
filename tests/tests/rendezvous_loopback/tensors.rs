//! Tensors of all types, and of many shapes.

use std::sync::Arc;

use rondo_core::element::{Dtype, Shape, Tensor};

/// A tensor of this type and shape, whose values are no others'.
pub(crate) fn fixed(dtype: Dtype, sizes: &[i64], seed: u8) -> Tensor {
    let shape = Shape::of(sizes.iter().copied()).unwrap();
    let length = shape.elements() * dtype.width().unwrap();
    let bits = if dtype == Dtype::Bool { 1 } else { 255 };
    let bytes = (0..length).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed) & bits);
    Tensor::fixed(dtype, shape, bytes.collect::<Vec<u8>>().into()).unwrap()
}

pub(crate) fn strings(sizes: &[i64], all: &[&[u8]]) -> Tensor {
    let mut ends = Vec::new();
    for text in all {
        ends.push(ends.last().unwrap_or(&0) + text.len() as u32);
    }
    let shape = Shape::of(sizes.iter().copied()).unwrap();
    Tensor::strings(shape, all.concat().into(), Arc::from(ends)).unwrap()
}

/// One of each type that can be sent, in each of several shapes.
pub(crate) fn all() -> Vec<Tensor> {
    let shapes: [&[i64]; 7] =
        [&[], &[1], &[0], &[0, 3], &[2, 3, 4], &[1000], &[1, 1, 1, 1, 1, 1, 1, 1, 5]];
    let widths = Dtype::ALL.iter().filter(|dtype| dtype.width().is_some());
    let mut all: Vec<Tensor> = widths
        .flat_map(|dtype| shapes.map(|sizes| fixed(*dtype, sizes, dtype.number() as u8)))
        .collect();
    let long = vec![b'x'; 100_000];
    all.extend([
        strings(&[], &[b"one"]),
        strings(&[], &[b""]),
        strings(&[0], &[]),
        strings(&[2, 2], &[b"a", b"", &[0, 255], b"long enough"]),
        strings(&[2], &[&long, b"end"]),
    ]);
    all
}

/// A tensor of so many bytes.
pub(crate) fn of_bytes(bytes: usize) -> Tensor {
    fixed(Dtype::Float, &[bytes as i64 / 4], 3)
}

//! Tensors of every type, as they are described to the programs in `tests/python`.

use std::sync::Arc;

use rondo_core::element::{Dtype, Shape, Tensor, Values};
use serde_json::{Value, json};

use crate::peer::hex;

/// A tensor, and how it is described.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The tensor.
    pub tensor: Tensor,
    seed: usize,
}

impl Sample {
    /// Values of a type that has a width; another seed gives others.
    ///
    /// # Panics
    /// When there is no such tensor.
    pub fn fixed(dtype: Dtype, sizes: &[i64], seed: usize) -> Self {
        let shape = Shape::of(sizes.iter().copied()).expect("a shape");
        let width = dtype.width().expect("a width");
        let mut bytes = pattern(usize::try_from(shape.elements() * width).expect("it fits"), seed);
        if dtype == Dtype::Bool {
            bytes.iter_mut().for_each(|byte| *byte &= 1);
        }
        Self { tensor: Tensor::fixed(dtype, shape, bytes.into()).expect("as many"), seed }
    }

    /// As many bytes of UINT8.
    pub fn bytes(size: usize, seed: usize) -> Self {
        Self::fixed(Dtype::Uint8, &[i64::try_from(size).expect("it fits")], seed)
    }

    /// Strings.
    ///
    /// # Panics
    /// When they are not as many as the shape has places.
    pub fn strings(sizes: &[i64], all: &[&[u8]]) -> Self {
        let mut ends = Vec::new();
        for text in all {
            ends.push(ends.last().unwrap_or(&0) + u32::try_from(text.len()).expect("it is short"));
        }
        let shape = Shape::of(sizes.iter().copied()).expect("a shape");
        let tensor = Tensor::strings(shape, all.concat().into(), Arc::from(ends));
        Self { tensor: tensor.expect("as many"), seed: 0 }
    }

    /// All that may be encoded in a way of its own: every type, and the shapes and sizes at which
    /// something changes.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for (seed, dtype) in Dtype::ALL.iter().enumerate().filter(|(_, it)| it.width().is_some()) {
            let shapes: [&[i64]; 4] = [&[], &[0, 3], &[2, 3], &[1, 7, 1, 5, 1, 1, 1, 1, 1]];
            all.extend(shapes.map(|sizes| Self::fixed(*dtype, sizes, seed)));
        }
        let sizes = [0, 1, 127, 128, 1000, 1023, 1024, 1025, 16_383, 16_384, 100_000];
        all.extend(sizes.map(|size| Self::bytes(size, size)));
        let long = vec![b'x'; 1200];
        let strings: [(&[i64], &[&[u8]]); 6] = [
            (&[], &[b"one"]),
            (&[], &[b""]),
            (&[0], &[]),
            (&[2, 0], &[]),
            (&[2, 2], &[b"", b"\xff\x00", b"", b"last"]),
            (&[2], &[b"", &long]),
        ];
        all.extend(strings.map(|(sizes, strings)| Self::strings(sizes, strings)));
        all
    }

    /// What a graph is told that sends it along an edge.
    pub fn sent(&self, edge: &str) -> Value {
        let mut sent =
            json!({"edge": edge, "dtype": self.dtype(), "shape": self.tensor.shape().sizes()});
        match self.tensor.values() {
            Values::Fixed(bytes) => {
                sent["bytes"] = bytes.len().into();
                sent["seed"] = self.seed.into();
            }
            Values::Strings { .. } => {
                sent["strings"] = self.tensor.each_string().map(|text| hex(&text)).collect();
            }
            Values::Encoded(_) => unreachable!("there is no such sample"),
        }
        sent
    }

    /// The same as of a branch that was not taken.
    pub fn sent_dead(&self, edge: &str) -> Value {
        let mut sent = self.sent(edge);
        sent["dead"] = true.into();
        sent
    }

    /// The number of its type.
    pub fn dtype(&self) -> i32 {
        self.tensor.dtype().number()
    }
}

/// The bytes that `rendezvous_graphs.py` fills a tensor with.
fn pattern(size: usize, seed: usize) -> Vec<u8> {
    (0..size).map(|place| (place * 131 + place / 251 + seed).to_le_bytes()[0]).collect()
}

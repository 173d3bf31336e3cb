//! Tensors: a type, a shape, and as many values.

use alloc::sync::Arc;
use bytes::Bytes;
use thiserror::Error;

use super::{Dtype, Shape};

/// Why values are not those of a tensor of its type and shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TensorError {
    /// The bytes are not as many as the values take.
    #[error("{found} bytes were found for {elements} values of {dtype}, which take {needed}")]
    Size {
        /// The values' type.
        dtype: Dtype,
        /// How many values there should be.
        elements: u64,
        /// How many bytes those take.
        needed: u64,
        /// How many there are.
        found: u64,
    },
    /// The strings are not as many as the shape has places.
    #[error("{found} strings were found for {elements} places")]
    Strings {
        /// Places in the shape.
        elements: u64,
        /// Strings there are.
        found: u64,
    },
    /// The strings' ends do not grow up to the end of their bytes.
    #[error("a string ends at byte {end}, between {from} and {to} there are bytes for it")]
    StringEnd {
        /// Where it should end.
        end: u32,
        /// Where it begins.
        from: u32,
        /// Where the bytes end.
        to: u64,
    },
    /// A truth value that is neither.
    #[error("a bool is the byte {value}; it must be 0 or 1")]
    Bool {
        /// The byte.
        value: u8,
    },
    /// The values are of another kind than the type's.
    #[error("values of {dtype} cannot be given so")]
    Kind {
        /// The type.
        dtype: Dtype,
    },
}

/// The values of a tensor, in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Of a type that has a width: one after the other, little endian, at no particular alignment.
    Fixed(Bytes),
    /// Strings: all their bytes one after the other, and where each of them ends.
    Strings {
        /// The bytes.
        bytes: Bytes,
        /// The ends, growing.
        ends: Arc<[u32]>,
    },
    /// Variants and resources: the serialized `tensorflow.TensorProto` of the whole tensor.
    Encoded(Bytes),
}

/// A tensor. Its values fit its type and shape; they are shared when it is cloned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    dtype: Dtype,
    shape: Shape,
    values: Values,
}

impl Tensor {
    /// A tensor of a type that has a width, from its values' bytes.
    ///
    /// # Errors
    /// When the bytes are not as many as the values take, or a bool is neither 0 nor 1.
    pub fn fixed(dtype: Dtype, shape: Shape, bytes: Bytes) -> Result<Self, TensorError> {
        let width = dtype.width().ok_or(TensorError::Kind { dtype })?;
        let (elements, found) = (shape.elements(), bytes.len() as u64);
        let needed = elements.saturating_mul(width);
        if found != needed {
            return Err(TensorError::Size { dtype, elements, needed, found });
        }
        if dtype == Dtype::Bool
            && let Some(value) = bytes.iter().copied().find(|value| *value > 1)
        {
            return Err(TensorError::Bool { value });
        }
        Ok(Self { dtype, shape, values: Values::Fixed(bytes) })
    }

    /// A tensor of strings, from their bytes one after the other and where each of them ends.
    ///
    /// # Errors
    /// When there are not as many as the shape has places, or the ends are not those of pieces of
    /// the bytes that follow each other up to the end.
    pub fn strings(shape: Shape, bytes: Bytes, ends: Arc<[u32]>) -> Result<Self, TensorError> {
        let (elements, found) = (shape.elements(), ends.len() as u64);
        if found != elements {
            return Err(TensorError::Strings { elements, found });
        }
        let (mut from, to) = (0, bytes.len() as u64);
        for &end in ends.iter() {
            if end < from || u64::from(end) > to {
                return Err(TensorError::StringEnd { end, from, to });
            }
            from = end;
        }
        if u64::from(from) != to {
            return Err(TensorError::StringEnd { end: from, from, to });
        }
        Ok(Self { dtype: Dtype::String, shape, values: Values::Strings { bytes, ends } })
    }

    /// A tensor of variants or resources, from the serialized `TensorProto` that holds it.
    ///
    /// # Errors
    /// For any other type.
    pub fn encoded(dtype: Dtype, shape: Shape, proto: Bytes) -> Result<Self, TensorError> {
        if !matches!(dtype, Dtype::Variant | Dtype::Resource) {
            return Err(TensorError::Kind { dtype });
        }
        Ok(Self { dtype, shape, values: Values::Encoded(proto) })
    }

    /// The values' type.
    pub const fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The shape.
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The values.
    pub const fn values(&self) -> &Values {
        &self.values
    }

    /// Each string; nothing if the values are no strings.
    pub fn each_string(&self) -> impl Iterator<Item = Bytes> {
        let (bytes, ends) = match &self.values {
            Values::Strings { bytes, ends } => (bytes.clone(), &ends[..]),
            Values::Fixed(_) | Values::Encoded(_) => (Bytes::new(), &[][..]),
        };
        let starts = core::iter::once(0).chain(ends.iter().copied());
        // The ends were checked when the tensor was made.
        starts.zip(ends).map(move |(from, to)| bytes.slice(from as usize..*to as usize))
    }

    /// Bytes of memory that the tensor takes beside its values: for where its strings end, and for its shape.
    pub fn layout_bytes(&self) -> u64 {
        let ends = match &self.values {
            Values::Strings { ends, .. } => size_of_val(&**ends),
            Values::Fixed(_) | Values::Encoded(_) => 0,
        };
        (ends as u64).saturating_add(size_of_val(self.shape.sizes()) as u64)
    }

    /// Bytes of the values.
    pub fn size_bytes(&self) -> u64 {
        match &self.values {
            Values::Fixed(bytes) | Values::Encoded(bytes) | Values::Strings { bytes, .. } => {
                bytes.len() as u64
            }
        }
    }
}

//! Shapes: of tensors, whose sizes are all known, and of specs, whose need not be.

use alloc::boxed::Box;
use alloc::vec::Vec;
use thiserror::Error;

use crate::limits::TENSOR_RANK_MAX;

/// Why sizes are no shape of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ShapeError {
    /// More dimensions than a tensor has.
    #[error("it has {rank} dimensions; at most {TENSOR_RANK_MAX} are allowed")]
    TooManyDimensions {
        /// Their number.
        rank: usize,
    },
    /// A size below zero (-1 in a spec: unknown).
    #[error("dimension {dimension} is {size}; a tensor's sizes are 0 or more")]
    Negative {
        /// Which, from 0 on.
        dimension: usize,
        /// Its size.
        size: i64,
    },
    /// More values than can be counted.
    #[error("it has more than {} elements", i64::MAX)]
    TooLarge,
}

/// The sizes of a tensor; none for a scalar. Their product is no more than `i64::MAX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    sizes: Box<[u64]>,
    elements: u64,
}

impl Shape {
    /// The shape of a single value.
    pub fn scalar() -> Self {
        Self { sizes: Box::default(), elements: 1 }
    }

    /// The shape of a list of this many values.
    ///
    /// # Errors
    /// When there are more than `i64::MAX`.
    pub fn list(length: u64) -> Result<Self, ShapeError> {
        let size = i64::try_from(length).map_err(|_| ShapeError::TooLarge)?;
        Self::of([size])
    }

    /// The shape of these sizes, as they stand on the wire.
    ///
    /// # Errors
    /// When there are too many, one is negative, or their product is too large.
    pub fn of(sizes: impl IntoIterator<Item = i64>) -> Result<Self, ShapeError> {
        let (mut kept, mut elements) = (Vec::new(), 1_i64);
        for size in sizes {
            let dimension = kept.len();
            if dimension >= TENSOR_RANK_MAX {
                return Err(ShapeError::TooManyDimensions { rank: dimension.saturating_add(1) });
            }
            let negative = ShapeError::Negative { dimension, size };
            kept.push(u64::try_from(size).map_err(|_| negative)?);
            elements = elements.checked_mul(size).ok_or(ShapeError::TooLarge)?;
        }
        Ok(Self { sizes: kept.into(), elements: elements.unsigned_abs() })
    }

    /// The sizes, from the outermost to the innermost.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// How many values there are.
    pub const fn elements(&self) -> u64 {
        self.elements
    }
}

/// What is known of the sizes of tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartialShape {
    /// Not even how many there are.
    UnknownRank,
    /// Each size, or `None` where it differs from tensor to tensor.
    Sizes(Vec<Option<u64>>),
}

impl PartialShape {
    /// Whether a tensor of this shape is meant.
    pub fn includes(&self, shape: &Shape) -> bool {
        let Self::Sizes(wanted) = self else {
            return true;
        };
        let fits = |(wanted, size): (&Option<u64>, &u64)| wanted.is_none_or(|it| it == *size);
        wanted.len() == shape.sizes.len() && wanted.iter().zip(&shape.sizes).all(fits)
    }
}

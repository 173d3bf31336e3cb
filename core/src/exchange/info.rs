//! What is known of a tensor without its bytes: the type of its values, its shape, its size.

use alloc::vec::Vec;
use core::fmt;

use thiserror::Error;

use super::scalar::ScalarType;

/// Dimensions that a tensor has at most.
pub const DIMENSIONS_MAX: usize = 8;

/// Why something describes no tensor.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InfoError {
    /// No type of torch has this number.
    #[error(
        "scalar type {0} is none of torch's (0 to {max})",
        max = ScalarType::ALL.len().saturating_sub(1)
    )]
    ScalarType(i32),
    /// There are too many dimensions.
    #[error("a tensor of {0} dimensions: at most {DIMENSIONS_MAX} can be exchanged")]
    Dimensions(usize),
    /// A dimension is negative.
    #[error("dimension {index} of the shape {shape:?} is negative")]
    Negative {
        /// Which dimension, from 0.
        index: usize,
        /// The whole shape.
        shape: Vec<i64>,
    },
    /// The size in bytes is more than 64 bits can say.
    #[error("a tensor of shape {shape:?} and type {dtype} has more bytes than 64 bits can count")]
    TooLarge {
        /// The whole shape.
        shape: Vec<i64>,
        /// The type of its values.
        dtype: ScalarType,
    },
}

/// The type of a tensor's values, its shape and its size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TensorInfo {
    dtype: ScalarType,
    rank: usize,
    /// Those from `rank` on are 0.
    dimensions: [i64; DIMENSIONS_MAX],
    bytes: u64,
}

impl TensorInfo {
    /// A tensor of this type and shape, row after row without gaps.
    ///
    /// # Errors
    /// What is wrong with the shape.
    pub fn new(dtype: ScalarType, shape: &[i64]) -> Result<Self, InfoError> {
        let mut dimensions = [0; DIMENSIONS_MAX];
        let rank = shape.len();
        let Some(places) = dimensions.get_mut(..rank) else {
            return Err(InfoError::Dimensions(rank));
        };
        places.copy_from_slice(shape);
        let too_large = || InfoError::TooLarge { shape: shape.to_vec(), dtype };
        let mut bytes = Some(dtype.item_bytes());
        for (index, size) in shape.iter().enumerate() {
            let negative = |_| InfoError::Negative { index, shape: shape.to_vec() };
            let size = u64::try_from(*size).map_err(negative)?;
            bytes = match size {
                // An empty tensor is of any size in its other dimensions.
                0 => Some(0),
                size => bytes.and_then(|bytes| bytes.checked_mul(size)),
            };
        }
        let is_empty = shape.contains(&0);
        let bytes = if is_empty { 0 } else { bytes.ok_or_else(too_large)? };
        Ok(Self { dtype, rank, dimensions, bytes })
    }

    /// As [`TensorInfo::new`], of the type with this number.
    ///
    /// # Errors
    /// What is wrong with the number or the shape.
    pub fn of_number(dtype: i32, shape: &[i64]) -> Result<Self, InfoError> {
        let dtype = ScalarType::of_number(dtype).ok_or(InfoError::ScalarType(dtype))?;
        Self::new(dtype, shape)
    }

    /// The type of its values.
    pub const fn dtype(&self) -> ScalarType {
        self.dtype
    }

    /// Its dimensions, the outermost first.
    pub fn shape(&self) -> &[i64] {
        self.dimensions.get(..self.rank).unwrap_or_default()
    }

    /// Its size in bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its rows (the size of the outermost dimension), and the bytes of each; a tensor without
    /// dimensions is one row.
    pub fn rows(&self) -> (u64, u64) {
        let rows = self.shape().first().map_or(1, |rows| u64::try_from(*rows).unwrap_or_default());
        (rows, self.bytes.checked_div(rows).unwrap_or_default())
    }
}

impl fmt::Display for TensorInfo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{:?} of {} bytes", self.dtype, self.shape(), self.bytes)
    }
}

impl fmt::Debug for TensorInfo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

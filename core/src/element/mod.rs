//! What a dataset yields: elements of tensors, and the structure they stand in.
//!
//! Values only: workers make them, readers hand them on, and their bytes are shared, never copied.

mod dtype;
mod shape;
mod spec;
mod tensor;

use alloc::vec::Vec;

pub use dtype::Dtype;
pub use shape::{PartialShape, Shape, ShapeError};
pub use spec::{Component, Spec, TensorSpec};
pub use tensor::{Tensor, TensorError, Values};

/// One element: its structure flattened to tensors, in the order of [`Spec::components`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// The tensors.
    pub components: Vec<Tensor>,
}

impl Element {
    /// Bytes of all values, without what describes them.
    pub fn size_bytes(&self) -> u64 {
        let sizes = self.components.iter().map(Tensor::size_bytes);
        sizes.fold(0, u64::saturating_add)
    }
}

//! Memory of tensors.

mod buffer;

pub use buffer::{ALIGNMENT, BufferBuilder, TensorBuffer};

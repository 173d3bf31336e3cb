//! Memory of tensors.

mod buffer;
mod memory;

pub use buffer::{ALIGNMENT, BufferBuilder, Room, TensorBuffer};

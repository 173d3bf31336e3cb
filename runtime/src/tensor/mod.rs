//! Memory of tensors.

mod buffer;
mod memory;
mod region;

pub use buffer::{ALIGNMENT, BufferBuilder, Room, TensorBuffer};
pub use region::Region;

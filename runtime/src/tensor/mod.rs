//! Memory of tensors.

#[cfg(not(madsim))]
pub(crate) mod arena;
mod buffer;
mod memory;
mod region;

pub use buffer::{ALIGNMENT, BufferBuilder, Room, TensorBuffer};
pub use region::Region;

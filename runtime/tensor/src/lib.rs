//! Memory of tensors: on the host, shared and aligned; on GPUs, by a driver that is loaded when it is first
//! asked for.

#![warn(missing_docs)]

#[cfg(not(madsim))]
mod buffer;
#[cfg(not(madsim))]
pub mod cuda;
mod host;
mod memory;
mod region;

#[cfg(not(madsim))]
pub use buffer::TensorBuffer;
pub use host::{ALIGNMENT, BufferBuilder, HostBuffer, Room};
pub use region::Region;

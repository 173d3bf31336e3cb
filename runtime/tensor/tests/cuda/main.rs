//! Memory on GPUs: without one, by a driver that notes what no program may do with a GPU; with one, by
//! NVIDIA's.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]
#![cfg(not(madsim))]

#[path = "../double/mod.rs"]
mod double;
#[path = "../gpu/mod.rs"]
mod gpu;

mod copies;
mod double_finds;
mod processes;
mod real;
mod real_processes;
mod refusals;
mod staging;

use rondo_tensor::Region;

/// Bytes that differ from place to place, and from seed to seed.
pub(crate) fn counted(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| ((at + seed) % 251) as u8).collect()
}

/// Host memory that is not pinned.
pub(crate) fn pageable(bytes: &[u8]) -> Region {
    let region = Region::allocate(bytes.len());
    // SAFETY: nobody else has it yet.
    unsafe { region.write(0, bytes) };
    region
}

//! Tensors on GPUs that are pushed, pulled and received into, over every way: by a driver without a GPU that
//! notes what no program may do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]
#![cfg(not(madsim))]

mod bed;
#[path = "../../tensor/tests/double/mod.rs"]
#[allow(dead_code, reason = "the double's own tests ask it more")]
mod double;
mod long;
mod refusals;
mod rounds;
mod sharing;

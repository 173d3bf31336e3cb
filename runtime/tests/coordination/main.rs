//! The coordination service over real loopback gRPC, in both dialects, with a real node behind it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]
#![cfg(not(madsim))]

mod agents;
mod barriers;
mod bounds;
mod ceiling;
mod crowds;
mod errors;
mod hostile;
mod job;
mod keys;
mod lives;
mod replaced;
mod watches;
mod world;

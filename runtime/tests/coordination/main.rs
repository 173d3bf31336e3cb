//! The coordination service over real loopback gRPC, in both dialects, with a real node behind it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![cfg(not(madsim))]

mod agents;
mod barriers;
mod bounds;
mod errors;
mod hostile;
mod keys;
mod lives;
mod replaced;
mod world;

//! The worker's machine: stories told step by step, and models that it is compared with.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]

mod caching;
mod draining;
mod first_come;
mod registration;
mod rounds;
mod tasks;
mod world;

//! The worker's machine: stories told step by step, and models that it is compared with.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]

mod caching;
#[path = "../inputs/corpora.rs"]
mod corpora;
mod course;
mod dice;
mod draining;
#[path = "../inputs/drawing.rs"]
mod drawing;
mod first_come;
mod happening;
mod histories;
mod life;
mod promises;
mod registration;
mod rounds;
mod tasks;
mod world;

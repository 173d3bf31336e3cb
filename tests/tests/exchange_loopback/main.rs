//! The exchange over real links: what is pushed, pulled, and said when it cannot be.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]

mod bed;
mod folders;
mod hanging;
mod logging;
mod losing;
mod mapping;
mod names;
mod refusals;
mod rounds;
mod tracing;

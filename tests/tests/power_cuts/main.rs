//! Every operation on real files is recorded with strace: nothing is promised before it is durable, and
//! whatever a power cut between any two operations leaves, a start over it keeps every promise.
//!
//! `RONDO_POWER_CUTS` is how many times the usual number of states is looked at, `RONDO_SEED` repeats a run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

mod driver;
mod stores;

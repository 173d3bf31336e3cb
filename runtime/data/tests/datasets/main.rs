//! Datasets over real files: planned, read by splits and as a whole, and what is wrong with them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]

mod definitions;
mod demo;
mod errors;
mod formats;
mod operands;
mod properties;
mod splits;
mod stores;
mod texts;
mod values;
mod world;

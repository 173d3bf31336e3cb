//! Coordinated reads, to the letter of `docs/round_robin.md`.
//!
//! `exhaustive` walks through every order in which consumers, workers, messages and accidents can
//! meet, up to a bound, and checks each state there is. `table` runs every row of the page's table
//! in every situation it is about.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]

mod checks;
mod consumer;
mod dispatcher;
mod exhaustive;
mod key;
mod liveness;
mod search;
mod table;
mod table_language;
mod world;

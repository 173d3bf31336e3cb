//! Strangers attack a server, a relay, a worker or an exchange, each beside a neighbour of theirs. The
//! neighbour notices nothing, memory stays bounded, and the server loses nothing that it acknowledged.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

mod attacks;
mod ceiling;
mod descriptors;
mod disk;
mod exchange;
mod families;
mod keys;
mod memory;
mod multitudes;
mod rendezvous;
mod requests;
mod tasks;
mod victims;

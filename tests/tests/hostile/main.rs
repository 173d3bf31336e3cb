//! What strangers can do to a server, a relay, a worker or an exchange, each beside a neighbour who minds its
//! own business: it must notice nothing, memory stays bounded, and nothing that was acknowledged is lost.

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
mod requests;
mod tasks;
mod victims;

//! Rendezvous over loopback: two workers in this process, real servers and clients between them, and a
//! proxy that cuts connections.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]

mod away;
mod bed;
mod bounds;
mod passing;
mod plain_peer;
mod proxy;
mod requests;
mod tensors;
mod waiting;

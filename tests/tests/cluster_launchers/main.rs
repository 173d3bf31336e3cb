//! Real launchers start `rondo cluster`, and each process knows its place as the launcher tells it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

mod components;
mod layouts;
mod mpi;
mod outside;
mod steps;

//! The reader: every record once and in order, whatever happens to workers, readers and the server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod actor;
mod consumer;
mod elements;
mod held;
mod histories;
mod rounds;
mod server;
mod splits;
mod trials;
mod votes;
mod world;

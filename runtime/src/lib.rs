//! Rondo's runtime: drives the core's machines with tokio, files and sockets. It decides nothing.

#![warn(missing_docs)]

pub mod store;
pub mod transport;

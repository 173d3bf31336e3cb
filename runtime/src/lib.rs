//! Rondo's runtime: drives the core's machines with tokio, files and sockets. It decides nothing.

#![warn(missing_docs)]

pub mod agent;
mod allocator;
#[cfg(not(madsim))]
mod arena;
mod aside;
#[cfg(not(madsim))]
pub mod cli;
pub mod clock;
pub mod config;
#[cfg(not(madsim))]
pub mod descriptors;
pub mod entropy;
#[cfg(not(madsim))]
pub mod exchange;
pub mod memory;
pub mod node;
#[cfg(not(madsim))]
pub mod reader;
pub mod relay;
pub mod rendezvous;
#[cfg(not(madsim))]
pub mod resolve;
pub mod serve;
pub mod service;
pub mod store;
pub mod transport;
mod watching;
pub mod worker;

pub use rondo_tensor as tensor;

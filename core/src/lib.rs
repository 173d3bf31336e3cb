//! Every decision Rondo makes, as pure state machines.
//!
//! Nothing here reads a clock, draws a random number, starts a thread or touches a file or a
//! socket. A driver (the `rondo` runtime, or the simulator) hands in the time and what happened,
//! and carries out the effects that come back, in order.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

pub mod agent;
pub mod cluster;
pub mod control;
pub mod coordination;
pub mod dispatcher;
pub mod element;
pub mod exchange;
pub mod ids;
pub mod invariant;
pub mod journal;
pub mod limits;
pub mod log;
pub mod memory;
pub mod reader;
pub mod relay;
pub mod rendezvous;
pub mod stamp;
pub mod status;
pub mod time;
pub mod worker;

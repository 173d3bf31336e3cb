//! Rondo under injected faults.
//!
//! A run is one seed: its configuration, its network, disks, processes and clocks, its clients and
//! their mistakes all come from named streams of decisions ([`rng`]). Oracles ([`oracle`]) watch
//! promises, not code. Tier 1 ([`world`]) drives the core with an event loop of its own; whatever
//! does not know that loop (configuration, workloads, oracles, marks, the model disk) is shared
//! with the world in which the real runtime code runs.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod call_map;
pub mod checks;
pub mod cli;
pub mod clock;
pub mod cost;
pub mod disk;
mod exchange;
pub mod fault;
mod letters;
pub mod mark;
mod named;
pub mod net;
pub mod oracle;
pub mod process;
mod queue;
pub mod regression;
mod rendezvous;
pub mod rng;
#[cfg(madsim)]
pub mod shell;
pub mod shrink;
pub mod swarm;
pub mod tier;
pub mod trace;
mod turns;
pub mod watch;
pub mod workload;
pub mod world;

//! Tier 2, the shell world: the real runtime over a simulated network and the model disk.
//!
//! One machine runs the server as `rondo serve` does: listener, services, node loop, journal over
//! the `segment` store, pushes, shutdown. Everybody else is an actor of tier 1 that speaks encoded
//! messages on connections which break, hang and repeat. The oracles are those of tier 1, and one
//! more: callers are told what the node said (`wire`).

mod book;
mod calls;
mod cast;
mod control;
mod decode;
mod disk;
mod encode;
mod ending;
mod graph;
mod lack;
mod read;
mod run;
mod trouble;
mod world;

pub use self::run::run;

//! The control-plane node: owns the machines, gives out journal positions, and holds every reply
//! back until what it depends on is durable.

mod effect;
mod invariants;
mod node;
mod recovery;

pub use effect::{
    Config, Deadline, Effect, Effects, Event, Input, Part, Record, Reply, Request, Timer,
};
pub(crate) use invariants::NODE_INVARIANTS;
pub use node::{Durability, Health, NO_UPDATES, Node};
pub use recovery::{Recovered, Recovery};

//! The exchange: workers push tensors to all servers and pull others from them; a server takes one
//! unit of each worker at a time and answers them; a scheduler knows who takes part.
//!
//! What each call does is what StepMesh's does, and differs where that waits for ever, overwrites what
//! is still read, or never frees:
//!
//! - Who is gone is noticed, and those who need it are told, within a bounded time.
//! - A process may leave, and return as another run of itself: memberships have versions.
//! - A key is pushed again when the server is done with what was pushed before.
//! - A connection that breaks and returns loses nothing and repeats nothing.
//! - A unit is answered once. What is kept of it is freed when the worker has its answer.
//! - Everything is bounded.

mod alignment;
mod clock;
mod config;
mod ids;
mod info;
mod invariants;
pub mod member;
pub mod membership;
pub mod message;
mod passage;
mod refusal;
mod role;
mod scalar;
pub mod scheduler;
pub mod server;
mod stamps;
pub mod worker;

pub use alignment::{Aligned, Measured, align};
pub use clock::Offset;
pub use config::{Config, Policy};
pub use ids::{
    BarrierNumber, Handler, InstanceIndex, InstanceRank, Key, MembershipVersion, NodeId,
    RequestNumber, ServerRank, TraceNumber, UnitHandler, WorkerRank,
};
pub use info::{DIMENSIONS_MAX, InfoError, TensorInfo};
pub use invariants::{check_server, check_worker};
#[cfg(test)]
pub(crate) use invariants::{of_server, of_worker};
pub use passage::{Leg, PASSAGES_PER_PAGE_MAX, Page, Passage, Traces};
pub use refusal::{PeerLost, Refusal, Side};
pub use role::{Mask, Role};
pub use scalar::ScalarType;
pub use stamps::{Point, STAMPS, Stamps};

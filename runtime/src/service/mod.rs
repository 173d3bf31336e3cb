//! What is offered on the wire: paths and bytes in, requests to the node and their answers out.
//! Decoding and encoding happen here, on the connections' tasks, never in the node's loop.

mod admin;
mod askers;
mod callers;
mod coordination;
mod directories;
mod dispatcher;
pub(crate) mod health;
#[cfg(test)]
mod node_double;
mod node_port;
mod relay;
mod router;
mod splits;
mod task_lists;
mod values;

pub use admin::{AdminService, ServerInfo};
pub use coordination::CoordinationService;
pub use dispatcher::DispatcherService;
pub use health::HealthService;
pub use node_port::{JournalStatus, NodePort, NodeSlot};
pub use relay::RelayService;
pub use router::Router;
pub use splits::SplitsService;

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

use rondo_core::status::{Code, Status};

pub use admin::{AdminService, ServerInfo};
pub use coordination::CoordinationService;
pub use dispatcher::DispatcherService;
pub use health::HealthService;
pub use node_port::{JournalStatus, NodePort, NodeSlot};
pub use relay::RelayService;
pub use router::Router;
pub use splits::SplitsService;

/// Requests up to this size are decoded on the connection's task, in bytes; longer ones, which take
/// milliseconds, beside it.
const DECODED_INLINE_BYTES_MAX: usize = 16 << 10;

/// Longest request of a service whose requests hold a few names, in bytes.
const SHORT_BYTES_MAX: usize = 64 << 10;

/// Refuses a request that is longer than any that makes sense, before it is decoded.
fn check_short(path: &str, message: &[u8]) -> Result<(), Status> {
    if message.len() <= SHORT_BYTES_MAX {
        return Ok(());
    }
    let text = format!(
        "the request to {path} is {} bytes long; at most {SHORT_BYTES_MAX} bytes are allowed",
        message.len()
    );
    Err(Status::new(Code::ResourceExhausted, text))
}

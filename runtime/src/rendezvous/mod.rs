//! The rendezvous of a worker's steps, as a process has it: the core's machine behind a lock, what it
//! asks of others, and the service by which others ask it.
//!
//! It is not of the control plane: nothing of it is durable, and a producer is answered at once, on its
//! own thread (see `docs/decisions/0009-rendezvous-behind-a-lock.md`).

mod acknowledging;
mod assembling;
#[cfg(not(madsim))]
mod device;
mod driver;
mod fetching;
mod manager;
mod parking;
mod receive;
mod remote;
mod service;
mod state;

use std::collections::BTreeMap;

pub use rondo_core::element::Tensor;
pub use rondo_core::rendezvous::{Args, Config, Delivery, FrameAndIter, Key, Session, Value};

#[cfg(not(madsim))]
pub use self::device::CudaTensor;
pub use self::manager::{RendezvousManager, Ways};
pub use self::receive::Receive;
pub use self::remote::RemoteRendezvous;
pub use self::service::RendezvousService;

/// Settings of a process's rendezvous.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The machine's.
    pub machine: Config,
    /// Where other workers are: `host:port` by name (`/job:NAME/replica:N/task:N`).
    pub peers: BTreeMap<String, String>,
}

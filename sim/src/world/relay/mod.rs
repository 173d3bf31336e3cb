//! Relays between tasks and the node: the core's machine, driven as the runtime's own driver does it.
//!
//! Tasks talk to their relay over a network that loses nothing while both live. The relay talks to the
//! node over the faulty one, in connections: what is lost on one is sent again until the connection
//! counts as broken, nothing comes twice, and nothing outlives the node's process or the relay's.

mod driver;
mod local;
mod machine;
mod papers;
mod server;
mod trouble;
mod upstream;

use rondo_core::coordination::Call;
use rondo_core::ids::CallId;
use rondo_core::relay::Link;
use rondo_core::status::Status;

pub(super) use self::machine::Relays;
pub(super) use self::server::RelayDesk;
use super::letter::CallOf;
use bytes::Bytes;

/// Calls of tasks to relays have numbers from here on.
const RELAYED_CALLS: u64 = 1 << 61;

/// From a task to its relay, in the relay's process of this life.
#[derive(Clone, Debug)]
pub(super) struct ToRelay {
    pub(super) relay: u32,
    pub(super) life: u32,
    pub(super) of: CallOf,
    pub(super) what: Local,
}

/// What a task has for its relay.
#[derive(Clone, Debug)]
pub(super) enum Local {
    /// A call.
    Call { call: CallId, asked: Box<Call> },
    /// Nobody waits for this any more.
    GiveUp,
    /// The task's process is gone, and its connection.
    Gone,
}

/// A connection between a relay and the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wire {
    pub(super) relay: u32,
    pub(super) life: u32,
    pub(super) link: Link,
    /// The process of the node at its other end, once there is one.
    pub(super) process: u64,
}

impl Wire {
    /// Whether both are one connection of a relay.
    fn is(self, other: Self) -> bool {
        (self.relay, self.life, self.link) == (other.relay, other.life, other.link)
    }
}

/// From a relay to the node.
#[derive(Clone, Debug)]
pub(super) enum Up {
    /// Whether it is there.
    Hello(Bytes),
    /// A call.
    Forward { call: CallId, message: Bytes },
    /// Nobody waits for this call any more.
    Withdraw(CallId),
    /// The relay's end of the connection is closed.
    Close,
    /// Nothing that a relay's dead process has sent comes any more.
    Over(Vec<CallId>),
}

/// From the node to a relay.
#[derive(Clone, Debug)]
pub(super) enum Down {
    /// It is there; its process's life.
    Hello(Result<u64, Status>),
    /// An answer, or why there is none.
    Forwarded { call: CallId, answer: Result<Bytes, Status> },
    /// The node's end of the connection is closed.
    Closed,
}

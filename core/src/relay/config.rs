//! What an operator may set.

use alloc::sync::Arc;

use crate::time::Duration;

/// Where a relay is, which its refusals say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// In a process of its own, between clients and their server: `rondo relay`.
    Relay,
    /// Within the client.
    Client,
}

/// A relay's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The server's address, as texts name it.
    pub upstream: Arc<str>,
    /// Where it is.
    pub host: Host,
    /// How long the server may be away until clients are told; at most
    /// [`RELAY_PATIENCE_MAX`](crate::limits::RELAY_PATIENCE_MAX).
    pub patience: Duration,
    /// How long the server may take over a heartbeat until it is answered from what is known. Less
    /// than the client's own deadline, which is half a heartbeat timeout.
    pub heartbeat_patience: Duration,
    /// Connections that have called.
    pub clients_max: usize,
    /// Calls under way, those whose client has gone among them. A connection to a relay may have as many as
    /// it leaves free. Above the bound there is room for as many calls as there may be clients: calls that
    /// each client may have while this room lasts. Two calls of each client count nowhere here: a
    /// registration or a heartbeat that waits, and a heartbeat that the relay has answered by itself. A
    /// server takes 4096 calls of one relay: the defaults come to 4036.
    pub calls_max: usize,
    /// Calls under way of one connection. Above this bound and that of all calls, each may have
    /// [`RELAY_CLIENT_CALLS_MIN`](crate::limits::RELAY_CLIENT_CALLS_MIN) by which its tasks come, live and
    /// leave, and as many others.
    pub calls_per_client_max: usize,
    /// Messages of all calls under way together, in bytes.
    pub held_bytes_max: u64,
}

impl Config {
    /// The defaults, for this server.
    pub fn of(upstream: impl Into<Arc<str>>) -> Self {
        Self {
            upstream: upstream.into(),
            host: Host::Relay,
            patience: Duration::from_secs(600),
            heartbeat_patience: Duration::from_secs(2),
            clients_max: 512,
            calls_max: 2500,
            calls_per_client_max: 1250,
            held_bytes_max: 1 << 30,
        }
    }
}

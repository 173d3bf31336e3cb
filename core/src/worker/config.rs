//! How a worker works.

use alloc::sync::Arc;

use crate::limits::PARKED_CALLS_MAX;
use crate::time::Duration;

/// A worker's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its address (`host:port`), which is its name.
    pub address: Arc<str>,
    /// The version of the protocol that its dispatcher must speak.
    pub protocol_version: i64,
    /// How often it shows that it lives.
    pub heartbeat_interval: Duration,
    /// How long the dispatcher may be away until a task that needs it fails.
    pub dispatcher_timeout: Duration,
    /// Elements of all tasks together that are ready before anybody asks, in bytes. Each task may
    /// exceed its share by what it is given at once.
    pub buffer_bytes: u64,
    /// Elements that a task keeps for trainers that come later, in bytes.
    pub cache_bytes: u64,
    /// Calls of consumers that wait at once. A connection may have as many as it leaves free, and
    /// [`CONSUMER_CALLS_MIN`](crate::limits::CONSUMER_CALLS_MIN) in any case.
    pub calls_max: usize,
    /// How long the last elements may take to be fetched once the worker was asked to stop.
    pub drain_timeout: Duration,
}

impl Config {
    /// The defaults, for a worker at this address.
    pub fn of(address: impl Into<Arc<str>>, protocol_version: i64) -> Self {
        Self {
            address: address.into(),
            protocol_version,
            heartbeat_interval: Duration::from_secs(5),
            dispatcher_timeout: Duration::from_secs(3600),
            buffer_bytes: 256 << 20,
            cache_bytes: 1 << 30,
            calls_max: PARKED_CALLS_MAX,
            drain_timeout: Duration::from_secs(20),
        }
    }
}

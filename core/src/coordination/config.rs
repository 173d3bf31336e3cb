//! What an operator may set, with JAX's defaults.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::progress::Progress;
use crate::limits::{
    KEYS_MAX, PARKED_CALLS_MAX, RELAY_PATIENCE_MAX, STORE_BYTES_MAX, VALUE_BYTES_MAX,
};
use crate::time::Duration;

/// The coordination service's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The namespaces served, of different names.
    pub namespaces: Vec<NamespaceConfig>,
}

/// One namespace's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceConfig {
    /// Its name.
    pub name: Arc<str>,
    /// The job's name in dialect T.
    pub job: Arc<str>,
    /// Number of tasks; `None` lets a registration say it, or else counts those that registered
    /// when no new one has come for [`NamespaceConfig::settle`].
    pub tasks: Option<u32>,
    /// How long registrations must have been quiet until the tasks are counted.
    pub settle: Duration,
    /// How long a task may be silent; also how long a task that left may go on talking.
    pub heartbeat_timeout: Duration,
    /// How long the first task that registers waits for the last.
    pub register_timeout: Duration,
    /// How long the first task that leaves waits for the last; zero lets each leave alone.
    pub shutdown_timeout: Duration,
    /// How long the first task that waits for all devices waits for the last.
    pub devices_timeout: Duration,
    /// Whether a task that dies may come back, and its death is no one else's.
    pub recoverable: bool,
    /// Where tasks put how far they are, so that stuck ones are named; `None` looks at nothing.
    pub progress: Option<Progress>,
    /// How long a relay may ask for nothing that must happen once, and wait at no barrier, until it
    /// is forgotten, with the results that it has not acknowledged. Longer than relays wait for the
    /// service. One looks four times as often.
    pub relay_silence: Duration,
    /// Calls that wait at once. A job may have [`WAITS_PER_TASK`](crate::limits::WAITS_PER_TASK) for each of
    /// its tasks, if that is more. Three quarters of that number may wait for keys or for changes.
    pub waits_max: usize,
    /// Keys kept at once.
    pub keys_max: usize,
    /// Longest value, in bytes.
    pub value_bytes_max: u64,
    /// All keys and values together, in bytes; also the longest answer with several keys.
    pub store_bytes_max: u64,
}

impl NamespaceConfig {
    /// A namespace with JAX's defaults, its size yet to be learnt.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            job: "jax_worker".into(),
            tasks: None,
            settle: Duration::from_secs(10),
            heartbeat_timeout: Duration::from_secs(100),
            register_timeout: Duration::from_secs(3600),
            shutdown_timeout: Duration::from_secs(300),
            devices_timeout: Duration::from_secs(3600),
            recoverable: false,
            progress: None,
            relay_silence: Duration::from_nanos(RELAY_PATIENCE_MAX.as_nanos().saturating_mul(2)),
            waits_max: PARKED_CALLS_MAX,
            keys_max: KEYS_MAX,
            value_bytes_max: VALUE_BYTES_MAX,
            store_bytes_max: STORE_BYTES_MAX,
        }
    }
}

/// The namespace that needs no flag.
pub const DEFAULT_NAMESPACE: &str = "default";

impl Default for Config {
    fn default() -> Self {
        Self { namespaces: [NamespaceConfig::named(DEFAULT_NAMESPACE)].into() }
    }
}

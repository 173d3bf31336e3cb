//! What an operator may set.

use alloc::collections::BTreeMap;
use alloc::string::String;

use super::types::Session;
use crate::time::Duration;

/// The settings of a worker's rendezvous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// This worker's devices, by their names within it (`/device:CPU:0`), and the incarnation of each:
    /// a random number that a later run of the worker does not have.
    pub devices: BTreeMap<String, u64>,
    /// Which worker every step is of from its beginning; `None` if each is told that it is initialised.
    pub session: Option<Session>,
    /// Steps kept at once.
    pub steps_max: usize,
    /// Tensors held for receivers that have not come, of one step.
    pub step_tensors_max: usize,
    /// The most bytes that these tensors may take together.
    pub step_bytes_max: u64,
    /// Tensors held of all steps together.
    pub tensors_max: usize,
    /// The most bytes that these tensors may take together.
    pub bytes_max: u64,
    /// Calls that wait at once: receivers, and senders that wait for room.
    pub calls_max: usize,
    /// A step with which nothing has happened for this long is given up; `None` keeps it for ever.
    pub step_expiry: Option<Duration>,
    /// Requests whose ids are remembered, so that one that comes twice is noticed.
    pub requests_max: usize,
    /// Whether what answers a request is kept until the client says that it has it.
    pub caches_responses: bool,
    /// How long another worker may be away until those who wait for its tensors are told.
    pub patience: Duration,
    /// Where request ids begin: a random number.
    pub entropy: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            devices: BTreeMap::new(),
            session: None,
            steps_max: 1 << 16,
            step_tensors_max: 1 << 16,
            step_bytes_max: 4 << 30,
            tensors_max: 1 << 20,
            bytes_max: 8 << 30,
            calls_max: 1 << 16,
            step_expiry: Some(Duration::from_secs(3600)),
            requests_max: 100_000,
            caches_responses: false,
            patience: Duration::from_secs(30),
            entropy: 0,
        }
    }
}

//! The bounds of a node.

use std::time::Duration;

/// Bounds of the node's loop.
#[derive(Clone, Copy, Debug)]
pub struct NodeConfig {
    /// Calls of one connection that wait for their turn; more are refused.
    pub line_calls_max: usize,
    /// Listings of the state that wait; more are refused.
    pub queue_calls_max: usize,
    /// Calls taken in one turn, hence in one commit group.
    pub batch_calls_max: usize,
    /// How long the last sync may take when the node is told to stop.
    pub stop_timeout: Duration,
    /// How long to wait before a snapshot that could not be built is tried again.
    pub compaction_retry: Duration,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            line_calls_max: 8192,
            queue_calls_max: 4096,
            batch_calls_max: 1024,
            stop_timeout: Duration::from_secs(10),
            compaction_retry: Duration::from_secs(30),
        }
    }
}

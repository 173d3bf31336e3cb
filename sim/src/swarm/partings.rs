//! How processes part from each other. It comes from a stream of its own.

use serde::{Deserialize, Serialize};

use super::CoordinationShape;
use crate::rng::Stream;

/// How a server parts from its relays, and a task from its job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartingShape {
    /// Of a thousand calls that wait at a server which goes, so many are ended with a status of their
    /// own before the connection closes.
    pub server_cancels: u32,
    /// Of a thousand tasks that have left, so many send heartbeats for some time more.
    pub lingers: u32,
}

impl CoordinationShape {
    pub(super) fn draw_partings(&mut self, s: &mut Stream) {
        let mut pick = |of: &[u32]| s.pick(of).copied().unwrap_or(0);
        self.partings =
            PartingShape { server_cancels: pick(&[0, 300, 1000]), lingers: pick(&[0, 0, 500]) };
    }
}

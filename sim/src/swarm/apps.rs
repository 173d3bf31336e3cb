//! What applications do with their agents, and how calls of agents are lost. They come from a stream of
//! their own.

use serde::{Deserialize, Serialize};

use super::CoordinationShape;
use crate::rng::Stream;

/// What applications do with their agents beside what all do, and what becomes of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppShape {
    /// Of a thousand things an application does, so many have to do with watches, or are waits for keys
    /// that are given up.
    pub watches: u32,
    /// Of a thousand heartbeats, so many are lost on their way to the service, with any status.
    pub lost_beats: u32,
    /// Of a thousand other calls, so many are lost on their way to the service, with any status.
    pub lost: u32,
    /// Of a thousand answers of the service, so many are lost on their way back, with any status.
    pub cut_answers: u32,
    /// Of a thousand calls that an application cancels, so many are made again at once.
    pub again: u32,
}

impl CoordinationShape {
    /// Half of the jobs whose tasks have agents live with worse links and busier applications.
    pub(super) fn draw_apps(&mut self, s: &mut Stream) {
        let busy = s.chance(600);
        if busy && self.namespaces.iter().any(|namespace| namespace.agents) {
            self.apps = Some(AppShape::draw(s));
        }
    }
}

impl AppShape {
    fn draw(s: &mut Stream) -> Self {
        let mut pick = |of: &[u32]| s.pick(of).copied().unwrap_or(0);
        Self {
            watches: pick(&[300, 0, 600]),
            lost_beats: pick(&[0, 50, 300]),
            lost: pick(&[0, 20, 150]),
            cut_answers: pick(&[0, 20, 100]),
            again: pick(&[500, 1000]),
        }
    }
}

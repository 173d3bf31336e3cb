//! Parts of a run that were added later, drawn from a stream of their own so that older seeds draw all
//! else as they did.

use super::draw::small;
use super::{ElementsShape, Swarm};
use crate::fault::Fault;
use crate::rng::Stream;

/// The uid of TensorFlow's open builds: it names no process.
pub(crate) const UID_OF_ANY_PROCESS: i64 = -1;
/// From so many readers on they are a crowd.
pub(crate) const CROWD_MIN: u32 = 16;
/// A run with a crowd takes no longer: each round has an element for each of them.
const CROWD_SPAN_MS_MAX: u64 = 20_000;
/// A hold-up matters where it is longer than the time that a client may be silent.
const HOLD_UP_SPAN_MS_MIN: u64 = 60_000;

impl Swarm {
    /// Draws the parts that were added later.
    pub(super) fn widen(&mut self, s: &mut Stream) {
        self.faults.draw_later(s);
        let crowd = ElementsShape::draw_crowd(s).filter(|_| self.workers > 0);
        if let Some(crowd) = crowd {
            self.read_by_element(Some(crowd));
            self.workers = self.workers.max(2);
            // A list drawn for fewer workers would keep the others out.
            self.settings.worker_addresses.clear();
            self.span_ms = self.span_ms.min(CROWD_SPAN_MS_MAX);
        }
        self.restart_in_place(s);
        if crowd.is_none() && self.faults.has(Fault::HeldUp) {
            self.span_ms = self.span_ms.max(HOLD_UP_SPAN_MS_MIN);
        }
        // Last, so that a new kind of fault changes none of the draws above.
        self.faults.draw_latest(s);
    }

    /// In some runs all workers say the uid of TensorFlow's open builds; in some of those they come
    /// back at their addresses before the dispatcher misses them.
    fn restart_in_place(&mut self, s: &mut Stream) {
        self.stock_workers = s.chance(300);
        if self.stock_workers && s.chance(400) {
            let strength = self.faults.strength(Fault::RestartSame);
            self.faults.set(Fault::RestartSame, strength.max(600));
            self.pace.down_ms = self.pace.down_ms.min(500);
        }
    }
}

impl ElementsShape {
    /// In one run of fifty 16 consumers read together in rounds, in a few of those 64. Their elements
    /// are small, and they read few of them, so that the run is not long.
    fn draw_crowd(s: &mut Stream) -> Option<Self> {
        if !s.chance(20) {
            return None;
        }
        let readers = s.pick(&[16, 16, 16, 16, 16, 16, 64]).copied().unwrap_or(16);
        let mut pick = |of: &[u64]| s.pick(of).copied().unwrap_or(1);
        Some(Self {
            readers: small(readers),
            rounds: true,
            whole: false,
            splits: 6,
            elements_max: 5,
            batch: 64,
            compressed: false,
            buffer_bytes: 1 << 20,
            make_ms: pick(&[5, 0]),
            leave_ms: 0,
            consume_ms: pick(&[400, 800]),
            requests: 1,
            ahead: pick(&[1, 3]),
            rounds_of_read: pick(&[10, 20]),
            leaves: 0,
        })
    }

    /// Whether so many read together in rounds that they do not agree by luck.
    pub fn is_crowd(&self) -> bool {
        self.rounds && self.readers >= CROWD_MIN
    }
}

//! Jobs that follow one another with other sizes, and tasks that are silent for too long. They come from
//! a stream of their own.

use super::draw::small;
use super::{CoordinationShape, NamespaceShape, StallShape};
use crate::cost;
use crate::rng::Stream;

/// Tasks of a large job.
const LARGE: u32 = 64;
/// The same where the work of steps is counted.
const LARGE_WHERE_COUNTED: u32 = 2048;

fn large() -> u32 {
    if cost::is_measured() { LARGE_WHERE_COUNTED } else { LARGE }
}

impl CoordinationShape {
    /// Whether one of the jobs is large.
    pub(super) fn has_large_job(&self) -> bool {
        self.namespaces.iter().any(|namespace| namespace.tasks == large())
    }

    pub(super) fn draw_jobs(&mut self, s: &mut Stream) {
        self.quiet = s.pick(&[0, 0, 20, 60]).copied().unwrap_or(0);
        self.stalls = s.chance(100).then(|| StallShape::draw(s));
        let is_large = s.chance(20);
        for namespace in self.namespaces.iter_mut().take(1).filter(|_| is_large) {
            (namespace.tasks, namespace.keys_max) = (large(), 1 << 20);
            self.act_ms = self.act_ms.max(1500);
        }
        for namespace in &mut self.namespaces {
            // A process that may come back and does not say its job's size is taken for one of the job
            // before: then only a reset of the namespace lets a larger job follow.
            let is_told_apart = namespace.said || !namespace.recoverable;
            if s.chance(200) {
                namespace.agents = true;
            } else if s.chance(300) && is_told_apart {
                let count = s.between(1, 3);
                namespace.sizes = (0..count).map(|_| small(s.between(1, 5))).collect();
            }
        }
    }
}

impl StallShape {
    fn draw(s: &mut Stream) -> Self {
        Self {
            for_ms: s.pick(&[3600, 700, 2000, 15_000, 60_000]).copied().unwrap_or(3600),
            after_ms: s.pick(&[1400, 500, 4000]).copied().unwrap_or(1400),
        }
    }
}

impl NamespaceShape {
    /// The most tasks that a job here has.
    pub fn tasks_max(&self) -> u32 {
        self.sizes.iter().copied().fold(self.tasks, u32::max)
    }

    /// The size of the job of a number, counted round and round.
    pub fn size_at(&self, number: u64) -> u32 {
        let place = number.checked_rem(self.sizes.len() as u64).unwrap_or(0);
        let size = usize::try_from(place).ok().and_then(|place| self.sizes.get(place));
        size.copied().unwrap_or(self.tasks)
    }
}

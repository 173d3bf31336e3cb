//! How much memory is left, as the node's machines were told last.

use std::time::Duration;

use rondo_core::memory::Memory;
use tokio::time::Instant;

use crate::memory::{Ceiling, Level, SnapshotPlan};

/// Time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);
/// While memory is short, the machines hear so often how much is in use: their refusals say it.
const TOLD_INTERVAL: Duration = Duration::from_secs(1);

/// The ceiling of all memory, and what the machines know of it.
#[derive(Debug)]
pub(super) struct MemoryLeft {
    ceiling: Ceiling,
    told: Level,
    told_at: Option<Instant>,
    warned_at: Option<Instant>,
    /// A warning was written, and not yet that it is over.
    is_warned: bool,
}

impl MemoryLeft {
    /// The machines of a new node think that there is enough.
    pub(super) const fn below(ceiling: Ceiling) -> Self {
        Self { ceiling, told: Level::Enough, told_at: None, warned_at: None, is_warned: false }
    }

    /// How much memory is left, if the machines must be told.
    pub(super) fn news(&mut self, snapshots: SnapshotPlan) -> Option<Memory> {
        let level = self.ceiling.level(snapshots);
        let is_old = level != Level::Enough && is_due(self.told_at, TOLD_INTERVAL);
        if level == self.told && !is_old {
            return None;
        }
        if level == Level::Enough && std::mem::take(&mut self.is_warned) {
            tracing::info!(
                "there is memory for new keys, datasets, jobs, workers and positions again"
            );
        }
        (self.told, self.told_at) = (level, Some(Instant::now()));
        let memory = self.ceiling.left(level, snapshots);
        if let Memory::Short(reason) = &memory
            && is_due(self.warned_at, WARNING_INTERVAL)
        {
            (self.warned_at, self.is_warned) = (Some(Instant::now()), true);
            tracing::warn!(%reason, "new keys, datasets, jobs, workers and positions are refused");
        }
        Some(memory)
    }
}

fn is_due(last: Option<Instant>, interval: Duration) -> bool {
    last.is_none_or(|last| last.elapsed() >= interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn machines_hear_of_each_change_and_of_nothing_else() {
        let ceiling = Ceiling::new(80 * MIB);
        let mut left = MemoryLeft::below(ceiling.clone());
        let mut news = || left.news(SnapshotPlan::Planned);
        assert_eq!(news(), None);
        ceiling.see(50 * MIB);
        assert!(matches!(news(), Some(Memory::Short(_))));
        assert_eq!(news(), None);
        ceiling.see(80 * MIB);
        assert!(matches!(news(), Some(Memory::None(_))));
        ceiling.see(10 * MIB);
        assert_eq!(news(), Some(Memory::Enough));
        assert_eq!(news(), None);
    }

    #[test]
    fn the_bytes_in_refusals_are_at_most_a_second_old() {
        let ceiling = Ceiling::new(80 * MIB);
        let mut left = MemoryLeft::below(ceiling.clone());
        ceiling.see(50 * MIB);
        assert!(left.news(SnapshotPlan::Planned).is_some());
        ceiling.see(60 * MIB);
        std::thread::sleep(TOLD_INTERVAL);
        let Some(Memory::Short(reason)) = left.news(SnapshotPlan::Planned) else {
            panic!("nothing is told");
        };
        assert!(reason.contains("62914560"), "{reason}");
    }
}

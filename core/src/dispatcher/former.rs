//! Tasks of a former life, whose journal is gone: workers still run them, and would take a new task
//! of the same id for one that they run already. Their ids are not given out.

use alloc::collections::BTreeSet;

use crate::ids::TaskId;
use crate::limits::HEARTBEAT_ITEMS_MAX;

/// Ids under which workers run what this journal knows nothing of.
#[derive(Clone, Debug, Default)]
pub(super) struct FormerTasks(BTreeSet<TaskId>);

impl FormerTasks {
    /// Notes what a worker runs, `next` being the next id to be given out. Of more than fit no
    /// notice is taken: nobody but a client that makes them up has so many.
    pub(super) fn note(&mut self, current: &[TaskId], next: TaskId) {
        let room = HEARTBEAT_ITEMS_MAX.saturating_sub(self.0.len());
        self.0.extend(current.iter().copied().filter(|id| *id >= next).take(room));
    }

    /// The ids to be given out from `next` on.
    pub(super) fn ids_from(&self, next: TaskId) -> impl Iterator<Item = TaskId> + '_ {
        let ids = core::iter::successors(Some(next), |id| Some(id.next()));
        ids.filter(|id| !self.0.contains(id))
    }
}

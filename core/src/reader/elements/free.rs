//! Elements in the order in which workers answer.

use alloc::vec::Vec;

use super::Elements;
use super::fetching::Progress;
use crate::reader::shared::Shared;
use crate::reader::types::{Effect, Task};
use crate::time::Time;

impl Elements {
    /// Asks each task that may be asked, in turn.
    pub(super) fn ask_freely(&mut self, now: Time, shared: &mut Shared, out: &mut Vec<Effect>) {
        if shared.is_finished {
            return;
        }
        let count = shared.tasks.len();
        // A worker that waits for its own next element must not hold up others.
        let allow_skip = count > shared.config.buffer_deliveries_max;
        for _ in 0..count.saturating_mul(self.way.requests_per_task.max(1)) {
            if !self.has_room(shared) {
                return;
            }
            self.turn = self.turn.saturating_add(1);
            let index = self.turn.checked_rem(count).unwrap_or(0);
            let Some(task) = shared.tasks.get(index).cloned() else {
                return;
            };
            if self.may_ask(now, &task) {
                self.fetch(&task, None, allow_skip, shared, out);
            }
        }
    }

    fn may_ask(&self, now: Time, task: &Task) -> bool {
        let may = |progress: &Progress| {
            let has_room = progress.calls < self.way.requests_per_task.max(1);
            has_room && !progress.has_ended && progress.is_due(now)
        };
        self.tasks.get(&task.id).is_none_or(may)
    }
}

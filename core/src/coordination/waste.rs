//! What a step has taken out of the state at once, and the next ones free a little at a time: a
//! million keys take a second.

use alloc::vec::Vec;

use super::store::Entries;
use crate::limits::{FREED_PER_STEP_MAX, FREED_PER_STEP_PAUSE};
use crate::time::Time;

/// Keys that are gone and not yet freed.
#[derive(Clone, Debug, Default)]
pub(super) struct Waste {
    entries: Vec<Entries>,
    /// When some of it may be freed; others have a turn before.
    due: Time,
}

impl Waste {
    /// Takes what is gone. Little of it is freed at once.
    pub(super) fn add(&mut self, now: Time, gone: Vec<Entries>) {
        for entries in gone {
            if entries.len() > FREED_PER_STEP_MAX {
                self.entries.push(entries);
                self.due = now.after(FREED_PER_STEP_PAUSE);
            }
        }
    }

    /// When to free some.
    pub(super) fn due(&self) -> Option<Time> {
        (!self.entries.is_empty()).then_some(self.due)
    }

    /// Frees as much as one step may.
    pub(super) fn free(&mut self, now: Time) {
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        if let Some(entries) = self.entries.last_mut() {
            for _ in 0..FREED_PER_STEP_MAX {
                entries.pop_first();
            }
            if entries.is_empty() {
                self.entries.pop();
            }
        }
        self.due = now.after(FREED_PER_STEP_PAUSE);
    }
}

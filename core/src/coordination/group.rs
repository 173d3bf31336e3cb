//! Calls that ask who of a set of tasks is alive, and wait for the others to ask.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::request::Stamp;
use crate::ids::{CallId, TaskIndex};

/// The calls that ask for one set of tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// The calls, with who asks, and the relay's mark.
    calls: BTreeMap<CallId, (TaskIndex, Option<Stamp>)>,
    /// Who asks, with how many calls.
    askers: BTreeMap<TaskIndex, usize>,
    /// Where to look first for one that is waited for: so a big set is not searched from the
    /// beginning for each one that asks.
    hint: usize,
}

impl Group {
    pub(super) fn add(&mut self, call: CallId, asker: TaskIndex, stamp: Option<Stamp>) {
        self.calls.insert(call, (asker, stamp));
        let count = self.askers.entry(asker).or_default();
        *count = count.saturating_add(1);
    }

    pub(super) fn remove(&mut self, call: CallId) {
        let Some((asker, _)) = self.calls.remove(&call) else {
            return;
        };
        let count = self.askers.entry(asker).or_default();
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.askers.remove(&asker);
        }
    }

    /// Forgets what a task asked; names its calls.
    pub(super) fn drop_asker(&mut self, task: TaskIndex) -> Vec<CallId> {
        let mine = self.calls.iter().filter(|(_, (asker, _))| *asker == task);
        let mine: Vec<_> = mine.map(|(call, _)| *call).collect();
        for call in &mine {
            self.remove(*call);
        }
        mine
    }

    /// The marks of relays on the calls.
    pub(super) fn stamps(&self) -> Vec<Stamp> {
        self.calls.values().filter_map(|(_, stamp)| *stamp).collect()
    }

    pub(super) fn has(&self, task: TaskIndex) -> bool {
        self.askers.contains_key(&task)
    }

    pub(super) fn holds(&self, call: CallId) -> bool {
        self.calls.contains_key(&call)
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(super) fn into_calls(self) -> impl Iterator<Item = CallId> {
        self.calls.into_keys()
    }

    /// Whether one of these tasks is connected and has not asked.
    pub(super) fn waits(
        &mut self,
        tasks: &[TaskIndex],
        connected: impl Fn(&TaskIndex) -> bool,
    ) -> bool {
        let askers = &self.askers;
        let absent = |task: &TaskIndex| connected(task) && !askers.contains_key(task);
        let later = tasks.iter().enumerate().skip(self.hint).find(|(_, task)| absent(task));
        // One before the hint may have connected since, or have given up asking.
        let found = later.or_else(|| tasks.iter().enumerate().find(|(_, task)| absent(task)));
        self.hint = found.map_or(0, |(place, _)| place);
        found.is_some()
    }
}

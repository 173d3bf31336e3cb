//! Calls that wait, of all namespaces, and how many of them each namespace has.

use alloc::collections::{BTreeMap, btree_map};

use super::live::Seat;
use crate::ids::{CallId, NamespaceId};

/// Calls that wait, and those whose answer waits to be sent off.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingCalls {
    calls: BTreeMap<CallId, (NamespaceId, Seat)>,
    counts: BTreeMap<NamespaceId, Counts>,
}

/// How many calls of a namespace wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// All.
    pub(super) all: usize,
    /// Those that wait for keys or for changes.
    pub(super) for_keys: usize,
}

impl WaitingCalls {
    /// Notes where a call waits; its former place is forgotten.
    pub(super) fn insert(&mut self, call: CallId, (namespace, seat): (NamespaceId, Seat)) {
        self.remove(&call);
        let counts = self.counts.entry(namespace).or_default();
        counts.all = counts.all.saturating_add(1);
        counts.for_keys = counts.for_keys.saturating_add(usize::from(seat.is_for_keys()));
        self.calls.insert(call, (namespace, seat));
    }

    /// Forgets a call, and returns where it waited.
    pub(super) fn remove(&mut self, call: &CallId) -> Option<(NamespaceId, Seat)> {
        let (namespace, seat) = self.calls.remove(call)?;
        if let btree_map::Entry::Occupied(mut entry) = self.counts.entry(namespace) {
            let counts = entry.get_mut();
            counts.all = counts.all.saturating_sub(1);
            counts.for_keys = counts.for_keys.saturating_sub(usize::from(seat.is_for_keys()));
            if counts.all == 0 {
                entry.remove();
            }
        }
        Some((namespace, seat))
    }

    /// All, by their ids.
    pub(super) fn iter(&self) -> btree_map::Iter<'_, CallId, (NamespaceId, Seat)> {
        self.calls.iter()
    }

    /// How many calls of a namespace wait.
    pub(super) fn counts(&self, namespace: NamespaceId) -> Counts {
        self.counts.get(&namespace).copied().unwrap_or_default()
    }

    /// Forgets all, and returns their ids.
    pub(super) fn take(&mut self) -> impl Iterator<Item = CallId> + use<> {
        self.counts.clear();
        core::mem::take(&mut self.calls).into_keys()
    }
}

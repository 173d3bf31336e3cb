//! Keys, changes, leases, blobs, relays.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;

use super::super::key::is_normal;
use super::super::state::State;
use super::super::types::Phase;
use super::tasks::each;
use crate::ids::{Digest, Revision};
use crate::limits::{CHANGES_BYTES_MAX, CHANGES_MAX};

pub(in super::super) fn entries_are_counted(state: &State) -> Result<(), String> {
    each(state, |namespace| {
        let store = &namespace.store;
        let mut size_bytes = 0_u64;
        let mut leased = BTreeSet::new();
        for entry in store.entries() {
            let key = entry.key();
            if !is_normal(key) || entry.revision() > namespace.head.revision {
                return Err(format!("key {key:?}: {entry:?}"));
            }
            size_bytes = size_bytes.saturating_add(entry.cost());
            leased.extend(entry.lease().map(|task| (task, key.clone())));
        }
        match size_bytes == store.size_bytes && leased == store.leased {
            true => Ok(()),
            false => Err(format!("{size_bytes} bytes, {} counted", store.size_bytes)),
        }
    })
}

pub(in super::super) fn changes_are_the_newest(state: &State) -> Result<(), String> {
    each(state, |namespace| {
        let (head, store) = (&namespace.head, &namespace.store);
        let mut expected = head.forgotten;
        for change in &store.changes {
            expected = expected.next();
            if change.revision != expected {
                return Err(format!("{change:?} in place of revision {expected}"));
            }
        }
        let bounded =
            store.changes.len() <= CHANGES_MAX && store.changes_bytes <= CHANGES_BYTES_MAX;
        match expected == head.revision && bounded {
            true => Ok(()),
            false => Err(format!("changes end at {expected}, not at {}", head.revision)),
        }
    })
}

pub(in super::super) fn leases_are_of_connected_tasks(state: &State) -> Result<(), String> {
    each(state, |namespace| {
        let dead = namespace.store.leased.iter().find(|(task, _)| {
            namespace.tasks.get(task).is_none_or(|task| task.phase != Phase::Connected)
        });
        match dead {
            Some((task, key)) => Err(format!("{key:?} outlives task {task}")),
            None => Ok(()),
        }
    })
}

pub(in super::super) fn blobs_are_counted(state: &State) -> Result<(), String> {
    each(state, |namespace| {
        let mut count: BTreeMap<Digest, u64> = BTreeMap::new();
        for (digest, _) in namespace.store.blobs() {
            *count.entry(digest).or_default() += 1;
        }
        match count == namespace.store.blobs {
            true => Ok(()),
            false => Err(format!("{count:?} found, {:?} counted", namespace.store.blobs)),
        }
    })
}

pub(in super::super) fn results_are_not_acknowledged(state: &State) -> Result<(), String> {
    each(state, |namespace| {
        for (id, relay) in &namespace.relays {
            let first = relay.results.keys().chain(relay.alive.keys()).min();
            if first.is_some_and(|first| *first <= relay.acknowledged) {
                return Err(format!("relay {id}: {first:?} after {}", relay.acknowledged));
            }
        }
        match namespace.head.forgotten <= namespace.head.revision.max(Revision::new(0)) {
            true => Ok(()),
            false => Err("more revisions are forgotten than there were".into()),
        }
    })
}

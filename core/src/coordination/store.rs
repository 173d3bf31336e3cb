//! A life's keys, and the newest changes of them.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use super::record::{Change, ChangeKind, Changes};
use super::slot::{Slot, StoredEntry};
use super::state::Head;
use super::types::Value;
use crate::ids::{Digest, Lsn, Revision, TaskIndex};
use crate::limits::{CHANGES_BYTES_MAX, CHANGES_MAX, FREED_PER_STEP_MAX};

/// Keys with their values, and the newest changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Store {
    pub(super) entries: Entries,
    /// Every revision after [`Head::forgotten`] has one.
    pub(super) changes: VecDeque<Change>,
    /// Keys and values of the entries, in bytes.
    pub(super) size_bytes: u64,
    /// Keys and values of the changes, in bytes.
    pub(super) changes_bytes: u64,
    /// Keys that die with a task.
    pub(super) leased: BTreeSet<(TaskIndex, Arc<str>)>,
    /// Blobs, with how many entries and changes have them.
    pub(super) blobs: BTreeMap<Digest, u64>,
}

/// A key's value, as a snapshot has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key, in normal form.
    pub key: Arc<str>,
    /// Its value.
    pub value: Value,
    /// The revision of its newest change.
    pub revision: Revision,
    /// The task with which it dies.
    pub lease: Option<TaskIndex>,
    /// The record that made it so.
    pub changed: Lsn,
}

/// Entries by key.
pub(super) type Entries = BTreeMap<Arc<str>, Slot>;

/// What a change leaves behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Freed {
    /// Blobs that no entry and no change of this namespace has any more.
    pub(super) blobs: Vec<Digest>,
    /// Entries that are gone, many at once.
    pub(super) entries: Vec<Entries>,
}

/// A directory with more than one in so many of all keys is cut out as a whole. That looks at all
/// keys, and is so much cheaper for each than taking out one.
const CUT_SHARE: usize = 16;

/// Bytes that count for a key with a value of this size in bytes.
pub(super) const fn cost(key: &str, size_bytes: u64) -> u64 {
    (key.len() as u64).saturating_add(size_bytes)
}

fn cost_of(change: &Change) -> u64 {
    match &change.kind {
        ChangeKind::Put(value) => cost(&change.key, value.size_bytes()),
        ChangeKind::Deleted | ChangeKind::DeletedWithAllUnder => change.key.len() as u64,
    }
}

/// The blob that holds the value of a change, if one does.
fn blob_of(change: &Change) -> Option<Digest> {
    match &change.kind {
        ChangeKind::Put(value) => value.blob(),
        ChangeKind::Deleted | ChangeKind::DeletedWithAllUnder => None,
    }
}

/// Read access.
impl Store {
    /// The entries by key.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = StoredEntry<'_>> + Clone {
        self.entries.iter().map(|(key, slot)| StoredEntry::new(key, slot))
    }

    /// The entry of a key in normal form.
    pub fn get(&self, key: &str) -> Option<StoredEntry<'_>> {
        self.entries.get_key_value(key).map(|(key, slot)| StoredEntry::new(key, slot))
    }

    /// Keys and values together, in bytes.
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The remembered changes, oldest first.
    pub const fn changes(&self) -> &VecDeque<Change> {
        &self.changes
    }

    /// Entries under a directory in normal form, by key, not the one of the directory itself.
    /// Everything but the key "" is under "".
    pub fn under(&self, directory: &str) -> impl Iterator<Item = StoredEntry<'_>> + Clone {
        let beginning = match directory.is_empty() {
            true => String::new(),
            false => format!("{directory}/"),
        };
        let entries =
            self.entries.range::<str, _>((Bound::Included(&*beginning), Bound::Unbounded));
        let under = entries.take_while(move |(key, _)| key.starts_with(&beginning));
        let under = under.map(|(key, slot)| StoredEntry::new(key, slot));
        under.filter(|entry| !entry.key().is_empty())
    }

    /// Changes after a revision, which none must be missing of.
    pub fn changes_after(&self, revision: Revision) -> impl Iterator<Item = &Change> {
        let first = self.changes.front().map_or(Revision::new(u64::MAX), |change| change.revision);
        let skip = revision.next().get().saturating_sub(first.get());
        self.changes.iter().skip(usize::try_from(skip).unwrap_or(usize::MAX))
    }

    /// The keys that die with a task.
    pub fn leased_by(&self, task: TaskIndex) -> impl Iterator<Item = &Arc<str>> {
        let from = self.leased.range((task, Arc::from(""))..);
        from.take_while(move |(of, _)| *of == task).map(|(_, key)| key)
    }

    /// The blobs that hold values of entries and of changes, one for each value, with the values' lengths in
    /// bytes.
    pub(super) fn blobs(&self) -> impl Iterator<Item = (Digest, u64)> {
        let changed = self.changes.iter().filter_map(|change| match &change.kind {
            ChangeKind::Put(value) => Some((value.blob()?, value.size_bytes())),
            ChangeKind::Deleted | ChangeKind::DeletedWithAllUnder => None,
        });
        self.entries().filter_map(|entry| entry.blob()).chain(changed)
    }

    /// Whether an entry or a change is in this blob.
    pub fn names_blob(&self, digest: Digest) -> bool {
        self.blobs.contains_key(&digest)
    }
}

/// Changes; each makes the next revision.
impl Store {
    /// Puts a key. The changes share the entry's memory, and neither keeps that of the value they were given.
    pub(super) fn put(
        &mut self,
        head: &mut Head,
        key: &Arc<str>,
        mut slot: Slot,
        freed: &mut Freed,
    ) -> Change {
        self.remove_entry(key, freed);
        let change = self.note(head, key, ChangeKind::Put(slot.value()), freed);
        slot.revision = change.revision;
        self.insert_slot(key.clone(), slot);
        change
    }

    /// Removes a key and all under it; `None` if nothing was there.
    pub(super) fn delete(
        &mut self,
        head: &mut Head,
        key: &Arc<str>,
        freed: &mut Freed,
    ) -> Option<Change> {
        let before = self.entries.len();
        if !key.is_empty() {
            self.delete_under(key, freed);
        }
        self.remove_entry(key, freed);
        if self.entries.len() == before {
            return None;
        }
        let kind = match key.is_empty() {
            true => ChangeKind::Deleted,
            false => ChangeKind::DeletedWithAllUnder,
        };
        Some(self.note(head, key, kind, freed))
    }

    fn delete_under(&mut self, directory: &str, freed: &mut Freed) {
        let few = (self.entries.len() / CUT_SHARE).max(FREED_PER_STEP_MAX);
        let keys = self.under(directory).map(|entry| entry.key().clone());
        let keys: Vec<_> = keys.take(few.saturating_add(1)).collect();
        if keys.len() <= few {
            return keys.iter().for_each(|key| self.remove_entry(key, freed));
        }
        // What is under a key stands together: "0" is the character behind the slash.
        let mut gone = self.entries.split_off(&*format!("{directory}/"));
        let mut behind = gone.split_off(&*format!("{directory}0"));
        self.entries.append(&mut behind);
        gone.iter().for_each(|(key, slot)| self.uncount(StoredEntry::new(key, slot), freed));
        freed.entries.push(gone);
    }

    /// Removes the keys that die with a task.
    pub(super) fn end_leases(
        &mut self,
        head: &mut Head,
        task: TaskIndex,
        freed: &mut Freed,
    ) -> Changes {
        let keys: Vec<_> = self.leased_by(task).cloned().collect();
        let mut changes = Changes::new();
        for key in keys {
            self.remove_entry(&key, freed);
            changes.push(self.note(head, &key, ChangeKind::Deleted, freed));
        }
        changes
    }

    /// Adds an entry that is not there, as a snapshot has it.
    pub(super) fn restore_entry(&mut self, entry: Entry) {
        let Entry { key, value, revision, lease, changed } = entry;
        self.insert_slot(key, Slot::new(&value, revision, changed, lease));
    }

    fn insert_slot(&mut self, key: Arc<str>, slot: Slot) {
        self.size_bytes = self.size_bytes.saturating_add(cost(&key, slot.size_bytes()));
        if let Some(task) = slot.lease {
            self.leased.insert((task, key.clone()));
        }
        if let Some(digest) = slot.blob() {
            self.name_blob(digest);
        }
        self.entries.insert(key, slot);
    }

    fn remove_entry(&mut self, key: &str, freed: &mut Freed) {
        if let Some((key, slot)) = self.entries.remove_entry(key) {
            self.uncount(StoredEntry::new(&key, &slot), freed);
        }
    }

    /// Counts an entry that was removed no more.
    fn uncount(&mut self, entry: StoredEntry<'_>, freed: &mut Freed) {
        self.size_bytes = self.size_bytes.saturating_sub(entry.cost());
        if let Some(task) = entry.lease() {
            self.leased.remove(&(task, entry.key().clone()));
        }
        if let Some((digest, _)) = entry.blob() {
            self.unname_blob(digest, freed);
        }
    }

    fn note(
        &mut self,
        head: &mut Head,
        key: &Arc<str>,
        kind: ChangeKind,
        freed: &mut Freed,
    ) -> Change {
        head.revision = head.revision.next();
        let change = Change { key: key.clone(), kind, revision: head.revision };
        self.remember(change.clone());
        while self.changes.len() > CHANGES_MAX || self.changes_bytes > CHANGES_BYTES_MAX {
            let Some(oldest) = self.changes.pop_front() else {
                break;
            };
            head.forgotten = oldest.revision;
            self.changes_bytes = self.changes_bytes.saturating_sub(cost_of(&oldest));
            if let Some(digest) = blob_of(&oldest) {
                self.unname_blob(digest, freed);
            }
        }
        change
    }

    /// Adds the newest change.
    pub(super) fn remember(&mut self, change: Change) {
        self.changes_bytes = self.changes_bytes.saturating_add(cost_of(&change));
        if let Some(digest) = blob_of(&change) {
            self.name_blob(digest);
        }
        self.changes.push_back(change);
    }

    fn name_blob(&mut self, digest: Digest) {
        let count = self.blobs.entry(digest).or_default();
        *count = count.saturating_add(1);
    }

    fn unname_blob(&mut self, digest: Digest, freed: &mut Freed) {
        let count = self.blobs.entry(digest).or_default();
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.blobs.remove(&digest);
            freed.blobs.push(digest);
        }
    }
}

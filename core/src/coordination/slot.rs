//! The store keeps an entry in as little memory as it can, since a job may have a million keys.

use alloc::boxed::Box;
use alloc::sync::Arc;
use bytes::Bytes;

use super::store::{Entry, cost};
use super::types::Value;
use crate::ids::{Digest, Lsn, Revision, TaskIndex};

/// The value of a key, with its revision and lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    value: SlotValue,
    pub(super) revision: Revision,
    pub(super) changed: Lsn,
    pub(super) lease: Option<TaskIndex>,
}

/// A value in memory of its own: never a part of a longer piece, which it would keep alive.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SlotValue {
    Inline(Arc<[u8]>),
    // Boxed, so that the two variants fit in two words.
    Blob(Box<BlobName>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct BlobName {
    digest: Digest,
    size_bytes: u64,
}

impl Slot {
    /// Copies an inline value.
    pub(super) fn new(
        value: &Value,
        revision: Revision,
        changed: Lsn,
        lease: Option<TaskIndex>,
    ) -> Self {
        let value = match value {
            Value::Inline(bytes) => SlotValue::Inline(Arc::from(&**bytes)),
            Value::Blob { digest, size_bytes } => {
                SlotValue::Blob(Box::new(BlobName { digest: *digest, size_bytes: *size_bytes }))
            }
        };
        Self { value, revision, changed, lease }
    }

    /// The value, without a copy of its bytes.
    pub(super) fn value(&self) -> Value {
        match &self.value {
            SlotValue::Inline(bytes) => Value::Inline(Bytes::from_owner(bytes.clone())),
            SlotValue::Blob(blob) => {
                Value::Blob { digest: blob.digest, size_bytes: blob.size_bytes }
            }
        }
    }

    /// The length of the value, in bytes.
    pub(super) fn size_bytes(&self) -> u64 {
        match &self.value {
            SlotValue::Inline(bytes) => bytes.len() as u64,
            SlotValue::Blob(blob) => blob.size_bytes,
        }
    }

    /// The blob that holds the value, if one does.
    pub(super) fn blob(&self) -> Option<Digest> {
        match &self.value {
            SlotValue::Inline(_) => None,
            SlotValue::Blob(blob) => Some(blob.digest),
        }
    }
}

/// An entry in a store.
#[derive(Clone, Copy, Debug)]
pub struct StoredEntry<'a> {
    key: &'a Arc<str>,
    slot: &'a Slot,
}

impl<'a> StoredEntry<'a> {
    pub(super) const fn new(key: &'a Arc<str>, slot: &'a Slot) -> Self {
        Self { key, slot }
    }

    /// The key, in normal form.
    pub const fn key(&self) -> &'a Arc<str> {
        self.key
    }

    /// The value. It shares the store's memory.
    pub fn value(&self) -> Value {
        self.slot.value()
    }

    /// The revision of its newest change.
    pub const fn revision(&self) -> Revision {
        self.slot.revision
    }

    /// The task with which it dies.
    pub const fn lease(&self) -> Option<TaskIndex> {
        self.slot.lease
    }

    /// The record that made it so.
    pub const fn changed(&self) -> Lsn {
        self.slot.changed
    }

    /// The bytes that count for it.
    pub(super) fn cost(&self) -> u64 {
        cost(self.key, self.slot.size_bytes())
    }

    /// The blob that holds its value, if one does, with the value's length in bytes.
    pub(super) fn blob(&self) -> Option<(Digest, u64)> {
        Some((self.slot.blob()?, self.slot.size_bytes()))
    }

    /// The entry as a value of its own.
    pub fn to_entry(&self) -> Entry {
        Entry {
            key: self.key.clone(),
            value: self.value(),
            revision: self.slot.revision,
            lease: self.slot.lease,
            changed: self.slot.changed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node of the tree of entries has room for eleven, and may be little more than half full.
    #[test]
    fn a_slot_takes_five_words() {
        assert_eq!(size_of::<Slot>(), 40);
    }

    #[test]
    fn a_value_is_what_was_put() {
        let blob = Value::Blob { digest: Digest::new([7; 32]), size_bytes: 70_000 };
        for value in [Value::from("v"), Value::from(""), blob] {
            let slot = Slot::new(&value, Revision::new(1), Lsn::new(2), None);
            assert_eq!((slot.value(), slot.size_bytes()), (value.clone(), value.size_bytes()));
            assert_eq!(slot.blob(), value.blob());
        }
    }

    #[test]
    fn a_value_keeps_no_longer_piece_of_memory_alive() {
        let piece = Arc::<[u8]>::from([7; 4096]);
        let part = Bytes::from_owner(piece.clone()).slice(..100);
        let slot = Slot::new(&Value::Inline(part), Revision::new(1), Lsn::new(2), None);
        assert_eq!((Arc::strong_count(&piece), slot.size_bytes()), (1, 100));
    }
}

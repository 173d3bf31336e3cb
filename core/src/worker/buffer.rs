//! A task's elements that are ready.

use alloc::collections::BTreeMap;
use bytes::Bytes;

use crate::status::Status;

/// Why no more elements come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The task is over.
    Over,
    /// The data is wrong: so every consumer is told from now on.
    Failed(Status),
    /// The worker stops; others go on.
    Cut,
}

/// Elements in order, and why no more come.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    /// By their place.
    elements: BTreeMap<u64, Bytes>,
    next_place: u64,
    bytes: u64,
    pub(super) end: Option<End>,
}

impl Buffer {
    pub(super) fn len(&self) -> usize {
        self.elements.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// What the elements take.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds an element behind all others.
    pub(super) fn push(&mut self, element: Bytes) {
        let place = self.next_place;
        self.next_place = place.saturating_add(1);
        self.put_back(place, element);
    }

    /// Takes the first element, with its place.
    pub(super) fn take(&mut self) -> Option<(u64, Bytes)> {
        let (place, element) = self.elements.pop_first()?;
        self.bytes = self.bytes.saturating_sub(element.len() as u64);
        Some((place, element))
    }

    /// Puts an element back to its place.
    pub(super) fn put_back(&mut self, place: u64, element: Bytes) {
        self.bytes = self.bytes.saturating_add(element.len() as u64);
        self.elements.insert(place, element);
    }
}

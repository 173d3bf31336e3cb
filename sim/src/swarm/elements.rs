//! The part of a run in which data is read by element, from workers as Rondo has them.

use serde::{Deserialize, Serialize};

use super::draw::small;
use crate::rng::Stream;

/// Tells how many elements the splits have from how many records others have.
pub(super) const SALT_OF_ELEMENTS: u64 = 3;

/// Readers by element, and what workers make for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ElementsShape {
    /// Readers.
    pub readers: u32,
    /// Whether they read in rounds, together; else each takes what comes.
    pub rounds: bool,
    /// Whether all of the dataset is every worker's; else splits are handed out.
    pub whole: bool,
    /// Splits.
    pub splits: u64,
    /// Elements of a split at most.
    pub elements_max: u64,
    /// Elements that are made at once at most.
    pub batch: u64,
    /// Whether elements are compressed.
    pub compressed: bool,
    /// Elements that a worker has ready at most, in bytes.
    pub buffer_bytes: u64,
    /// How long it takes to make elements, in ms.
    pub make_ms: u64,
    /// How long an element takes from a worker's machine to its way out, in ms.
    pub leave_ms: u64,
    /// How long it takes to consume an element, in ms.
    pub consume_ms: u64,
    /// Requests of a reader to one task at once, where nobody reads in rounds.
    pub requests: u64,
    /// Elements that a reader has ready at most.
    pub ahead: u64,
    /// Rounds after which a coordinated read is over.
    pub rounds_of_read: u64,
    /// How likely a worker is asked to stop in order at a heartbeat, in thousandths; and a reader
    /// leaves before the end at an element.
    pub leaves: u32,
}

impl ElementsShape {
    /// Mostly nobody reads so.
    pub(super) fn draw(s: &mut Stream) -> Option<Self> {
        if !s.chance(200) {
            return None;
        }
        let mut pick = |of: &[u64]| s.pick(of).copied().unwrap_or(1);
        Some(Self {
            readers: small(pick(&[2, 1, 3])),
            rounds: pick(&[0, 1]) > 0,
            whole: pick(&[0, 0, 1]) > 0,
            splits: pick(&[6, 1, 3, 12, 30]),
            elements_max: pick(&[5, 1, 12]),
            batch: pick(&[3, 1, 8]),
            compressed: pick(&[0, 1]) > 0,
            buffer_bytes: pick(&[1 << 20, 1, 600]),
            make_ms: pick(&[5, 0, 100]),
            leave_ms: pick(&[0, 2, 40]),
            consume_ms: pick(&[5, 0, 100]),
            requests: pick(&[1, 1, 2]),
            ahead: pick(&[8, 1, 3]),
            rounds_of_read: pick(&[20, 60]),
            leaves: small(pick(&[0, 5, 30])),
        })
    }

    /// How many elements a split has: the same whoever makes them, and whenever.
    pub const fn elements_of(&self, split: u64) -> u64 {
        let mixed = split.wrapping_add(SALT_OF_ELEMENTS).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let spread = mixed ^ (mixed >> 29);
        match spread.checked_rem(self.elements_max.saturating_add(1)) {
            Some(count) => count,
            None => 0,
        }
    }

    /// Elements of all splits.
    pub fn elements_of_all(&self) -> u64 {
        (0..self.splits).map(|split| self.elements_of(split)).fold(0, u64::saturating_add)
    }
}

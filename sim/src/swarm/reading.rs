//! The part of a run in which records are read by split.

use serde::{Deserialize, Serialize};

use super::elements::SALT_OF_ELEMENTS;
use crate::rng::Stream;

/// Readers of records, and what they read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadingShape {
    /// Readers.
    pub readers: u32,
    /// Whether splits are dealt out among them by place.
    pub grouped: bool,
    /// Splits of one pass.
    pub splits: u64,
    /// Passes.
    pub passes: u64,
    /// Records of a split at most.
    pub records_max: u64,
    /// Records in one message.
    pub batch: u64,
    /// Splits that a reader wants to hold.
    pub hold: u32,
    /// How long it takes to consume a batch, in ms.
    pub consume_ms: u64,
    /// How likely a position is saved after a batch, in thousandths; and restored at times.
    pub positions: u32,
    /// How long a reader may be silent, in ms.
    pub timeout_ms: u64,
    /// How likely a reader is closed after a batch, in thousandths.
    #[serde(default)]
    pub closes: u32,
    /// How likely a reader is closed soon after it begins, while it may still join, in thousandths.
    #[serde(default)]
    pub hasty: u32,
    /// How likely what was consumed is to be acknowledged after a batch, without a position, in
    /// thousandths.
    #[serde(default)]
    pub flushes: u32,
    /// Whether they read what readers by element read, beside them.
    #[serde(default)]
    pub beside_elements: bool,
    /// How likely the whole group begins anew with another size after a batch, in thousandths.
    #[serde(default)]
    pub resizes: u32,
}

impl ReadingShape {
    /// Mostly nobody reads so.
    pub(super) fn draw(s: &mut Stream) -> Option<Self> {
        s.chance(300).then(|| Self::drawn(s))
    }

    pub(super) fn drawn(s: &mut Stream) -> Self {
        let mut pick = |of: &[u64]| s.pick(of).copied().unwrap_or(1);
        Self {
            readers: super::draw::small(pick(&[2, 1, 3])),
            grouped: pick(&[0, 1]) > 0,
            splits: pick(&[6, 1, 3, 12, 40]),
            passes: pick(&[1, 2]),
            records_max: pick(&[7, 1, 20]),
            batch: pick(&[3, 1, 8]),
            hold: super::draw::small(pick(&[3, 1, 8])),
            consume_ms: pick(&[50, 5, 300]),
            positions: super::draw::small(pick(&[0, 30, 150])),
            timeout_ms: pick(&[3000, 1000, 8000]),
            closes: 0,
            hasty: 0,
            flushes: 0,
            beside_elements: false,
            resizes: 0,
        }
    }

    /// Applications that leave before the end, and those that ask for acknowledgements, come from a stream
    /// that was added later.
    pub(super) fn draw_closing(&mut self, s: &mut Stream) {
        let mut pick = |of: &[u32]| s.pick(of).copied().unwrap_or(0);
        self.closes = pick(&[0, 10, 60]);
        self.hasty = pick(&[0, 0, 300]);
        self.flushes = pick(&[0, 100, 400]);
    }

    /// Splits of all passes.
    pub const fn places(&self) -> u64 {
        self.splits.saturating_mul(self.passes)
    }

    /// How many records a split has: the same whoever reads it, and whenever.
    /// Beside readers by element a split has as many records as elements.
    pub const fn records_of(&self, split: u64) -> u64 {
        let salt = if self.beside_elements { SALT_OF_ELEMENTS } else { 7 };
        let mixed = split.wrapping_add(salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let spread = mixed ^ (mixed >> 29);
        match spread.checked_rem(self.records_max.saturating_add(1)) {
            Some(count) => count,
            None => 0,
        }
    }
}

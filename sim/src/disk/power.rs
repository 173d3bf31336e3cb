//! What the disk does on its own: losing pending writes with the power, and turning bits over.

use super::file::{File, FileId, Write};
use super::lies::Lies;
use super::{Disk, Named};
use crate::rng::Stream;

/// Which things may happen to pending writes when the power goes. With none, all are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutFaults {
    /// They may be lost from some write on.
    pub lost: bool,
    /// Any of them may be lost.
    pub reordered: bool,
    /// The last one kept may be torn at any byte.
    pub torn: bool,
}

/// What happened to pending writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutOutcome {
    /// Writes, and changes of names, that are gone.
    pub lost: u64,
    /// A later write is there and an earlier one is not.
    pub reordered: bool,
    /// Writes of which only the beginning is there.
    pub torn: u64,
    /// A sync had been a lie: what was promised to be durable may be among what is gone.
    pub broke_word: bool,
}

impl Disk {
    /// Cuts the power: decides about every pending write, and a reader sees what is left.
    pub fn power_cut(&mut self, faults: CutFaults, stream: &mut Stream) -> CutOutcome {
        let mut outcome = CutOutcome::default();
        self.cuts = self.cuts.saturating_add(1);
        for file in &mut self.files {
            file.cut(faults, stream, &mut outcome);
        }
        for change in self.changes.drain(..) {
            if faults.lost && stream.chance(500) {
                outcome.lost = outcome.lost.saturating_add(1);
            } else {
                change.apply(&mut self.durable_names);
            }
        }
        self.names.clone_from(&self.durable_names);
        outcome.broke_word = self.has_lied();
        // What is left now is all that there is.
        self.lies = Lies::default();
        outcome
    }

    /// Turns a bit of a stored file over; which one is decided by `stream`. Says where.
    pub fn flip_bit(&mut self, under: &str, stream: &mut Stream) -> Option<(String, usize)> {
        let inside = self.names.iter().filter(|(path, _)| path.starts_with(under));
        let files: Vec<(String, FileId)> = inside
            .filter_map(|(path, named)| match named {
                Named::File(id) => Some((path.clone(), *id)),
                Named::Dir => None,
            })
            .filter(|(_, id)| self.size_bytes(*id) > 0)
            .collect();
        let (path, id) = stream.pick(&files)?.clone();
        let at = stream.below(self.size_bytes(id));
        let at = usize::try_from(at).ok()?;
        let bit = stream.below(8);
        let file = self.file_mut(id).ok()?;
        *file.flips.entry(at).or_insert(0) ^= 1 << bit;
        Some((path, at))
    }

    /// Lifts all damage.
    pub fn lift_damage(&mut self) {
        for file in &mut self.files {
            file.flips.clear();
        }
    }

    /// Whether any file is damaged.
    pub fn is_damaged(&self) -> bool {
        self.files.iter().any(|file| file.flips.values().any(|mask| *mask != 0))
    }
}

impl File {
    fn cut(&mut self, faults: CutFaults, stream: &mut Stream, outcome: &mut CutOutcome) {
        if self.pending.is_empty() && self.seen == self.durable {
            return;
        }
        let count = self.pending.len() as u64;
        // From here on everything is lost.
        let end = match faults.lost {
            true => count.saturating_sub(stream.below(count.saturating_add(1))),
            false => count,
        };
        let mut gap = false;
        let mut last = None;
        for (index, write) in (0..count).zip(self.pending.drain(..)) {
            let lost = index >= end || faults.reordered && stream.chance(400);
            if lost {
                outcome.lost = outcome.lost.saturating_add(1);
                gap = true;
                continue;
            }
            outcome.reordered |= gap;
            last = Some(write.clone());
            if index + 1 < end || !faults.torn {
                write.apply(&mut self.durable);
            }
        }
        if let Some(write) = last.filter(|_| faults.torn) {
            tear(&write, &mut self.durable, stream, outcome);
        }
        self.seen.clone_from(&self.durable);
    }
}

/// Applies the beginning of a write, or all of it.
fn tear(write: &Write, durable: &mut Vec<u8>, stream: &mut Stream, outcome: &mut CutOutcome) {
    let missing = stream.below(write.len() as u64 + 1);
    let missing = usize::try_from(missing).unwrap_or(0);
    if missing == 0 {
        return write.apply(durable);
    }
    outcome.torn = outcome.torn.saturating_add(1);
    write.torn(write.len().saturating_sub(missing)).apply(durable);
}

//! The verdict over a journal, found while its groups are read in order.

use alloc::string::String;

use crate::ids::Lsn;

/// What a commit group says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHeader {
    /// Position of the group's first record; for an empty group, of the record that comes next.
    pub first: Lsn,
    /// Number of records; 0 for a mere mark of durability.
    pub count: u64,
    /// Everything up to here was durable when the group was written.
    pub durable_upto: Lsn,
}

/// Up to which record the server has sent replies, as the note beside the journal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// Up to this record and no further. The process died and the machine did not, so everything that the
    /// server wrote is still there.
    Exactly(Lsn),
    /// Up to this record at least. The machine was started again since, or the directory is a copy, so the
    /// server may have sent replies to later records too.
    AtLeast(Lsn),
}

impl Noted {
    /// The record that the note names.
    pub const fn upto(self) -> Lsn {
        match self {
            Self::Exactly(upto) | Self::AtLeast(upto) => upto,
        }
    }
}

/// Why a journal cannot be recovered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// An acknowledged record cannot be read.
    #[error(
        "record {lsn} is damaged at {place}: {reason}. It was acknowledged (the journal was durable \
         up to record {durable_upto}), so starting without it would lose data. Restore the data \
         directory from a copy, or cut the journal before this record with \
         `rondo journal compact --cut-before {lsn}`, which loses every later update"
    )]
    Damaged {
        /// The first record that cannot be read.
        lsn: Lsn,
        /// Where it stands.
        place: String,
        /// What is wrong with it.
        reason: String,
        /// How far the journal is known to have been durable.
        durable_upto: Lsn,
    },
    /// A record is there twice, before the start, or in a segment that is named after another one.
    #[error(
        "record {found} at {place} stands where record {expected} should: the journal's files are mixed up"
    )]
    OutOfOrder {
        /// The position read.
        found: Lsn,
        /// The position that comes next, or that the segment is named after.
        expected: Lsn,
        /// Where it stands.
        place: String,
    },
    /// The note of acknowledged records is older than the journal, so it says nothing of it.
    #[error(
        "the note of acknowledged records says {noted}, and the group at {place} was written when the \
         journal was durable up to record {durable_upto}: the note is older than the journal"
    )]
    StaleNote {
        /// The record that the note names.
        noted: Lsn,
        /// How far the group says that the journal was durable.
        durable_upto: Lsn,
        /// Where the group stands.
        place: String,
    },
}

/// Follows the groups of a journal in order.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The first record that is in no snapshot.
    start: Lsn,
    /// The record that comes next.
    next: Lsn,
    /// The greatest mark of durability seen.
    durable_upto: Lsn,
    /// The first record that may lie in the segment now read.
    segment: Lsn,
    /// Whether nothing of that segment was read yet.
    segment_begins: bool,
    /// The last record whose reply may have left, where that is known exactly.
    acknowledged: Option<Lsn>,
    /// Whether good records were passed over because nobody was ever told of them.
    unacknowledged: bool,
    /// The first place where the chain of records breaks, if it does.
    broken: Option<Broken>,
}

/// Where and how the chain of records breaks.
#[derive(Clone, Debug)]
struct Broken {
    place: String,
    reason: String,
}

/// What to do with the group just reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Apply its records.
    Apply,
    /// Nothing in it to apply: a mark, or a group after a break.
    Skip,
}

/// How a journal ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The record that the journal continues with.
    pub next: Lsn,
    /// What was cut and why, if the journal ended in an unfinished write.
    pub cut: Option<String>,
}

impl Scan {
    /// Starts before record `next`, everything earlier being in a snapshot.
    pub const fn starting_at(next: Lsn) -> Self {
        let durable_upto = Lsn::new(next.get().saturating_sub(1));
        Self {
            start: next,
            next,
            durable_upto,
            segment: next,
            segment_begins: false,
            acknowledged: None,
            unacknowledged: false,
            broken: None,
        }
    }

    /// Says that, by a note, no reply that depends on a record after `upto` has left, and that everything
    /// written is still there: the process died, and not the machine. A process writes the note before it
    /// writes a group that says as much.
    ///
    /// Whoever waited for a later record was told nothing and asks again; cutting it gives them
    /// what they asked for, where keeping it would lose it to them (a split, say).
    #[must_use]
    pub const fn acknowledged_upto(mut self, upto: Lsn) -> Self {
        self.acknowledged = Some(upto);
        self
    }

    /// Takes what a note says.
    #[must_use]
    pub fn noted(mut self, noted: Noted) -> Self {
        match noted {
            Noted::Exactly(upto) => self.acknowledged_upto(upto),
            Noted::AtLeast(upto) => {
                self.durable(upto);
                self
            }
        }
    }

    /// Takes the next readable group, found at `place`.
    ///
    /// # Errors
    /// When the group's records were seen before, when its segment is named after others, and when it
    /// proves that the note of acknowledged records is older than the journal.
    pub fn group(&mut self, header: &GroupHeader, place: &str) -> Result<Verdict, RecoverError> {
        self.check_name(header, place)?;
        self.check_note(header, place)?;
        self.durable_upto = self.durable_upto.max(header.durable_upto);
        let end = Lsn::new(header.first.get().saturating_add(header.count));
        // A segment may outlive the snapshot that it went into: the process died before its removal.
        if header.count == 0 || end <= self.start {
            return Ok(Verdict::Skip);
        }
        if self.acknowledged_or_kept().is_some_and(|upto| header.first > upto) {
            self.unacknowledged = true;
            return Ok(Verdict::Skip);
        }
        // Behind damage too: the journal could not be cut before the damage then. And what lies in
        // a segment that is named after later records would go with it when they are cut.
        let expected = self.next.max(self.segment);
        if header.first < expected {
            let (found, place) = (header.first, place.into());
            return Err(RecoverError::OutOfOrder { found, expected, place });
        }
        if header.first == self.next {
            // What was damaged before held no record, or this one could not come next.
            self.broken = None;
            self.next = end;
            return Ok(Verdict::Apply);
        }
        if self.broken.is_some() {
            return Ok(Verdict::Skip);
        }
        let reason = alloc::format!("record {} follows instead", header.first);
        self.broken = Some(Broken { place: place.into(), reason });
        Ok(Verdict::Skip)
    }

    /// Refuses a segment that begins with another record than its name says: names tell which segments a
    /// snapshot covers and how far the journal was durable.
    fn check_name(&mut self, header: &GroupHeader, place: &str) -> Result<(), RecoverError> {
        let begins = core::mem::take(&mut self.segment_begins);
        if !begins || header.first == self.segment {
            return Ok(());
        }
        let (found, expected, place) = (header.first, self.segment, place.into());
        Err(RecoverError::OutOfOrder { found, expected, place })
    }

    /// Refuses a note that is older than a group.
    fn check_note(&self, header: &GroupHeader, place: &str) -> Result<(), RecoverError> {
        match self.acknowledged {
            Some(noted) if noted < header.durable_upto => Err(RecoverError::StaleNote {
                noted,
                durable_upto: header.durable_upto,
                place: place.into(),
            }),
            _ => Ok(()),
        }
    }

    /// The last record whose reply may have left, if that is known. What is in the snapshot stays.
    fn acknowledged_or_kept(&self) -> Option<Lsn> {
        let kept = Lsn::new(self.start.get().saturating_sub(1));
        self.acknowledged.map(|upto| upto.max(kept))
    }

    /// Takes notice of bytes at `place` that are no group, for `reason`.
    pub fn damaged(&mut self, place: &str, reason: &str) {
        self.segment_begins = false;
        if self.broken.is_none() {
            self.broken = Some(Broken { place: place.into(), reason: reason.into() });
        }
    }

    /// Says that the groups that follow lie in the segment that begins with record `first`: all
    /// before it was durable when that segment was opened.
    pub fn segment(&mut self, first: Lsn) {
        self.segment = first;
        self.segment_begins = true;
        self.durable(Lsn::new(first.get().saturating_sub(1)));
    }

    /// Says that everything up to `upto` is known to have been durable (a closed segment, say).
    pub fn durable(&mut self, upto: Lsn) {
        self.durable_upto = self.durable_upto.max(upto);
    }

    /// The record that comes next.
    pub const fn next(&self) -> Lsn {
        self.next
    }

    /// Ends the journal.
    ///
    /// # Errors
    /// When the chain of records breaks before one that was durable.
    pub fn finish(mut self) -> Result<End, RecoverError> {
        if let Some(upto) = self.acknowledged_or_kept() {
            // Exact both ways: it was durable before anybody was told, and nobody was told of more.
            self.durable_upto = upto;
        }
        let missing_durable = self.durable_upto >= self.next;
        match self.broken {
            Some(broken) if missing_durable => Err(RecoverError::Damaged {
                lsn: self.next,
                place: broken.place,
                reason: broken.reason,
                durable_upto: self.durable_upto,
            }),
            None if missing_durable => Err(RecoverError::Damaged {
                lsn: self.next,
                place: "the end of the journal".into(),
                reason: "the journal ends before it".into(),
                durable_upto: self.durable_upto,
            }),
            Some(broken) => {
                let cut = alloc::format!(
                    "unfinished write of record {} cut at {}: {}",
                    self.next,
                    broken.place,
                    broken.reason
                );
                Ok(End { next: self.next, cut: Some(cut) })
            }
            None if self.unacknowledged => Ok(End {
                next: self.next,
                cut: Some(alloc::format!(
                    "records from {} on cut: nobody was ever told of them",
                    self.next
                )),
            }),
            None => Ok(End { next: self.next, cut: None }),
        }
    }
}

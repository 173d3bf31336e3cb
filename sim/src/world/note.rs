//! The note of acknowledged records comes back older or newer than the journal.

use rondo_core::ids::Lsn;
use rondo_core::journal::Noted;

use super::World;
use super::letter::NODE;
use crate::fault::Fault;
use crate::mark::Mark;
use crate::oracle::Seen;
use crate::process::{noted, proven_durable, put_note};
use crate::rng::Stream;

/// How many records a note may name beyond the journal.
const BEYOND_MAX: u64 = 5;
/// How often the power is cut before a newer note is found.
const POWER_CUT_PER_MILLE: u32 = 500;

impl World {
    /// The process dies, and the next one finds another note.
    pub(super) fn change_note(&mut self, fault: Fault, s: &mut Stream) {
        let node = &self.node;
        let whole = !node.disk.has_lied() && !node.broke_word && !node.disk.is_damaged();
        if !whole || node.node.is_none() {
            return;
        }
        match fault {
            Fault::OlderNote => self.put_older_image_back(s),
            _ => self.put_newer_note(s),
        }
    }

    /// What was not synced is lost. The image has a note that was written back at some time before, and the
    /// machine has not been down.
    fn put_older_image_back(&mut self, s: &mut Stream) {
        self.die(true);
        let proven = proven_durable(&self.node.disk);
        if proven == Lsn::NONE {
            return;
        }
        let upto = Lsn::new(s.below(proven.get()));
        put_note(&mut self.node.disk, Noted::Exactly(upto));
        self.struck(Fault::OlderNote, NODE, || format!("says {upto}, and {proven} was durable"));
    }

    /// Older segments come back under the note of later ones, at once or after the power was cut.
    fn put_newer_note(&mut self, s: &mut Stream) {
        let Some(before) = noted(&self.node.disk).map(Noted::upto) else {
            return self.die(false);
        };
        let last = self.oracles.shadow().last();
        let upto = Lsn::new(last.get().saturating_add(s.between(1, BEYOND_MAX)));
        let power = s.chance(POWER_CUT_PER_MILLE);
        self.die(power);
        let of_boot = if power { Noted::AtLeast } else { Noted::Exactly };
        put_note(&mut self.node.disk, of_boot(upto));
        self.node.note_before = Some(of_boot(before));
        if power {
            self.tally.mark(Mark::NewerNoteOfFormerBoot);
        }
        self.struck(Fault::NewerNote, NODE, || {
            format!("says {upto}, and {last} is the last record")
        });
    }

    /// The power was cut. A note that names records which are not there may have survived, as one of a former
    /// boot.
    pub(super) fn note_survives(&mut self) {
        let now = noted(&self.node.disk).map(Noted::upto);
        let before = self.node.note_before.take().map(Noted::upto).filter(|it| now > Some(*it));
        self.node.note_before = before.map(Noted::AtLeast);
    }

    /// A process starts. It must not if the note names records that are not there.
    pub(super) fn check_note(&mut self) {
        if self.node.note_before.take().is_some() {
            self.see(&Seen::NoteIgnored);
        }
    }
}

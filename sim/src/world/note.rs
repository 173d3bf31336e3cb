//! The note of acknowledged records comes back older or newer than the journal.

use rondo_core::ids::Lsn;

use super::World;
use super::letter::NODE;
use crate::fault::Fault;
use crate::oracle::Seen;
use crate::process::{note, noted, proven_durable};
use crate::rng::Stream;

/// How many records a note may name beyond the journal.
const BEYOND_MAX: u64 = 5;

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
        note(&mut self.node.disk, upto);
        self.struck(Fault::OlderNote, NODE, || format!("says {upto}, and {proven} was durable"));
    }

    /// Older segments come back under the note of later ones.
    fn put_newer_note(&mut self, s: &mut Stream) {
        self.die(false);
        let Some(before) = noted(&self.node.disk) else {
            return;
        };
        let last = self.oracles.shadow().last();
        let upto = Lsn::new(last.get().saturating_add(s.between(1, BEYOND_MAX)));
        note(&mut self.node.disk, upto);
        self.node.note_before = Some(before);
        self.struck(Fault::NewerNote, NODE, || {
            format!("says {upto}, and {last} is the last record")
        });
    }

    /// A process starts. It must not if the note names records that are not there.
    pub(super) fn check_note(&mut self) {
        if self.node.note_before.take().is_some() {
            self.see(&Seen::NoteIgnored);
        }
    }
}

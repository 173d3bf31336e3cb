//! The node comes back otherwise than it went: on an empty disk, with other settings, over the
//! journal of an older version.

use super::World;
use super::letter::NODE;
use crate::disk::Disk;
use crate::fault::Fault;
use crate::oracle::Seen;
use crate::process::age;
use crate::rng::Stream;

impl World {
    /// The node goes, and comes back otherwise.
    pub(super) fn change_node(&mut self, fault: Fault, s: &mut Stream) {
        match fault {
            Fault::EmptyDisk => self.replace_disk(s),
            Fault::OtherSettings => self.change_settings(s),
            _ => self.age_journal(),
        }
    }

    /// What was acknowledged is lost by intent, and the promises begin anew. Clients and workers go
    /// on with what they were told. Once in a run: nothing would grow old otherwise.
    fn replace_disk(&mut self, s: &mut Stream) {
        if self.node.disks > 0 || !s.chance(300) {
            return;
        }
        self.struck(Fault::EmptyDisk, NODE, String::new);
        // What the former machine has sent is lost with its connections; what was sent to it may
        // arrive at the new one.
        for (from, to) in self.letters.lose_replies() {
            self.net.arrived(from, to);
        }
        self.die(false);
        self.node.disk = Disk::new();
        self.node.disks += 1;
        (self.node.power_was_cut, self.node.broke_word) = (false, false);
        self.node.note_before = None;
        self.oracles.begin_anew(&self.node.settings);
    }

    fn change_settings(&mut self, s: &mut Stream) {
        let (settings, shape) = self.swarm.other_settings(s);
        self.struck(Fault::OtherSettings, NODE, || format!("{settings:?} {shape:?}"));
        self.node.shape = shape;
        match s.chance(500) {
            true => self.die(false),
            false => self.stop_gracefully(),
        }
        self.node.settings_changed = true;
        self.node.settings = settings.clone();
        self.see(&Seen::Configured(&settings));
    }

    /// An older version has run until now, as far as one can tell from what it left behind.
    fn age_journal(&mut self) {
        let node = &self.node;
        let whole = !node.disk.has_lied() && !node.broke_word;
        if !whole || node.node.is_none() || node.disk.is_damaged() {
            return;
        }
        self.stop_gracefully();
        let failed = self.node.disk_failed || self.node.disk.free_bytes().is_some();
        if failed {
            return;
        }
        if let Ok(Some(state)) = age(&mut self.node.disk) {
            self.struck(Fault::OlderJournal, NODE, String::new);
            self.oracles.journal_rewritten(&state);
        }
    }
}

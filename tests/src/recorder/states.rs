//! The states that a power cut or a kill may leave, a sample of them where there are too many.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::disk::{Disk, Kept};
use super::trace::{Call, Moment, moments};
use super::tree::{Tree, write_tree};
use crate::binary;
use crate::random::Random;

/// The test looks at these states at each moment, and at others that it draws.
const CERTAIN: [Kept; 4] = [Kept::Synced, Kept::Everything, Kept::Bytes, Kept::Names];

/// What a recorded process has promised and been asked so far.
pub trait Promises {
    /// Takes a begin or an end of a call. True if it promised more.
    ///
    /// # Errors
    /// What it promised too early, `disk` being as it is then.
    fn take(&mut self, moment: Moment<'_>, disk: &Disk) -> Result<bool, String>;

    /// Looks at what a start over the folder finds.
    ///
    /// # Errors
    /// Which promise is broken.
    fn check(&mut self, folder: &Path) -> Result<(), String>;
}

/// What one recording, of one or more lives of a process, has been looked at in.
#[derive(Debug)]
pub struct States {
    /// How many draws there are at one moment of what a power cut keeps.
    draws: u64,
    /// How many states are looked at of each life, some of them like others.
    looked_at: u64,
    random: Random,
    seen: HashSet<blake3::Hash>,
    /// Where states are written.
    scratch: TempDir,
    /// Starts over a state.
    started: u64,
    /// States that there were.
    pub candidates: u64,
    /// States that were checked, no two alike.
    pub checked: u64,
}

impl States {
    /// For `looked_at` states of each life, drawn `draws` times at each moment; or as many times that as
    /// `RONDO_POWER_CUTS` says.
    pub fn new(looked_at: u64, draws: u64, seed: u64) -> Self {
        let times =
            env::var("RONDO_POWER_CUTS").map_or(1, |times| times.parse().expect("a number"));
        Self {
            draws: draws * times,
            looked_at: looked_at * times,
            random: Random::new(seed),
            seen: HashSet::new(),
            scratch: scratch(),
            started: 0,
            candidates: 0,
            checked: 0,
        }
    }

    /// Follows one life of the recorded process over `disk`, and checks what a start after a power cut or a
    /// kill at any of its moments finds.
    ///
    /// # Errors
    /// What is wrong, and after which line of the trace.
    pub fn follow(
        &mut self,
        calls: &[Call],
        disk: &mut Disk,
        promises: &mut dyn Promises,
    ) -> Result<(), String> {
        let moments = moments(calls);
        let mut dry = disk.clone();
        let changes = moments.iter().filter(|moment| dry.take(**moment)).count() as u64;
        let candidates = changes * (self.draws + CERTAIN.len() as u64);
        self.candidates += candidates;
        for moment in moments {
            let changed = disk.take(moment);
            let at = match moment {
                Moment::Begins(call) => format!("line {}, begin of {}", call.began + 1, call.name),
                Moment::Ends(call) => format!("line {}, end of {}", call.ended + 1, call.name),
            };
            let promised = promises.take(moment, disk).map_err(|error| format!("{at}: {error}"))?;
            if !changed && !promised {
                continue;
            }
            for kept in self.variants() {
                let is_drawn = self.random.below(candidates) < self.looked_at;
                if is_drawn {
                    let checked = self.check(&disk.left(kept), kept, promises);
                    checked.map_err(|error| format!("{at}, {kept:?} left: {error}"))?;
                }
            }
        }
        Ok(())
    }

    fn variants(&mut self) -> Vec<Kept> {
        let draws = (0..self.draws).map(|_| Kept::Some(self.random.below(u64::MAX)));
        CERTAIN.into_iter().chain(draws).collect()
    }

    fn check(
        &mut self,
        tree: &Tree,
        kept: Kept,
        promises: &mut dyn Promises,
    ) -> Result<(), String> {
        let is_new = self.seen.insert(hash_of(tree));
        // After a promise a state that was fine before may not be.
        if !is_new && kept != Kept::Synced {
            return Ok(());
        }
        self.checked += u64::from(is_new);
        self.started += 1;
        let folder = self.scratch.path().join(self.started.to_string());
        write_tree(tree, &folder);
        let checked = promises.check(&folder);
        // What is left of a failure is looked at.
        if checked.is_err() {
            let kept_at = binary::root().join("target").join("power_cut");
            let _ = fs::remove_dir_all(&kept_at);
            write_tree(tree, &kept_at);
            return checked.map_err(|error| format!("{error} ({} has it)", kept_at.display()));
        }
        // sled's own threads may still write to it; all goes with the folder above.
        let _ = fs::remove_dir_all(&folder);
        Ok(())
    }
}

/// A folder in memory where there is one: these files need not outlive anything.
fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    made.or_else(|_| TempDir::new()).expect("there is room for temporary files")
}

/// Stands for a tree with all that is in it.
fn hash_of(tree: &Tree) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for (path, bytes) in tree {
        // Each part is of a length that is told, so no two trees look alike.
        let path = path.as_os_str().as_encoded_bytes();
        let bytes_len = bytes.as_ref().map_or(-1, |bytes| bytes.len() as i64);
        hasher.update(&path.len().to_le_bytes()).update(path).update(&bytes_len.to_le_bytes());
        hasher.update(bytes.as_deref().unwrap_or_default());
    }
    hasher.finalize()
}

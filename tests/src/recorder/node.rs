//! One file or directory: what of it is durable, and what a power cut leaves of the rest.

use super::contents::{Change, Contents, tear};
use crate::random::Random;

/// A file or a directory.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) durable: Contents,
    pub(super) pending: Vec<Pending>,
}

/// A change that is not durable.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) id: u64,
    pub(super) has_ended: bool,
    /// The process was killed in it, so that it may not have happened.
    pub(super) is_doubtful: bool,
    pub(super) change: Change,
}

/// Which changes a power cut keeps of those that are not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Nothing.
    Synced,
    /// All: the process died and the machine did not.
    Everything,
    /// All that was written to files, and no name: a file system may write names later than bytes.
    Bytes,
    /// All names, and nothing that was written to files.
    Names,
    /// Some changes, drawn from this seed: any of them, and the last write torn anywhere.
    Some(u64),
}

impl Node {
    /// The contents that the disk has when the power comes back. `salt` differs for each node.
    pub(super) fn left(&self, kept: Kept, salt: u64) -> Contents {
        let mut contents = self.durable.clone();
        let is_dir = matches!(contents, Contents::Dir(_));
        let seed = match kept {
            Kept::Some(seed) => seed,
            Kept::Synced => return contents,
            Kept::Bytes if is_dir => return contents,
            Kept::Names if !is_dir => return contents,
            Kept::Everything | Kept::Bytes | Kept::Names => {
                self.pending.iter().for_each(|pending| contents.apply(&pending.change));
                return contents;
            }
        };
        let mut random = Random::new(seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let count = self.pending.len() as u64;
        // All up to one of them, or any of them.
        let (end, is_any) = (random.below(count + 1), random.one_in(2));
        let is_kept = |at: u64, random: &mut Random| match is_any {
            true => random.one_in(2),
            false => at < end,
        };
        let chosen: Vec<&Pending> = (0..count)
            .zip(&self.pending)
            .filter(|(at, _)| is_kept(*at, &mut random))
            .map(|(_, pending)| pending)
            .collect();
        let torn = random.below(3);
        for (at, pending) in chosen.iter().enumerate() {
            match &pending.change {
                Change::Write(place, bytes) if torn > 0 && at + 1 == chosen.len() => {
                    contents.apply(&tear(*place, bytes, torn == 1, &mut random));
                }
                change => contents.apply(change),
            }
        }
        contents
    }
}

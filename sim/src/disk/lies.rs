//! Which syncs of a disk were lies that are still to be found out.

use std::collections::{BTreeMap, BTreeSet};

use super::FileId;

/// Syncs that were said to be done and were not, by file.
#[derive(Clone, Debug, Default)]
pub(super) struct Lies {
    /// Files whose last sync was one, and how many of their writes it was for.
    told: BTreeMap<FileId, u64>,
    /// Files of which a failed sync dropped what one was for: no later one makes it good.
    dropped: BTreeSet<FileId>,
}

impl Lies {
    /// A sync for the first `begun` writes of a file was one.
    pub(super) fn tell(&mut self, file: FileId, begun: u64) {
        let told = self.told.entry(file).or_default();
        *told = begun.max(*told);
    }

    /// A sync was none: what was said of the writes it was for is true now.
    pub(super) fn kept(&mut self, file: FileId, begun: u64) {
        self.told.retain(|told, of| *told != file || *of > begun);
    }

    /// A sync failed. What it was for may be dropped, and no later sync looks at it again.
    pub(super) fn failed(&mut self, file: FileId) {
        if self.told.remove(&file).is_some() {
            self.dropped.insert(file);
        }
    }

    /// Files of which something that was promised to be durable may not be.
    pub(super) fn files(&self) -> impl Iterator<Item = FileId> + '_ {
        self.told.keys().chain(&self.dropped).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(1);
    const OTHER: FileId = FileId(2);

    fn of(lies: &Lies) -> Vec<FileId> {
        lies.files().collect()
    }

    #[test]
    fn only_a_sync_for_as_much_of_the_same_file_makes_it_good() {
        let mut lies = Lies::default();
        assert!(of(&lies).is_empty());
        lies.tell(FILE, 3);
        lies.kept(OTHER, 9);
        assert_eq!(of(&lies), [FILE]);
        lies.kept(FILE, 2);
        assert_eq!(of(&lies), [FILE], "that one had begun before");
        lies.kept(FILE, 3);
        assert!(of(&lies).is_empty());
    }

    /// Found by seed 873 of the shell world, which took the good sync after a failed one at its word.
    #[test]
    fn none_makes_good_what_a_failed_one_dropped() {
        let mut lies = Lies::default();
        lies.failed(FILE);
        assert!(of(&lies).is_empty(), "nothing was promised");
        lies.tell(FILE, 3);
        lies.failed(OTHER);
        lies.failed(FILE);
        lies.kept(FILE, 9);
        assert_eq!(of(&lies), [FILE]);
    }
}

//! Which syncs of a disk were lies, and whether one is still to be found out.

use std::collections::BTreeMap;

use super::FileId;

/// Syncs that were said to be done and were not.
#[derive(Clone, Debug, Default)]
pub struct Lies {
    /// Files whose last sync was one, and how many of their writes it was for.
    told: BTreeMap<FileId, u64>,
    /// A failed sync dropped what one was for: no later one makes it good.
    dropped: bool,
}

impl Lies {
    /// A sync for the first `begun` writes of a file was one.
    pub fn tell(&mut self, file: FileId, begun: u64) {
        let told = self.told.entry(file).or_default();
        *told = begun.max(*told);
    }

    /// A sync was none: what was said of the writes it was for is true now.
    pub fn kept(&mut self, file: FileId, begun: u64) {
        self.told.retain(|told, of| *told != file || *of > begun);
    }

    /// A sync failed. What it was for may be dropped, and no later sync looks at it again.
    pub fn failed(&mut self, file: FileId) {
        self.dropped |= self.told.remove(&file).is_some();
    }

    /// The power goes; says whether that may take something that was promised to be durable. What is
    /// left then is all that there is.
    pub fn come_out(&mut self) -> bool {
        let Self { told, dropped } = std::mem::take(self);
        dropped || !told.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(1);
    const OTHER: FileId = FileId(2);

    #[test]
    fn a_lie_comes_out_with_the_power() {
        let mut lies = Lies::default();
        assert!(!lies.come_out());
        lies.tell(FILE, 3);
        lies.kept(OTHER, 9);
        assert!(lies.come_out());
        assert!(!lies.come_out(), "what was lost then is known");
    }

    #[test]
    fn only_a_sync_for_as_much_makes_it_good() {
        let mut lies = Lies::default();
        lies.tell(FILE, 3);
        lies.kept(FILE, 2);
        assert!(lies.clone().come_out(), "that one had begun before");
        lies.kept(FILE, 3);
        assert!(!lies.come_out());
    }

    /// Found by seed 873 of the shell world, which took the good sync after a failed one at its word.
    #[test]
    fn none_makes_good_what_a_failed_one_dropped() {
        let mut lies = Lies::default();
        lies.failed(FILE);
        assert!(!lies.come_out(), "nothing was promised");
        lies.tell(FILE, 3);
        lies.failed(OTHER);
        lies.failed(FILE);
        lies.kept(FILE, 9);
        assert!(lies.come_out());
    }
}

//! Which splits are with which task: remembered as runs of successive ones until the task ends, so
//! that a lost worker's splits can be counted and handed out again.
//!
//! A split is named by its place in its pass, not by its value. Whoever asks for splits without
//! saying who it is takes *unattributed* ones; of those only the number is known.

use alloc::collections::BTreeMap;

use crate::ids::WorkerId;
use crate::limits::{SPLIT_RUNS_AGAIN_MAX, SPLIT_RUNS_PER_TASK_MAX};

/// Successive splits of one pass over one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitRun {
    /// Index of the source.
    pub source: u32,
    /// The pass.
    pub repetition: i64,
    /// Place of the first in the pass, from 0.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// A set of splits of one iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitSet {
    /// Lengths of runs by source, pass and first place.
    runs: BTreeMap<(u32, i64, u64), u64>,
    count: u64,
}

impl SplitSet {
    /// How many splits there are in it.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Its runs, by source, pass and place.
    pub fn runs(&self) -> impl Iterator<Item = SplitRun> + '_ {
        let run = |((source, repetition, first), count): (&(u32, i64, u64), &u64)| SplitRun {
            source: *source,
            repetition: *repetition,
            first: *first,
            count: *count,
        };
        self.runs.iter().map(run)
    }

    pub(super) fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// Adds a split that is not in it.
    pub(super) fn insert(&mut self, source: u32, repetition: i64, place: u64) {
        self.count = self.count.saturating_add(1);
        let before = self.runs.range_mut(..=(source, repetition, place)).next_back();
        if let Some(((of, pass, first), count)) = before
            && (*of, *pass) == (source, repetition)
            && first.checked_add(*count) == Some(place)
        {
            *count = count.saturating_add(1);
        } else {
            self.runs.insert((source, repetition, place), 1);
        }
    }

    fn insert_run(&mut self, run: SplitRun) {
        if run.count > 0 {
            let key = (run.source, run.repetition, run.first);
            self.runs.insert(key, run.count);
            self.count = self.count.saturating_add(run.count);
        }
    }

    /// The first split of a pass over a source that is in it.
    pub(super) fn first_of(&self, source: u32, repetition: i64) -> Option<u64> {
        let pass = (source, repetition, 0)..=(source, repetition, u64::MAX);
        self.runs.range(pass).next().map(|((_, _, first), _)| *first)
    }

    /// Takes the first split of a pass over a source out.
    pub(super) fn take_first_of(&mut self, source: u32, repetition: i64) -> Option<u64> {
        let first = self.first_of(source, repetition)?;
        let count = self.runs.remove(&(source, repetition, first))?;
        if count > 1 {
            let rest = (source, repetition, first.saturating_add(1));
            self.runs.insert(rest, count.saturating_sub(1));
        }
        self.count = self.count.saturating_sub(1);
        Some(first)
    }

    /// The splits of a pass over a source that are in it, in order.
    pub(super) fn places_of(&self, source: u32, repetition: i64) -> impl Iterator<Item = u64> + '_ {
        let pass = (source, repetition, 0)..=(source, repetition, u64::MAX);
        let runs = self.runs.range(pass);
        runs.flat_map(|((_, _, first), count)| *first..first.saturating_add(*count))
    }

    /// Whether a split is in it.
    pub(super) fn contains(&self, source: u32, repetition: i64, place: u64) -> bool {
        self.run_with(source, repetition, place).is_some()
    }

    /// Takes a split out, if it is in it.
    pub(super) fn take(&mut self, source: u32, repetition: i64, place: u64) -> bool {
        let Some((first, count)) = self.run_with(source, repetition, place) else {
            return false;
        };
        let before = place.saturating_sub(first);
        let behind = count.saturating_sub(before).saturating_sub(1);
        self.runs.remove(&(source, repetition, first));
        for (first, count) in [(first, before), (place.saturating_add(1), behind)] {
            if count > 0 {
                self.runs.insert((source, repetition, first), count);
            }
        }
        self.count = self.count.saturating_sub(1);
        true
    }

    /// The run that has a split: its first place and its length.
    fn run_with(&self, source: u32, repetition: i64, place: u64) -> Option<(u64, u64)> {
        let mut runs = self.runs.range((source, repetition, 0)..=(source, repetition, place));
        let ((_, _, first), count) = runs.next_back()?;
        (place.saturating_sub(*first) < *count).then_some((*first, *count))
    }

    /// Takes the first run out and says how many splits it had.
    fn drop_first_run(&mut self) -> u64 {
        let count = self.runs.pop_first().map_or(0, |(_, count)| count);
        self.count = self.count.saturating_sub(count);
        count
    }
}

impl FromIterator<SplitRun> for SplitSet {
    fn from_iter<T: IntoIterator<Item = SplitRun>>(runs: T) -> Self {
        let mut set = Self::default();
        runs.into_iter().for_each(|run| set.insert_run(run));
        set
    }
}

/// What a task was handed since it, or its worker's present process, began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSplits {
    /// The splits, but for those forgotten.
    pub remembered: SplitSet,
    /// How many of the earliest were forgotten, since there were too many runs of them.
    pub forgotten: u64,
    /// Unattributed splits of the iteration that were handed out before it began.
    pub unattributed_before: u64,
}

impl TaskSplits {
    pub(super) fn beginning(of: &IterationSplits) -> Self {
        Self { unattributed_before: of.unattributed, ..Self::default() }
    }

    pub(super) fn add(&mut self, source: u32, repetition: i64, place: u64) {
        self.remembered.insert(source, repetition, place);
        if self.remembered.run_count() > SPLIT_RUNS_PER_TASK_MAX {
            let dropped = self.remembered.drop_first_run();
            self.forgotten = self.forgotten.saturating_add(dropped);
        }
    }

    /// Whether splits are known to have been handed to the task.
    pub(super) fn has_any(&self) -> bool {
        !self.remembered.is_empty() || self.forgotten > 0
    }

    /// Whether anything would be missing if the task were lost.
    pub(super) fn may_hold_any(&self, of: &IterationSplits) -> bool {
        self.has_any() || of.unattributed > self.unattributed_before
    }
}

/// What is known of an iteration's splits that are with none of its tasks for sure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IterationSplits {
    /// Splits handed to somebody unknown.
    pub unattributed: u64,
    /// Which of those may have been handed to tasks that were lost.
    pub doubt: Doubt,
    /// Splits handed to tasks that were lost, and not to be handed out again.
    pub lost: u64,
    /// Splits of lost tasks to be handed out again.
    pub again: SplitSet,
    /// How many of those there were when a task was made for their sake.
    pub tried: Option<u64>,
    /// Workers lost with a task, and not heard since, with the number of unattributed splits then.
    pub strays: BTreeMap<WorkerId, u64>,
}

impl IterationSplits {
    /// Takes back what a lost task was handed.
    pub(super) fn take_back(&mut self, splits: TaskSplits, again: bool) {
        self.doubt.widen(splits.unattributed_before, self.unattributed);
        self.lost = self.lost.saturating_add(splits.forgotten);
        for run in splits.remembered.runs() {
            if again && self.again.run_count() < SPLIT_RUNS_AGAIN_MAX {
                self.again.insert_run(run);
                self.tried = None;
            } else {
                self.lost = self.lost.saturating_add(run.count);
            }
        }
    }

    /// Hands nothing out again any more.
    pub(super) fn give_up(&mut self) {
        let again = core::mem::take(&mut self.again);
        self.lost = self.lost.saturating_add(again.count());
        self.tried = None;
        self.strays.clear();
    }

    /// A worker that was lost is heard again: if the process is the same, it went on taking splits
    /// for nobody meanwhile.
    pub(super) fn end_straying(&mut self, worker: WorkerId, reborn: bool) {
        let since = self.strays.remove(&worker);
        if let (Some(since), false) = (since, reborn) {
            self.doubt.widen(since, self.unattributed);
        }
    }
}

/// An upper bound for the number of unattributed splits within several spans of an iteration's
/// life; a span goes from one number of unattributed splits to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubt {
    /// Where the first span begins.
    pub from: u64,
    /// Where the last one ends.
    pub upto: u64,
    /// Splits in all spans together, each counted once; never too few.
    pub count: u64,
}

impl Doubt {
    /// Adds a span that ends no earlier than all before it.
    pub(super) fn widen(&mut self, from: u64, upto: u64) {
        if from >= upto {
            return;
        }
        if self.count == 0 {
            let count = upto.saturating_sub(from);
            *self = Self { from, upto, count };
            return;
        }
        // Where the gaps between the spans are is not known: the new span may cover all of them.
        let hull = self.upto.saturating_sub(self.from);
        let gaps = hull.saturating_sub(self.count);
        let before = self.from.saturating_sub(from);
        let inside = gaps.min(self.upto.saturating_sub(from));
        let after = upto.saturating_sub(self.upto.max(from));
        let added = before.saturating_add(inside).saturating_add(after);
        self.count = self.count.saturating_add(added);
        self.from = self.from.min(from);
        self.upto = self.upto.max(upto);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn set(places: &[u64]) -> SplitSet {
        let mut set = SplitSet::default();
        places.iter().for_each(|place| set.insert(0, 0, *place));
        set
    }

    fn spans(set: &SplitSet) -> Vec<(u64, u64)> {
        set.runs().map(|run| (run.first, run.count)).collect()
    }

    #[test]
    fn successive_splits_are_one_run() {
        assert_eq!(spans(&set(&[3, 4, 5, 9, 10, 0])), [(0, 1), (3, 3), (9, 2)]);
        assert_eq!(set(&[3, 4, 5, 9]).count(), 4);
    }

    #[test]
    fn sources_and_passes_are_apart() {
        let mut mixed = set(&[0]);
        mixed.insert(0, 1, 1);
        mixed.insert(1, 0, 1);
        assert_eq!(mixed.run_count(), 3);
        assert_eq!(mixed.take_first_of(0, 1), Some(1));
        assert_eq!((mixed.first_of(0, 1), mixed.first_of(0, 0)), (None, Some(0)));
    }

    #[test]
    fn splits_are_taken_out_in_order() {
        let mut set = set(&[5, 6, 2]);
        let taken = core::iter::from_fn(|| set.take_first_of(0, 0));
        assert_eq!(taken.collect::<Vec<_>>(), [2, 5, 6]);
        assert!(set.is_empty());
    }

    #[test]
    fn a_split_is_taken_out_of_the_middle_of_its_run() {
        let mut set = set(&[2, 3, 4, 5, 9]);
        assert!(set.take(0, 0, 3) && set.take(0, 0, 5) && set.take(0, 0, 2));
        assert!(!set.take(0, 0, 3) && !set.take(0, 0, 6) && !set.take(0, 1, 4));
        assert_eq!((spans(&set), set.count()), ([(4, 1), (9, 1)].to_vec(), 2));
        assert!(set.contains(0, 0, 9) && !set.contains(0, 0, 5));
        assert_eq!(set.places_of(0, 0).collect::<Vec<_>>(), [4, 9]);
    }

    #[test]
    fn a_set_is_its_runs() {
        let set = set(&[1, 2, 7]);
        assert_eq!(set.runs().collect::<SplitSet>(), set);
    }

    #[test]
    fn a_task_remembers_the_latest_runs_and_counts_the_others() {
        let mut splits = TaskSplits::default();
        let runs = SPLIT_RUNS_PER_TASK_MAX as u64;
        (0..runs + 3).for_each(|n| splits.add(0, 0, 2 * n));
        assert_eq!((splits.forgotten, splits.remembered.count()), (3, runs));
        assert_eq!(splits.remembered.first_of(0, 0), Some(6));
    }

    #[test]
    fn a_task_has_splits_as_long_as_any_is_remembered_or_was_forgotten() {
        assert!(!TaskSplits::default().has_any());
        assert!(TaskSplits { forgotten: 1, ..TaskSplits::default() }.has_any());
        assert!(TaskSplits { remembered: set(&[0]), ..TaskSplits::default() }.has_any());
    }

    /// Against the union of the spans, counted one by one.
    #[test]
    fn doubt_is_exact_for_spans_that_touch_and_never_too_small() {
        let ends = [0_u64, 3, 4, 9];
        let begins = [0_u64, 1, 2, 3, 5, 8];
        for a in begins {
            for b in begins {
                for c in begins {
                    let spans = [(a, ends[1]), (b, ends[2]), (c, ends[3])];
                    let mut doubt = Doubt::default();
                    spans.iter().for_each(|(from, upto)| doubt.widen(*from, *upto));
                    let covered = |n: &u64| spans.iter().any(|(f, u)| (*f..*u).contains(n));
                    let union = (0..9).filter(covered).count() as u64;
                    assert!(doubt.count >= union, "{spans:?}: {doubt:?}");
                    assert!(doubt.count <= doubt.upto - doubt.from);
                    if doubt.upto - doubt.from == union {
                        assert_eq!(doubt.count, union, "{spans:?}");
                    }
                }
            }
        }
    }
}

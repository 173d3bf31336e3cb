//! Which repetitions of a job are finished, in few bytes: they mostly follow one another.

use alloc::vec::Vec;

use crate::limits::REPETITION_RANGES_MAX;

/// Repetitions that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RepetitionRange {
    /// The first one.
    pub first: i64,
    /// The last one, no smaller.
    pub last: i64,
}

/// A set of repetitions, kept as at most [`REPETITION_RANGES_MAX`] ranges. One more makes it forget
/// the lowest range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repetitions(Vec<RepetitionRange>);

impl Repetitions {
    /// The set of everything in these ranges, whatever their order. Ranges that end before they
    /// begin are empty.
    pub fn of(mut ranges: Vec<RepetitionRange>) -> Self {
        ranges.retain(|range| range.first <= range.last);
        ranges.sort_unstable();
        let mut merged: Vec<RepetitionRange> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.first <= last.last.saturating_add(1) => {
                    last.last = last.last.max(range.last);
                }
                _ => merged.push(range),
            }
        }
        let surplus = merged.len().saturating_sub(REPETITION_RANGES_MAX);
        merged.drain(..surplus);
        Self(merged)
    }

    /// Adds one repetition.
    pub fn insert(&mut self, repetition: i64) {
        if self.contains(repetition) {
            return;
        }
        if let Some(last) = self.0.last_mut()
            && last.last.checked_add(1) == Some(repetition)
        {
            // The usual case: the one after the newest.
            last.last = repetition;
            return;
        }
        let mut ranges = core::mem::take(&mut self.0);
        ranges.push(RepetitionRange { first: repetition, last: repetition });
        *self = Self::of(ranges);
    }

    /// Whether a repetition is in the set.
    pub fn contains(&self, repetition: i64) -> bool {
        let at = self.0.partition_point(|range| range.last < repetition);
        self.0.get(at).is_some_and(|range| range.first <= repetition)
    }

    /// The ranges, in order, none next to another.
    pub fn ranges(&self) -> &[RepetitionRange] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    fn members(set: &Repetitions) -> BTreeSet<i64> {
        let ranges = set.ranges().iter();
        ranges.flat_map(|range| range.first..=range.last).collect()
    }

    proptest! {
        #[test]
        fn it_is_a_set(inserted in prop::collection::vec(-20_i64..20, 0..60)) {
            let mut set = Repetitions::default();
            let mut plain = BTreeSet::new();
            for repetition in inserted {
                set.insert(repetition);
                plain.insert(repetition);
                prop_assert_eq!(&members(&set), &plain);
                prop_assert!((-21..=20).all(|r| set.contains(r) == plain.contains(&r)));
                prop_assert!(set.ranges().is_sorted_by(|a, b| a.last + 1 < b.first));
            }
        }

        #[test]
        fn ranges_in_any_order_make_the_same_set(
            ranges in prop::collection::vec((-20_i64..20, -20_i64..20), 0..20),
        ) {
            let ranges: Vec<_> = ranges.iter().map(|(first, last)| RepetitionRange {
                first: *first,
                last: *last,
            }).collect();
            let plain: BTreeSet<i64> = ranges.iter().flat_map(|r| r.first..=r.last).collect();
            let set = Repetitions::of(ranges);
            prop_assert_eq!(members(&set), plain);
            prop_assert_eq!(Repetitions::of(set.ranges().to_vec()), set);
        }
    }

    #[test]
    fn the_ends_of_the_numbers_are_taken() {
        let mut set = Repetitions::default();
        for repetition in [i64::MAX, i64::MIN, i64::MAX, 0] {
            set.insert(repetition);
        }
        assert!(set.contains(i64::MAX) && set.contains(i64::MIN) && !set.contains(1));
    }

    #[test]
    fn it_stays_small_and_forgets_the_lowest() {
        let mut set = Repetitions::default();
        for number in 0..REPETITION_RANGES_MAX + 5 {
            set.insert(2 * i64::try_from(number).unwrap());
        }
        assert_eq!(set.ranges().len(), REPETITION_RANGES_MAX);
        assert!(!set.contains(8) && set.contains(10));
    }
}

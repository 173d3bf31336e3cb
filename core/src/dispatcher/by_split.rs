//! Reading by split: which splits clients hold, how much of them they have acknowledged, and which
//! wait for a client.
//!
//! Clients that read by split name a split by its place in the first pass over the only source.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::state::{Iteration, SourcePosition};
use crate::ids::{IterationId, Lsn};
use crate::limits::{SPLITS_AHEAD_MAX, SPLITS_BY_CLIENTS_MAX};

/// How far a client has read a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitProgress {
    /// The split's place.
    pub place: u64,
    /// Records of it that were read, from the first on.
    pub records: u64,
    /// Whether those are all.
    pub finished: bool,
}

/// A split that has not been read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedSplit {
    /// Its place.
    pub place: u64,
    /// Records of it that were acknowledged.
    pub records: u64,
}

/// The progress of a client that held splits, at the moment it left or was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DepartedReader {
    /// Its iteration.
    pub iteration: IterationId,
    /// Which pass of the job that is.
    pub repetition: i64,
    /// The splits it held, with the records of them that it had acknowledged. It had acknowledged all
    /// records of every other split that it ever held.
    pub splits: Vec<SavedSplit>,
    /// The record by which it left.
    pub left: Lsn,
}

/// Which of the places a client is dealt: those that leave the remainder `index` when divided by
/// `size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The remainder.
    pub index: u32,
    /// Among how many the places are dealt out.
    pub size: u32,
}

impl Group {
    /// Whoever comes gets the next place.
    pub const ALL: Self = Self { index: 0, size: 1 };

    /// Whether the client is dealt a place.
    const fn has(self, place: u64) -> bool {
        matches!(place.checked_rem(self.size as u64), Some(rest) if rest == self.index as u64)
    }

    /// The first of its places from this one on.
    fn first_from(self, place: u64) -> Option<u64> {
        let size = u64::from(self.size);
        let rest = place.checked_rem(size)?;
        let index = u64::from(self.index);
        let missing = if rest <= index { index } else { index.checked_add(size)? };
        place.checked_add(missing.checked_sub(rest)?)
    }
}

impl Default for Group {
    fn default() -> Self {
        Self::ALL
    }
}

/// What is known of the splits of an iteration that clients read by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BySplit {
    /// Places that no client holds and that are the next to be, with the records acknowledged:
    /// given up with a client, passed over for another of a group, or restored.
    pub waiting: BTreeMap<u64, u64>,
    /// How many splits its clients hold.
    pub held: u64,
    /// Among how many clients the places are dealt out; absent before anybody took one.
    pub group_size: Option<u32>,
    /// Records that clients have acknowledged, of all splits.
    pub acknowledged: u64,
}

impl BySplit {
    /// What waits, in order of place.
    pub fn waiting_splits(&self) -> impl Iterator<Item = SavedSplit> + '_ {
        self.waiting.iter().map(|(place, records)| SavedSplit { place: *place, records: *records })
    }

    pub(super) fn waiting_count(&self) -> u64 {
        u64::try_from(self.waiting.len()).unwrap_or(u64::MAX)
    }

    /// The first split that a worker may be handed, which reads it from its beginning. What clients
    /// have begun is left to them while there are any.
    pub(super) fn first_for_workers(&self) -> Option<u64> {
        let may = |(_, records): &(&u64, &u64)| self.held == 0 || **records == 0;
        self.waiting.iter().find(may).map(|(place, _)| *place)
    }
}

/// The next places for a client, lowest first: those that wait, then those of the source.
pub(super) fn next_places(
    of: &Iteration,
    source: &SourcePosition,
    group: Group,
    wanted: usize,
) -> Vec<u64> {
    let waiting = of.by_split.waiting.keys().copied().filter(|place| group.has(*place));
    let mut places: Vec<u64> = waiting.take(wanted).collect();
    let again = of.splits.again.places_of(0, 0).take(SPLITS_AHEAD_MAX);
    places.extend(again.filter(|place| group.has(*place)).take(wanted));
    places.sort_unstable();
    places.truncate(wanted);
    if source.repetition > 0 {
        return places;
    }
    let end = end_of_reach(of, source, group);
    let mut next = group.first_from(source.index);
    while let Some(place) = next.filter(|place| places.len() < wanted && *place < end) {
        places.push(place);
        next = place.checked_add(u64::from(group.size));
    }
    places
}

/// Before which place of the source a client's next ones must lie: not too far ahead of the slowest
/// of its group, and no more than may be with clients at once.
fn end_of_reach(of: &Iteration, source: &SourcePosition, group: Group) -> u64 {
    let mut others = of.by_split.waiting.keys();
    let slowest = others.find(|place| !group.has(**place)).copied().unwrap_or(source.index);
    let there = of.by_split.held.saturating_add(of.by_split.waiting_count());
    let room = count(SPLITS_BY_CLIENTS_MAX).saturating_sub(there);
    let ahead = slowest.saturating_add(count(SPLITS_AHEAD_MAX)).saturating_add(1);
    source.source.len().min(source.index.saturating_add(room)).min(ahead)
}

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_deals_every_place_to_one() {
        for size in 1..7 {
            for place in 0..50_u64 {
                let of = |index: &u32| Group { index: *index, size }.has(place);
                assert_eq!((0..size).filter(of).count(), 1, "place {place} of {size}");
            }
        }
    }

    #[test]
    fn the_first_place_from_one_on_is_found_without_looking_at_others() {
        for size in 1..7 {
            for index in 0..size {
                let group = Group { index, size };
                for from in 0..30 {
                    let first = (from..).find(|place| group.has(*place));
                    assert_eq!(group.first_from(from), first, "{group:?} from {from}");
                }
            }
        }
        assert_eq!(Group { index: 1, size: 3 }.first_from(u64::MAX), None);
        assert_eq!(Group { index: 0, size: 0 }.first_from(0), None);
    }
}

//! Numbers for what must not happen twice.
//!
//! The server keeps a result until it is told that all results up to its number have arrived. A
//! call that waits for others for hours would make it keep everything since; so such calls are
//! counted apart, and a count that has become too long is left for a new one. To the server each
//! count is a relay of its own.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::ids::RelayId;
use crate::limits::RELAY_RESULTS_MAX;
use crate::stamp::Stamp;

/// A count is left when it reaches this far beyond its oldest open number.
const WINDOW: u64 = RELAY_RESULTS_MAX as u64 / 2;

/// A number in a count.
pub(super) type Number = (RelayId, u64);

/// All counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    /// The one for what waits for others, and the one for the rest.
    waiting: Option<RelayId>,
    prompt: Option<RelayId>,
    pub(super) lanes: BTreeMap<RelayId, Lane>,
}

/// One count.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    last: u64,
    /// Numbers given out whose calls have not ended.
    pub(super) open: BTreeSet<u64>,
}

impl Lane {
    fn acknowledged(&self) -> u64 {
        self.open.first().map_or(self.last, |first| first.saturating_sub(1))
    }

    fn is_full(&self) -> bool {
        self.last.saturating_sub(self.acknowledged()) >= WINDOW
    }
}

impl Lanes {
    /// The next number.
    pub(super) fn draw(&mut self, waits: bool, entropy: u64) -> Number {
        let current = if waits { self.waiting } else { self.prompt };
        let usable = current.filter(|id| self.lanes.get(id).is_some_and(|lane| !lane.is_full()));
        let id = usable.unwrap_or_else(|| self.begin(waits, entropy));
        let lane = self.lanes.entry(id).or_default();
        lane.last = lane.last.saturating_add(1);
        lane.open.insert(lane.last);
        (id, lane.last)
    }

    fn begin(&mut self, waits: bool, entropy: u64) -> RelayId {
        // Zero would stand for no relay.
        let mut id = RelayId::new(entropy.max(1));
        while self.lanes.contains_key(&id) {
            id = RelayId::new(id.get().wrapping_add(1).max(1));
        }
        self.lanes.insert(id, Lane::default());
        let current = if waits { &mut self.waiting } else { &mut self.prompt };
        let left = current.replace(id);
        if let Some(left) = left {
            self.drop_if_done(left);
        }
        id
    }

    /// The mark of a number, as it stands now.
    pub(super) fn stamp(&self, (relay, sequence): Number) -> Stamp {
        let acknowledged = self.lanes.get(&relay).map_or(0, Lane::acknowledged);
        Stamp { relay, sequence, acknowledged }
    }

    /// The number's call has ended.
    pub(super) fn settle(&mut self, (relay, sequence): Number) {
        if let Some(lane) = self.lanes.get_mut(&relay) {
            lane.open.remove(&sequence);
        }
        self.drop_if_done(relay);
    }

    fn drop_if_done(&mut self, id: RelayId) {
        let current = self.waiting == Some(id) || self.prompt == Some(id);
        if !current && self.lanes.get(&id).is_some_and(|lane| lane.open.is_empty()) {
            self.lanes.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_acknowledged_up_to_the_oldest_open_number() {
        let mut lanes = Lanes::default();
        let numbers: alloc::vec::Vec<_> = (0..3).map(|_| lanes.draw(false, 7)).collect();
        assert_eq!(numbers.last(), Some(&(RelayId::new(7), 3)));
        lanes.settle((RelayId::new(7), 2));
        assert_eq!(lanes.stamp((RelayId::new(7), 3)).acknowledged, 0);
        lanes.settle((RelayId::new(7), 1));
        assert_eq!(lanes.stamp((RelayId::new(7), 3)).acknowledged, 2);
        lanes.settle((RelayId::new(7), 3));
        let next = lanes.draw(false, 9);
        let stamp = lanes.stamp(next);
        assert_eq!((stamp.relay.get(), stamp.sequence, stamp.acknowledged), (7, 4, 3));
    }

    #[test]
    fn what_waits_is_counted_apart() {
        let mut lanes = Lanes::default();
        let barrier = lanes.draw(true, 0);
        let insert = lanes.draw(false, 0);
        assert_ne!(barrier.0, insert.0, "and neither is zero");
        assert!(barrier.0.get() > 0 && insert.0.get() > 0);
    }

    #[test]
    fn a_count_that_one_call_holds_up_is_left_and_dropped_at_its_end() {
        let mut lanes = Lanes::default();
        let stuck = lanes.draw(true, 1);
        for _ in 1..WINDOW {
            let number = lanes.draw(true, 2);
            assert_eq!(number.0, stuck.0);
            lanes.settle(number);
        }
        let next = lanes.draw(true, 2);
        assert_eq!(next, (RelayId::new(2), 1));
        assert_eq!(lanes.stamp(stuck).acknowledged, 0);
        lanes.settle(stuck);
        assert!(!lanes.lanes.contains_key(&stuck.0));
    }
}

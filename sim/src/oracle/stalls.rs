//! When the node's process began, and for how long it has stood still since.

use rondo_core::time::{Duration, Time};

/// One stall.
#[derive(Clone, Copy, Debug)]
struct Stall {
    end: Time,
    stood: Duration,
    /// How long the node had gone on before.
    awake: Duration,
}

/// The stalls of the node's present process.
#[derive(Clone, Debug, Default)]
pub(super) struct Stalls {
    begun: Time,
    /// Since when it stands still, if it does.
    still: Option<Time>,
    all: Vec<Stall>,
}

impl Stalls {
    /// A process begins.
    pub(super) fn begin(&mut self, now: Time) {
        *self = Self { begun: now, still: None, all: Vec::new() };
    }

    /// It stands still from here on.
    pub(super) const fn stop(&mut self, now: Time) {
        self.still = Some(now);
    }

    /// Whether it stands still.
    pub(super) const fn stands_still(&self) -> bool {
        self.still.is_some()
    }

    /// It goes on after it stood still.
    pub(super) fn resume(&mut self, now: Time) {
        if let Some(from) = self.still.take() {
            let before = self.all.last().map_or(self.begun, |stall| stall.end);
            self.all.push(Stall { end: now, stood: now.since(from), awake: from.since(before) });
        }
    }

    /// The moment from which on the process could hear what was said at a time.
    pub(super) fn heard_at(&self, at: Time) -> Time {
        at.max(self.begun)
    }

    /// How long it has stood still since a time, each time with what `more` adds, given for how long the
    /// node had gone on before.
    pub(super) fn since(&self, at: Time, more: impl Fn(Duration) -> Duration) -> Duration {
        let stalls = self.all.iter().rev().take_while(|stall| stall.end > at);
        stalls.map(|stall| stall.stood.plus(more(stall.awake))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_count_from_a_time_on() {
        let secs = |secs: u64| Time::from_millis(secs * 1000);
        let mut stalls = Stalls::default();
        stalls.begin(secs(10));
        stalls.stop(secs(16));
        assert!(stalls.stands_still());
        stalls.resume(secs(20));
        stalls.stop(secs(29));
        stalls.resume(secs(30));
        assert!(!stalls.stands_still());
        let none = |_| Duration::ZERO;
        assert_eq!(stalls.heard_at(secs(5)), secs(10));
        assert_eq!(stalls.since(secs(10), none), Duration::from_secs(5));
        assert_eq!(stalls.since(secs(20), none), Duration::from_secs(1));
        assert_eq!(stalls.since(secs(20), |awake| awake), Duration::from_secs(10));
    }
}

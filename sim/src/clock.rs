//! A machine's clock: off, too fast or too slow, and sometimes ahead of itself.

use rondo_core::time::{Duration, Time};

const MILLION: u128 = 1_000_000;

/// A clock as a function of the run's true time, both in ns. It never goes back within a process.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// True time and its own time when it was last changed.
    true_ns: u64,
    own_ns: u64,
    /// How much too fast it is, in millionths of its own speed.
    drift_ppm: i32,
}

impl Clock {
    /// A clock that shows `own` at the run's beginning.
    pub const fn showing(own: Time, drift_ppm: i32) -> Self {
        Self { true_ns: 0, own_ns: own.as_nanos(), drift_ppm }
    }

    fn rate(&self) -> u128 {
        let rate = i64::from(self.drift_ppm).saturating_add(1_000_000);
        u128::try_from(rate).unwrap_or(1).max(1)
    }

    /// What it shows at a true time.
    #[inline]
    pub fn shows(&self, true_ns: u64) -> Time {
        let passed = true_ns.saturating_sub(self.true_ns);
        if self.drift_ppm == 0 {
            return Time::from_nanos(self.own_ns.saturating_add(passed));
        }
        let own = u128::from(passed).saturating_mul(self.rate()) / MILLION;
        Time::from_nanos(self.own_ns.saturating_add(u64::try_from(own).unwrap_or(u64::MAX)))
    }

    /// The first true time at which it shows `own` or more.
    #[inline]
    pub fn when(&self, own: Time) -> u64 {
        if own == Time::NEVER {
            return u64::MAX;
        }
        let ahead = own.as_nanos().saturating_sub(self.own_ns);
        if self.drift_ppm == 0 {
            return self.true_ns.saturating_add(ahead);
        }
        let passed = u128::from(ahead).saturating_mul(MILLION).div_ceil(self.rate());
        self.true_ns.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// Jumps ahead.
    pub fn jump(&mut self, true_ns: u64, by: Duration) {
        self.own_ns = self.shows(true_ns).after(by).as_nanos();
        self.true_ns = true_ns;
    }

    /// Is set back, as a wall clock may be between two processes.
    pub fn set_back(&mut self, true_ns: u64, by: Duration) {
        self.own_ns = self.shows(true_ns).as_nanos().saturating_sub(by.as_nanos());
        self.true_ns = true_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_is_the_first_moment_at_which_it_shows_so_much() {
        for drift in [-200_000, -7, 0, 3, 500_000] {
            let mut clock = Clock::showing(Time::from_millis(5000), drift);
            clock.jump(1_000_003, Duration::from_millis(70));
            for own in [6_000_000_017, 9_999_999_999, 123_456_789_123] {
                let own = Time::from_nanos(own);
                let at = clock.when(own);
                assert!(clock.shows(at) >= own && clock.shows(at - 1) < own, "{drift}");
            }
        }
    }

    #[test]
    fn it_jumps_ahead_and_is_set_back() {
        let mut clock = Clock::showing(Time::from_millis(10), 0);
        clock.jump(0, Duration::from_millis(5));
        assert_eq!(clock.shows(1_000_000), Time::from_millis(16));
        clock.set_back(1_000_000, Duration::from_millis(4));
        assert_eq!(clock.shows(1_000_000), Time::from_millis(12));
    }
}

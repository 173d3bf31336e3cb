//! What failed and may succeed later: when to try again.

use crate::status::Status;
use crate::time::{Duration, Time};

/// Part of the first pause, in nanoseconds, and what grows with each failure.
const PAUSE: u64 = 400_000;
/// See [`PAUSE`].
const GROWING: u64 = 1_000_000;
/// Longest pause, in nanoseconds.
const PAUSE_MAX: u64 = 10_000_000_000;

/// Failures in a row.
#[derive(Clone, Debug, Default)]
pub(super) struct Retry {
    failures: u32,
    /// When the first of them happened, and the newest one's reason.
    why: Option<(Time, Status)>,
    /// When the last one happened.
    last: Option<Time>,
    at: Option<Time>,
}

impl Retry {
    /// One more failure. The pause grows by three tenths, between three fifths and all of it.
    pub(super) fn failed(&mut self, now: Time, status: Status, entropy: u64, pause_max: Duration) {
        let max = PAUSE_MAX.min(pause_max.as_nanos());
        let mut growing = GROWING;
        for _ in 0..self.failures.min(64) {
            growing = (growing.saturating_mul(13) / 10).min(max);
        }
        let least = growing.saturating_mul(3) / 5;
        let drawn = least.saturating_add(entropy % growing.saturating_sub(least).max(1));
        let pause = PAUSE.saturating_add(drawn).min(max);
        self.failures = self.failures.saturating_add(1);
        let since = self.why.as_ref().map_or(now, |(since, _)| *since);
        self.why = Some((since, status));
        self.last = Some(now);
        self.at = Some(now.after(Duration::from_nanos(pause)));
    }

    /// So many failures at once.
    pub(super) fn failed_times(
        &mut self,
        times: u32,
        now: Time,
        status: Status,
        entropy: u64,
        pause_max: Duration,
    ) {
        self.failures = self.failures.saturating_add(times.saturating_sub(1));
        self.failed(now, status, entropy, pause_max);
    }

    /// It went well.
    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// It is tried again.
    pub(super) fn begin(&mut self) {
        self.at = None;
    }

    /// When to try again, if one must wait.
    pub(super) const fn at(&self) -> Option<Time> {
        self.at
    }

    /// Whether one must still wait.
    pub(super) fn waits(&self, now: Time) -> bool {
        self.at.is_some_and(|at| now < at)
    }

    /// Failures in a row.
    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }

    /// When it failed last, unless it went well since.
    pub(super) const fn last_failed(&self) -> Option<Time> {
        self.last
    }

    /// Since when and why it fails.
    pub(super) const fn why(&self) -> Option<&(Time, Status)> {
        self.why.as_ref()
    }
}

//! Trying again, ever less often.

use crate::time::{Duration, Time};

/// The first pause, and the longest one.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// See [`PAUSE_MIN`].
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Something that is tried until it works or its time is over.
#[derive(Clone, Debug)]
pub(super) struct Retry {
    pause: Duration,
    at: Option<Time>,
    until: Time,
}

impl Retry {
    /// No longer than until then.
    pub(super) const fn until(until: Time) -> Self {
        Self { pause: PAUSE_MIN, at: None, until }
    }

    /// It has not worked: says whether to try again, at a time of its own.
    pub(super) fn again(&mut self, now: Time, entropy: u64) -> bool {
        // Not all workers shall come in one moment.
        let half = (self.pause.as_nanos() / 2).max(1);
        let at = now.after(Duration::from_nanos(half.saturating_add(entropy % half)));
        self.pause = Duration::from_nanos(self.pause.as_nanos().saturating_mul(2)).min(PAUSE_MAX);
        self.at = Some(at);
        at <= self.until
    }

    /// Whether nothing is to be waited for any more.
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        self.at = self.at.filter(|at| *at > now);
        self.at.is_none()
    }

    /// When to try again.
    pub(super) const fn at(&self) -> Option<Time> {
        self.at
    }
}

//! The only place that asks the operating system for the time.

use std::time::{SystemTime, UNIX_EPOCH};

use rondo_core::time::Time;
use tokio::time::Instant;

/// Counts nanoseconds since the Unix epoch, never backwards: the wall clock is asked once, and a
/// monotonic clock from then on.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Time,
    started: Instant,
}

impl Clock {
    /// Starts at the wall clock's time.
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let nanos = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
        Self { origin: Time::from_nanos(nanos), started: Instant::now() }
    }

    /// Now.
    pub fn now(&self) -> Time {
        let elapsed = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Time::from_nanos(self.origin.as_nanos().saturating_add(elapsed))
    }

    /// How long until `at`; zero when it has passed.
    pub fn until(&self, at: Time) -> std::time::Duration {
        std::time::Duration::from_nanos(at.since(self.now()).as_nanos())
    }

    /// How long this clock has run.
    pub fn uptime(&self) -> std::time::Duration {
        self.started.elapsed()
    }
}

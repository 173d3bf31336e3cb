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
    /// How much too fast it runs, in millionths: simulated machines have bad clocks.
    #[cfg(madsim)]
    drift_ppm: i32,
}

impl Clock {
    /// Starts at the wall clock's time.
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let nanos = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
        Self {
            origin: Time::from_nanos(nanos),
            started: Instant::now(),
            #[cfg(madsim)]
            drift_ppm: 0,
        }
    }

    /// Starts at a time that need not be the wall clock's: hosts' clocks differ.
    pub fn start_at(now: Time) -> Self {
        Self { origin: now, ..Self::start() }
    }

    /// Starts `offset_ns` off the wall clock's time, running `drift_ppm` millionths too fast.
    #[cfg(madsim)]
    pub fn start_askew(offset_ns: i64, drift_ppm: i32) -> Self {
        let clock = Self::start();
        let origin = clock.origin.as_nanos().saturating_add_signed(offset_ns);
        Self { origin: Time::from_nanos(origin), drift_ppm, ..clock }
    }

    /// Now.
    pub fn now(&self) -> Time {
        let elapsed = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        #[cfg(madsim)]
        let elapsed = scaled(elapsed, self.pace(), MILLION);
        Time::from_nanos(self.origin.as_nanos().saturating_add(elapsed))
    }

    /// How long until `at`; zero when it has passed.
    pub fn until(&self, at: Time) -> std::time::Duration {
        let wait = at.since(self.now()).as_nanos();
        #[cfg(madsim)]
        let wait = scaled(wait, MILLION, self.pace());
        std::time::Duration::from_nanos(wait)
    }

    /// Sleeps until `at`; for ever when there is no such time.
    pub async fn sleep_until(&self, at: Option<Time>) {
        match at {
            Some(at) => tokio::time::sleep(self.until(at)).await,
            None => std::future::pending().await,
        }
    }

    /// What it shows after a million of true time.
    #[cfg(madsim)]
    fn pace(&self) -> u64 {
        MILLION.saturating_add_signed(self.drift_ppm.into()).max(1)
    }

    /// How long this clock has run.
    pub fn uptime(&self) -> std::time::Duration {
        self.started.elapsed()
    }
}

#[cfg(madsim)]
const MILLION: u64 = 1_000_000;

/// `nanos` times `by` over `over`, rounded up.
#[cfg(madsim)]
fn scaled(nanos: u64, by: u64, over: u64) -> u64 {
    let product = u128::from(nanos).saturating_mul(by.into());
    u64::try_from(product.div_ceil(over.into())).unwrap_or(u64::MAX)
}

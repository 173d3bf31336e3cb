//! A worker is given up no later than after its patience of silence and all the time for which the
//! dispatcher stood still since. That it is given up no earlier, `collection` sees.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_core::dispatcher::{Config, State};
use rondo_core::time::{Duration, Time};

use super::Verdict;
use crate::checks::{Check, reached};

/// So many of its own intervals a worker may be silent for, where they are longer than the timeout.
const INTERVALS: u64 = 3;
/// The server takes this for the interval of a worker until it has heard three heartbeats.
const UNKNOWN: Duration = Duration::from_secs(30);
/// The server takes shorter intervals for this one.
const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// So much later than it should be a worker may be given up.
const SLACK: Duration = Duration::from_secs(5);

/// A worker's signs of life.
#[derive(Clone, Copy, Debug)]
struct Beats {
    last: Time,
    /// The longest time between two of them.
    interval: Duration,
    /// How many of its process the server's present process has heard.
    heard: u32,
}

impl Beats {
    fn interval(&self) -> Duration {
        let least = if self.heard < 3 { UNKNOWN } else { INTERVAL_MIN };
        self.interval.max(least)
    }
}

/// Workers by their addresses.
#[derive(Debug, Default)]
pub(super) struct Workers(BTreeMap<Arc<str>, Beats>);

impl Workers {
    /// A worker has sent a heartbeat, perhaps the first of its process.
    pub(super) fn heard(&mut self, now: Time, address: &str, may_be_first: bool) {
        let new = Beats { last: now, interval: Duration::ZERO, heard: 0 };
        let beats = self.0.entry(address.into()).or_insert(new);
        beats.interval = beats.interval.max(now.since(beats.last));
        beats.last = now;
        beats.heard = if may_be_first { 1 } else { beats.heard.saturating_add(1) };
    }

    /// A worker is lost, or another process of it is there: its interval is unknown again.
    pub(super) fn began_anew(&mut self, address: &str) {
        if let Some(beats) = self.0.get_mut(address) {
            beats.heard = 0;
        }
    }

    /// All whom another process finds count as just heard.
    pub(super) fn recovered(&mut self, now: Time) {
        for beats in self.0.values_mut() {
            (beats.last, beats.heard) = (now, 0);
        }
    }

    /// `stood` tells for how long the dispatcher stood still since a time.
    pub(super) fn check(
        &self,
        now: Time,
        config: &Config,
        state: &State,
        stood: impl Fn(Time) -> Duration,
    ) -> Verdict {
        let Some(timeout) = config.worker_timeout else {
            return Ok(());
        };
        for worker in state.workers().values().filter(|worker| !worker.lost) {
            let Some(beats) = self.0.get(&worker.address) else {
                continue;
            };
            let own = Duration::from_nanos(beats.interval().as_nanos().saturating_mul(INTERVALS));
            let most = timeout.max(own);
            // Clocks may be slow by an eighth.
            let most = Duration::from_nanos(most.as_nanos().saturating_add(most.as_nanos() / 8));
            let most = most.plus(SLACK).plus(stood(beats.last));
            let silent = now.since(beats.last);
            reached(Check::InTimeWorker);
            if silent > most {
                return Err(format!(
                    "worker {} has been silent for {} ms and is not lost; {} ms are allowed",
                    worker.address,
                    silent.as_millis(),
                    most.as_millis()
                ));
            }
        }
        Ok(())
    }
}

//! How long a silent worker is waited for, by what the documents promise: the configured timeout, or
//! three times the largest of its recent intervals between heartbeats if that is longer.

use std::collections::{BTreeMap, VecDeque};

use rondo_core::dispatcher::WorkerHeartbeat;
use rondo_core::time::{Duration, Time};

/// Intervals that count at most.
const RECENT: usize = 16;
/// An interval that is assumed of every worker: not all of a process's are known.
const ASSUMED: Duration = Duration::from_secs(30);

/// What workers have let anybody expect of them.
#[derive(Clone, Debug, Default)]
pub struct Patience {
    timeout: Duration,
    workers: BTreeMap<String, Heard>,
}

/// A worker's process.
#[derive(Clone, Debug)]
struct Heard {
    uid: i64,
    last: Time,
    intervals: VecDeque<Duration>,
}

impl Patience {
    /// A heartbeat arrives at the node's own time.
    pub fn hear(&mut self, now: Time, heartbeat: &WorkerHeartbeat) {
        let timeout = self.timeout;
        let Some(heard) = self.workers.get_mut(&heartbeat.address) else {
            let heard = Heard { uid: heartbeat.uid, last: now, intervals: VecDeque::new() };
            self.workers.insert(heartbeat.address.clone(), heard);
            return;
        };
        match heard.uid == heartbeat.uid {
            true => heard.note(now.since(heard.last), timeout),
            false => heard.intervals.clear(),
        }
        (heard.uid, heard.last) = (heartbeat.uid, now);
    }

    /// Another process of the node, with a worker timeout of its own, has heard nobody yet.
    pub fn begin(&mut self, timeout: Option<Duration>) {
        *self = Self { timeout: timeout.unwrap_or_default(), workers: BTreeMap::new() };
    }

    /// How long the most patiently awaited worker may be silent.
    pub fn longest(&self) -> Duration {
        let patience = self.workers.values().map(|heard| heard.patience(self.timeout));
        patience.max().unwrap_or_default()
    }
}

impl Heard {
    fn note(&mut self, interval: Duration, timeout: Duration) {
        let most = self.patience(timeout);
        if self.intervals.len() >= RECENT {
            self.intervals.pop_front();
        }
        self.intervals.push_back(interval.min(most));
    }

    fn patience(&self, timeout: Duration) -> Duration {
        let largest = self.intervals.iter().copied().max().unwrap_or_default().max(ASSUMED);
        timeout.max(Duration::from_nanos(largest.as_nanos().saturating_mul(3)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(patience: &mut Patience, at_secs: u64, uid: i64) {
        let heartbeat = WorkerHeartbeat {
            address: "w0:1".into(),
            current_tasks: Vec::new(),
            tags: Vec::new(),
            uid,
            transfer_servers: Vec::new(),
        };
        patience.hear(Time::from_millis(at_secs * 1000), &heartbeat);
    }

    #[test]
    fn three_times_the_largest_interval_of_a_process() {
        let mut patience = Patience::default();
        patience.begin(Some(Duration::from_secs(5)));
        [0, 3, 50].iter().for_each(|at| says(&mut patience, *at, 1));
        assert_eq!(patience.longest(), Duration::from_secs(141));
        says(&mut patience, 10_000, 1);
        assert_eq!(
            patience.longest(),
            Duration::from_secs(423),
            "no more than it had, times three"
        );
        says(&mut patience, 10_001, 2);
        assert_eq!(patience.longest(), Duration::from_secs(90));
        patience.begin(None);
        assert_eq!(patience.longest(), Duration::ZERO);
    }
}

//! When workers were last heard from, how often they say something, and when to give one up.
//!
//! Volatile: after a restart every worker that was not lost counts as just heard from, and its
//! rhythm is unknown until it has shown it again.
//!
//! Time passes here only while the machine can hear: all times are less the hold-ups so far (see
//! [`super::held_up`]), so that each hold-up is given back and no more.

use alloc::collections::{BTreeMap, BTreeSet};

use super::state::State;
use crate::ids::WorkerId;
use crate::time::{Duration, Time};

/// A worker is given up after this many of its largest recent gaps between heartbeats, unless the
/// configured timeout is longer.
const GAPS_OF_PATIENCE: u64 = 3;
/// The gap assumed of a worker whose rhythm is not known: the interval of TensorFlow's workers
/// unless they are told another one.
const GAP_ASSUMED: Duration = Duration::from_secs(30);
/// Gaps that must have been seen before a worker's rhythm counts as known.
const GAPS_KNOWN: u64 = 2;
/// Shorter gaps count as this long: a busy machine delays single heartbeats by some hundred
/// milliseconds, however small their interval is.
const GAP_MIN: Duration = Duration::from_secs(1);
/// Recent gaps are those of the present block of this many and of the block before it.
const GAPS_PER_BLOCK: u64 = 8;

/// Signs of life of workers.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkerLeases {
    pub(super) leases: BTreeMap<WorkerId, WorkerLease>,
    /// When to look at whom: one entry for each worker that can be lost, never later than its
    /// patience ends. A heartbeat leaves it alone; it is put off when its time has come.
    pub(super) alarms: BTreeSet<(Time, WorkerId)>,
    /// `None` when no worker is ever given up.
    timeout: Option<Duration>,
}

/// One worker's signs of life.
#[derive(Clone, Debug)]
pub(super) struct WorkerLease {
    /// From when on silence counts.
    since: Time,
    /// When this process heard its last heartbeat; by the clock, hold-ups included.
    last: Time,
    /// Whether this process has heard it.
    is_heard: bool,
    rhythm: Rhythm,
    /// Its entry among the alarms.
    pub(super) alarm: Option<Time>,
}

/// The largest recent gap between a worker's heartbeats.
#[derive(Clone, Copy, Debug, Default)]
struct Rhythm {
    seen: u64,
    largest: Duration,
    largest_before: Duration,
}

impl Rhythm {
    fn note(&mut self, gap: Duration) {
        if self.seen.is_multiple_of(GAPS_PER_BLOCK) {
            self.largest_before = core::mem::replace(&mut self.largest, Duration::ZERO);
        }
        self.seen = self.seen.saturating_add(1);
        self.largest = self.largest.max(gap);
    }

    fn gap(&self) -> Duration {
        let assumed = match self.seen < GAPS_KNOWN {
            true => GAP_ASSUMED,
            false => GAP_MIN,
        };
        self.largest.max(self.largest_before).max(assumed)
    }
}

impl WorkerLease {
    fn beginning(since: Time, last: Time) -> Self {
        Self { since, last, is_heard: false, rhythm: Rhythm::default(), alarm: None }
    }

    /// How long the worker may be silent.
    fn patience(&self, timeout: Duration) -> Duration {
        let gaps = self.rhythm.gap().as_nanos().saturating_mul(GAPS_OF_PATIENCE);
        timeout.max(Duration::from_nanos(gaps))
    }

    /// The last moment at which the worker need not have said anything.
    fn patience_ends(&self, timeout: Duration) -> Time {
        self.since.after(self.patience(timeout))
    }
}

impl WorkerLeases {
    /// Every worker of a recovered state that is not lost has just been heard from.
    pub(super) fn of_survivors(state: &State, timeout: Option<Duration>, now: Time) -> Self {
        let mut leases = Self { timeout, ..Self::default() };
        for worker in state.workers().values().filter(|worker| !worker.lost) {
            leases.leases.insert(worker.id, WorkerLease::beginning(now, now));
            leases.arm(worker.id);
        }
        leases
    }

    /// Takes a heartbeat; `reborn` when it is another process's than the one before. `with_hold_ups`
    /// is the same time by the clock.
    pub(super) fn hear(&mut self, id: WorkerId, reborn: bool, now: Time, with_hold_ups: Time) {
        let timeout = self.timeout.unwrap_or_default();
        let lease = self.leases.entry(id);
        let lease = lease.or_insert_with(|| WorkerLease::beginning(now, with_hold_ups));
        match lease.is_heard {
            true if reborn => lease.rhythm = Rhythm::default(),
            // An outage is no rhythm, and a long one would have the next loss unnoticed for longer
            // still.
            true => lease.rhythm.note(now.since(lease.since).min(lease.patience(timeout))),
            false => {}
        }
        (lease.since, lease.last, lease.is_heard) = (now, with_hold_ups, true);
        self.arm(id);
    }

    /// How long a worker has been silent, by the clock; `None` if this process has not heard it.
    pub(super) fn silence(&self, id: WorkerId, with_hold_ups: Time) -> Option<Duration> {
        let lease = self.leases.get(&id).filter(|lease| lease.is_heard)?;
        Some(with_hold_ups.since(lease.last))
    }

    /// When to look for silent workers next.
    pub(super) fn deadline(&self) -> Time {
        self.alarms.first().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// A worker whose patience has ended, named once; looks at no more of them than `budget` allows.
    /// With `excused`, nobody's has: all whose time has come get it once more.
    pub(super) fn take_silent(
        &mut self,
        excused: bool,
        now: Time,
        budget: &mut usize,
    ) -> Option<WorkerId> {
        while *budget > 0 {
            let due = self.alarms.first().copied().filter(|(at, _)| *at <= now);
            let (_, id) = due?;
            *budget = budget.saturating_sub(1);
            if self.is_over(id, excused, now) {
                self.disarm(id);
                return Some(id);
            }
        }
        None
    }

    /// Whether a worker's patience is over; if not, puts its alarm off.
    fn is_over(&mut self, id: WorkerId, excused: bool, now: Time) -> bool {
        let (Some(timeout), Some(lease)) = (self.timeout, self.leases.get_mut(&id)) else {
            return true;
        };
        let ends = lease.patience_ends(timeout);
        if now > ends && !excused {
            return true;
        }
        if now > ends {
            lease.since = now;
        }
        self.disarm(id);
        self.arm(id);
        false
    }

    /// Makes sure that a worker's alarm rings no later than its patience ends.
    fn arm(&mut self, id: WorkerId) {
        let (Some(timeout), Some(lease)) = (self.timeout, self.leases.get_mut(&id)) else {
            return;
        };
        let at = lease.patience_ends(timeout).after(Duration::from_nanos(1));
        if lease.alarm.is_some_and(|armed| armed <= at) || at == Time::NEVER {
            return;
        }
        if let Some(armed) = lease.alarm.replace(at) {
            self.alarms.remove(&(armed, id));
        }
        self.alarms.insert((at, id));
    }

    /// Forgets a worker.
    pub(super) fn forget(&mut self, id: WorkerId) {
        self.disarm(id);
        self.leases.remove(&id);
    }

    fn disarm(&mut self, id: WorkerId) {
        let alarm = self.leases.get_mut(&id).and_then(|lease| lease.alarm.take());
        if let Some(at) = alarm {
            self.alarms.remove(&(at, id));
        }
    }

    /// Whether a worker will be looked at in time.
    pub(super) fn is_watched(&self, id: WorkerId) -> bool {
        let Some(timeout) = self.timeout else {
            return true;
        };
        self.leases.get(&id).is_some_and(|lease| {
            let ends = lease.patience_ends(timeout);
            let watched = |at| at <= ends.after(Duration::from_nanos(1));
            lease.alarm.is_some_and(watched) || ends == Time::NEVER
        })
    }
}

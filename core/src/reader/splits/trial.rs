//! Workers that have failed are tried again. One that is back would serve nothing otherwise while others do.
//!
//! A worker whose calls fail soon costs a split next to nothing. A reader tries it as soon as its own pause
//! is over. A host that is switched off costs a split many seconds. A reader, which may have one stream,
//! tries such workers one after the other, and pauses after each.
//!
//! A split that has failed is not tried on another doubtful worker while there is one that has not failed.
//! Without one, it is read of those whose calls fail soon: among them may be one that lives and whose
//! connection broke. After [`FAILURES_MIN`] it may take its turn with a slow one.

use alloc::sync::Arc;

use crate::limits::RECORDS_PROTOCOL;
use crate::reader::shared::Shared;
use crate::reader::types::RpcId;
use crate::time::{Duration, Time};

/// A call that failed after a longer time was slow to fail.
pub(super) const SLOW: Duration = Duration::from_secs(1);
/// The pause is so many times as long as the trial was, while a worker is in good standing.
const PAUSES_PER_TRIAL: u64 = 10;
/// So often in a row a split has failed before it is tried on a slow worker while none is in good standing.
const FAILURES_MIN: u32 = 3;
/// The longest pause. A reader that was held up takes the trial under way for a long one.
const PAUSE_MAX: Duration = Duration::from_secs(120);

/// The trial of a slow worker that is under way, and when the next may begin.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    under_way: Option<(RpcId, Time)>,
    pause: Option<Pause>,
}

/// What a failed trial puts off.
#[derive(Clone, Debug)]
struct Pause {
    /// The worker that was tried. The pause is for its sake, and ends when it is no longer in doubt.
    worker: Arc<str>,
    failed: Time,
    /// How long the trial took.
    took: Duration,
}

impl Pause {
    /// When it ends. Without a worker in good standing a split waits anyway, and the pause is as long as the
    /// trial.
    fn ends(&self, is_served: bool) -> Time {
        let times = if is_served { PAUSES_PER_TRIAL } else { 1 };
        let pause = Duration::from_nanos(self.took.as_nanos().saturating_mul(times));
        self.failed.after(pause.min(PAUSE_MAX))
    }
}

/// How little speaks for a worker. The least is preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doubt {
    /// It has not failed, or is to be tried.
    None,
    /// Its calls fail soon. It is to be left alone for so long.
    Soon(Duration),
    /// Its calls are slow to fail.
    Slow {
        /// More than one in a row has failed: that was not a connection that broke.
        again: bool,
        /// Streams that it has: those of several splits find out about several workers.
        load: usize,
        /// When the last one failed.
        last: Option<Time>,
    },
}

/// The doubtful workers that a split may be tried on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tried<'a> {
    /// Whether those may whose calls fail soon.
    soon: bool,
    /// The slow one that may.
    slow: Option<&'a str>,
}

impl Tried<'_> {
    /// What speaks against a worker, for the split.
    pub(super) fn doubt_of(&self, name: &str, now: Time, shared: &Shared) -> Doubt {
        if !shared.is_doubtful(name) {
            return Doubt::None;
        }
        match shared.is_slow(name) {
            true if self.slow == Some(name) => Doubt::None,
            true => Doubt::Slow {
                again: shared.failures(name) > 1,
                load: shared.load(name),
                last: shared.last_failed(name),
            },
            false if self.soon && shared.is_due(name, now) => Doubt::None,
            false => Doubt::Soon(shared.pause_left(name, now)),
        }
    }
}

impl Trial {
    /// The doubtful workers that a split may be tried on, which has failed so often in a row.
    pub(super) fn worker_for<'a>(&self, now: Time, failures: u32, shared: &'a Shared) -> Tried<'a> {
        let is_served = servers(shared).any(|name| !shared.is_doubtful(name));
        let (soon, slow) = match is_served {
            true => (failures == 0, failures == 0),
            false => (false, failures >= FAILURES_MIN),
        };
        let slow = slow.then(|| self.slow_worker(now, is_served, shared)).flatten();
        Tried { soon, slow }
    }

    /// The slow worker to try now, if there is one. One that has failed once comes first, then the one that
    /// failed longest ago.
    fn slow_worker<'a>(&self, now: Time, is_served: bool, shared: &'a Shared) -> Option<&'a str> {
        let pauses = |it: &Pause| now < it.ends(is_served) && shared.is_slow(&it.worker);
        if self.under_way.is_some() || self.pause.as_ref().is_some_and(pauses) {
            return None;
        }
        let due = servers(shared).filter(|name| shared.is_slow(name) && shared.is_due(name, now));
        due.min_by_key(|name| (shared.failures(name) > 1, shared.last_failed(name)))
    }

    /// A slow worker is asked.
    pub(super) const fn begin(&mut self, now: Time, rpc: RpcId) {
        if self.under_way.is_none() {
            self.under_way = Some((rpc, now));
        }
    }

    /// A stream of this worker has failed.
    pub(super) fn failed(&mut self, now: Time, rpc: RpcId, worker: &Arc<str>) {
        if let Some((_, began)) = self.under_way.filter(|(of, _)| *of == rpc) {
            let (worker, took) = (worker.clone(), now.since(began));
            self.pause = Some(Pause { worker, failed: now, took });
            self.under_way = None;
        }
    }

    /// A stream has brought records, or is closed.
    pub(super) fn ended(&mut self, rpc: RpcId) {
        self.under_way = self.under_way.filter(|(of, _)| *of != rpc);
    }
}

/// The listed workers that serve records.
fn servers(shared: &Shared) -> impl Iterator<Item = &str> {
    let tasks = shared.tasks.iter().filter(|task| task.address(RECORDS_PROTOCOL).is_some());
    tasks.map(|task| &*task.worker)
}

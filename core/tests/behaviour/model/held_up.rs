//! Hold-ups in the model: a dispatcher that may give somebody up looks every second, and one that
//! has datasets or lost workers every half minute. One that looks more than a second later was held up
//! since it looked last, and could hear nobody.

use rondo_core::dispatcher::{Config, WorkerHeartbeat};
use rondo_core::ids::{CallId, ClientId};
use rondo_core::time::{Duration, Time};

use super::{Kept, Model};

/// How long the dispatcher was held up.
#[derive(Clone, Debug)]
pub(super) struct HeldUp {
    looked: Time,
    /// When it should have looked again.
    looks: Time,
    /// When hold-ups began, and their lengths in nanoseconds.
    all: Vec<(Time, u64)>,
}

/// When a dispatcher that looks now looks again.
fn looks_again(config: &Config, kept: &Kept, now: Time) -> Time {
    let lives = |worker: &WorkerHeartbeat| !kept.lost.contains(&worker.address);
    let workers = config.worker_timeout.is_some() && kept.workers.iter().any(lives);
    let maintains = config.job_gc_timeout.is_some();
    let mut clients = kept.clients.values();
    let clients = clients.any(|client| maintains || !client.splits.is_empty());
    let frees_workers = config.lost_worker_retention.is_some() && !kept.lost.is_empty();
    match maintains && (frees_workers || !kept.datasets.is_empty()) {
        _ if workers || clients => now.after(Duration::from_secs(1)),
        true => now.after(Duration::from_secs(30)),
        false => Time::NEVER,
    }
}

impl HeldUp {
    pub(super) fn beginning(config: &Config, kept: &Kept, now: Time) -> Self {
        Self { looked: now, looks: looks_again(config, kept, now), all: Vec::new() }
    }

    /// A time less the hold-ups so far.
    pub(super) fn less(&self, now: Time) -> Time {
        self.less_since(Time::ZERO, now)
    }

    /// A time less the hold-ups since another.
    pub(super) fn less_since(&self, since: Time, now: Time) -> Time {
        let later = self.all.iter().filter(|(began, _)| *began >= since);
        Time::from_nanos(now.as_nanos() - later.map(|(_, nanos)| nanos).sum::<u64>())
    }
}

impl Model {
    pub(super) fn begin_step(&mut self, now: Time) {
        let held_up = &mut self.held_up;
        if now > held_up.looks.after(Duration::from_secs(1)) {
            held_up.all.push((held_up.looked, now.since(held_up.looked).as_nanos()));
        }
        held_up.looked = now;
    }

    pub(super) fn end_step(&mut self) {
        self.held_up.looks = looks_again(&self.config, &self.kept, self.held_up.looked);
    }

    pub(super) fn hear_client(&mut self, now: Time, id: ClientId) {
        self.heard.insert(id, self.held_up.less(now));
        self.spoke.insert(id, now);
    }

    /// The caller is gone before its split left.
    pub(crate) fn lose_caller(&mut self, call: CallId, refuses: bool) {
        self.undelivered.extend(self.handed.remove(&call));
        if !refuses {
            self.take_back();
        }
    }

    /// The journal takes records: splits that did not leave are taken back.
    pub(crate) fn take_back(&mut self) {
        let undelivered = std::mem::take(&mut self.undelivered);
        undelivered.into_iter().for_each(|handed| self.kept.take_back(&handed));
    }
}

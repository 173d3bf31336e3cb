//! Hold-ups in the model: a dispatcher that looks much later than it should have was held up since
//! it looked last, and could hear no client.

use rondo_core::dispatcher::Config;
use rondo_core::ids::{CallId, ClientId};
use rondo_core::time::{Duration, Time};

use super::{Kept, Model};

/// How long the dispatcher was held up.
#[derive(Clone, Debug)]
pub(super) struct HeldUp {
    looked: Time,
    /// Whether there was any client then.
    watches: bool,
    quarter: Duration,
    total: u64,
}

impl HeldUp {
    pub(super) fn beginning(config: &Config, kept: &Kept, now: Time) -> Self {
        let quarter = Duration::from_nanos(config.client_timeout.as_nanos() / 4);
        Self { looked: now, watches: !kept.clients.is_empty(), quarter, total: 0 }
    }

    /// A time less the hold-ups so far.
    pub(super) fn less(&self, now: Time) -> Time {
        Time::from_nanos(now.as_nanos() - self.total)
    }
}

impl Model {
    pub(super) fn begin_step(&mut self, now: Time) {
        let held_up = &mut self.held_up;
        let silent = now.since(held_up.looked);
        if held_up.watches && silent.as_nanos() > held_up.quarter.as_nanos() + 1_000_000_000 {
            held_up.total += silent.as_nanos();
        }
        held_up.looked = now;
    }

    pub(super) fn end_step(&mut self) {
        self.held_up.watches = !self.kept.clients.is_empty();
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

//! Clients that hold splits and fall silent: others are waiting for what they hold, so they are
//! given up sooner than others.

use alloc::collections::{BTreeMap, BTreeSet};

use super::machine::{Dispatcher, Effect, Turn};
use super::reply::Event;
use super::state::State;
use crate::ids::ClientId;
use crate::time::{Duration, Time};

/// When to look at which client that holds splits: never later than its patience ends. A sign of
/// life leaves that alone; it is put off when its time has come.
#[derive(Clone, Debug, Default)]
pub(super) struct ReaderAlarms {
    pub(super) at: BTreeMap<ClientId, Time>,
    pub(super) queue: BTreeSet<(Time, ClientId)>,
}

impl ReaderAlarms {
    /// Whoever holds splits in a recovered state has just been heard from.
    pub(super) fn of_survivors(state: &State, timeout: Duration, now: Time) -> Self {
        let mut alarms = Self::default();
        for client in state.clients().values().filter(|client| !client.splits.is_empty()) {
            alarms.set(client.id, patience_ends(now, timeout));
        }
        alarms
    }

    /// When to look next.
    pub(super) fn deadline(&self) -> Time {
        self.queue.first().map_or(Time::NEVER, |(at, _)| *at)
    }

    fn set(&mut self, id: ClientId, at: Time) {
        if self.at.contains_key(&id) || at == Time::NEVER {
            return;
        }
        self.at.insert(id, at);
        self.queue.insert((at, id));
    }

    pub(super) fn forget(&mut self, id: ClientId) {
        if let Some(at) = self.at.remove(&id) {
            self.queue.remove(&(at, id));
        }
    }

    fn take_due(&mut self, now: Time) -> Option<ClientId> {
        let (_, id) = self.queue.first().copied().filter(|(at, _)| *at <= now)?;
        self.forget(id);
        Some(id)
    }
}

/// The first moment at which a client heard at `heard` counts as silent.
fn patience_ends(heard: Time, timeout: Duration) -> Time {
    heard.after(timeout).after(Duration::from_nanos(1))
}

impl Dispatcher {
    /// Makes sure that a client is looked at while it holds splits.
    pub(super) fn watch_reader(&mut self, id: ClientId, now: Time) {
        if self.splits_held_by(id) > 0 {
            let at = patience_ends(now, self.config.reader_timeout);
            self.leases.readers.set(id, at);
        }
    }

    /// Gives up clients that hold splits and have been silent for too long; what would make the
    /// step long is left for the next one.
    pub(super) fn give_up_silent_readers(&mut self, turn: &mut Turn<'_>) {
        let mut budget = self.config.bounds.expiries_per_step;
        let mut bereaved = BTreeSet::new();
        while budget > 0 {
            let Some(id) = self.leases.readers.take_due(turn.now) else {
                break;
            };
            budget = budget.saturating_sub(1);
            let held = self.splits_held_by(id);
            if held == 0 || !self.is_given_up(id, turn) {
                continue;
            }
            budget = budget.saturating_sub(usize::try_from(held).unwrap_or(usize::MAX));
            turn.out.push(Effect::Observe(Event::ClientExpired { client: id }));
            // A record that does not fit has already asked the node to stop; there is nobody to
            // tell.
            bereaved.extend(self.part_with(turn, id).ok().flatten());
        }
        for iteration in bereaved {
            let _ = self.make_reader(turn, iteration);
        }
    }

    /// Whether a client that holds splits has been silent for too long; if not, it is looked at
    /// again.
    fn is_given_up(&mut self, id: ClientId, turn: &Turn<'_>) -> bool {
        let timeout = self.config.reader_timeout;
        let silence = self.leases.client_silence(id, turn.now).unwrap_or_default();
        if silence > timeout && turn.log.refuses().is_none() {
            return true;
        }
        if silence > timeout {
            // The machine cannot record it: the client gets its time again.
            self.leases.excuse_client(id, turn.now);
        }
        let heard = self.leases.client_heard(id).unwrap_or(turn.now);
        self.leases.readers.set(id, patience_ends(heard, timeout));
        false
    }
}

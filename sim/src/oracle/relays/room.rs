//! The relay's bounds, counted anew from all calls that it has.

use std::collections::BTreeSet;

use rondo_core::ids::{CallId, ConnectionId};
use rondo_core::limits::{RELAY_CLIENT_CALLS_MIN, RELAY_LONG_BYTES_MIN, RELAY_SHORT_BYTES_MAX};
use rondo_core::relay::Host;

use super::Process;
use super::held::Held;
use crate::oracle::Verdict;

impl Process {
    /// Whether a call that came finds one of the relay's bounds reached.
    pub(super) fn is_full(&self, call: CallId) -> bool {
        let Some(new) = self.held.get(&call) else {
            return false;
        };
        let config = &self.config;
        let others = || self.held.iter().filter(|(of, _)| **of != call).map(|(_, held)| held);
        let of_client = || others().filter(|held| held.client == new.client);
        let alike = of_client().filter(|held| held.is_of_tasks() == new.is_of_tasks());
        let is_due = alike.count() < RELAY_CLIENT_CALLS_MIN;
        let is_shared = config.host == Host::Relay;
        let of_open = || others().filter(|held| self.seats.is_open(held.client));
        let waiting = clients_of(of_open().filter(|held| held.waits && held.shows_life()));
        let stood_in = clients_of(of_open().filter(|held| held.stood_in));
        let own = waiting.len().saturating_add(stood_in.len());
        let has_own_room = new.shows_life() && !waiting.contains(&new.client);
        let (mine, all) = (of_client().count(), others().count().saturating_sub(own));
        let are_calls_full = mine >= config.calls_per_client_max
            || all >= config.calls_max
            || is_shared && mine >= config.calls_max.saturating_sub(all);
        let are_shared_full = all >= config.calls_max.saturating_add(config.clients_max);
        let is_kept = is_due || has_own_room;
        self.seats.is_new(new.client) && self.seats.count() > config.clients_max
            || !has_own_room && are_shared_full
            || !is_kept && are_calls_full
            || (!is_kept || new.bytes > RELAY_SHORT_BYTES_MAX) && self.are_bytes_full(call, new)
    }

    /// Checks that a call that found no room was refused.
    pub(super) fn is_refused_if_full(&self) -> Verdict {
        let Some((call, held)) = self.came.and_then(|call| self.held.get_key_value(&call)) else {
            return Ok(());
        };
        match self.came_full && !held.refused {
            true => Err(format!("call {call} is taken, and there is no room for it: {held:?}")),
            false => Ok(()),
        }
    }

    /// Whether there is no room for the message of a call that came.
    fn are_bytes_full(&self, call: CallId, new: &Held) -> bool {
        let others = || self.held.iter().filter(|(of, _)| **of != call).map(|(_, held)| held);
        let of_client = others().filter(|held| held.client == new.client);
        let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(0, u64::saturating_add);
        let free =
            self.config.held_bytes_max.saturating_sub(sum(&mut others().map(|held| held.bytes)));
        let mine = sum(&mut of_client.map(|held| held.bytes)).saturating_add(new.bytes);
        let is_shared = self.config.host == Host::Relay && new.bytes > RELAY_LONG_BYTES_MIN;
        new.bytes > free || is_shared && mine > free
    }
}

fn clients_of<'a>(calls: impl Iterator<Item = &'a Held>) -> BTreeSet<ConnectionId> {
    calls.map(|held| held.client).collect()
}

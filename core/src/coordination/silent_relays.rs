//! Relays that are heard no more are forgotten, so that there is room for others.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::live::Alarm;
use super::machine::{Coordination, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::Event;
use super::state::Namespace;
use crate::ids::{NamespaceId, RelayId};
use crate::limits::RELAYS_FORGOTTEN_PER_STEP_MAX;
use crate::time::{Duration, Time};

/// The pause after a step that found more silent relays than it may forget.
const PAUSE: Duration = Duration::from_millis(1);

/// When relays of a namespace asked last. A restart begins with all just heard from.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    relays: BTreeMap<RelayId, Time>,
    /// When one looks for silent ones next.
    pub(super) alarm: Option<Time>,
}

impl Heard {
    /// Those of the namespace that have been silent for too long. Whoever has not been heard yet is
    /// heard now, and so is who waits at a barrier: nothing more comes of it before that ends.
    fn take_silent(&mut self, namespace: &Namespace, after: Duration, now: Time) -> Vec<RelayId> {
        let arrived = namespace.open_barriers().flat_map(|barrier| barrier.arrived.values());
        let waits: BTreeSet<_> =
            arrived.filter_map(|arrival| arrival.stamp).map(|stamp| stamp.relay).collect();
        let mut silent = Vec::new();
        for relay in namespace.relays.keys() {
            let heard = self.relays.entry(*relay).or_insert(now);
            if waits.contains(relay) {
                *heard = now;
            }
            let is_silent = now.since(*heard) >= after;
            if is_silent && silent.len() < RELAYS_FORGOTTEN_PER_STEP_MAX {
                silent.push(*relay);
            }
        }
        for relay in &silent {
            self.relays.remove(relay);
        }
        silent
    }
}

impl Coordination {
    /// A relay of which something is kept asks, perhaps once more.
    pub(super) fn hear_relay(&mut self, id: NamespaceId, relay: RelayId, now: Time) {
        let is_known = |namespace: &Namespace| namespace.relays.contains_key(&relay);
        if !self.namespace(id).is_ok_and(is_known) {
            return;
        }
        if let Some(live) = self.lives.get_mut(&id) {
            live.heard.relays.insert(relay, now);
        }
        self.plan_silence_look(id, now);
    }

    /// Looks for silent relays some time from now, if there are relays and nothing is planned.
    pub(super) fn plan_silence_look(&mut self, id: NamespaceId, now: Time) {
        let has_relays = self.namespace(id).is_ok_and(|namespace| !namespace.relays.is_empty());
        let is_planned = self.live(id).is_ok_and(|live| live.heard.alarm.is_some());
        if has_relays && !is_planned {
            let at = self.silence_look_from(id, now);
            self.set_alarm(id, Alarm::SilentRelays, Some(at));
        }
    }

    /// When to look for silent relays after a moment.
    pub(super) fn silence_look_from(&self, id: NamespaceId, now: Time) -> Time {
        let after = self.live(id).map(|live| live.settings.relay_silence).unwrap_or_default();
        now.after(Duration::from_nanos(after.as_nanos() / 4))
    }

    pub(super) fn forget_silent_relays(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
    ) -> Result<(), Refusal> {
        let namespace = self.state.namespaces.get(&id);
        let (Some(namespace), Some(live)) = (namespace, self.lives.get_mut(&id)) else {
            return Ok(());
        };
        let relays = live.heard.take_silent(namespace, live.settings.relay_silence, turn.now);
        let (name, count) = (namespace.head.name.clone(), relays.len());
        if count > 0 {
            self.commit(turn, Record::ForgetRelays { namespace: id, relays })?;
            self.observe(turn, Event::RelaysForgotten { namespace: name, count });
        }
        if count >= RELAYS_FORGOTTEN_PER_STEP_MAX {
            self.set_alarm(id, Alarm::SilentRelays, Some(turn.now.after(PAUSE)));
        }
        self.plan_silence_look(id, turn.now);
        Ok(())
    }
}

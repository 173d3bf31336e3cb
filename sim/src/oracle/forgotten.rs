//! The coordination service forgets a relay no earlier than after the silence it is configured for, and no
//! later than half as long again and all the time for which the node stood still since. A relay that waits
//! at a barrier is not silent.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_core::control::Record;
use rondo_core::coordination::{self, Namespace};
use rondo_core::ids::{CallId, NamespaceId, RelayId};
use rondo_core::time::{Duration, Time};

use super::stalls::Stalls;
use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};
use crate::fault::{Fault, Faults};

/// Faults that move the node's clock, or keep the node from recording that it forgets a relay.
const UNSURE: [Fault; 5] =
    [Fault::ClockJump, Fault::ClockBack, Fault::DiskFull, Fault::WriteFails, Fault::Lack];
/// So much later than it should be a relay may be forgotten.
const SLACK: Duration = Duration::from_secs(5);

/// A relay in a namespace.
type Place = (Arc<str>, RelayId);

/// When a relay showed that it lives.
#[derive(Clone, Copy, Debug)]
struct Signs {
    /// It asked.
    asked: Time,
    /// It asked, was answered, or waited at a barrier.
    last: Time,
}

pub(super) struct Forgotten {
    /// Whether one of these faults may strike.
    is_unsure: bool,
    /// How long a namespace remembers a silent relay.
    silence: BTreeMap<Arc<str>, Duration>,
    signs: BTreeMap<Place, Signs>,
    calls: CallMap<Place>,
    stalls: Stalls,
}

impl Forgotten {
    pub(super) fn new(faults: &Faults) -> Self {
        Self {
            is_unsure: UNSURE.iter().any(|fault| faults.has(*fault)),
            silence: BTreeMap::new(),
            signs: BTreeMap::new(),
            calls: CallMap::default(),
            stalls: Stalls::default(),
        }
    }

    fn asked(&mut self, now: Time, call: CallId, asked: &coordination::Call) {
        let Some(stamp) = asked.caller.stamp else {
            return;
        };
        let place = (asked.namespace.clone(), stamp.relay);
        self.signs.insert(place.clone(), Signs { asked: now, last: now });
        self.calls.insert(call, place);
    }

    /// A relay has an answer, or waited until now.
    fn lived(&mut self, now: Time, place: &Place) {
        if let Some(signs) = self.signs.get_mut(place) {
            signs.last = now;
        }
    }

    fn recorded(&mut self, now: Time, record: &coordination::Record, shadow: &Shadow) -> Verdict {
        match record {
            coordination::Record::EndBarrier { namespace, .. } => {
                let of = shadow.coordination().namespaces().get(namespace);
                of.into_iter().flat_map(waiting).for_each(|place| self.lived(now, &place));
                Ok(())
            }
            coordination::Record::ForgetRelays { namespace, relays } => {
                relays.iter().try_for_each(|relay| self.forgotten(now, *namespace, *relay, shadow))
            }
            _ => Ok(()),
        }
    }

    fn forgotten(
        &self,
        now: Time,
        namespace: NamespaceId,
        relay: RelayId,
        shadow: &Shadow,
    ) -> Verdict {
        let Some(of) = shadow.coordination().namespaces().get(&namespace) else {
            return Ok(());
        };
        let place = (of.head().name.clone(), relay);
        let least = self.silence.get(&place.0).copied().unwrap_or_default();
        let asked = self.signs.get(&place).map(|signs| signs.asked).unwrap_or_default();
        let silent = now.since(self.stalls.heard_at(asked));
        reached(Check::ForgottenRelay);
        if waiting(of).any(|waits| waits == place) {
            return Err(format!("relay {relay} of {} is forgotten while it waits", place.0));
        }
        match silent < least {
            true => Err(format!(
                "relay {relay} of {} is forgotten after {} ms of silence, not {} ms",
                place.0,
                silent.as_millis(),
                least.as_millis()
            )),
            false => Ok(()),
        }
    }

    /// No relay has been silent for much longer than it may be.
    fn check(&self, now: Time, shadow: &Shadow) -> Verdict {
        for of in shadow.coordination().namespaces().values() {
            let Some(silence) = self.silence.get(&of.head().name) else {
                continue;
            };
            for relay in of.relays().keys() {
                let place = (of.head().name.clone(), *relay);
                let last = self.signs.get(&place).map(|signs| signs.last).unwrap_or_default();
                let last = self.stalls.heard_at(last);
                let stood = self.stalls.since(last, |_| Duration::ZERO);
                let half = Duration::from_nanos(silence.as_nanos() / 2);
                let most = silence.plus(half).plus(SLACK).plus(stood);
                let silent = now.since(last);
                reached(Check::ForgottenInTime);
                if silent > most && !waiting(of).any(|waits| waits == place) {
                    return Err(format!(
                        "relay {relay} of {} has been silent for {} ms and is remembered; {} ms \
                         are allowed",
                        place.0,
                        silent.as_millis(),
                        most.as_millis()
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The relays that wait at a barrier of a namespace.
fn waiting(of: &Namespace) -> impl Iterator<Item = Place> + '_ {
    let arrived = of.open_barriers().flat_map(|barrier| barrier.arrived.values());
    arrived.filter_map(|arrival| Some((of.head().name.clone(), arrival.stamp?.relay)))
}

impl Oracle for Forgotten {
    fn name(&self) -> &'static str {
        "forgotten"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Asked,
            SeenKind::Told,
            SeenKind::GivenUp,
            SeenKind::StandsStill,
            SeenKind::Resumed,
            SeenKind::Recovered,
            SeenKind::Coordinates,
            SeenKind::Looked,
            SeenKind::CoordinationRecord,
        ]
    }

    fn see(&mut self, now: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        if self.is_unsure {
            return Ok(());
        }
        match seen {
            Seen::Asked { call, asked, .. } => self.asked(now, *call, asked),
            Seen::Told { call, .. } => {
                if let Some(place) = self.calls.remove(call) {
                    self.lived(now, &place);
                }
            }
            Seen::GivenUp { call } => drop(self.calls.remove(call)),
            Seen::Recorded { record: Record::Coordination(record), .. } => {
                return self.recorded(now, record, shadow);
            }
            Seen::Looked(_) => return self.check(now, shadow),
            Seen::Coordinates(config) => {
                let silence =
                    config.namespaces.iter().map(|it| (it.name.clone(), it.relay_silence));
                self.silence = silence.collect();
            }
            Seen::StandsStill => self.stalls.stop(now),
            Seen::Resumed { .. } => self.stalls.resume(now),
            Seen::Recovered { .. } => {
                self.stalls.begin(now);
                self.calls.clear();
            }
            _ => {}
        }
        Ok(())
    }
}

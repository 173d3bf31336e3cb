//! A server as it ought to be, as far as a relay can tell: what must not happen twice happens once.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rondo_core::ids::{CallId, RelayId, ServiceIncarnation};
use rondo_core::relay::{Forwarding, Kind, Link, Refused, Task, Who};
use rondo_core::status::Code;

/// What the server says, and the life it tells with it.
pub(crate) type Said = (Result<Bytes, Refused>, Option<ServiceIncarnation>);

/// The server. Who crashes it keeps what is durable, and drops `waiting`.
#[derive(Default)]
pub(crate) struct Server {
    pub(crate) life: u64,
    registered: BTreeMap<Task, u64>,
    /// How often each call had its effect.
    pub(crate) effects: BTreeMap<CallId, u32>,
    results: BTreeMap<RelayId, (u64, BTreeMap<u64, CallId>)>,
    /// Calls that wait until somebody lets them go, by the way they came.
    pub(crate) waiting: BTreeMap<(Link, CallId), Kind>,
}

impl Server {
    /// Takes a call, on the `current` way or one that was given up; `None` if it waits.
    pub(crate) fn take(
        &mut self,
        (link, call): (Link, CallId),
        kind: &Kind,
        forwarding: &Forwarding,
        current: bool,
    ) -> Option<Said> {
        match kind {
            Kind::Register(who) => {
                self.registered.insert(who.task.clone(), who.incarnation.get());
                Some((said(call), Some(self.incarnation())))
            }
            Kind::Heartbeat(who) if self.is_registered(who) => {
                Some((said(call), Some(self.incarnation())))
            }
            Kind::Heartbeat(_) => Some((refused(call), None)),
            Kind::Again if call.get().is_multiple_of(3) => {
                self.waiting.insert((link, call), kind.clone());
                None
            }
            Kind::Again => Some((said(call), None)),
            Kind::Once { .. } | Kind::Alive | Kind::Shutdown(_) => {
                self.take_once((link, call), kind, forwarding, current)
            }
        }
    }

    fn take_once(
        &mut self,
        (link, call): (Link, CallId),
        kind: &Kind,
        forwarding: &Forwarding,
        current: bool,
    ) -> Option<Said> {
        let stamp = forwarding.stamp.expect("it must not happen twice and has no number");
        let (acknowledged, results) = self.results.entry(stamp.relay).or_default();
        if stamp.sequence <= *acknowledged {
            assert!(!current, "a number that was acknowledged comes again");
            // A message that was lost on its way long ago.
            return Some((refused(call), None));
        }
        *acknowledged = stamp.acknowledged.max(*acknowledged);
        results.retain(|sequence, _| *sequence > stamp.acknowledged);
        match results.insert(stamp.sequence, call) {
            Some(other) => assert_eq!(other, call, "two calls have one number"),
            None => *self.effects.entry(call).or_default() += 1,
        }
        match kind {
            Kind::Once { waits: true } | Kind::Alive => {
                self.waiting.retain(|(_, waiting), _| *waiting != call);
                self.waiting.insert((link, call), kind.clone());
                None
            }
            Kind::Shutdown(task) => {
                self.registered.remove(task);
                Some((said(call), None))
            }
            _ => Some((said(call), None)),
        }
    }

    /// Lets one of those that wait go.
    pub(crate) fn release(&mut self, nth: usize) -> Option<(Link, CallId, Said)> {
        let index = nth.checked_rem(self.waiting.len())?;
        let (link, call) = *self.waiting.keys().nth(index)?;
        self.waiting.remove(&(link, call));
        Some((link, call, (said(call), None)))
    }

    /// A task is in error.
    pub(crate) fn expire(&mut self, nth: usize) {
        let tasks: BTreeSet<Task> = self.registered.keys().cloned().collect();
        if let Some(index) = nth.checked_rem(tasks.len()) {
            self.registered.remove(tasks.iter().nth(index).unwrap());
        }
    }

    /// All is lost, and a new life begins.
    pub(crate) fn wipe(&mut self) {
        *self = Self { life: self.life + 1, ..Self::default() };
    }

    fn is_registered(&self, who: &Who) -> bool {
        self.registered.get(&who.task) == Some(&who.incarnation.get())
    }

    pub(crate) const fn incarnation(&self) -> ServiceIncarnation {
        ServiceIncarnation::new(self.life + 1000)
    }
}

/// The answer to a call, which is no other's.
pub(crate) fn said(call: CallId) -> Result<Bytes, Refused> {
    Ok(Bytes::from(format!("answer to {call}")))
}

fn refused(call: CallId) -> Result<Bytes, Refused> {
    let details = Bytes::from_static(b"from the server");
    Err(Refused { code: Code::Aborted, message: format!("no to {call}"), details })
}

//! Connections between readers by element and workers: a call holds until it is answered, or one of
//! its ends sees that the connection is broken.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::status::{Code, Status};

use super::event::Event;
use super::letter::{CallOf, Letter};
use super::machine::Being;
use super::{Phase, World};
use crate::mark::Mark;
use crate::oracle::Seen;
use crate::trace::LineKind;
use crate::workload::elements::OfElements;
use crate::workload::{ActorId, Carried};

/// Calls of readers to workers, by the reader and its own number for the call.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    open: BTreeMap<(u32, u64), Open>,
}

/// A call under way.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// The reader's life.
    life: u32,
    worker: u32,
    /// The worker's life.
    of: u32,
    /// Whether a message of it was lost: so the connection will be found broken.
    is_lost: bool,
    /// Whether an answer is under way.
    is_answered: bool,
}

impl World {
    /// A reader asks a worker.
    pub(super) fn fetch(&mut self, of: CallOf, address: &Arc<str>, message: Bytes) {
        let here =
            |machine: &super::ActorMachine| machine.actor.address().as_ref() == Some(address);
        let at = self.actors.iter().position(here).and_then(|place| u32::try_from(place).ok());
        let Some(worker) = at else {
            return self.tell_broken(of, "nobody is at that address");
        };
        let life = self.life_of(worker);
        let open = Open { life: of.life, worker, of: life, is_lost: false, is_answered: false };
        self.fetches.open.insert((of.actor, of.token), open);
        let what = Carried::Requested { from: ActorId(of.actor), token: of.token, message };
        let arrives = self.post(of.actor + 1, worker + 1, Letter::OfFetch { of, what });
        self.note_lost((of.actor, of.token), arrives);
        self.plan_probe((of.actor, of.token));
    }

    fn life_of(&self, actor: u32) -> u32 {
        self.actors.get(actor as usize).map_or(0, |machine| machine.life)
    }

    fn note_lost(&mut self, key: (u32, u64), arrives: bool) {
        if let Some(open) = self.fetches.open.get_mut(&key) {
            open.is_lost |= !arrives;
        }
    }

    fn plan_probe(&mut self, (reader, token): (u32, u64)) {
        let patience_ns = self.swarm.net.patience_ms.saturating_mul(1_000_000);
        // Consumers that find a connection broken wait for each other for so long, and no longer: a
        // connection that takes longer to be found broken keeps them from ever meeting.
        // That is told by the node's own settings: it may have got others at a restart.
        let meets_ns = self.node.settings.removal_timeout.as_nanos() / 2;
        let in_rounds = self.swarm.elements.is_some_and(|shape| shape.rounds);
        let after_ns = if in_rounds { patience_ns.min(meets_ns) } else { patience_ns };
        self.queue.plan(self.now_ns.saturating_add(after_ns), Event::Probe(reader, token));
    }

    /// Time to see whether a connection still holds.
    pub(super) fn probe(&mut self, reader: u32, token: u64) {
        let Some(open) = self.fetches.open.get(&(reader, token)).copied() else {
            return;
        };
        if matches!(self.phase, Phase::Gone(_) | Phase::Over) {
            return;
        }
        let (near, far) = (reader + 1, open.worker + 1);
        let is_cut = self.net.is_cut(near, far) || self.net.is_cut(far, near);
        if open.is_lost || is_cut {
            return self.break_fetch((reader, token));
        }
        self.plan_probe((reader, token));
    }

    /// Both ends see that a connection is broken.
    fn break_fetch(&mut self, key: (u32, u64)) {
        let Some(open) = self.fetches.open.remove(&key) else {
            return;
        };
        if open.is_answered {
            self.tally.mark(Mark::ElementLost);
        }
        let of = CallOf { actor: key.0, life: open.life, token: key.1 };
        self.tell_broken(of, "the connection is broken");
        self.tell_withdrawn(of, open);
    }

    /// The reader's own side of a connection tells it that it is broken.
    fn tell_broken(&mut self, of: CallOf, reason: &str) {
        let answer = Err(Status::new(Code::Unavailable, reason));
        let what = Carried::Fetched { token: of.token, answer };
        let at_ns = self.now_ns.saturating_add(self.way_ns());
        self.plan_letter(at_ns, of.actor + 1, of.actor + 1, Letter::OfFetch { of, what });
    }

    /// The worker's own side of a connection tells it that nobody waits any more.
    fn tell_withdrawn(&mut self, of: CallOf, open: Open) {
        let what = Carried::Withdrawn { from: ActorId(of.actor), token: of.token };
        let far = open.worker + 1;
        let is_cut = self.net.is_cut(of.actor + 1, far);
        let late_ns = self.swarm.net.patience_ms.saturating_mul(1_000_000);
        let after_ns = if is_cut { late_ns } else { self.way_ns() };
        let at_ns = self.now_ns.saturating_add(after_ns);
        self.plan_letter(at_ns, far, far, Letter::OfFetch { of, what });
    }

    const fn way_ns(&self) -> u64 {
        self.swarm.net.delay_us_min.saturating_mul(1000)
    }

    /// A reader waits no longer.
    pub(super) fn withdraw(&mut self, of: CallOf) {
        if let Some(open) = self.fetches.open.remove(&(of.actor, of.token)) {
            self.tell_withdrawn(of, open);
        }
    }

    /// A worker answers.
    pub(super) fn served(&mut self, worker: u32, key: (u32, u64), answer: Result<Bytes, Status>) {
        let life = self.life_of(worker);
        let Some(open) = self.fetches.open.get_mut(&key) else {
            return;
        };
        if (open.worker, open.of) != (worker, life) {
            return;
        }
        open.is_answered = answer.is_ok();
        let of = CallOf { actor: key.0, life: open.life, token: key.1 };
        let what = Carried::Fetched { token: of.token, answer };
        let arrives = self.post(worker + 1, of.actor + 1, Letter::OfFetch { of, what });
        self.note_lost(key, arrives);
    }

    /// Something arrives at one end of a connection.
    pub(super) fn carried(&mut self, of: CallOf, to: u32, what: Carried) {
        let Some(actor) = to.checked_sub(1) else {
            return;
        };
        let key = (of.actor, of.token);
        if let Carried::Requested { .. } = &what {
            let open = self.fetches.open.get(&key).copied();
            let is_there = open.is_some_and(|open| open.of == self.life_of(actor));
            if !is_there || self.being(actor) == Being::Down {
                return self.break_fetch(key);
            }
        } else if let Carried::Fetched { answer, .. } = &what {
            let broke = self.fetches.open.remove(&key).is_none();
            // An answer on a connection that is broken by now is lost with it.
            if broke && answer.is_ok() || self.life_of(actor) != of.life {
                return;
            }
        }
        self.tell(actor, crate::workload::Happening::Element(what));
    }

    /// An actor's process is gone, with its elements and its connections.
    pub(super) fn lose_elements(&mut self, actor: u32) {
        let lost = self.actors.get(actor as usize).and_then(|machine| machine.actor.lost());
        self.break_fetches(actor);
        if let Some(lost) = lost {
            self.elements(actor, &lost);
        }
    }

    fn break_fetches(&mut self, actor: u32) {
        let of = |(key, open): (&(u32, u64), &Open)| {
            (key.0 == actor || open.worker == actor).then_some(*key)
        };
        let broken: Vec<(u32, u64)> = self.fetches.open.iter().filter_map(of).collect();
        for key in broken {
            let Some(open) = self.fetches.open.get_mut(&key) else {
                continue;
            };
            let (near, far) = (key.0 + 1, open.worker + 1);
            // Nothing tells the other end before it looks.
            open.is_lost = true;
            if !self.net.is_cut(near, far) && !self.net.is_cut(far, near) {
                self.break_fetch(key);
            }
        }
    }

    /// Something happens to elements.
    pub(super) fn elements(&mut self, actor: u32, what: &OfElements) {
        let (now_ns, lane) = (self.now_ns, actor + 1);
        self.trace.hash(now_ns, 0x10, what.fingerprint());
        self.trace.line(now_ns, lane, LineKind::Note, || format!("{what:?}"));
        // The number of a client of a former disk may be another client's on this one.
        let is_end = matches!(what, OfElements::ReadEnded(..));
        if !is_end || self.is_of_this_disk(actor) {
            self.see(&Seen::Elements(what));
        }
    }
}

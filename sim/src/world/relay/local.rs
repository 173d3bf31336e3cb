//! Tasks and their relay, on one machine.

use rondo_core::control::Request;
use rondo_core::coordination::{self, Call};
use rondo_core::ids::CallId;
use rondo_core::relay::{self, Asked, Input};
use rondo_core::status::{Code, Status};

use super::papers::path_and_kind;
use super::{Local, ToRelay};
use crate::oracle::Seen;
use crate::workload::kind::Kind;
use crate::world::World;
use crate::world::letter::{CallOf, Letter};

/// A message between a task and its relay takes so long, in ns.
pub(super) const LOCAL_NS: u64 = 20_000;

impl World {
    /// The relay that an actor talks to, by number.
    pub(in crate::world) fn relay_of(&self, actor: u32) -> Option<u32> {
        self.actors.get(actor as usize).and_then(|machine| machine.actor.relay())
    }

    fn tell_relay(&mut self, relay: u32, of: CallOf, what: Local) {
        let life = self.relays.at(relay).map_or(0, |machine| machine.life);
        let (at_ns, to) = (self.now_ns.saturating_add(LOCAL_NS), self.machine_of(relay));
        let letter = Letter::ToRelay(ToRelay { relay, life, of, what });
        self.plan_letter(at_ns, of.actor + 1, to, letter);
    }

    /// A task calls through its relay.
    pub(in crate::world) fn call_relay(
        &mut self,
        relay: u32,
        of: CallOf,
        kind: Kind,
        request: Request,
    ) {
        if let Some(machine) = self.actors.get_mut(of.actor as usize) {
            machine.open.push((of.token, kind));
        }
        let Request::Coordination(coordination::Request::Call(asked)) = request else {
            return;
        };
        let serves = self.relays.at(relay).is_some_and(|machine| machine.process.is_some());
        if !serves {
            return self.refuse_locally(of, "connection refused");
        }
        let call = self.relays.draw_call();
        self.relays.open.insert(call, of);
        self.see(&Seen::Passed { call, asked: &asked });
        self.tell_relay(relay, of, Local::Call { call, asked });
    }

    fn refuse_locally(&mut self, of: CallOf, reason: &str) {
        let answer = Err(Status::new(Code::Unavailable, reason));
        let at_ns = self.now_ns.saturating_add(LOCAL_NS);
        self.plan_letter(at_ns, of.actor + 1, of.actor + 1, Letter::Reply { of, answer });
    }

    /// A task does not wait for a call any more.
    pub(in crate::world) fn let_go(&mut self, relay: u32, of: CallOf) {
        if let Some(call) = self.relays.call_of(of) {
            self.relays.open.remove(&call);
            self.see(&Seen::PassedGone { call });
        }
        self.tell_relay(relay, of, Local::GiveUp);
    }

    /// A task's process is gone, and its connection.
    pub(in crate::world) fn part(&mut self, relay: u32, actor: u32) {
        let Some(machine) = self.actors.get_mut(actor as usize) else {
            return;
        };
        let (open, life) = (std::mem::take(&mut machine.open), machine.life);
        for (token, kind) in open {
            self.outcomes.count::<coordination::Reply>(kind, None);
            self.let_go(relay, CallOf { actor, life, token });
        }
        self.tell_relay(relay, CallOf { actor, life, token: 0 }, Local::Gone);
    }

    /// A task has its relay's answer, or knows that none comes.
    pub(in crate::world) fn passed_back(
        &mut self,
        of: CallOf,
        answer: &Result<rondo_core::control::Reply, Status>,
    ) {
        let Some(call) = self.relays.call_of(of) else {
            return;
        };
        self.relays.open.remove(&call);
        let answer = answer.clone().and_then(|reply| match reply {
            rondo_core::control::Reply::Coordination(reply) => Ok(reply),
            rondo_core::control::Reply::Dispatcher(_) => {
                Err(Status::new(Code::Internal, "the dispatcher answered"))
            }
        });
        self.see(&Seen::PassedBack { call, answer: &answer });
    }

    /// All connections of tasks to a relay's process break.
    pub(super) fn break_locally(&mut self, relay: u32) {
        let behind = |of: &&CallOf| self.relay_of(of.actor) == Some(relay);
        let open: Vec<CallOf> = self.relays.open.values().filter(behind).copied().collect();
        for of in open {
            self.refuse_locally(of, "connection reset");
        }
    }

    /// A task's message arrives at its relay.
    pub(in crate::world) fn at_relay(&mut self, letter: ToRelay) {
        let ToRelay { relay, life, of, what } = letter;
        let here = self.relays.at(relay).is_some_and(|it| it.life == life && it.process.is_some());
        if !here {
            return;
        }
        match what {
            Local::Call { call, asked } => self.asked_of_relay(relay, of, call, asked),
            Local::GiveUp => self.given_up_at_relay(relay, |caller| caller == of),
            Local::Gone => self.gone_from_relay(relay, of.actor),
        }
    }

    fn asked_of_relay(&mut self, relay: u32, of: CallOf, call: CallId, mut asked: Box<Call>) {
        let (path, kind) = path_and_kind(&asked);
        let method = asked.method.clone();
        if !matches!(
            kind,
            relay::Kind::Register(_) | relay::Kind::Heartbeat(_) | relay::Kind::Shutdown(_)
        ) {
            // Not said on the wire: the relay tells it, as far as it knows.
            asked.caller.task = None;
        }
        let message = self.relays.papers.write_call(asked);
        let entropy = self.relays.entropy();
        let process = self.relays.at(relay).and_then(|machine| machine.process.as_mut());
        let Some(process) = process else {
            return;
        };
        process.callers.insert(call, (of, method));
        let client = process.client(of.actor);
        let peer = format!("127.0.0.1:{}", of.actor).into();
        let asked = Asked { client, peer, path: path.into(), message, kind };
        self.step_relay(relay, Input::Asked { call, asked, entropy });
    }

    fn given_up_at_relay(&mut self, relay: u32, whose: impl Fn(CallOf) -> bool) {
        let process = self.relays.at(relay).and_then(|machine| machine.process.as_mut());
        let Some(process) = process else {
            return;
        };
        let mine = process.callers.iter().filter(|(_, (of, _))| whose(*of));
        let mine: Vec<CallId> = mine.map(|(call, _)| *call).collect();
        for call in &mine {
            process.callers.remove(call);
            process.alone.insert(*call);
        }
        for call in mine {
            self.step_relay(relay, Input::Cancel { call });
        }
    }

    fn gone_from_relay(&mut self, relay: u32, actor: u32) {
        self.given_up_at_relay(relay, |of| of.actor == actor);
        let process = self.relays.at(relay).and_then(|machine| machine.process.as_mut());
        if let Some(client) = process.and_then(|process| process.clients.remove(&actor)) {
            self.step_relay(relay, Input::Closed { client });
        }
    }
}

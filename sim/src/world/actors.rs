//! Messages arrive, actors are told and act.

use std::sync::Arc;

use rondo_core::control::{Reply, Request};
use rondo_core::status::{Code, Status};
use rondo_core::time::Time;
use rondo_core::{coordination, dispatcher};

use super::event::Event;
use super::letter::{CallOf, Letter, NODE};
use super::machine::Being;
use super::{Phase, World};
use crate::fault::{Fault, Faults};
use crate::mark::Mark;
use crate::oracle::Seen;
use crate::workload::kind::Kind;
use crate::workload::{Act, Happening, Read, ReadAnswer, Role, With};

/// No fault at all.
const CALM: Faults = Faults::none();
/// No actor is woken twice within so many ns.
const WAKE_PAUSE_NS: u64 = 1_000_000;
/// A slow process takes so long for a message, in ns.
const SLOW_NS: u64 = 300_000_000;

impl World {
    /// Sends a message on its way, as the network will have it.
    /// Says whether it arrives.
    pub(super) fn post(&mut self, from: u32, to: u32, letter: Letter) -> bool {
        let copies = matches!(letter, Letter::Request { .. } | Letter::Push { .. });
        let faults = match self.phase {
            Phase::Struck => &self.swarm.faults,
            _ => &CALM,
        };
        let fate = self.net.send(self.now_ns, (from, to), copies, faults, &mut self.tally);
        if let Some(at_ns) = fate.copy_ns {
            let copy = copy_of(&letter);
            self.plan_letter(at_ns, from, to, copy);
        }
        if let Some(at_ns) = fate.arrives_ns {
            self.plan_letter(at_ns, from, to, letter);
        }
        fate.arrives_ns.is_some()
    }

    pub(super) fn plan_letter(&mut self, at_ns: u64, from: u32, to: u32, letter: Letter) {
        let slow_until_ns = match to.checked_sub(1) {
            None => self.node.slow_until_ns,
            Some(actor) => self.actors.get(actor as usize).map_or(0, |m| m.slow_until_ns),
        };
        let slow = at_ns < slow_until_ns;
        let at_ns = if slow { at_ns.saturating_add(SLOW_NS) } else { at_ns };
        let place = self.letters.put(from, to, letter);
        self.queue.plan(at_ns, Event::Letter(place));
    }

    /// A message arrives, or waits with a machine that stands still.
    pub(super) fn arrive(&mut self, place: u32) {
        let Some((from, to, letter)) = self.letters.take(place) else {
            return;
        };
        self.net.arrived(from, to);
        if self.being_at(to) == Being::Paused {
            let place = self.letters.put(from, to, letter);
            return self.hold(to, place);
        }
        self.trace.hash(self.now_ns, u64::from(from), u64::from(to));
        match letter {
            Letter::Request { of, copy, disk, request } if self.node.node.is_some() => {
                self.take(of, (copy, disk), request);
            }
            Letter::Request { of, .. } => self.refuse_call(of, "the server has not started"),
            Letter::Cancel(of) => self.cancel(of),
            Letter::Reply { of, answer } => self.reply(of, answer),
            Letter::Push { actor, task } => self.tell(actor, Happening::Pushed(task)),
            Letter::Ask { of, worker, read } => self.asked(of, worker, read),
            Letter::Tell { of, answer } => {
                self.tell_call(of, Happening::Told { token: of.token, answer });
            }
            Letter::OfFetch { of, what } => self.carried(of, to, what),
            Letter::ToRelay(letter) => self.at_relay(letter),
            Letter::ToNode(wire, what) => self.wire_to_node(wire, what),
            Letter::FromNode(wire, what) => self.wire_to_relay(wire, what),
        }
    }

    /// A message waits with a machine that stands still.
    fn hold(&mut self, to: u32, place: u32) {
        let Some(actor) = to.checked_sub(1) else {
            return self.node.held.push(place);
        };
        let relay = (actor as usize).checked_sub(self.actors.len());
        let held = match relay {
            None => self.actors.get_mut(actor as usize).map(|machine| &mut machine.held),
            Some(relay) => self.relays.all.get_mut(relay).map(|machine| &mut machine.held),
        };
        if let Some(held) = held {
            held.push(place);
        }
    }

    fn being_at(&self, machine: u32) -> Being {
        let Some(actor) = machine.checked_sub(1) else {
            return self.node.being;
        };
        match (actor as usize).checked_sub(self.actors.len()) {
            None => self.being(actor),
            Some(relay) => self.relays.all.get(relay).map_or(Being::Down, |relay| relay.being),
        }
    }

    pub(super) fn being(&self, actor: u32) -> Being {
        self.actors.get(actor as usize).map_or(Being::Down, |machine| machine.being)
    }

    fn reply(&mut self, of: CallOf, answer: Result<Reply, Status>) {
        let Some(machine) = self.actors.get_mut(of.actor as usize) else {
            return;
        };
        let at = machine.open.iter().position(|(token, _)| *token == of.token);
        let Some(at) = at.filter(|_| machine.life == of.life) else {
            return;
        };
        let (_, kind) = machine.open.swap_remove(at);
        self.outcomes.count(kind, Some(&answer));
        self.passed_back(of, &answer);
        let token = of.token;
        let what = match answer {
            Ok(Reply::Dispatcher(reply)) => self.learn(of.actor, token, Ok(reply)),
            Ok(Reply::Coordination(reply)) => Happening::Coordinated { token, answer: Ok(reply) },
            Err(status) if kind.is_coordination() => {
                Happening::Coordinated { token, answer: Err(status) }
            }
            Err(status) => self.learn(of.actor, token, Err(status)),
        };
        self.tell(of.actor, what);
    }

    /// What all learn from an answer of the dispatcher.
    fn learn(
        &mut self,
        actor: u32,
        token: u64,
        answer: Result<dispatcher::Reply, Status>,
    ) -> Happening {
        if let Ok(reply) = &answer {
            self.known.learn(reply);
        }
        self.mark_former_life(actor, &answer);
        Happening::Answered { token, answer }
    }

    /// Which of the node's disks a client is of, and what those of a former one are told.
    fn mark_former_life(&mut self, actor: u32, answer: &Result<dispatcher::Reply, Status>) {
        let disks = self.node.disks;
        let Some(machine) = self.actors.get_mut(actor as usize) else {
            return;
        };
        match answer {
            // All that it asks for from here on follows from this.
            Ok(dispatcher::Reply::Dataset(_)) => machine.disk = disks,
            Err(status) if machine.disk != disks && status.code == Code::NotFound => {
                self.tally.mark(Mark::FormerLifeRefused);
            }
            Ok(dispatcher::Reply::ClientHeartbeat(reply))
                if machine.disk == disks && disks > 0 && reply.iteration_finished =>
            {
                self.tally.mark(Mark::IterationAfterEmptyDisk);
            }
            _ => {}
        }
    }

    /// A consumer's question arrives at a worker's machine.
    fn asked(&mut self, of: CallOf, worker: u32, read: Read) {
        if self.being(worker) == Being::Down {
            self.post(worker + 1, of.actor + 1, Letter::Tell { of, answer: None });
            return;
        }
        let from = crate::workload::ActorId(of.actor);
        // The worker's answer names the call by the asker's token; its life is the one it has now.
        self.tell(worker, Happening::Asked { from, token: of.token, read });
    }

    fn tell_call(&mut self, of: CallOf, what: Happening) {
        let life = self.actors.get(of.actor as usize).map(|machine| machine.life);
        if life == Some(of.life) {
            self.tell(of.actor, what);
        }
    }

    /// Something happens to an actor, and it acts.
    pub(super) fn tell(&mut self, actor: u32, what: Happening) {
        if self.being(actor) != Being::Up || matches!(self.phase, Phase::Gone(_)) {
            return;
        }
        let calm = self.phase != Phase::Struck;
        let Some(machine) = self.actors.get_mut(actor as usize) else {
            return;
        };
        let now = machine.clock.shows(self.now_ns);
        let mut acts = std::mem::take(&mut self.acts);
        let mut with = With {
            swarm: &self.swarm,
            stream: &mut machine.stream,
            known: &mut self.known,
            tally: &mut self.tally,
            acts: &mut acts,
            calm,
        };
        machine.actor.happen(now, what, &mut with);
        for act in acts.drain(..) {
            self.act(actor, act);
        }
        self.acts = acts;
        self.plan_next_wake(actor);
    }

    fn plan_next_wake(&mut self, actor: u32) {
        let Some(machine) = self.actors.get(actor as usize) else {
            return;
        };
        let at = machine.actor.wake_at();
        if at < Time::NEVER {
            let at_ns = machine.clock.when(at);
            self.plan_wake(actor, at_ns);
        }
    }

    /// Wakes an actor at a time, or a little later.
    pub(super) fn plan_wake(&mut self, actor: u32, at_ns: u64) {
        let now_ns = self.now_ns;
        let Some(machine) = self.actors.get_mut(actor as usize) else {
            return;
        };
        let soonest = machine.woken_at_ns.saturating_add(WAKE_PAUSE_NS);
        let at_ns = at_ns.max(soonest).max(now_ns);
        if machine.wake_at_ns <= at_ns && machine.wake_at_ns >= now_ns {
            return;
        }
        machine.wake_at_ns = at_ns;
        self.queue.plan(at_ns, Event::Wake(actor));
    }

    /// An actor's time has come.
    pub(super) fn wake(&mut self, actor: u32) {
        let now_ns = self.now_ns;
        let Some(machine) = self.actors.get_mut(actor as usize) else {
            return;
        };
        if machine.wake_at_ns != now_ns {
            return;
        }
        // Also of one that is down: it may be there again within this nanosecond, and wants its own.
        machine.wake_at_ns = u64::MAX;
        if machine.being != Being::Up {
            return;
        }
        machine.woken_at_ns = now_ns;
        self.tell(actor, Happening::Wake);
    }

    fn act(&mut self, actor: u32, act: Act) {
        let life = self.actors.get(actor as usize).map_or(0, |machine| machine.life);
        let of = |token| CallOf { actor, life, token };
        match act {
            Act::Call { token, request } => {
                self.call(of(token), Kind::of(&request), Request::Dispatcher(request));
            }
            Act::Coordinate { token, call } => {
                let kind = Kind::of_method(&call.method);
                let request = coordination::Request::Call(call);
                self.call(of(token), kind, Request::Coordination(request));
            }
            Act::GiveUp { token } => self.give_up(of(token)),
            Act::End => {
                if let Some(relay) = self.relay_of(actor) {
                    self.part(relay, actor);
                }
            }
            Act::Ask { address, token, read } => self.ask(of(token), &address, read),
            Act::Tell { to, token, answer } => {
                let life = self.actors.get(to.0 as usize).map_or(0, |machine| machine.life);
                let of = CallOf { actor: to.0, life, token };
                self.post(actor + 1, to.0 + 1, Letter::Tell { of, answer: Some(answer) });
            }
            Act::Fetch { address, token, message } => self.fetch(of(token), &address, message),
            Act::Withdraw { token } => self.withdraw(of(token)),
            Act::Serve { to, token, answer } => self.served(actor, (to.0, token), answer),
            Act::Elements(what) => self.elements(actor, &what),
            Act::Agent(what) => self.agent(actor, &what),
            Act::Violated(text) => self.see(&Seen::Violated(&text)),
            Act::Delivered(what) => self.delivered(actor, &what),
            Act::Reads(client, what) => self.reads(actor, client, &what),
            Act::ReadEnded { client, result } => self.read_ended(actor, client, &result),
            Act::RoundRead { iteration, consumer, round, tasks } => {
                self.round_read(actor, (iteration, consumer, round), &tasks);
            }
        }
    }

    fn call(&mut self, of: CallOf, kind: Kind, request: Request) {
        if let Some(relay) = self.relay_of(of.actor) {
            return self.call_relay(relay, of, kind, request);
        }
        let mut disk = 0;
        if let Some(machine) = self.actors.get_mut(of.actor as usize) {
            machine.open.push((of.token, kind));
            disk = machine.disk;
        }
        if self.faults_on() && self.chance(Fault::ConnectRefused, 10) {
            self.struck(Fault::ConnectRefused, of.actor + 1, String::new);
            return self.refuse_call(of, "connection refused");
        }
        if self.faults_on() && self.chance(Fault::ConnectHang, 10) {
            return self.struck(Fault::ConnectHang, of.actor + 1, String::new);
        }
        if matches!(request, Request::Dispatcher(_))
            && let Some(status) = self.proxy_answers(of.actor + 1)
        {
            let answer = Err(status);
            self.post(NODE, of.actor + 1, Letter::Reply { of, answer });
            return;
        }
        self.post(of.actor + 1, NODE, Letter::Request { of, copy: false, disk, request });
    }

    fn give_up(&mut self, of: CallOf) {
        if let Some(machine) = self.actors.get_mut(of.actor as usize)
            && let Some(at) = machine.open.iter().position(|(token, _)| *token == of.token)
        {
            let (_, kind) = machine.open.swap_remove(at);
            self.outcomes.count::<Reply>(kind, None);
            match self.relay_of(of.actor) {
                Some(relay) => self.let_go(relay, of),
                None => drop(self.post(of.actor + 1, NODE, Letter::Cancel(of))),
            }
        }
    }

    fn ask(&mut self, of: CallOf, address: &Arc<str>, read: Read) {
        let here =
            |machine: &super::ActorMachine| machine.actor.address().as_ref() == Some(address);
        match self.actors.iter().position(here) {
            Some(place) => {
                let worker = u32::try_from(place).unwrap_or(0);
                self.post(of.actor + 1, worker + 1, Letter::Ask { of, worker, read });
            }
            // Nobody is at that address any more.
            None => self.tell_later(of, None),
        }
    }

    /// The network itself tells a consumer that nobody is there.
    fn tell_later(&mut self, of: CallOf, answer: Option<ReadAnswer>) {
        let delay_ns = self.swarm.net.delay_us_min.saturating_mul(1000);
        let at_ns = self.now_ns.saturating_add(delay_ns);
        self.plan_letter(at_ns, of.actor + 1, of.actor + 1, Letter::Tell { of, answer });
    }

    /// An actor goes on after it stood still.
    pub(super) fn resume(&mut self, actor: u32) {
        let Some(machine) = self.actors.get_mut(actor as usize) else {
            return;
        };
        if machine.being != Being::Paused {
            return;
        }
        machine.being = Being::Up;
        let held = std::mem::take(&mut machine.held);
        for place in held {
            self.arrive(place);
        }
        self.plan_wake(actor, self.now_ns);
    }

    /// An actor's process is gone.
    pub(super) fn kill_actor(&mut self, actor: u32) {
        let Some(machine) = self.actors.get_mut(actor as usize) else {
            return;
        };
        machine.being = Being::Down;
        machine.held.clear();
        self.see(&Seen::ProcessGone { actor });
        self.lose_elements(actor);
        let Some(machine) = self.actors.get_mut(actor as usize) else {
            return;
        };
        if let Some(relay) = machine.actor.relay() {
            return self.part(relay, actor);
        }
        let open = std::mem::take(&mut machine.open);
        let life = machine.life;
        for (token, kind) in open {
            self.outcomes.count::<Reply>(kind, None);
            // Its connection breaks.
            let of = CallOf { actor, life, token };
            self.post(actor + 1, NODE, Letter::Cancel(of));
        }
    }

    /// An actor's process is started again.
    pub(super) fn reborn(&mut self, actor: u32, fresh: bool) {
        let Some(machine) = self.actors.get_mut(actor as usize) else {
            return;
        };
        if machine.being != Being::Down {
            return;
        }
        machine.being = Being::Up;
        machine.life = machine.life.saturating_add(1);
        if machine.role == Role::Worker {
            // It runs nothing of a former disk any more.
            machine.disk = self.node.disks;
        }
        self.tell(actor, Happening::Reborn { fresh });
        self.plan_wake(actor, self.now_ns);
    }

    /// A connection breaks: what is on it is lost, and both sides know.
    pub(super) fn reset_connection(&mut self, actor: u32) {
        // Within a machine nothing is lost.
        if self.relay_of(actor).is_some() {
            return;
        }
        for (from, to) in self.letters.lose_between(actor + 1, NODE) {
            self.net.arrived(from, to);
        }
        let mine: Vec<CallOf> =
            self.node.waiting.values().filter(|of| of.actor == actor).copied().collect();
        for of in mine {
            self.cancel(of);
        }
        let Some(machine) = self.actors.get(actor as usize) else {
            return;
        };
        let life = machine.life;
        let open: Vec<u64> = machine.open.iter().map(|(token, _)| *token).collect();
        for token in open {
            let answer = Err(Status::new(Code::Unavailable, "connection reset"));
            let of = CallOf { actor, life, token };
            self.plan_letter(self.now_ns, actor + 1, actor + 1, Letter::Reply { of, answer });
        }
    }
}

/// A letter that the network sends again by itself.
fn copy_of(letter: &Letter) -> Letter {
    match letter.clone() {
        Letter::Request { of, disk, request, .. } => {
            Letter::Request { of, copy: true, disk, request }
        }
        other => other,
    }
}

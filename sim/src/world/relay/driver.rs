//! A relay's process takes steps: what happens goes into the machine, and its effects are carried out in
//! order.

use rondo_core::ids::{CallId, RelayId};
use rondo_core::relay::{Answer, Effect, Event as Observed, Input, Link, Refused, Relay};
use rondo_core::status::Code;
use rondo_core::time::Time;

use super::local::LOCAL_NS;
use super::machine::Process;
use super::{Up, Wire};
use crate::oracle::{Relayed, Seen};
use crate::trace::{LineKind, of_relay_effect, of_relay_input};
use crate::world::World;
use crate::world::event::Event;
use crate::world::letter::{Letter, NODE};
use crate::world::machine::Being;

impl World {
    /// The place of a relay among the machines.
    pub(in crate::world) fn machine_of(&self, relay: u32) -> u32 {
        let actors = u32::try_from(self.actors.len()).unwrap_or(0);
        actors.saturating_add(1).saturating_add(relay)
    }

    fn relay_time(&mut self, relay: u32) -> Time {
        let now_ns = self.now_ns;
        self.relays.at(relay).map_or(Time::ZERO, |machine| machine.clock.shows(now_ns))
    }

    pub(super) fn see_relay(&mut self, relay: u32, what: Relayed<'_>) {
        let at = self.relay_time(relay);
        self.see(&Seen::Relay { relay, at, what });
    }

    /// A relay's process begins.
    pub(in crate::world) fn begin_relay(&mut self, relay: u32) {
        let id = RelayId::new(self.relays.entropy());
        let now = self.relay_time(relay);
        let Some(machine) = self.relays.at(relay).filter(|it| it.process.is_none()) else {
            return;
        };
        let config = machine.settings.config();
        machine.process = Some(Box::new(Process::new(Relay::start(config.clone(), now), id)));
        machine.being = Being::Up;
        machine.tick_at_ns = u64::MAX;
        self.see_relay(relay, Relayed::Began(&config));
        self.step_relay(relay, Input::Tick);
    }

    /// One step, and its effects.
    pub(super) fn step_relay(&mut self, relay: u32, input: Input) {
        let (now, lane, now_ns) = (self.relay_time(relay), self.machine_of(relay), self.now_ns);
        let Some(mut process) = self.relays.at(relay).and_then(|it| it.process.take()) else {
            return;
        };
        self.trace.hash(now_ns, u64::from(lane), of_relay_input(&input));
        if !matches!(input, Input::Tick) {
            self.trace.line(now_ns, lane, LineKind::Input, || format!("{input:?}"));
        }
        self.see_relay(relay, Relayed::Took(&input));
        let answered = match &input {
            Input::Answered { call, .. } => Some(*call),
            _ => None,
        };
        let mut out = Vec::new();
        process.relay.step(now, input, &mut out);
        for effect in out {
            self.trace.hash(now_ns, u64::from(lane), of_relay_effect(&effect));
            self.trace.line(now_ns, lane, LineKind::Effect, || format!("{effect:?}"));
            self.see_relay(relay, Relayed::Did(&effect));
            self.perform_of_relay(relay, &mut process, effect);
        }
        self.see_relay(relay, Relayed::Looked(&process.relay));
        self.see_ends(answered, &mut process);
        if let Some(machine) = self.relays.at(relay) {
            machine.process = Some(process);
        }
        self.plan_relay_tick(relay);
    }

    fn perform_of_relay(&mut self, relay: u32, process: &mut Process, effect: Effect) {
        match effect {
            Effect::Reach { link } => self.reach(relay, process, link),
            Effect::Abandon { link } => {
                process.sent.clear();
                if let Some((wire, _)) = process.wire.take_if(|(wire, _)| wire.link == link) {
                    self.hang_up(wire);
                }
            }
            Effect::Forward { link, call, forwarding } => {
                self.forward(process, link, call, forwarding);
            }
            Effect::Withdraw { call } => {
                if process.sent.remove(&call)
                    && let Some((wire, false)) = process.wire
                {
                    self.carry_up(wire, Up::Withdraw(call), 0);
                }
            }
            Effect::Reply { call, result } => self.reply_of_relay(relay, process, call, &result),
            Effect::Observe(event) => self.observe_relay(relay, &event),
        }
    }

    fn reply_of_relay(
        &mut self,
        relay: u32,
        process: &mut Process,
        call: CallId,
        result: &Result<Answer, Refused>,
    ) {
        let Some((of, method)) = process.callers.remove(&call) else {
            return;
        };
        if result.as_ref().is_err_and(|refused| refused.code == Code::Unavailable) {
            self.plan_over(vec![call]);
        }
        let answer = self.relays.papers.read_answer(&method, result);
        let answer = answer.map(rondo_core::control::Reply::Coordination);
        let at_ns = self.now_ns.saturating_add(LOCAL_NS);
        let from = self.machine_of(relay);
        self.plan_letter(at_ns, from, of.actor + 1, Letter::Reply { of, answer });
    }

    fn observe_relay(&mut self, relay: u32, event: &Observed) {
        crate::watch::of_relay_event(event, &mut self.tally);
        let (lane, now_ns) = (self.machine_of(relay), self.now_ns);
        self.trace.line(now_ns, lane, LineKind::Note, || format!("{event:?}"));
    }

    /// Calls that went on though nobody waited have come to their end: with an answer they happen no
    /// more.
    fn see_ends(&mut self, answered: Option<CallId>, process: &mut Process) {
        let alone: Vec<CallId> = process.alone.iter().copied().collect();
        for call in alone.into_iter().filter(|call| process.relay.kind_of(*call).is_none()) {
            process.alone.remove(&call);
            match answered == Some(call) {
                true => self.see(&Seen::PassedOver { call }),
                false => self.plan_over(vec![call]),
            }
        }
    }

    /// What calls were sent for may yet arrive, until the node has noticed all that is closed.
    pub(super) fn plan_over(&mut self, calls: Vec<CallId>) {
        let wire = Wire { relay: 0, life: 0, link: Link(0), process: 0 };
        let patience_ns = self.swarm.net.patience_ms.saturating_mul(3_000_000);
        let at_ns = self.now_ns.saturating_add(patience_ns);
        self.plan_letter(at_ns, NODE, NODE, Letter::ToNode(wire, Up::Over(calls)));
    }

    fn plan_relay_tick(&mut self, relay: u32) {
        let now_ns = self.now_ns;
        let Some(machine) = self.relays.at(relay) else {
            return;
        };
        let deadline = machine.process.as_ref().and_then(|process| process.relay.deadline());
        let Some((at, _)) = deadline else {
            return;
        };
        let at_ns = machine.clock.when(at).max(now_ns);
        if at_ns < machine.tick_at_ns {
            machine.tick_at_ns = at_ns;
            self.queue.plan(at_ns, Event::RelayTick(relay));
        }
    }

    /// A relay wants to be woken.
    pub(in crate::world) fn relay_tick(&mut self, relay: u32) {
        let now_ns = self.now_ns;
        let Some(machine) = self.relays.at(relay).filter(|it| now_ns >= it.tick_at_ns) else {
            return;
        };
        machine.tick_at_ns = u64::MAX;
        if machine.being == Being::Up {
            self.step_relay(relay, Input::Tick);
        }
    }
}

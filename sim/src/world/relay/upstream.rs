//! Connections between relays and the node, over the faulty network. As with TCP, what is lost is sent
//! again until the connection counts as broken.

use rondo_core::ids::CallId;
use rondo_core::relay::{Forwarding, Input, Link};
use rondo_core::status::{Code, Status};
use rondo_proto::convert;

use super::machine::Process;
use super::{Down, Up, Wire};
use crate::fault::{Fault, Faults};
use crate::world::event::Event;
use crate::world::letter::{Letter, NODE};
use crate::world::machine::Being;
use crate::world::{Phase, World};

/// How long the server may take to say that it is there, in ns. As in `runtime::relay`.
const HELLO_NS: u64 = 5_000_000_000;
/// How often a timer of a process that stands still is looked at, in ns.
const PAUSED_NS: u64 = 50_000_000;
/// A lost message is sent again so often within the patience of the network.
const TRIES: u32 = 4;

const CALM: Faults = Faults::none();

impl World {
    pub(super) fn reach(&mut self, relay: u32, process: &mut Process, link: Link) {
        process.trying = Some(link);
        let life = self.relays.at(relay).map_or(0, |machine| machine.life);
        let wire = Wire { relay, life, link, process: 0 };
        let late_ns = self.now_ns.saturating_add(HELLO_NS);
        self.queue.plan(late_ns, Event::HelloLate(wire.relay, life, link.0));
        let hello = Up::Hello(convert::encode_hello(process.id, link, ""));
        if self.faults_on() && self.chance(Fault::ConnectRefused, 10) {
            self.struck(Fault::ConnectRefused, self.machine_of(relay), String::new);
            let refused = Status::new(Code::Unavailable, "connection refused");
            return self.carry_down(wire, Down::Hello(Err(refused)), 0);
        }
        self.carry_up(wire, hello, 0);
    }

    pub(super) fn forward(
        &mut self,
        process: &mut Process,
        link: Link,
        call: CallId,
        forwarding: Forwarding,
    ) {
        let Some((wire, broken)) = process.wire.filter(|(wire, _)| wire.link == link) else {
            return;
        };
        process.sent.insert(call);
        if broken {
            return self.fail_at_once(wire);
        }
        let message = convert::encode_forward(process.id, link, forwarding);
        self.carry_up(wire, Up::Forward { call, message }, 0);
    }

    /// The connection is known to be broken: whoever uses it is told at once.
    fn fail_at_once(&mut self, wire: Wire) {
        let to = self.machine_of(wire.relay);
        self.plan_letter(self.now_ns, to, to, Letter::FromNode(wire, Down::Closed));
    }

    /// Relays notice that the process at the other end of their connections is gone, also when they
    /// have nothing to send and the power went with it.
    pub(in crate::world) fn relays_keepalive(&mut self) {
        let life = self.node.life;
        let open = self.relays.all.iter().filter_map(|machine| machine.process.as_ref()?.wire);
        let gone: Vec<Wire> =
            open.filter(|(wire, _)| wire.process != life).map(|(wire, _)| wire).collect();
        for wire in gone {
            self.fail_at_once(wire);
        }
    }

    /// The relay closes a connection, and the node notices that, sooner or later.
    pub(super) fn hang_up(&mut self, wire: Wire) {
        self.carry_up(wire, Up::Close, 0);
        let patience_ns = self.swarm.net.patience_ms.saturating_mul(2_000_000);
        let at_ns = self.now_ns.saturating_add(patience_ns);
        self.plan_letter(at_ns, NODE, NODE, Letter::ToNode(wire, Up::Close));
    }

    pub(super) fn carry_up(&mut self, wire: Wire, what: Up, tries: u32) {
        let from = self.machine_of(wire.relay);
        self.carry((from, NODE), wire, Letter::ToNode(wire, what), tries);
    }

    pub(super) fn carry_down(&mut self, wire: Wire, what: Down, tries: u32) {
        let to = self.machine_of(wire.relay);
        self.carry((NODE, to), wire, Letter::FromNode(wire, what), tries);
    }

    fn carry(&mut self, (from, to): (u32, u32), wire: Wire, letter: Letter, tries: u32) {
        let faults = match self.phase {
            Phase::Struck => &self.swarm.faults,
            _ => &CALM,
        };
        let fate = self.net.send(self.now_ns, (from, to), false, faults, &mut self.tally);
        match fate.arrives_ns {
            Some(at_ns) => self.plan_letter(at_ns, from, to, letter),
            None if tries < TRIES => {
                let place = self.letters.put(from, to, letter);
                let pause_ns = self.swarm.net.patience_ms.saturating_mul(1_000_000) / 4;
                let at_ns = self.now_ns.saturating_add(pause_ns);
                self.queue.plan(at_ns, Event::CarryAgain(place, tries.saturating_add(1)));
            }
            None => self.wire_breaks(wire),
        }
    }

    /// What was lost on a connection is sent again, if there still is one.
    pub(in crate::world) fn carry_again(&mut self, place: u32, tries: u32) {
        let Some((from, to, letter)) = self.letters.take(place) else {
            return;
        };
        let (wire, alive) = match &letter {
            Letter::ToNode(wire, Up::Hello(_)) => (*wire, self.tries(*wire)),
            Letter::ToNode(wire, _) => (*wire, self.is_open(*wire)),
            Letter::FromNode(wire, Down::Forwarded { .. }) => {
                (*wire, self.node.life == wire.process)
            }
            Letter::FromNode(wire, _) => (*wire, true),
            _ => return,
        };
        if alive {
            self.carry((from, to), wire, letter, tries);
        }
    }

    fn tries(&mut self, wire: Wire) -> bool {
        let machine = self.relays.at(wire.relay).filter(|machine| machine.life == wire.life);
        let process = machine.and_then(|machine| machine.process.as_ref());
        process.is_some_and(|process| process.trying == Some(wire.link))
    }

    /// Whether a connection is that of the relay's present process to the node.
    fn is_open(&mut self, wire: Wire) -> bool {
        let machine = self.relays.at(wire.relay).filter(|machine| machine.life == wire.life);
        let process = machine.and_then(|machine| machine.process.as_ref());
        process.and_then(|process| process.wire).is_some_and(|(open, _)| open.is(wire))
    }

    /// The relay notices that a connection is broken: whatever waits for an answer on it fails.
    pub(super) fn wire_breaks(&mut self, wire: Wire) {
        if !self.is_open(wire) {
            return;
        }
        let process = self.relays.at(wire.relay).and_then(|machine| machine.process.as_mut());
        let Some(process) = process else {
            return;
        };
        if let Some((_, broken)) = &mut process.wire {
            *broken = true;
        }
        if let Some(call) = process.sent.pop_first() {
            let status = Status::new(Code::Unavailable, "the connection is broken");
            self.step_relay(wire.relay, Input::Failed { call, link: wire.link, status });
        }
    }

    /// Nothing has been heard from the node since it was asked whether it is there.
    pub(in crate::world) fn hello_late(&mut self, relay: u32, life: u32, link: u64) {
        let wire = Wire { relay, life, link: Link(link), process: 0 };
        let is_paused = self.relays.at(relay).is_some_and(|it| it.being == Being::Paused);
        if is_paused {
            // A process that stands still sees no timer either.
            let again_ns = self.now_ns.saturating_add(PAUSED_NS);
            self.queue.plan(again_ns, Event::HelloLate(relay, life, link));
        } else if self.tries(wire) {
            let late = Status::new(Code::DeadlineExceeded, "no answer within 5000 ms");
            self.hello_answered(wire, Err(late));
        }
    }

    /// The node's message arrives at a relay.
    pub(in crate::world) fn wire_to_relay(&mut self, wire: Wire, what: Down) {
        match what {
            Down::Hello(answer) if self.tries(wire) => self.hello_answered(wire, answer),
            Down::Forwarded { call, answer } if self.is_open(wire) => {
                self.forwarded(wire, call, answer);
            }
            Down::Closed => self.wire_breaks(wire),
            // Of a connection that is over.
            Down::Hello(_) | Down::Forwarded { .. } => {}
        }
    }

    fn hello_answered(&mut self, wire: Wire, answer: Result<u64, Status>) {
        let entropy = self.relays.entropy();
        let process = self.relays.at(wire.relay).and_then(|machine| machine.process.as_mut());
        let Some(process) = process else {
            return;
        };
        process.trying = None;
        let link = wire.link;
        let input = match answer {
            Ok(of) => {
                process.wire = Some((Wire { process: of, ..wire }, false));
                Input::Reached { link }
            }
            Err(status) => Input::Unreachable { link, reason: status.message.into(), entropy },
        };
        self.step_relay(wire.relay, input);
    }

    fn forwarded(&mut self, wire: Wire, call: CallId, answer: Result<bytes::Bytes, Status>) {
        let process = self.relays.at(wire.relay).and_then(|machine| machine.process.as_mut());
        let Some(process) = process.filter(|process| process.sent.contains(&call)) else {
            return;
        };
        process.sent.remove(&call);
        let input = match answer.and_then(|bytes| convert::decode_forwarded(&bytes)) {
            Ok(result) => {
                let life = match (&result, process.relay.kind_of(call)) {
                    (Ok(body), Some(kind)) => convert::told_life(kind, body),
                    _ => None,
                };
                Input::Answered { call, result, life }
            }
            Err(status) => Input::Failed { call, link: wire.link, status },
        };
        self.step_relay(wire.relay, input);
    }
}

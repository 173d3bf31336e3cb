//! The node's side of connections with relays: `runtime::service::relay` in little.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rondo_core::control::{Input, Request};
use rondo_core::coordination::{self, Reply};
use rondo_core::ids::{CallId, RelayId};
use rondo_core::relay::{Link, Refused};
use rondo_core::status::{Code, Status};
use rondo_proto::convert;

use super::{Down, Up, Wire};
use crate::mark::Mark;
use crate::oracle::{Caller, Seen};
use crate::world::World;

/// Statuses with which a server that goes ends calls.
const GOING_CODES: [Code; 3] = [Code::Cancelled, Code::Unavailable, Code::Unknown];

/// What the node's process knows of relays.
#[derive(Debug, Default)]
pub(in crate::world) struct RelayDesk {
    /// The newest connection of each.
    links: BTreeMap<RelayId, Link>,
    /// Connections that were there.
    wires: BTreeSet<Wire>,
    /// Calls that wait for an answer, by the node's number, with the relay's own.
    waiting: BTreeMap<CallId, (Wire, CallId)>,
}

impl RelayDesk {
    /// Whether a call came through a relay.
    pub(in crate::world) fn has(&self, call: CallId) -> bool {
        self.waiting.contains_key(&call)
    }
}

impl World {
    /// A relay's message arrives at the node.
    pub(in crate::world) fn wire_to_node(&mut self, wire: Wire, what: Up) {
        if let Up::Hello(message) = what {
            return self.hello(wire, &message);
        }
        if let Up::Over(calls) = what {
            return calls.into_iter().for_each(|call| self.see(&Seen::PassedOver { call }));
        }
        let of_this = self.node.node.is_some() && self.node.life == wire.process;
        if !of_this || !self.node.relays.wires.contains(&wire) {
            // A process that knows nothing of the connection resets it.
            if !matches!(what, Up::Close) {
                self.carry_down(wire, Down::Closed, 0);
            }
            return;
        }
        match what {
            Up::Forward { call, message } => self.take_forwarded(wire, call, &message),
            Up::Withdraw(call) => {
                self.drop_forwarded(|of, relays| of == wire && relays == call);
            }
            Up::Close => {
                self.node.relays.wires.remove(&wire);
                self.drop_forwarded(|of, _| of == wire);
            }
            Up::Hello(_) | Up::Over(_) => {}
        }
    }

    fn hello(&mut self, wire: Wire, message: &Bytes) {
        let answer = match (&self.node.node, convert::decode_hello(message)) {
            (None, _) => Err(Status::new(Code::Unavailable, "connection refused")),
            (Some(_), Err(status)) => Err(status),
            (Some(_), Ok(hello)) => {
                let newest = self.node.relays.links.entry(hello.relay).or_default();
                *newest = hello.link.max(*newest);
                let wire = Wire { process: self.node.life, ..wire };
                self.node.relays.wires.insert(wire);
                Ok(self.node.life)
            }
        };
        self.carry_down(wire, Down::Hello(answer), 0);
    }

    fn take_forwarded(&mut self, wire: Wire, call: CallId, message: &Bytes) {
        let answer = match self.read_forwarded(message) {
            Ok(asked) => return self.take_relayed(wire, call, asked),
            Err(status) => Err(status),
        };
        self.carry_down(wire, Down::Forwarded { call, answer }, 0);
    }

    /// A relay's call as if it had come directly.
    fn read_forwarded(&self, message: &Bytes) -> Result<Box<coordination::Call>, Status> {
        let (relay, link, call) = convert::decode_forward(message)?;
        if self.node.relays.links.get(&relay).is_some_and(|newest| link < *newest) {
            let text = "the relay has begun another connection since";
            return Err(Status::new(Code::Unavailable, text));
        }
        let unread = || Status::new(Code::Internal, "the relay's message is none");
        let mut asked = self.relays.papers.read_call(&call.message).ok_or_else(unread)?;
        convert::identify_forwarded(&call, &mut asked.caller);
        Ok(asked)
    }

    fn take_relayed(&mut self, wire: Wire, call: CallId, asked: Box<coordination::Call>) {
        let request = Request::Coordination(coordination::Request::Call(asked));
        let number = self.number_call(&request);
        self.node.relays.waiting.insert(number, (wire, call));
        let actor = self.relays.open.get(&call).map_or(u32::MAX, |of| of.actor);
        let by = Caller { actor, life: 0, honest: true, stale: false, relay: Some(wire.relay) };
        self.take_numbered(number, by, false, request);
    }

    /// Calls that nobody waits for any more.
    fn drop_forwarded(&mut self, which: impl Fn(Wire, CallId) -> bool) {
        let waiting = self.node.relays.waiting.iter();
        let mine = waiting.filter(|(_, (wire, call))| which(*wire, *call));
        let mine: Vec<CallId> = mine.map(|(number, _)| *number).collect();
        for call in mine {
            self.node.relays.waiting.remove(&call);
            self.step(Input::Cancel { call }, None);
            self.see(&Seen::GivenUp { call });
            self.settle();
        }
    }

    /// The node's answer to a call that a relay brought.
    pub(in crate::world) fn answer_relayed(
        &mut self,
        number: CallId,
        answer: Result<rondo_core::control::Reply, Status>,
    ) {
        let Some((wire, call)) = self.node.relays.waiting.remove(&number) else {
            return;
        };
        let told = self.read_reply(answer);
        let answer = Ok(convert::encode_forwarded(told));
        self.carry_down(wire, Down::Forwarded { call, answer }, 0);
    }

    fn read_reply(
        &mut self,
        answer: Result<rondo_core::control::Reply, Status>,
    ) -> Result<Bytes, Refused> {
        let reply: Result<Reply, Status> = answer.and_then(|reply| match reply {
            rondo_core::control::Reply::Coordination(reply) => Ok(reply),
            rondo_core::control::Reply::Dispatcher(_) => {
                Err(Status::new(Code::Internal, "another machine answered"))
            }
        });
        self.relays.papers.write_answer(reply)
    }

    /// The node's process dies: the kernel closes its connections, unless the power is gone too.
    pub(in crate::world) fn hang_up_on_relays(&mut self, power: bool) {
        let desk = std::mem::take(&mut self.node.relays);
        if !power {
            self.end_calls_of_relays(&desk);
        }
        for wire in desk.wires.into_iter().filter(|_| !power) {
            self.carry_down(wire, Down::Closed, 0);
        }
    }

    /// A server that goes may end calls with a status of its own before its connections close. Nobody
    /// knows then whether they happened.
    fn end_calls_of_relays(&mut self, desk: &RelayDesk) {
        let often = self.swarm.coordination.as_ref().map_or(0, |it| it.partings.server_cancels);
        if !self.faults_on() {
            return;
        }
        for (wire, call) in desk.waiting.values() {
            if self.node.stream.chance(often) {
                let code = self.node.stream.pick(&GOING_CODES).copied().unwrap_or(Code::Cancelled);
                let answer = Err(Status::new(code, "the server goes"));
                self.tally.mark(Mark::ServerEndedCalls);
                self.carry_down(*wire, Down::Forwarded { call: *call, answer }, 0);
            }
        }
    }
}

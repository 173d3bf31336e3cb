//! Processes that leave, are lost, or were only not heard because the scheduler was held up.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::links::Standing;
use super::machine::{Alarm, Scheduler};
use super::refusal;
use super::report::Phase;
use super::seat::{Contact, Peer, Seat};
use super::telling::Telling;
use super::types::{Effect, Event};
use crate::exchange::membership::State;
use crate::exchange::message::ToMember;
use crate::ids::ConnectionId;
use crate::limits::{EXPIRIES_PER_STEP_MAX, HELD_UP_AFTER};
use crate::time::{Duration, Time};

impl Scheduler {
    /// A process is done.
    pub(super) fn leave(&mut self, connection: ConnectionId, peer: Peer, out: &mut Vec<Effect>) {
        self.say_left(connection, out);
        if self.phase == Phase::Gathering {
            self.clear_seat(peer);
            return self.forget_sizes_if_alone();
        }
        self.end_part(peer, State::Left);
        let (role, rank) = peer;
        out.push(Effect::Observe(Event::Left { role, rank }));
    }

    pub(super) fn say_left(&mut self, connection: ConnectionId, out: &mut Vec<Effect>) {
        self.seat_link(connection, Standing::Left);
        out.push(Effect::Send { connection, message: ToMember::Left });
    }

    /// A process takes part no more.
    fn end_part(&mut self, peer: Peer, state: State) {
        self.set_contact(peer, Contact::Over);
        if let Some(seat) = self.seats.get_mut(&peer) {
            seat.state = state;
            seat.asked.clear();
        }
        self.meetings.leave(peer);
        self.is_changed = true;
    }

    /// A process is given up.
    pub(super) fn lose(&mut self, now: Time, peer: Peer, why: String, out: &mut Vec<Effect>) {
        let connection = self.seats.get(&peer).and_then(Seat::connection);
        if self.phase == Phase::Gathering {
            self.clear_seat(peer);
            self.forget_sizes_if_alone();
        } else {
            self.end_part(peer, State::Lost);
            if let Some(seat) = self.seats.get_mut(&peer) {
                seat.why = why.as_str().into();
                out.push(Effect::Observe(Event::Lost(seat.lost(peer))));
            }
        }
        if let Some(connection) = connection {
            let status = refusal::silent(peer, &why);
            self.refuse(connection, status, out);
        }
        self.unpark(now, peer, out);
    }

    /// If nobody is there, the next one may say how many take part.
    fn forget_sizes_if_alone(&mut self) {
        if self.seats.is_empty() {
            self.sizes = self.settings.sizes;
            if self.ready.is_empty() {
                self.end_bootstrap();
            }
        }
    }

    pub(super) fn look_at_times(&mut self, now: Time, out: &mut Vec<Effect>) {
        let first = self.alarms.first().map(|(at, _)| *at);
        let late = first.map_or(Duration::ZERO, |at| now.since(at));
        let half = Duration::from_nanos(self.settings.config.heartbeat_timeout.as_nanos() / 2);
        if late > half.min(HELD_UP_AFTER) {
            self.excuse(now);
            out.push(Effect::Observe(Event::HeldUp { late }));
        }
        for _ in 0..EXPIRIES_PER_STEP_MAX {
            let Some((_, alarm)) = self.alarms.first().copied().filter(|(at, _)| *at <= now) else {
                return;
            };
            self.alarms.pop_first();
            match alarm {
                Alarm::Link(connection) => self.look_at_link(now, connection, out),
                Alarm::Seat(peer) => {
                    let grace = self.settings.config.reconnect_grace.as_millis();
                    let why = match self.phase {
                        Phase::Rebuilding => "it did not come back to the scheduler in time".into(),
                        _ => format!("its connection broke and did not return within {grace} ms"),
                    };
                    self.lose(now, peer, why, out);
                }
                Alarm::Bootstrap => self.give_up_gathering(out),
                Alarm::Call(call) => self.give_up_coming(call, out),
            }
        }
    }

    /// The scheduler was held up: what came meanwhile is yet to be heard, so all have their time anew.
    fn excuse(&mut self, now: Time) {
        for link in self.links.values_mut() {
            link.heard = now;
        }
        let until = now.after(self.settings.config.reconnect_grace);
        let broken = self.seats.iter().filter(|(_, seat)| match seat.contact {
            Contact::Broken { until: before } => before < until,
            Contact::Connected(_) | Contact::Over => false,
        });
        let broken: Vec<Peer> = broken.map(|(peer, _)| *peer).collect();
        for peer in broken {
            self.set_contact(peer, Contact::Broken { until });
        }
    }

    /// Whether anything was heard through a connection.
    fn look_at_link(&mut self, now: Time, connection: ConnectionId, out: &mut Vec<Effect>) {
        let timeout = self.settings.config.heartbeat_timeout;
        let Some(link) = self.links.get_mut(&connection) else {
            return;
        };
        let due = link.heard.after(timeout);
        if due > now {
            link.alarm = due;
            self.alarms.insert((due, Alarm::Link(connection)));
            return;
        }
        let why = format!("nothing was heard of it for {} ms", timeout.as_millis());
        match link.standing {
            Standing::Seated(peer) => self.lose(now, peer, why, out),
            Standing::Parked(peer) => {
                self.parked.remove(&peer);
                self.refuse(connection, refusal::silent(peer, &why), out);
            }
            Standing::New => self.refuse(connection, refusal::unnamed(timeout), out),
            Standing::Left | Standing::Observing => self.supersede(connection, out),
        }
    }

    /// Ends the exchange if nobody takes part any more.
    pub(super) fn end_if_empty(&mut self, now: Time, out: &mut Vec<Effect>) {
        if self.up().next().is_some() {
            return;
        }
        self.over = self.version;
        out.push(Effect::Observe(Event::Ended { version: self.version }));
        for call in core::mem::take(&mut self.ended) {
            out.push(Effect::Done { call, result: Ok(()) });
        }
        self.phase = Phase::Gathering;
        self.seats.clear();
        self.sizes = self.settings.sizes;
        self.meetings.end();
        self.telling = Telling::default();
        if !self.ready.is_empty() {
            self.expect_bootstrap(now);
        }
        let parked: Vec<Peer> = self.parked.keys().copied().collect();
        for peer in parked {
            self.unpark(now, peer, out);
        }
    }
}

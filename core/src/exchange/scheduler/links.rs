//! Connections: whose they are, and when anything was heard through them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::machine::{Alarm, Scheduler};
use super::refusal;
use super::seat::{Contact, Peer};
use super::types::{Effect, Event};
use crate::exchange::message::{ToMember, ToScheduler};
use crate::ids::ConnectionId;
use crate::status::Status;
use crate::time::Time;

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nobody has said.
    New,
    /// Of a process that waits for a place.
    Parked(Peer),
    /// Of a process that has a place.
    Seated(Peer),
    /// Of a process that has left.
    Left,
    /// Of who only looks on.
    Observing,
}

/// A connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) standing: Standing,
    /// When anything was heard through it last.
    pub(super) heard: Time,
    /// When to look at that.
    pub(super) alarm: Time,
}

/// All connections.
pub(super) type Links = BTreeMap<ConnectionId, Link>;

impl Scheduler {
    pub(super) fn connected(&mut self, now: Time, connection: ConnectionId, out: &mut Vec<Effect>) {
        // Everybody may come twice: once more before the old connection is known to be broken.
        let max = (self.settings.config.processes_max as usize).saturating_mul(2);
        if self.links.len() >= max {
            let status = refusal::too_many_connections(max);
            return self.refuse(connection, status, out);
        }
        self.drop_link(connection);
        let alarm = now.after(self.settings.config.heartbeat_timeout);
        self.links.insert(connection, Link { standing: Standing::New, heard: now, alarm });
        self.alarms.insert((alarm, Alarm::Link(connection)));
    }

    /// A connection is no more.
    pub(super) fn drop_link(&mut self, connection: ConnectionId) -> Option<Link> {
        let link = self.links.remove(&connection)?;
        self.alarms.remove(&(link.alarm, Alarm::Link(connection)));
        self.observers.all.remove(&connection);
        Some(link)
    }

    /// Says whose a connection is.
    pub(super) fn seat_link(&mut self, connection: ConnectionId, standing: Standing) {
        if let Some(link) = self.links.get_mut(&connection) {
            link.standing = standing;
        }
    }

    pub(super) fn received(
        &mut self,
        now: Time,
        connection: ConnectionId,
        message: ToScheduler,
        out: &mut Vec<Effect>,
    ) {
        // What comes of a connection that was closed here is of no interest.
        let Some(link) = self.links.get_mut(&connection) else {
            return;
        };
        link.heard = now;
        let standing = link.standing;
        match (message, standing) {
            (ToScheduler::Register(register), Standing::New) => {
                self.register(now, connection, register, out);
            }
            (ToScheduler::Heartbeat { .. }, Standing::Parked(_) | Standing::Seated(_)) => {
                let version = self.version;
                out.push(Effect::Send { connection, message: ToMember::Heard { version } });
            }
            (ToScheduler::Barrier(barrier), Standing::Seated(peer)) => self.come(peer, barrier),
            (ToScheduler::Withdraw { number }, Standing::Seated(peer)) => {
                self.withdraw(peer, number);
            }
            (ToScheduler::Leave, Standing::Seated(peer)) => self.leave(connection, peer, out),
            (ToScheduler::Leave, Standing::Parked(peer)) => {
                self.parked.remove(&peer);
                self.say_left(connection, out);
            }
            (_, Standing::Left) => {}
            (message, _) => {
                if let Err(status) = self.of_observers(now, connection, standing, message, out) {
                    self.expel(now, connection, status, out);
                }
            }
        }
    }

    pub(super) fn disconnected(&mut self, now: Time, connection: ConnectionId) {
        match self.drop_link(connection).map(|link| link.standing) {
            Some(Standing::Parked(peer)) => {
                self.parked.remove(&peer);
            }
            Some(Standing::Seated(peer)) => {
                // It has a while to come back.
                let until = now.after(self.settings.config.reconnect_grace);
                self.set_contact(peer, Contact::Broken { until });
            }
            Some(Standing::New | Standing::Left | Standing::Observing) | None => {}
        }
    }

    /// Whether there is a way to a process has changed.
    pub(super) fn set_contact(&mut self, peer: Peer, contact: Contact) {
        let Some(seat) = self.seats.get_mut(&peer) else {
            return;
        };
        if let Contact::Broken { until } = seat.contact {
            self.alarms.remove(&(until, Alarm::Seat(peer)));
            self.broken = self.broken.saturating_sub(1);
        }
        if let Contact::Broken { until } = contact {
            self.alarms.insert((until, Alarm::Seat(peer)));
            self.broken = self.broken.saturating_add(1);
        }
        seat.contact = contact;
        seat.is_assigned = false;
    }

    /// Says why a process cannot take part, and closes its connection, which has no place.
    pub(super) fn refuse(
        &mut self,
        connection: ConnectionId,
        status: Status,
        out: &mut Vec<Effect>,
    ) {
        self.drop_link(connection);
        let event = Event::Refused { connection, status: status.clone() };
        out.push(Effect::Send { connection, message: ToMember::Rejected(status) });
        out.push(Effect::Close { connection });
        out.push(Effect::Observe(event));
    }

    /// The same for a process that may have a place: which it has as long as if its connection broke.
    fn expel(
        &mut self,
        now: Time,
        connection: ConnectionId,
        status: Status,
        out: &mut Vec<Effect>,
    ) {
        self.disconnected(now, connection);
        self.refuse(connection, status, out);
    }

    /// Closes a connection for which another one has come.
    pub(super) fn supersede(&mut self, connection: ConnectionId, out: &mut Vec<Effect>) {
        if self.drop_link(connection).is_some() {
            out.push(Effect::Close { connection });
        }
    }
}

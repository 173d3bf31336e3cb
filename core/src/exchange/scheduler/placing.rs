//! Seats that change hands.

use alloc::vec::Vec;

use super::links::Standing;
use super::machine::{Parked, Scheduler};
use super::refusal;
use super::report::Phase;
use super::seat::{Contact, Peer, Seat};
use super::types::{Effect, Event};
use crate::exchange::message::Register;
use crate::ids::ConnectionId;
use crate::time::Time;

impl Scheduler {
    /// A process is back, in the same run.
    pub(super) fn resume(
        &mut self,
        connection: ConnectionId,
        peer: Peer,
        register: &Register,
        out: &mut Vec<Effect>,
    ) {
        let Some(seat) = self.seats.get_mut(&peer) else {
            return;
        };
        let before = seat.connection();
        if seat.addresses != register.addresses {
            seat.addresses.clone_from(&register.addresses);
            self.is_changed = true;
        }
        seat.passed = Seat::of(register, connection).passed;
        self.set_contact(peer, Contact::Connected(connection));
        self.seat_link(connection, Standing::Seated(peer));
        self.come_again(peer, register);
        if let Some(before) = before {
            self.supersede(before, out);
        }
        // Who waited for its seat waits in vain.
        if let Some(Parked { connection, register }) = self.parked.remove(&peer)
            && let Some(seat) = self.seats.get(&peer)
        {
            let status = refusal::taken(&register, peer, seat);
            self.refuse(connection, status, out);
        }
        if self.phase == Phase::Running {
            self.telling.untold.insert(peer);
        }
    }

    /// Another run takes the seat of one that is over.
    pub(super) fn take_over(
        &mut self,
        connection: ConnectionId,
        peer: Peer,
        register: &Register,
        out: &mut Vec<Effect>,
    ) {
        let former = self.seats.get(&peer).map(Seat::with_former).unwrap_or_default();
        self.seats.insert(peer, Seat { former, ..Seat::of(register, connection) });
        self.seat_link(connection, Standing::Seated(peer));
        self.come_again(peer, register);
        self.is_changed = true;
        let (role, rank) = peer;
        let incarnation = register.incarnation;
        out.push(Effect::Observe(Event::Returned { role, rank, incarnation }));
    }

    /// A process to which any rank is right goes to another seat, for one that wants this one.
    pub(super) fn make_way(
        &mut self,
        now: Time,
        connection: ConnectionId,
        peer: Peer,
        register: &Register,
        out: &mut Vec<Effect>,
    ) {
        let free = self.free_rank(peer.0).map(|rank| (peer.0, rank));
        let Some(free) = free.filter(|_| self.phase == Phase::Gathering) else {
            if let Some(seat) = self.seats.get(&peer) {
                let status = refusal::taken(register, peer, seat);
                self.refuse(connection, status, out);
            }
            return;
        };
        if let Some(seat) = self.seats.remove(&peer) {
            if let Some(moved) = seat.connection() {
                self.seat_link(moved, Standing::Seated(free));
            }
            self.seats.insert(free, seat);
        }
        self.sit(now, connection, peer, register);
    }

    /// A process waits until it is clear whether the seat it wants is free.
    pub(super) fn park(
        &mut self,
        connection: ConnectionId,
        peer: Peer,
        register: Register,
        out: &mut Vec<Effect>,
    ) {
        if let Some(first) = self.parked.get(&peer) {
            if first.register.incarnation != register.incarnation {
                let status = refusal::wanted(&register, peer, &first.register);
                return self.refuse(connection, status, out);
            }
            let before = first.connection;
            self.supersede(before, out);
        }
        self.seat_link(connection, Standing::Parked(peer));
        self.parked.insert(peer, Parked { connection, register });
    }

    /// Who waited for a seat gets it now, if it is free.
    pub(super) fn unpark(&mut self, now: Time, peer: Peer, out: &mut Vec<Effect>) {
        if let Some(Parked { connection, register }) = self.parked.remove(&peer) {
            self.seat_link(connection, Standing::New);
            self.register(now, connection, register, out);
        }
    }
}

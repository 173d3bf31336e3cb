//! What a scheduler that was restarted learns from the processes that come back.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::machine::Scheduler;
use super::refusal;
use super::report::Phase;
use super::seat::{Contact, Gone, Peer, Seat};
use super::types::{Effect, Event};
use crate::exchange::membership::{Membership, State};
use crate::exchange::message::Register;
use crate::exchange::role::Role;
use crate::ids::{ConnectionId, Incarnation};
use crate::status::Status;
use crate::time::Time;

/// Lists of who is gone that processes may come back with, all different.
const VIEWS_MAX: usize = 64;

/// A process that registers, and of whom it was told that they are gone.
type Coming = (Register, Gone);

impl Scheduler {
    /// Takes for true what a process knows of who takes part: it is newer than what is known here. Those
    /// who are said to take part have as long to come back as they may be silent, or as long as they had
    /// before if that is longer.
    pub(super) fn adopt(&mut self, now: Time, known: &Arc<Membership>, out: &mut Vec<Effect>) {
        let before = self.times_to_come_back();
        let again = self.clear_seats(known);
        self.end_bootstrap();
        self.phase = Phase::Rebuilding;
        self.version = known.version;
        let until = now.after(self.settings.config.heartbeat_timeout);
        for member in &known.members {
            let peer: Peer = (member.role, member.rank);
            self.seats.insert(peer, Seat::reported(member));
            if member.state == State::Up {
                let had = before.get(&(member.role, member.incarnation));
                let until = had.map_or(until, |had| until.max(*had));
                self.set_contact(peer, Contact::Broken { until });
            }
        }
        out.push(Effect::Observe(Event::Rebuilding { version: known.version }));
        // Who had a seat or waited for one before that was known asks for it anew.
        for (connection, coming) in again {
            self.admit(now, connection, coming, out);
        }
    }

    /// Until when processes whose connections broke may come back. A newer membership may have given them
    /// other ranks.
    fn times_to_come_back(&self) -> BTreeMap<(Role, Incarnation), Time> {
        let broken = self.seats.iter().filter_map(|((role, _), seat)| match seat.contact {
            Contact::Broken { until } => Some(((*role, seat.incarnation), until)),
            Contact::Connected(_) | Contact::Over => None,
        });
        broken.collect()
    }

    /// Takes everybody's seat away, and says who had one or waited for it.
    fn clear_seats(&mut self, known: &Arc<Membership>) -> Vec<(ConnectionId, Coming)> {
        let sizes = known.sizes;
        let mut again = Vec::new();
        // Whoever is back already takes part, in an older one; before that nobody has heard of any.
        let older = (self.phase == Phase::Rebuilding).then(|| known.clone());
        while let Some((peer, seat)) = self.seats.first_key_value() {
            let peer = *peer;
            let coming = (seat.register(peer, sizes, older.clone()), seat.gone.clone());
            again.extend(seat.connection().map(|connection| (connection, coming)));
            self.clear_seat(peer);
        }
        for (_, parked) in core::mem::take(&mut self.parked) {
            again.push((parked.connection, (parked.register, Gone::default())));
        }
        again
    }

    /// Of whom a process was told that they are gone, if that matters.
    pub(super) fn gone_to(&mut self, register: &Register) -> Result<Gone, Status> {
        let known = register.known.as_ref().filter(|_| self.phase == Phase::Rebuilding);
        let members = known.into_iter().flat_map(|known| &known.members);
        let gone = members.filter(|member| member.state != State::Up);
        let gone: Gone =
            gone.map(|member| ((member.role, member.rank), member.incarnation)).collect();
        if gone.is_empty() {
            return Ok(gone);
        }
        if let Some(same) = self.told_gone.get(&gone) {
            return Ok(same.clone());
        }
        if self.told_gone.len() >= VIEWS_MAX {
            return Err(refusal::too_many_views(register, VIEWS_MAX));
        }
        self.told_gone.insert(gone.clone());
        Ok(gone)
    }

    /// Gives a process its seat, unless it has dropped what it had of somebody who takes part: another
    /// scheduler gave that one up, when it was restarted itself and not all had come back.
    pub(super) fn admit(
        &mut self,
        now: Time,
        connection: ConnectionId,
        (register, gone): Coming,
        out: &mut Vec<Effect>,
    ) {
        let own = register.rank.map(|rank| (register.role, rank));
        let is_up = |(peer, run): &(Peer, Incarnation)| {
            let seat = self.seats.get(peer);
            seat.is_some_and(|seat| seat.state == State::Up && seat.incarnation == *run)
        };
        let Some(((role, rank), _)) = gone.iter().copied().find(is_up) else {
            self.place(now, connection, register, out);
            let seat = own.and_then(|own| self.seats.get_mut(&own));
            if let Some(seat) = seat.filter(|seat| seat.connection() == Some(connection)) {
                seat.gone = gone;
            }
            return;
        };
        let why = format!("it was told that {role} {rank} is gone, which is there");
        let own = own.filter(|own| is_up(&(*own, register.incarnation)));
        self.refuse(connection, refusal::given_up(&register, &why), out);
        if let Some(own) = own {
            self.lose(now, own, why, out);
        }
    }

    /// Goes on when all are back or given up.
    pub(super) fn finish_if_complete(&mut self, now: Time, out: &mut Vec<Effect>) {
        if !self.is_all_connected() {
            return;
        }
        let up = self.up().count();
        let is_lost = |seat: &&Seat| seat.state == State::Lost;
        let lost = self.seats.values().filter(is_lost).count();
        out.push(Effect::Observe(Event::Rebuilt { up, lost }));
        self.catch_up();
        self.forget_gone();
        self.run(out);
        // With nobody left there is nothing to join: who waits begins anew, when that is known.
        if up == 0 {
            return;
        }
        let parked: Vec<Peer> = self.parked.keys().copied().collect();
        for peer in parked {
            self.unpark(now, peer, out);
        }
    }

    /// From now on the scheduler knows itself who is gone.
    fn forget_gone(&mut self) {
        self.told_gone.clear();
        for seat in self.seats.values_mut() {
            seat.gone = Gone::default();
        }
    }
}

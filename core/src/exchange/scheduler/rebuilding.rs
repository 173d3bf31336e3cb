//! What a scheduler that was restarted learns from the processes that come back.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::machine::Scheduler;
use super::report::Phase;
use super::seat::{Contact, Peer, Seat};
use super::types::{Effect, Event};
use crate::exchange::membership::{Membership, State};
use crate::exchange::message::Register;
use crate::ids::ConnectionId;
use crate::time::Time;

impl Scheduler {
    /// Takes for true what a process knows of who takes part: it is newer than what is known here. Those
    /// who are said to take part have as long to come back as they may be silent.
    pub(super) fn adopt(&mut self, now: Time, known: &Arc<Membership>, out: &mut Vec<Effect>) {
        let sizes = known.sizes;
        let mut again: Vec<(ConnectionId, Register)> = Vec::new();
        // Whoever is back already takes part, in an older one; before that nobody has heard of any.
        let older = (self.phase == Phase::Rebuilding).then(|| known.clone());
        while let Some((peer, seat)) = self.seats.first_key_value() {
            let peer = *peer;
            let register = seat.register(peer, sizes, older.clone());
            again.extend(seat.connection().map(|connection| (connection, register)));
            self.clear_seat(peer);
        }
        for (_, parked) in core::mem::take(&mut self.parked) {
            again.push((parked.connection, parked.register));
        }
        self.end_bootstrap();
        self.phase = Phase::Rebuilding;
        self.version = known.version;
        let until = now.after(self.settings.config.heartbeat_timeout);
        for member in &known.members {
            let peer: Peer = (member.role, member.rank);
            self.seats.insert(peer, Seat::reported(member));
            if member.state == State::Up {
                self.set_contact(peer, Contact::Broken { until });
            }
        }
        out.push(Effect::Observe(Event::Rebuilding { version: known.version }));
        // Who had a seat or waited for one before that was known asks for it anew.
        for (connection, register) in again {
            self.place(now, connection, register, out);
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
}

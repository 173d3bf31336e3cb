//! How an exchange begins: all register, or it is told who did not.

use alloc::vec::Vec;

use super::machine::{Alarm, Scheduler};
use super::refusal;
use super::report::Phase;
use super::seat::{Contact, Peer};
use super::types::{Effect, Event};
use crate::exchange::message::Failure;
use crate::time::Time;

impl Scheduler {
    /// From now on all are waited for, if that is bounded.
    pub(super) fn expect_bootstrap(&mut self, now: Time) {
        let is_open = self.phase == Phase::Gathering && self.bootstrap.is_none();
        if let Some(timeout) = self.settings.config.bootstrap_timeout.filter(|_| is_open) {
            let due = now.after(timeout);
            self.bootstrap = Some(due);
            self.alarms.insert((due, Alarm::Bootstrap));
        }
    }

    /// All are not waited for any more.
    pub(super) fn end_bootstrap(&mut self) {
        if let Some(due) = self.bootstrap.take() {
            self.alarms.remove(&(due, Alarm::Bootstrap));
        }
    }

    /// Begins if all have registered and can be told so.
    pub(super) fn begin_if_complete(&mut self, out: &mut Vec<Effect>) {
        let Some(sizes) = self.sizes else {
            return;
        };
        if self.seats.len() < sizes.processes() as usize || !self.is_all_connected() {
            return;
        }
        self.run(out);
        out.push(Effect::Observe(Event::Begun { sizes, version: self.version.next() }));
    }

    /// From now on everybody is told who takes part.
    pub(super) fn run(&mut self, out: &mut Vec<Effect>) {
        self.phase = Phase::Running;
        self.is_changed = true;
        self.end_bootstrap();
        let ready = core::mem::take(&mut self.ready);
        out.extend(ready.into_iter().map(|call| Effect::Done { call, result: Ok(()) }));
    }

    /// Not all have registered in time: those who have are told who is missing, and may try again.
    pub(super) fn give_up_gathering(&mut self, out: &mut Vec<Effect>) {
        self.end_bootstrap();
        let missing = match self.sizes {
            Some(_) => refusal::list(self.missing()),
            None => "nobody has come, and so nobody has said how many there are".into(),
        };
        let status = refusal::not_all_came(&missing, &self.settings.config);
        let parked = core::mem::take(&mut self.parked);
        let parked = parked.into_values().map(|parked| parked.connection);
        let mut connections: Vec<_> = parked.collect();
        while let Some((peer, seat)) = self.seats.first_key_value() {
            let peer = *peer;
            connections.extend(seat.connection());
            self.clear_seat(peer);
        }
        for connection in connections {
            self.refuse(connection, status.clone(), out);
        }
        for call in core::mem::take(&mut self.ready) {
            let result = Err(Failure::Refused(status.clone()));
            out.push(Effect::Done { call, result });
        }
        self.sizes = self.settings.sizes;
        out.push(Effect::Observe(Event::NotBegun { missing }));
    }

    /// Nobody has this seat now, nor waits anywhere in its name.
    pub(super) fn clear_seat(&mut self, peer: Peer) {
        self.set_contact(peer, Contact::Over);
        self.seats.remove(&peer);
        self.meetings.leave(peer);
    }
}

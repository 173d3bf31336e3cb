//! Who only looks on: it learns who takes part, and is passed on what processes know of their requests.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::links::Standing;
use super::machine::Scheduler;
use super::refusal;
use super::report::Phase;
use super::seat::{Peer, Seat};
use super::types::Effect;
use crate::exchange::ids::TraceNumber;
use crate::exchange::message::{AskTraces, ToMember, ToScheduler};
use crate::exchange::passage::{Page, Traces};
use crate::ids::ConnectionId;
use crate::status::Status;
use crate::time::Time;

/// What somebody who looks on waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// As it was asked here.
    pub(super) number: TraceNumber,
    /// As the process was asked.
    pub(super) passed_on: TraceNumber,
    pub(super) peer: Peer,
    /// The connection by which the process was asked.
    pub(super) member: ConnectionId,
    pub(super) at: Time,
}

/// Those who look on, by their connections, and what each waits for.
#[derive(Clone, Debug, Default)]
pub(super) struct Observers {
    pub(super) all: BTreeMap<ConnectionId, Option<Asked>>,
    last: TraceNumber,
}

impl Scheduler {
    /// What those say who look on, and what they are answered by processes; why anything else is out of
    /// turn.
    pub(super) fn of_observers(
        &mut self,
        now: Time,
        connection: ConnectionId,
        standing: Standing,
        message: ToScheduler,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        let refused = refusal::out_of_turn(&message, standing);
        match (message, standing) {
            (ToScheduler::Traces { number, page }, Standing::Seated(_)) => {
                self.pass_on(now, connection, number, page, out);
            }
            (ToScheduler::Observe, Standing::New) => self.observe(connection, out),
            (ToScheduler::AskTraces(ask), Standing::Observing) => {
                return self.ask_traces(now, connection, ask, out).then_some(()).ok_or(refused);
            }
            _ => return Err(refused),
        }
        Ok(())
    }

    /// Somebody wants to look on.
    fn observe(&mut self, connection: ConnectionId, out: &mut Vec<Effect>) {
        let max = self.settings.config.observers_max;
        if self.observers.all.len() >= max {
            return self.refuse(connection, refusal::too_many_observers(max), out);
        }
        let membership = self.membership().filter(|_| self.phase == Phase::Running).cloned();
        let Some(membership) = membership else {
            let registered = self.seats.values().filter(|seat| seat.connection().is_some());
            let status = refusal::nothing_to_observe(registered.count(), self.sizes);
            return self.refuse(connection, status, out);
        };
        self.seat_link(connection, Standing::Observing);
        self.observers.all.insert(connection, None);
        out.push(Effect::Send { connection, message: ToMember::Membership(membership) });
    }

    /// Who looks on wants traces of a process. Whether it may ask now: one question at a time.
    fn ask_traces(
        &mut self,
        now: Time,
        connection: ConnectionId,
        ask: AskTraces,
        out: &mut Vec<Effect>,
    ) -> bool {
        let AskTraces { number, role, rank, after } = ask;
        let peer = (role, rank);
        let passed_on = self.observers.last.next();
        let Some(asked @ None) = self.observers.all.get_mut(&connection) else {
            return false;
        };
        let Some(member) = self.seats.get(&peer).and_then(Seat::connection) else {
            out.push(tell(connection, number, Err(refusal::no_traces(peer))));
            return true;
        };
        *asked = Some(Asked { number, passed_on, peer, member, at: now });
        self.observers.last = passed_on;
        let message = ToMember::AskTraces { number: passed_on, after };
        out.push(Effect::Send { connection: member, message });
        true
    }

    /// A process answers. Nobody may want to know any more.
    fn pass_on(
        &mut self,
        now: Time,
        member: ConnectionId,
        number: TraceNumber,
        page: Page,
        out: &mut Vec<Effect>,
    ) {
        let is_it = |asked: &&mut Option<Asked>| {
            asked.is_some_and(|it| (it.member, it.passed_on) == (member, number))
        };
        let mut waiting = self.observers.all.iter_mut();
        let found =
            waiting.find_map(|(connection, asked)| Some((*connection, Some(asked).filter(is_it)?)));
        if let Some((connection, asked)) = found
            && let Some(Asked { number, at, .. }) = asked.take()
        {
            let traces = Traces { asked: at, back: now, page };
            out.push(tell(connection, number, Ok(traces)));
        }
    }

    /// Tells who waits for processes that are gone.
    pub(super) fn end_questions(&mut self, out: &mut Vec<Effect>) {
        for (connection, waiting) in &mut self.observers.all {
            let Some(asked) = waiting.as_ref() else { continue };
            let seat = self.seats.get(&asked.peer);
            if seat.and_then(Seat::connection) != Some(asked.member) {
                out.push(tell(*connection, asked.number, Err(refusal::no_traces(asked.peer))));
                *waiting = None;
            }
        }
    }
}

fn tell(connection: ConnectionId, number: TraceNumber, result: Result<Traces, Status>) -> Effect {
    Effect::Send { connection, message: ToMember::Traces { number, result } }
}

//! Barriers: one of a kind after the other.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::calls::Place;
use super::connecting::Way;
use super::machine::Member;
use super::refusal;
use super::types::{Effect, Reply};
use crate::exchange::ids::BarrierNumber;
use crate::exchange::message::{Barrier, Failure, Passed, Scope, ToScheduler};
use crate::exchange::role::Mask;
use crate::ids::CallId;
use crate::time::{Duration, Time};

/// A kind of barrier.
pub(super) type Kind = (Mask, Scope);

/// The barrier that the scheduler was told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) number: BarrierNumber,
    /// The call that waits there; `None` if it was given up.
    pub(super) call: Option<CallId>,
}

/// Calls that wait at barriers of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    /// The barrier at which the process waits.
    pub(super) told: Option<Told>,
    /// Calls that have come while it does.
    pub(super) calls: VecDeque<CallId>,
    /// How many barriers of the kind have been passed.
    pub(super) passed: u64,
}

impl Member {
    /// The application comes to a barrier.
    pub(super) fn come(
        &mut self,
        now: Time,
        call: CallId,
        kind: Kind,
        timeout: Option<Duration>,
        out: &mut Vec<Effect>,
    ) -> Result<(), Failure> {
        self.check_takes_part(now)?;
        let role = self.settings.identity.role;
        if !kind.0.contains(role) {
            return Err(Failure::Refused(refusal::not_in_mask(kind.0, role)));
        }
        let max = self.settings.config.barriers_max;
        let is_at_barrier = |place: Place| matches!(place, Place::Barrier(_));
        let waiting = self.calls.waiting.values().filter(|it| is_at_barrier(it.place)).count();
        if waiting >= max {
            return Err(Failure::Refused(refusal::too_many_barriers(max)));
        }
        let due = timeout.map(|timeout| now.after(timeout));
        self.calls.wait(call, Place::Barrier(kind), now, due);
        self.lines.entry(kind).or_default().calls.push_back(call);
        self.send_next(kind, out);
        Ok(())
    }

    /// Tells the scheduler of the next barrier of a kind, if the one before is over.
    fn send_next(&mut self, kind: Kind, out: &mut Vec<Effect>) {
        let (Some(connection), Some(line)) = (self.way.assigned(), self.lines.get_mut(&kind))
        else {
            return;
        };
        if line.told.is_some() {
            return;
        }
        if let Some(call) = line.calls.pop_front() {
            self.last_number = self.last_number.next();
            let number = self.last_number;
            line.told = Some(Told { number, call: Some(call) });
            let (mask, scope) = kind;
            let message = ToScheduler::Barrier(Barrier { number, mask, scope });
            out.push(Effect::Send { connection, message });
        }
    }

    /// Where the process waits.
    pub(super) fn waiting(&self) -> Vec<Barrier> {
        let told = self.lines.iter().filter_map(|(kind, line)| Some((kind, line.told?)));
        let waiting = told.map(|((mask, scope), told)| Barrier {
            number: told.number,
            mask: *mask,
            scope: *scope,
        });
        waiting.collect()
    }

    /// How many barriers have been passed, as far as this process knows.
    pub(super) fn passed(&self) -> Vec<Passed> {
        let passed = self.lines.iter().map(|((mask, scope), line)| Passed {
            mask: *mask,
            scope: *scope,
            count: line.passed,
        });
        passed.filter(|passed| passed.count > 0).collect()
    }

    /// The scheduler says how many barriers have been passed. Of those at which the process waits it
    /// says that in its own time.
    pub(super) fn learn_passed(&mut self, passed: &[Passed]) {
        for Passed { mask, scope, count } in passed {
            let line = self.lines.entry((*mask, *scope)).or_default();
            if line.told.is_none() {
                line.passed = line.passed.max(*count);
            }
        }
    }

    /// A barrier is over.
    pub(super) fn met(
        &mut self,
        number: BarrierNumber,
        result: Result<u64, Failure>,
        out: &mut Vec<Effect>,
    ) {
        let is_it = |line: &Line| line.told.is_some_and(|told| told.number == number);
        let Some((kind, line)) = self.lines.iter_mut().find(|(_, line)| is_it(line)) else {
            return;
        };
        let kind = *kind;
        let told = line.told.take();
        if let Ok(passed) = result {
            line.passed = passed;
        }
        if let Some(call) = told.and_then(|told| told.call) {
            self.answer(call, result.map(|_| Reply::Done), out);
        }
        self.send_next(kind, out);
    }

    /// A call waits at a barrier no longer; whether it was passed before the scheduler hears that, it
    /// says.
    pub(super) fn go_away(&mut self, call: CallId, kind: Kind, out: &mut Vec<Effect>) {
        let Some(told) = self.forget_at(call, kind) else {
            return;
        };
        match self.way {
            Way::Open { connection, is_assigned: true, .. } => {
                let message = ToScheduler::Withdraw { number: told.number };
                out.push(Effect::Send { connection, message });
            }
            // The scheduler has been told, and hears that as soon as it has answered.
            Way::Open { .. } => {}
            Way::Closed { .. } | Way::Opening { .. } => self.forget_given_up(),
        }
    }

    /// The scheduler can be told of barriers again, and of those at which nobody waits any more.
    pub(super) fn send_waiting(&mut self, out: &mut Vec<Effect>) {
        let given_up = self.lines.values().filter_map(|line| line.told);
        let given_up = given_up.filter(|told| told.call.is_none()).map(|told| told.number);
        if let Some(connection) = self.way.assigned() {
            out.extend(given_up.map(|number| {
                let message = ToScheduler::Withdraw { number };
                Effect::Send { connection, message }
            }));
        }
        let kinds: Vec<Kind> = self.lines.keys().copied().collect();
        for kind in kinds {
            self.send_next(kind, out);
        }
    }

    /// A call is not at its barrier any more, if it was at one.
    pub(super) fn forget_at_barrier(&mut self, call: CallId) {
        let place = self.calls.waiting.get(&call).map(|waiting| waiting.place);
        if let Some(Place::Barrier(kind)) = place {
            self.forget_at(call, kind);
        }
        if !matches!(self.way, Way::Open { .. }) {
            self.forget_given_up();
        }
    }

    /// The barrier that the scheduler was told of for this call.
    fn forget_at(&mut self, call: CallId, kind: Kind) -> Option<Told> {
        let line = self.lines.get_mut(&kind)?;
        line.calls.retain(|it| *it != call);
        let told = line.told.as_mut().filter(|told| told.call == Some(call))?;
        told.call = None;
        Some(*told)
    }

    /// Barriers that were given up are not told to the scheduler again.
    pub(super) fn forget_given_up(&mut self) {
        for line in self.lines.values_mut() {
            line.told = line.told.filter(|told| told.call.is_some());
        }
    }
}

//! Batches: one unit of each worker.

use alloc::vec::Vec;

use super::machine::{Due, Parked, Server};
use super::peer::Phase;
use super::types::{Effect, Partial, Unit};
use crate::exchange::ids::{UnitHandler, WorkerRank};
use crate::exchange::refusal::Refusal;
use crate::ids::CallId;
use crate::time::{Duration, Time};

/// A refusal names so many workers that sent nothing.
const NAMED_MAX: usize = 64;

/// What can be done for who wants a batch.
enum Verdict {
    Take,
    Wait,
    Fail(Refusal),
}

impl<T: Clone> Server<T> {
    pub(super) fn get_batch(
        &mut self,
        now: Time,
        call: CallId,
        timeout: Option<Duration>,
        partial: Partial,
        out: &mut Vec<Effect<T>>,
    ) {
        let waits = !self.can_serve(partial) && timeout != Some(Duration::ZERO);
        let refusal = match waits && self.parked.len() >= self.config.calls_max {
            _ if self.is_stopped => Some(Refusal::Stopped),
            true => Some(Refusal::TooManyCalls { max: self.config.calls_max }),
            false => None,
        };
        if let Some(refusal) = refusal {
            return out.push(Effect::Batch { call, result: Err(refusal) });
        }
        let read: Vec<UnitHandler> = self.unowing.iter().copied().collect();
        for unit in read {
            self.release_unowing(unit, out);
        }
        let due = timeout.map(|timeout| (now.after(timeout), timeout));
        self.dues.extend(due.map(|(at, _)| (at, Due::Call(call))));
        self.parked.push_back(Parked { call, partial, due });
        self.serve(out);
        if due.is_some_and(|(at, _)| at <= now) {
            self.too_late(call, out);
        }
    }

    /// Gives out batches as long as there is one for somebody who waits.
    pub(super) fn serve(&mut self, out: &mut Vec<Effect<T>>) {
        while let Some(at) = self.parked.iter().position(|parked| self.can_serve(parked.partial)) {
            let Some(parked) = self.parked.remove(at) else {
                return;
            };
            if let Some((due, _)) = parked.due {
                self.dues.remove(&(due, Due::Call(parked.call)));
            }
            let result = match self.verdict(parked.partial) {
                Verdict::Fail(refusal) => Err(refusal),
                Verdict::Take | Verdict::Wait => Ok(self.take_batch()),
            };
            out.push(Effect::Batch { call: parked.call, result });
        }
    }

    /// Whether who wants such a batch can be told something.
    pub(in crate::exchange) fn can_serve(&self, partial: Partial) -> bool {
        !matches!(self.verdict(partial), Verdict::Wait)
    }

    fn verdict(&self, partial: Partial) -> Verdict {
        let Some(membership) = &self.membership else {
            return Verdict::Wait;
        };
        let workers = usize::try_from(membership.sizes.workers).unwrap_or(usize::MAX);
        if self.ready.len() >= workers {
            return Verdict::Take;
        }
        match partial {
            Partial::Never if self.config.batch_fails_on_loss && self.up.len() < workers => {
                self.first_lost().map_or(Verdict::Wait, Verdict::Fail)
            }
            Partial::Never | Partial::AtDeadline => Verdict::Wait,
            // Whoever has sent a unit takes part.
            Partial::UpMembersOnly if self.ready.is_empty() => Verdict::Wait,
            Partial::UpMembersOnly if self.ready.len() >= self.up.len() => Verdict::Take,
            Partial::UpMembersOnly => Verdict::Wait,
        }
    }

    /// That one of the workers is lost.
    fn first_lost(&self) -> Option<Refusal> {
        let lost = self.peers.values().find_map(|peer| peer.lost.clone());
        lost.map(Refusal::PeerLost)
    }

    /// One unit of each worker that has sent one.
    fn take_batch(&mut self) -> Vec<Unit<T>> {
        let workers: Vec<WorkerRank> = self.ready.iter().copied().collect();
        workers.into_iter().filter_map(|worker| self.take_unit(worker)).collect()
    }

    fn take_unit(&mut self, worker: WorkerRank) -> Option<Unit<T>> {
        let peer = self.peers.get_mut(&worker)?;
        let number = peer.queue.pop_front()?;
        if peer.queue.is_empty() {
            self.ready.remove(&worker);
        }
        let record = peer.records.get_mut(&number)?;
        let Phase::Queued { unit: handler, tensors } = &mut record.phase else {
            return None;
        };
        let (handler, tensors) = (*handler, core::mem::take(tensors));
        record.phase = Phase::GivenOut { unit: handler };
        if !record.owes_answer() {
            self.unowing.insert(handler);
        }
        Some(Unit { handler, worker, tensors, pulls: record.pulls.clone() })
    }

    /// A call's time is over.
    pub(super) fn too_late(&mut self, call: CallId, out: &mut Vec<Effect<T>>) {
        let Some(parked) = self.remove_parked(call) else {
            return;
        };
        let result = match parked.partial {
            Partial::AtDeadline if !self.ready.is_empty() => Ok(self.take_batch()),
            _ => {
                let after = parked.due.map(|(_, after)| after).unwrap_or_default();
                Err(Refusal::NoBatch { after, missing: self.missing(parked.partial) })
            }
        };
        out.push(Effect::Batch { call, result });
    }

    /// Of whom there is no unit.
    fn missing(&self, partial: Partial) -> Vec<WorkerRank> {
        let workers = self.membership.as_ref().map_or(0, |it| it.sizes.workers);
        let is_missing = |worker: &WorkerRank| match partial {
            Partial::UpMembersOnly => self.up.contains(worker) && !self.ready.contains(worker),
            Partial::Never | Partial::AtDeadline => !self.ready.contains(worker),
        };
        (0..workers).map(WorkerRank::new).filter(is_missing).take(NAMED_MAX).collect()
    }

    /// Nobody waits for a call any more.
    pub(super) fn cancel(&mut self, call: CallId) {
        self.remove_parked(call);
    }

    fn remove_parked(&mut self, call: CallId) -> Option<Parked> {
        let at = self.parked.iter().position(|parked| parked.call == call)?;
        let parked = self.parked.remove(at)?;
        if let Some((due, _)) = parked.due {
            self.dues.remove(&(due, Due::Call(call)));
        }
        Some(parked)
    }
}

//! Who waits no more: those who give up, and those whose time is over.

use alloc::vec::Vec;

use super::calls::Place;
use super::key::Key;
use super::machine::Rendezvous;
use super::refusal;
use super::step::{Answer, Deferred, Kept};
use super::types::Effect;
use crate::ids::{CallId, RequestId, StepId};
use crate::limits::EXPIRIES_PER_STEP_MAX;
use crate::status::Status;
use crate::time::Time;

impl<T: Clone> Rendezvous<T> {
    /// Nobody waits for a call any more. What it waited for is there for others.
    pub(super) fn cancel(&mut self, call: CallId, out: &mut Vec<Effect<T>>) {
        self.give_up(call, refusal::cancelled(), out);
    }

    /// Sees to what is due by now.
    pub(super) fn look_at_times(&mut self, now: Time, out: &mut Vec<Effect<T>>) {
        for _ in 0..EXPIRIES_PER_STEP_MAX {
            let Some((at, call)) = self.calls.dues.first().copied().filter(|(at, _)| *at <= now)
            else {
                break;
            };
            self.calls.no_longer_due(at, call);
            let status = refusal::too_late(self.key_of(call));
            self.give_up(call, status, out);
        }
        self.retry(now, EXPIRIES_PER_STEP_MAX, out);
        self.expire(now, EXPIRIES_PER_STEP_MAX, out);
    }

    /// What a call waits for.
    fn key_of(&self, call: CallId) -> Option<&Key> {
        let pending = self.calls.pending.get(&call)?;
        match &pending.place {
            Place::Waiting { key, .. } | Place::Parked { key, .. } => Some(key),
            Place::Fetching(fetching) => Some(&fetching.key),
            Place::Following { request } => {
                let step = self.steps.get(&pending.step)?;
                step.contents.kept.get(request).map(|kept| &kept.key)
            }
            Place::Deferred { number } => {
                let step = self.steps.get(&pending.step)?;
                step.contents.deferred.get(number).map(|deferred| match deferred {
                    Deferred::Send { key, .. }
                    | Deferred::Recv { key, .. }
                    | Deferred::RecvLocal { key, .. } => key,
                })
            }
        }
    }

    /// Takes a call out of where it waits. One whose step has ended is about to be told that.
    fn give_up(&mut self, call: CallId, status: Status, out: &mut Vec<Effect<T>>) {
        let Some(pending) = self.calls.pending.get(&call) else {
            return;
        };
        let (id, place) = (pending.step, pending.place.clone());
        match place {
            Place::Waiting { key, number } => self.leave_queue(call, id, &key, number, status, out),
            Place::Deferred { number } => self.leave_deferred(call, id, number, status, out),
            Place::Parked { key, number } => self.leave_parked(call, id, &key, number, out),
            Place::Following { request } => self.leave_followers(call, id, request, status, out),
            Place::Fetching(_) => {
                let step = self.steps.get_mut(&id);
                if step.is_some_and(|step| step.contents.fetches.remove(&call)) {
                    out.push(Effect::Withdraw { call });
                    self.answer(call, Err(status), out);
                }
            }
        }
    }

    fn leave_queue(
        &mut self,
        call: CallId,
        id: StepId,
        key: &Key,
        number: u64,
        status: Status,
        out: &mut Vec<Effect<T>>,
    ) {
        let step = self.steps.get_mut(&id);
        let table = step.map(|step| &mut step.contents.table);
        let Some(kept) = table.and_then(|table| table.waiter_mut(key, number)).map(|it| it.kept)
        else {
            return;
        };
        let heir = kept.and_then(|request| self.heir(id, request));
        let Some(step) = self.steps.get_mut(&id) else {
            return;
        };
        match heir {
            Some(heir) => {
                if let Some(waiter) = step.contents.table.waiter_mut(key, number) {
                    waiter.call = heir;
                }
                self.calls.go_to(heir, Place::Waiting { key: key.clone(), number });
            }
            None => {
                step.contents.table.remove(key, number);
                kept.into_iter().for_each(|request| drop(self.forget_awaited(request)));
            }
        }
        self.answer(call, Err(status), out);
    }

    fn leave_deferred(
        &mut self,
        call: CallId,
        id: StepId,
        number: u64,
        status: Status,
        out: &mut Vec<Effect<T>>,
    ) {
        let step = self.steps.get(&id);
        let request = match step.and_then(|step| step.contents.deferred.get(&number)) {
            None => return,
            Some(Deferred::RecvLocal { kept, .. }) => *kept,
            Some(Deferred::Send { .. } | Deferred::Recv { .. }) => None,
        };
        let heir = request.and_then(|request| self.heir(id, request));
        let Some(step) = self.steps.get_mut(&id) else {
            return;
        };
        if let Some(heir) = heir {
            if let Some(Deferred::RecvLocal { call, .. }) = step.contents.deferred.get_mut(&number)
            {
                *call = heir;
            }
            self.calls.go_to(heir, Place::Deferred { number });
            return self.answer(call, Err(status), out);
        }
        let removed = step.contents.deferred.remove(&number);
        if step.contents.deferred.is_empty() {
            self.beginning.remove(&id);
        }
        request.into_iter().for_each(|request| drop(self.forget_awaited(request)));
        if matches!(removed, Some(Deferred::Send { .. })) {
            self.calls.end(call);
            out.push(Effect::Sent { call, result: Err(refusal::send_cancelled()) });
        } else {
            self.answer(call, Err(status), out);
        }
    }

    fn leave_parked(
        &mut self,
        call: CallId,
        id: StepId,
        key: &Key,
        number: u64,
        out: &mut Vec<Effect<T>>,
    ) {
        let Some(step) = self.steps.get_mut(&id) else {
            return;
        };
        if step.contents.table.sent_mut(key, number).is_none() {
            return;
        }
        step.contents.table.remove(key, number);
        self.room.unpark(number, &mut step.contents.parked);
        self.calls.end(call);
        out.push(Effect::Sent { call, result: Err(refusal::send_cancelled()) });
        // It may have been in the way of others.
        self.fill_room(Some(id), out);
    }

    fn leave_followers(
        &mut self,
        call: CallId,
        id: StepId,
        request: RequestId,
        status: Status,
        out: &mut Vec<Effect<T>>,
    ) {
        let step = self.steps.get_mut(&id);
        let kept = step.and_then(|step| step.contents.kept.get_mut(&request));
        let Some(Kept { answer: Answer::Awaited { followers }, .. }) = kept else {
            return;
        };
        followers.retain(|follower| *follower != call);
        self.answer(call, Err(status), out);
    }

    /// Who takes the place of a call that gives up, of those that made the same request.
    fn heir(&mut self, id: StepId, request: RequestId) -> Option<CallId> {
        self.steps.get_mut(&id)?.contents.kept.get_mut(&request)?.answer.next_follower()
    }

    /// Nobody waits for what answers a request, or all who do are refused: these besides the first.
    pub(super) fn forget_awaited(&mut self, request: RequestId) -> Vec<CallId> {
        let id = self.requests.kept.get(&request).copied();
        self.requests.forget(request);
        let step = id.and_then(|id| self.steps.get_mut(&id));
        match step.and_then(|step| step.contents.kept.remove(&request)).map(|kept| kept.answer) {
            Some(Answer::Awaited { followers }) => followers,
            _ => Vec::new(),
        }
    }
}

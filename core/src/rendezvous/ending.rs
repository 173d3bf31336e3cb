//! How steps end: aborted, cleaned up, or given up. Who waits in them is told, a few at a time.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem::take;

use super::machine::Rendezvous;
use super::refusal;
use super::room::Held;
use super::step::{Answer, Contents, Deferred, Kept, Step};
use super::table::{Popped, Sent};
use super::types::{Effect, Event, ending};
use crate::ids::{CallId, StepId};
use crate::limits::RENDEZVOUS_ITEMS_PER_STEP_MAX;
use crate::status::Status;
use crate::time::Time;

/// What was in a step that ended.
#[derive(Clone, Debug)]
pub(super) struct Ended<T> {
    pub(super) status: Status,
    pub(super) contents: Contents<T>,
}

impl<T: Clone> Rendezvous<T> {
    /// A step cannot go on. The first reason stays.
    pub(super) fn abort(
        &mut self,
        now: Time,
        id: StepId,
        status: Status,
        out: &mut Vec<Effect<T>>,
    ) {
        let (status, serial) = (ending(status), self.next_number());
        let Ok(step) = self.begin(now, id) else {
            return;
        };
        if step.status.is_some() {
            return;
        }
        step.status = Some(status.clone());
        // Senders that wait for room are of the step that ended, and get none of this one.
        step.serial = serial;
        step.held = Held::default();
        let contents = take(&mut step.contents);
        self.end(status.clone(), contents);
        self.beginning.remove(&id);
        out.push(Effect::Observe(Event::StepAborted { step: id, status }));
    }

    /// A step is over.
    pub(super) fn cleanup(&mut self, id: StepId) {
        self.remove(id, refusal::cleaned_up(id));
    }

    /// All steps are over.
    pub(super) fn cleanup_all(&mut self) {
        self.beginning.clear();
        self.expiries.clear();
        for (_, step) in take(&mut self.steps) {
            self.end(refusal::shut_down(), step.contents);
        }
    }

    /// Steps with which nothing has happened for too long are given up.
    pub(super) fn expire(&mut self, now: Time, budget: usize, out: &mut Vec<Effect<T>>) {
        let Some(expiry) = self.config.step_expiry else {
            return;
        };
        for _ in 0..budget {
            let Some((at, id)) = self.expiries.first().copied().filter(|(at, _)| *at <= now) else {
                return;
            };
            let Some(step) = self.steps.get_mut(&id) else {
                self.expiries.remove(&(at, id));
                continue;
            };
            let due = step.used.after(expiry);
            if due > now {
                step.expires = Some(due);
                self.expiries.remove(&(at, id));
                self.expiries.insert((due, id));
                continue;
            }
            if !step.contents.is_empty() {
                let Held { tensors, bytes } = step.held;
                let waiting = waiting_in(step);
                let given_up = Event::StepExpired { step: id, tensors, bytes, waiting };
                out.push(Effect::Observe(given_up));
            }
            self.remove(id, refusal::expired(id, expiry));
        }
    }

    fn remove(&mut self, id: StepId, status: Status) {
        let Some(step) = self.steps.remove(&id) else {
            return;
        };
        self.beginning.remove(&id);
        if let Some(at) = step.expires {
            self.expiries.remove(&(at, id));
        }
        self.end(status, step.contents);
    }

    /// Keeps what was in a step until all of it is seen to.
    fn end(&mut self, status: Status, contents: Contents<T>) {
        if !contents.is_empty() {
            self.ended.push_back(Ended { status, contents });
        }
    }

    /// Tells some of those who waited in steps that ended, and lets go of some of what was held.
    pub(super) fn see_to_ended(&mut self, out: &mut Vec<Effect<T>>) {
        let before = (self.room.held, self.room.parked.len());
        for _ in 0..RENDEZVOUS_ITEMS_PER_STEP_MAX {
            let Some(ended) = self.ended.front_mut() else {
                break;
            };
            let status = ended.status.clone();
            if let Some(popped) = ended.contents.table.pop() {
                self.see_to_popped(popped, status, out);
            } else if let Some((_, deferred)) = ended.contents.deferred.pop_first() {
                self.see_to_deferred(deferred, status, out);
            } else if let Some(call) = ended.contents.fetches.pop_first() {
                out.push(Effect::Withdraw { call });
                self.answer(call, Err(status), out);
            } else if let Some(mut kept) = ended.contents.kept.first_entry() {
                if let Some(call) = kept.get_mut().answer.next_follower() {
                    self.answer(call, Err(status), out);
                    continue;
                }
                let (request, kept) = kept.remove_entry();
                self.requests.kept.remove(&request);
                if let Answer::Given(delivery) = kept.answer {
                    self.room.take_kept(delivery.value.bytes);
                }
            } else {
                self.ended.pop_front();
            }
        }
        // Senders that wait no more may have been in the way of others, too.
        if (self.room.held, self.room.parked.len()) != before {
            self.fill_room(None, out);
        }
    }

    fn see_to_popped(&mut self, popped: Popped<T>, status: Status, out: &mut Vec<Effect<T>>) {
        match popped {
            Popped::Waiter(waiter) => self.answer(waiter.call, Err(status), out),
            Popped::Sent(number, Sent { value, sender, .. }) => {
                self.room.by_all.remove(&number);
                self.room.parked.remove(&number);
                self.see_to_sent(value.bytes, sender, status, out);
            }
        }
    }

    fn see_to_deferred(&mut self, deferred: Deferred<T>, status: Status, out: &mut Vec<Effect<T>>) {
        match deferred {
            Deferred::Send { value, sender, .. } => {
                self.see_to_sent(value.bytes, sender, status, out);
            }
            Deferred::Recv { call, .. } | Deferred::RecvLocal { call, .. } => {
                self.answer(call, Err(status), out);
            }
        }
    }

    fn see_to_sent(
        &mut self,
        bytes: u64,
        sender: Option<CallId>,
        status: Status,
        out: &mut Vec<Effect<T>>,
    ) {
        match sender {
            None => self.room.held.take(bytes),
            Some(call) => {
                self.calls.end(call);
                out.push(Effect::Sent { call, result: Err(status) });
            }
        }
    }
}

/// Calls that wait in a step.
pub(super) fn waiting_in<T>(step: &Step<T>) -> usize {
    let Contents { table, deferred, fetches, kept, .. } = &step.contents;
    let queues = table.queues.values().map(|queue| match queue {
        super::table::Queue::Waiting(line) => line.len(),
        super::table::Queue::Sent(line) => {
            line.iter().filter(|(_, sent)| sent.sender.is_some()).count()
        }
    });
    let deferred =
        deferred.values().filter(|it| !matches!(it, Deferred::Send { sender: None, .. }));
    let followers = followers(kept);
    queues
        .sum::<usize>()
        .saturating_add(deferred.count())
        .saturating_add(fetches.len())
        .saturating_add(followers)
}

fn followers<T>(kept: &BTreeMap<crate::ids::RequestId, Kept<T>>) -> usize {
    let of = |kept: &Kept<T>| match &kept.answer {
        Answer::Awaited { followers } => followers.len(),
        Answer::Given(_) => 0,
    };
    kept.values().map(of).sum()
}

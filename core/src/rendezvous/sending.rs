//! What producers do: a tensor goes to who waits for it, or is held.

use alloc::vec::Vec;

use super::calls::Place;
use super::key::Key;
use super::machine::Rendezvous;
use super::refusal;
use super::room::{NoRoom, Parked};
use super::step::Deferred;
use super::table::{Sent, Waiter};
use super::types::{Args, Delivery, Effect, Event, Value};
use crate::ids::{CallId, StepId};
use crate::status::Status;
use crate::time::Time;

/// What became of a tensor.
type Outcome = Option<Result<(), Status>>;

impl<T: Clone> Rendezvous<T> {
    /// A tensor is produced; its sender may wait for room.
    #[expect(clippy::too_many_arguments, reason = "they are those of the input")]
    pub(super) fn send(
        &mut self,
        now: Time,
        (call, waits): (CallId, bool),
        id: StepId,
        key: Key,
        args: Args,
        value: Value<T>,
        out: &mut Vec<Effect<T>>,
    ) {
        let sender = waits.then_some(call);
        let outcome = match self.open(now, id) {
            Err(status) => Some(Err(status)),
            Ok(step) => match &step.home {
                Some(home) if !home.has(&key.source()) => {
                    Some(Err(refusal::not_ours("src", &key, &home.name)))
                }
                Some(_) if step.contents.deferred.is_empty() => {
                    self.put(id, key, args, value, sender, out)
                }
                _ => self.defer_send(id, key, args, value, sender),
            },
        };
        if let Some(result) = outcome {
            out.push(Effect::Sent { call, result });
        }
    }

    /// A tensor is produced in a step that is not initialised, or does not know yet all that was
    /// asked before.
    fn defer_send(
        &mut self,
        id: StepId,
        key: Key,
        args: Args,
        value: Value<T>,
        sender: Option<CallId>,
    ) -> Outcome {
        let bytes = value.bytes;
        let number = self.next_number();
        let step = self.steps.get_mut(&id)?;
        let room = self.room.check(&self.config, step.held, bytes);
        let sender = match room {
            Ok(()) => {
                step.held.add(bytes);
                self.room.held.add(bytes);
                None
            }
            Err(NoRoom { bound, is_for_now }) => {
                let refused =
                    refusal::no_room(&self.config, bound, (id, step.held), self.room.held, bytes);
                let Some(call) = sender.filter(|_| is_for_now) else {
                    return Some(Err(refused));
                };
                if self.calls.are_full(&self.config) {
                    return Some(Err(refusal::too_many_calls(&self.config, &key)));
                }
                self.calls.wait(call, id, Place::Deferred { number }, None);
                Some(call)
            }
        };
        step.contents.deferred.insert(number, Deferred::Send { key, args, value, sender });
        if sender.is_some() { None } else { Some(Ok(())) }
    }

    /// A tensor goes to who has waited longest, or is held.
    pub(super) fn put(
        &mut self,
        id: StepId,
        key: Key,
        args: Args,
        value: Value<T>,
        sender: Option<CallId>,
        out: &mut Vec<Effect<T>>,
    ) -> Outcome {
        let number = self.next_number();
        let step = self.steps.get_mut(&id)?;
        if let Some(waiter) = step.contents.table.receiver(&key) {
            self.calls.end(waiter.call);
            self.hand_over(id, &waiter, (args, value), false, out);
            return Some(Ok(()));
        }
        let bytes = value.bytes;
        let Err(NoRoom { bound, is_for_now }) = self.room.check(&self.config, step.held, bytes)
        else {
            step.held.add(bytes);
            self.room.held.add(bytes);
            step.contents.table.hold(key, number, Sent { args, value, sender: None });
            return Some(Ok(()));
        };
        let Some(call) = sender.filter(|_| is_for_now) else {
            out.push(Effect::Observe(Event::NoRoom { step: id, bytes }));
            let (step, all) = ((id, step.held), self.room.held);
            return Some(Err(refusal::no_room(&self.config, bound, step, all, bytes)));
        };
        if self.calls.are_full(&self.config) {
            return Some(Err(refusal::too_many_calls(&self.config, &key)));
        }
        let parked = Parked { call, step: id, serial: step.serial, key: key.clone(), bytes };
        self.room.park(number, parked, bound, &mut step.contents.parked);
        self.calls.wait(call, id, Place::Parked { key: key.clone(), number }, None);
        step.contents.table.hold(key, number, Sent { args, value, sender: Some(call) });
        None
    }

    /// A tensor that was taken on before goes to who waits for it, or is held, whatever the bounds say:
    /// it counts already.
    pub(super) fn put_accepted(
        &mut self,
        id: StepId,
        key: Key,
        args: Args,
        value: Value<T>,
        out: &mut Vec<Effect<T>>,
    ) {
        let number = self.next_number();
        let Some(step) = self.steps.get_mut(&id) else {
            return;
        };
        match step.contents.table.receiver(&key) {
            Some(waiter) => {
                self.calls.end(waiter.call);
                self.hand_over(id, &waiter, (args, value), true, out);
            }
            None => step.contents.table.hold(key, number, Sent { args, value, sender: None }),
        }
    }

    /// A receiver, which waits no more, gets a tensor, which counted among what is held or did not.
    pub(super) fn hand_over(
        &mut self,
        id: StepId,
        waiter: &Waiter,
        (sent, value): (Args, Value<T>),
        was_held: bool,
        out: &mut Vec<Effect<T>>,
    ) {
        let bytes = value.bytes;
        let delivery = Delivery { value, sent, received: waiter.args };
        if let Some(request) = waiter.kept {
            self.keep(id, request, &delivery, was_held, out);
        }
        out.push(Effect::Received { call: waiter.call, result: Ok(delivery) });
        if was_held && waiter.kept.is_none() {
            self.release(id, bytes, out);
        }
    }

    /// A tensor of a step is held no more.
    pub(super) fn release(&mut self, id: StepId, bytes: u64, out: &mut Vec<Effect<T>>) {
        if let Some(step) = self.steps.get_mut(&id) {
            step.held.take(bytes);
        }
        self.room.held.take(bytes);
        self.fill_room(Some(id), out);
    }

    /// Tells senders whose tensors fit now, of those of the step in which room was made and those for
    /// which all steps together left none, whoever has waited longest first.
    pub(super) fn fill_room(&mut self, id: Option<StepId>, out: &mut Vec<Effect<T>>) {
        if self.room.parked.is_empty() {
            return;
        }
        let of_step = |it: &Self, id: &StepId| it.steps.get(id)?.contents.parked.first().copied();
        let (mut step_goes_on, mut all_go_on) = (id.is_some(), true);
        loop {
            let in_step = id.filter(|_| step_goes_on).and_then(|id| of_step(self, &id));
            let in_all = self.room.by_all.first().copied().filter(|_| all_go_on);
            let Some(number) = in_step.into_iter().chain(in_all).min() else {
                return;
            };
            if self.takes_on(number, out) {
                continue;
            }
            if in_step == Some(number) {
                step_goes_on = false;
            } else {
                all_go_on = false;
            }
        }
    }

    /// Takes on a tensor that waits for room if there is some now. Whether it makes sense to look at
    /// the next one.
    fn takes_on(&mut self, number: u64, out: &mut Vec<Effect<T>>) -> bool {
        let Some(parked) = self.room.parked.get(&number).cloned() else {
            return false;
        };
        let step = self.steps.get_mut(&parked.step).filter(|step| step.serial == parked.serial);
        let Some(step) = step else {
            // Its step has ended, and its sender is about to be told.
            self.room.by_all.remove(&number);
            self.room.parked.remove(&number);
            return true;
        };
        let was_of_all = self.room.by_all.contains(&number);
        if let Err(NoRoom { bound, .. }) = self.room.check(&self.config, step.held, parked.bytes) {
            // Where another bound is in the way now, the one behind it may fit.
            self.room.park_again(number, bound, &mut step.contents.parked);
            return was_of_all != self.room.by_all.contains(&number);
        }
        self.room.unpark(number, &mut step.contents.parked);
        step.held.add(parked.bytes);
        self.room.held.add(parked.bytes);
        if let Some(sent) = step.contents.table.sent_mut(&parked.key, number) {
            sent.sender = None;
        }
        self.calls.end(parked.call);
        out.push(Effect::Sent { call: parked.call, result: Ok(()) });
        true
    }
}

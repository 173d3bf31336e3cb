//! What receivers do: they get a tensor that was sent, or wait for it, here or at another worker.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::calls::{Fetching, Place};
use super::key::Key;
use super::machine::Rendezvous;
use super::refusal;
use super::requests::Admitted;
use super::step::{Deferred, Home};
use super::table::{Sent, Waiter};
use super::types::{Args, Asked, Delivery, Effect};
use crate::ids::{CallId, RequestId, StepId};
use crate::status::Status;
use crate::time::{Duration, Time};

/// Somebody who wants a tensor of this worker.
pub(super) struct Receiver {
    pub(super) call: CallId,
    pub(super) args: Args,
    pub(super) kept: Option<RequestId>,
    pub(super) due: Option<Time>,
}

/// Where a tensor comes from.
enum Source {
    /// From here.
    Here,
    /// From another worker.
    Worker(Arc<str>),
}

impl<T: Clone> Rendezvous<T> {
    /// A tensor is wanted here.
    #[expect(clippy::too_many_arguments, reason = "they are those of the input")]
    pub(super) fn recv(
        &mut self,
        now: Time,
        call: CallId,
        id: StepId,
        key: Key,
        args: Args,
        timeout: Option<Duration>,
        out: &mut Vec<Effect<T>>,
    ) {
        let due = timeout.map(|timeout| now.after(timeout));
        let source = match self.open(now, id) {
            Err(status) => Err(status),
            Ok(step) => step.ready().map(|home| source_of(&key, home)).transpose(),
        };
        match source {
            Err(status) => self.answer(call, Err(status), out),
            Ok(None) => {
                let deferred = Deferred::Recv { call, key: key.clone(), args };
                self.defer(call, id, &key, due, deferred, out);
            }
            Ok(Some(source)) => self.receive_from(&source, call, id, key, args, due, out),
        }
    }

    /// A receiver that was kept until its step was initialised goes on.
    pub(super) fn recv_deferred(
        &mut self,
        call: CallId,
        id: StepId,
        key: Key,
        args: Args,
        out: &mut Vec<Effect<T>>,
    ) {
        let home = self.steps.get(&id).and_then(|step| step.home.as_ref());
        let Some(source) = home.map(|home| source_of(&key, home)) else {
            return;
        };
        let due = self.take_up(call);
        match source {
            Err(status) => self.answer(call, Err(status), out),
            Ok(source) => self.receive_from(&source, call, id, key, args, due, out),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "they are those of the input")]
    fn receive_from(
        &mut self,
        source: &Source,
        call: CallId,
        id: StepId,
        key: Key,
        args: Args,
        due: Option<Time>,
        out: &mut Vec<Effect<T>>,
    ) {
        match source {
            Source::Here => self.take(id, key, Receiver { call, args, kept: None, due }, out),
            Source::Worker(worker) => {
                if !self.may_wait() {
                    let status = refusal::too_many_calls(&self.config, &key);
                    return self.answer(call, Err(status), out);
                }
                let (worker, request) = (worker.clone(), self.requests.draw());
                let (asked, away) = (Time::ZERO, None);
                let fetching = Fetching { key, args, worker, request, asked, away };
                self.fetch(call, id, fetching, due, out);
            }
        }
    }

    /// A tensor of this worker is wanted.
    #[expect(clippy::too_many_arguments, reason = "they are those of the input")]
    pub(super) fn recv_local(
        &mut self,
        now: Time,
        call: CallId,
        id: StepId,
        key: Key,
        timeout: Option<Duration>,
        asked: Option<Asked>,
        out: &mut Vec<Effect<T>>,
    ) {
        let admitted = asked.map_or(Admitted::New(None), |asked| self.admit(id, &key, asked, out));
        let kept = match admitted {
            Admitted::Answered(result) => return self.answer(call, result, out),
            Admitted::Follows(request) if self.may_wait() => {
                let due = timeout.map(|timeout| now.after(timeout));
                return self.follow(call, id, request, due);
            }
            Admitted::Follows(_) => {
                let status = refusal::too_many_calls(&self.config, &key);
                return self.answer(call, Err(status), out);
            }
            Admitted::New(kept) => kept,
        };
        if asked.is_some()
            && let Err(status) = self.check_device(&key)
        {
            return self.refuse_request(call, kept, status, out);
        }
        let due = timeout.map(|timeout| now.after(timeout));
        let receiver = Receiver { call, args: Args::default(), kept, due };
        self.recv_admitted(now, id, key, receiver, out);
    }

    /// A tensor of this worker is wanted by a request that did not come before.
    fn recv_admitted(
        &mut self,
        now: Time,
        id: StepId,
        key: Key,
        receiver: Receiver,
        out: &mut Vec<Effect<T>>,
    ) {
        let Receiver { call, kept, due, .. } = receiver;
        let is_ready = match self.open(now, id) {
            Err(status) => return self.refuse_request(call, kept, status, out),
            Ok(step) => step.ready().map(|home| check_source(&key, home)).transpose(),
        };
        match is_ready {
            Err(status) => self.refuse_request(call, kept, status, out),
            Ok(Some(())) => self.take(id, key, receiver, out),
            Ok(None) => {
                if let Some(request) = kept {
                    self.await_answer(id, &key, request);
                }
                let deferred = Deferred::RecvLocal { call, key: key.clone(), kept };
                self.defer(call, id, &key, due, deferred, out);
            }
        }
    }

    /// A receiver of this worker's tensors that was kept until its step was initialised goes on.
    pub(super) fn recv_local_deferred(
        &mut self,
        call: CallId,
        id: StepId,
        key: Key,
        kept: Option<RequestId>,
        out: &mut Vec<Effect<T>>,
    ) {
        let home = self.steps.get(&id).and_then(|step| step.home.as_ref());
        let Some(checked) = home.map(|home| check_source(&key, home)) else {
            return;
        };
        let due = self.take_up(call);
        match checked {
            Err(status) => self.refuse_request(call, kept, status, out),
            Ok(()) => self.take(id, key, Receiver { call, args: Args::default(), kept, due }, out),
        }
    }

    /// Gets a tensor that was sent, or waits for it.
    fn take(&mut self, id: StepId, key: Key, receiver: Receiver, out: &mut Vec<Effect<T>>) {
        let Some(step) = self.steps.get_mut(&id) else {
            return;
        };
        match step.contents.table.tensor(&key) {
            // Nearly all are received so, for which one look for the step is enough.
            Some((_, Sent { args: sent, value, sender: None })) if receiver.kept.is_none() => {
                step.held.take(value.bytes);
                self.room.held.take(value.bytes);
                let delivery = Delivery { value, sent, received: receiver.args };
                out.push(Effect::Received { call: receiver.call, result: Ok(delivery) });
                self.fill_room(Some(id), out);
            }
            Some((number, sent)) => self.take_sent(id, &key, &receiver, (number, sent), out),
            None => self.wait(id, key, receiver, out),
        }
    }

    /// Gets a tensor whose sender may wait for room, or which is kept to be given again.
    fn take_sent(
        &mut self,
        id: StepId,
        key: &Key,
        receiver: &Receiver,
        (number, sent): (u64, Sent<T>),
        out: &mut Vec<Effect<T>>,
    ) {
        if let Some(sender) = sent.sender {
            if let Some(step) = self.steps.get_mut(&id) {
                self.room.unpark(number, &mut step.contents.parked);
            }
            self.calls.end(sender);
            out.push(Effect::Sent { call: sender, result: Ok(()) });
        }
        let Receiver { call, args, kept, .. } = *receiver;
        if let Some(request) = kept {
            self.await_answer(id, key, request);
        }
        let was_held = sent.sender.is_none();
        let waiter = Waiter { call, args, kept };
        self.hand_over(id, &waiter, (sent.args, sent.value), was_held, out);
        if !was_held {
            // It may have been in the way of others.
            self.fill_room(Some(id), out);
        }
    }

    /// Waits for a tensor under its key.
    fn wait(&mut self, id: StepId, key: Key, receiver: Receiver, out: &mut Vec<Effect<T>>) {
        let Receiver { call, args, kept, due } = receiver;
        if !self.may_wait() {
            let status = refusal::too_many_calls(&self.config, &key);
            return self.refuse_request(call, kept, status, out);
        }
        let number = self.next_number();
        self.calls.wait(call, id, Place::Waiting { key: key.clone(), number }, due);
        if let Some(request) = kept {
            self.await_answer(id, &key, request);
        }
        if let Some(step) = self.steps.get_mut(&id) {
            step.contents.table.wait(key, number, Waiter { call, args, kept });
        }
    }

    /// Keeps a receiver until its step is initialised.
    fn defer(
        &mut self,
        call: CallId,
        id: StepId,
        key: &Key,
        due: Option<Time>,
        deferred: Deferred<T>,
        out: &mut Vec<Effect<T>>,
    ) {
        if !self.may_wait() {
            let kept = match &deferred {
                Deferred::RecvLocal { kept, .. } => *kept,
                Deferred::Send { .. } | Deferred::Recv { .. } => None,
            };
            let status = refusal::too_many_calls(&self.config, key);
            return self.refuse_request(call, kept, status, out);
        }
        let number = self.next_number();
        self.calls.wait(call, id, Place::Deferred { number }, due);
        if let Some(step) = self.steps.get_mut(&id) {
            step.contents.deferred.insert(number, deferred);
        }
    }

    /// A call that was kept goes on: when it gives up.
    fn take_up(&mut self, call: CallId) -> Option<Time> {
        let due = self.calls.pending.get(&call).and_then(|pending| pending.due);
        self.calls.end(call);
        due
    }

    /// Refuses a receiver, and with it those who wait for what it gets. Nothing was given out: the
    /// request may come again.
    pub(super) fn refuse_request(
        &mut self,
        call: CallId,
        kept: Option<RequestId>,
        status: Status,
        out: &mut Vec<Effect<T>>,
    ) {
        if let Some(request) = kept {
            for follower in self.forget_awaited(request) {
                self.answer(follower, Err(status.clone()), out);
            }
        }
        self.answer(call, Err(status), out);
    }

    /// Whether the source is a device of this worker in its present run.
    fn check_device(&self, key: &Key) -> Result<(), Status> {
        let source = key.source();
        let local = source.local().ok_or_else(|| refusal::no_device(key))?;
        let name = alloc::format!("{local}");
        let ours = self.config.devices.get(&name).copied();
        let ours = ours.ok_or_else(|| refusal::unknown_device(local, &self.config))?;
        if ours == key.incarnation() {
            return Ok(());
        }
        let worker = source.worker().map(|worker| alloc::format!("{worker}"));
        Err(refusal::other_incarnation(key, ours, worker.as_deref()))
    }
}

fn check_source(key: &Key, home: &Home) -> Result<(), Status> {
    if home.has(&key.source()) {
        return Ok(());
    }
    Err(refusal::not_ours("src", key, &home.name))
}

/// Where a tensor comes from that is wanted here.
fn source_of(key: &Key, home: &Home) -> Result<Source, Status> {
    if !home.has(&key.destination()) {
        return Err(refusal::not_ours("dst", key, &home.name));
    }
    if home.has(&key.source()) {
        return Ok(Source::Here);
    }
    let worker = key.source().worker().ok_or_else(|| refusal::unknown_worker(key))?;
    Ok(Source::Worker(alloc::format!("{worker}").into()))
}

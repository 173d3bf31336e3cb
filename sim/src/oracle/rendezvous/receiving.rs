//! Receivers: each gets the tensor whose turn it is, when its own turn has come.

use rondo_core::element::Tensor;
use rondo_core::ids::{CallId, RequestId, StepId};
use rondo_core::rendezvous::{Args, Asked, Delivery, Effect, Input, Key};
use rondo_core::status::{Code, Status};
use rondo_core::time::Time;

use super::book::{Call, Given, Receiver, Role, State, add, serial_of, take};
use super::ledger::{Ledger, Seen, Turn, wrong};
use super::refused::Kind;
use crate::checks::{Check, reached};

impl Ledger {
    /// A receiver comes, last of those under its key.
    pub(super) fn wait(
        &mut self,
        call: CallId,
        step: StepId,
        key: &Key,
        (request, args): (Option<RequestId>, Args),
        due: Option<Time>,
    ) {
        let waiting = Call { step, key: key.clone(), role: Role::Receiver, due, ends: None };
        self.calls.insert(call, waiting);
        if let Some(book) = self.steps.get_mut(&step) {
            let queues = book.lines.entry(key.text().to_owned()).or_default();
            queues.receivers.push_back(Receiver { request, args, calls: vec![call] });
        }
    }

    /// Somebody wants a tensor of this worker.
    pub(super) fn asked_for(&mut self, turn: &Turn<'_>, effects: &[Effect<Tensor>]) -> Seen {
        let Input::RecvLocal { call, step, key, timeout, asked } = turn.input else {
            return Ok(());
        };
        let asked = asked.filter(|asked| asked.request != RequestId::default());
        let is_kept = |asked: &Asked| asked.keeps || self.config.caches_responses;
        let request = asked.filter(is_kept).map(|asked| asked.request);
        let refused = effects.iter().find_map(|effect| match effect {
            Effect::Received { call: it, result: Err(status) } if it == call => Some(status),
            _ => None,
        });
        let again = request.and_then(|request| self.is_again(*call, *step, key, request));
        if let Some(waiting) = again {
            self.calls.insert(*call, waiting);
            return Ok(());
        }
        let refused = refused.and_then(Kind::of);
        // Whether it is right is judged here, where the request comes.
        if refused == Some(Kind::TooMuchKept) {
            // It was not looked at further, and may come again.
            self.wait(*call, *step, key, (request, Args::default()), None);
            return self.is_too_much_kept(*call, request);
        }
        let was_asked = asked.is_some_and(|asked| !self.asked.insert(asked.request));
        if refused == Some(Kind::Repeated) {
            if !was_asked {
                return wrong("repeated", format!("call {call} asks first, and is told it is not"));
            }
        } else if let Some(asked) = asked.filter(|asked| self.answered.contains(&asked.request)) {
            let request = asked.request;
            return wrong("repeated", format!("request {request} was answered, and is made anew"));
        } else if matches!(turn.input, Input::RecvLocal { asked: None, .. }) || self.is_present(key)
        {
            self.begin(turn.now, *step);
        }
        let due = timeout.map(|timeout| turn.now.after(timeout));
        self.wait(*call, *step, key, (request, Args::default()), due);
        Ok(())
    }

    /// Whether so much is kept for others that no more is.
    fn is_too_much_kept(&self, call: CallId, request: Option<RequestId>) -> Seen {
        let kept = self.given.values().map(|given| given.bytes).fold(0, u64::saturating_add);
        // Answers of steps that ended count until all of those is seen to.
        if request.is_some() && (kept >= self.config.bytes_max || !self.is_quiet) {
            return Ok(());
        }
        wrong("room", format!("call {call} is refused for {kept} bytes of answers that are kept"))
    }

    /// What a request gets that was made before.
    fn is_again(
        &mut self,
        call: CallId,
        step: StepId,
        key: &Key,
        request: RequestId,
    ) -> Option<Call> {
        let waiting = |role| Call { step, key: key.clone(), role, due: None, ends: None };
        if let Some(given) = self.given.get(&request) {
            let is_same = (given.step, given.key.as_str()) == (step, key.text());
            return is_same.then(|| waiting(Role::Again { serial: given.serial }));
        }
        let queues = self.queues(step, key.text())?;
        let mut receivers = queues.receivers.iter_mut();
        let receiver = receivers.find(|receiver| receiver.request == Some(request))?;
        receiver.calls.push(call);
        Some(waiting(Role::Receiver))
    }

    /// Whether a key names this worker's device in its present run.
    pub(super) fn is_present(&self, key: &Key) -> bool {
        let local = key.source().local().map(|local| local.to_string());
        let ours = local.and_then(|local| self.config.devices.get(&local));
        ours == Some(&key.incarnation())
    }

    pub(super) fn received(
        &mut self,
        turn: &mut Turn<'_>,
        call: CallId,
        result: &Result<Delivery<Tensor>, Status>,
    ) -> Seen {
        turn.is_answered |= turn.own == Some(call);
        let Some(waiting) = self.calls.remove(&call) else {
            return wrong("told", format!("receiver {call} is answered, and does not wait"));
        };
        let delivery = match result {
            Ok(delivery) => delivery,
            Err(status) => {
                self.is_refused(turn, call, &waiting, status)?;
                turn.shared.remove(&call);
                self.leave(call, &waiting);
                return Ok(());
            }
        };
        if waiting.ends.is_some() {
            return wrong("ended", format!("receiver {call} gets a tensor of a step that ended"));
        }
        let serial = serial_of(&delivery.value.tensor).unwrap_or_default();
        let promised = match waiting.role {
            Role::Sender { .. } => {
                return wrong("told", format!("sender {call} is answered with a tensor"));
            }
            Role::Fetcher(fetch) => return Self::fetched(turn, call, &fetch, delivery),
            Role::Again { serial } => Some(serial),
            Role::Receiver => turn.shared.remove(&call),
        };
        if promised.is_some() {
            reached(Check::RendezvousRepeated);
        }
        match promised {
            Some(promised) if promised == serial => Ok(()),
            Some(promised) => wrong(
                "repeated",
                format!(
                    "a request was answered with tensor {promised}, and now {call} with {serial}"
                ),
            ),
            None => self.hand_over(turn, call, &waiting, delivery),
        }
    }

    /// A receiver gets a tensor: the one that has waited longest, and that which was sent first.
    fn hand_over(
        &mut self,
        turn: &mut Turn<'_>,
        call: CallId,
        waiting: &Call,
        delivery: &Delivery<Tensor>,
    ) -> Seen {
        let (step, key) = (waiting.step, waiting.key.text());
        let serial = serial_of(&delivery.value.tensor).unwrap_or_default();
        let Some(queues) = self.queues(step, key) else {
            return wrong("delivery", format!("tensor {serial} is not in step {step} under {key}"));
        };
        let Some(receiver) = queues.receivers.pop_front().filter(|it| it.calls.contains(&call))
        else {
            return wrong("turn", format!("receiver {call} is served before one who waits longer"));
        };
        let Some(sent) = queues.tensors.pop_front() else {
            return wrong("delivery", format!("tensor {serial} is not in step {step} under {key}"));
        };
        reached(Check::RendezvousTurn);
        if sent.serial != serial {
            let first = sent.serial;
            return wrong("turn", format!("{call} gets tensor {serial}, and {first} came first"));
        }
        if sent.value != delivery.value {
            return wrong("delivery", format!("tensor {serial} is not what was sent"));
        }
        if (sent.args, receiver.args) != (delivery.sent, delivery.received) {
            return wrong(
                "delivery",
                format!("tensor {serial} has the arguments of somebody else"),
            );
        }
        let others = receiver.calls.iter().filter(|other| **other != call);
        turn.shared.extend(others.map(|other| (*other, serial)));
        let (bytes, was_held) = (sent.value.bytes, sent.state == State::Held);
        self.count(step, bytes, was_held, receiver.request.is_some());
        if let Input::RecvLocal { asked: Some(asked), .. } = turn.input
            && asked.request != RequestId::default()
        {
            self.answered.insert(asked.request);
        }
        if let Some(request) = receiver.request {
            self.answered.insert(request);
            let key = key.to_owned();
            self.given.insert(request, Given { step, key, serial, bytes });
        }
        Ok(())
    }

    /// What is handed over is held no more; what is kept is.
    fn count(&mut self, step: StepId, bytes: u64, was_held: bool, is_kept: bool) {
        let change = match (was_held, is_kept) {
            (true, false) => take,
            (false, true) => add,
            (true, true) | (false, false) => return,
        };
        change(&mut self.held, bytes);
        if let Some(book) = self.steps.get_mut(&step) {
            change(&mut book.held, bytes);
        }
    }

    /// A client has what answered its request.
    pub(super) fn finished(&mut self, request: RequestId) {
        if let Some(given) = self.given.remove(&request) {
            self.count(given.step, given.bytes, true, false);
        }
    }

    /// A receiver goes, and nothing with it.
    fn leave(&mut self, call: CallId, waiting: &Call) {
        if let Some(queues) = self.queues(waiting.step, waiting.key.text()) {
            for receiver in &mut queues.receivers {
                receiver.calls.retain(|other| *other != call);
            }
            queues.receivers.retain(|receiver| !receiver.calls.is_empty());
        }
    }

    fn is_refused(&self, turn: &Turn<'_>, call: CallId, waiting: &Call, status: &Status) -> Seen {
        if self.is_told_of_end(turn, call, waiting, status)? {
            reached(Check::RendezvousEnded);
            return Ok(());
        }
        reached(Check::RendezvousTold);
        if let Role::Fetcher(fetch) = &waiting.role
            && self.is_fetch_refused(turn, call, fetch, status)?
        {
            return Ok(());
        }
        let (is_own, step) = (turn.own == Some(call), self.steps.get(&waiting.step));
        let comes = is_own && matches!(turn.input, Input::Recv { .. } | Input::RecvLocal { .. });
        let is_expected = match status.code {
            _ if comes && step.and_then(|step| step.status.as_ref()) == Some(status) => true,
            Code::Cancelled => is_own && matches!(turn.input, Input::Cancel { .. }),
            Code::DeadlineExceeded => {
                let is_due = waiting.due.is_some_and(|due| due <= turn.now);
                is_due && matches!(turn.input, Input::Tick)
            }
            Code::ResourceExhausted => {
                let is_full = turn.waited >= self.config.calls_max;
                let has_no_step = step.is_none() && self.steps.len() >= self.config.steps_max;
                let is_judged = Kind::of(status) == Some(Kind::TooMuchKept);
                comes && (is_full || has_no_step || is_judged)
            }
            _ if matches!(waiting.role, Role::Again { .. }) => {
                let text = format!("{call} asks again and is not answered as before: {status}");
                return wrong("repeated", text);
            }
            Code::Aborted | Code::InvalidArgument => {
                self.is_of_its_kind(turn, waiting, Kind::of(status), comes)
            }
            _ => false,
        };
        if is_expected {
            return Ok(());
        }
        wrong("told", format!("receiver {call} in step {} is told {status}", waiting.step))
    }

    /// Whether there is a reason for a refusal of this kind.
    fn is_of_its_kind(
        &self,
        turn: &Turn<'_>,
        waiting: &Call,
        kind: Option<Kind>,
        comes: bool,
    ) -> bool {
        let asked = match turn.input {
            Input::RecvLocal { asked, .. } if comes => *asked,
            _ => None,
        };
        let request = asked.map(|asked| asked.request);
        match kind {
            Some(Kind::Repeated) => request.is_some_and(|request| self.asked.contains(&request)),
            // A request of a step that ended: its first call is about to be told.
            Some(Kind::CleanedUp) => asked.is_some() && !self.is_quiet,
            Some(Kind::OtherRun) => asked.is_some() && self.is_of_another_run(&waiting.key),
            Some(Kind::NoDevice) => asked.is_some() && self.has_no_device(&waiting.key),
            Some(Kind::OtherRequest) => {
                request.is_some_and(|request| self.is_of_another_tensor(request, waiting))
            }
            Some(Kind::Foreign) => self.is_foreign(turn, waiting),
            Some(Kind::TooMuchKept) | None => false,
        }
    }

    /// Whether a key names a device of this worker that has another incarnation.
    fn is_of_another_run(&self, key: &Key) -> bool {
        !self.has_no_device(key) && !self.is_present(key)
    }

    fn has_no_device(&self, key: &Key) -> bool {
        let local = key.source().local().map(|local| local.to_string());
        local.is_none_or(|local| !self.config.devices.contains_key(&local))
    }

    /// Whether a request's id is that of a request for another tensor, which is answered or awaited.
    fn is_of_another_tensor(&self, request: RequestId, waiting: &Call) -> bool {
        let is_another =
            |step: StepId, key: &str| (step, key) != (waiting.step, waiting.key.text());
        let given = self.given.get(&request);
        let awaited = self.steps.iter().flat_map(|(step, book)| {
            book.lines.iter().map(move |(key, queues)| (*step, key, queues))
        });
        let mut others = awaited.filter(|(step, key, _)| is_another(*step, key));
        given.is_some_and(|given| is_another(given.step, &given.key))
            || others.any(|(_, _, queues)| {
                queues.receivers.iter().any(|receiver| receiver.request == Some(request))
            })
    }

    /// Whether a key names another worker where this one must stand.
    fn is_foreign(&self, turn: &Turn<'_>, waiting: &Call) -> bool {
        let destination = waiting.key.destination();
        let worker = destination.worker().map(|worker| worker.to_string());
        let is_for_us = destination.is_implicit() || worker.as_deref() == Some(&self.name);
        let is_asked = matches!(turn.input, Input::RecvLocal { .. });
        !self.is_home(&waiting.key) || !is_for_us && !is_asked
    }
}

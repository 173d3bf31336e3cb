//! What calls do.

use super::*;

impl Model {
    /// Something is asked. These calls were told that all is well; where the model does not know better,
    /// it may be so.
    pub(crate) fn ask(&mut self, now: Time, call: CallId, asks: Asks, done: BTreeSet<CallId>) {
        let due = |timeout: Option<Duration>| timeout.map(|timeout| now.after(timeout));
        let answer = match asks {
            Asks::Find { step } => self.begin(now, step).map(|_| Some(Told::Done)),
            Asks::Initialize { step, worker } => self.initialize(now, step, worker, &done),
            Asks::Send { step, key, tensor, waits } => {
                self.number += 1;
                let sent = Sent { key, tensor, sender: Some(call), number: self.number };
                self.send(now, step, sent, waits)
            }
            Asks::Recv { step, key, timeout } => self.recv(now, call, step, key, due(timeout)),
            Asks::RecvLocal { step, key, timeout, asked } => {
                self.recv_local(now, call, (step, key), due(timeout), asked)
            }
        };
        self.answer(call, answer);
    }

    fn answer(&mut self, call: CallId, answer: Result<Option<Told>, Fault>) {
        match answer {
            Ok(None) => {}
            Ok(Some(told)) => self.tell(call, told),
            Err(fault) => self.refuse(call, fault),
        }
    }

    fn initialize(
        &mut self,
        now: Time,
        id: i64,
        worker: &'static str,
        done: &BTreeSet<CallId>,
    ) -> Result<Option<Told>, Fault> {
        let step = self.open(now, id)?;
        match step.home {
            Some(home) if home == worker => return Ok(Some(Told::Done)),
            Some(_) => return Err(fault(Code::Internal, "Double init!")),
            None => step.home = Some(worker),
        }
        for later in std::mem::take(&mut step.later) {
            if let Some(over) = self.steps[&id].over.clone() {
                self.end_later(later, &over);
                continue;
            }
            match later {
                Later::Send(sent) if !has(worker, is_from_here(sent.key), sent.key) => {
                    let wrong = fault(Code::InvalidArgument, "Invalid rendezvous key (src)");
                    match sent.sender {
                        Some(call) => self.refuse(call, wrong),
                        None => self.end_step(id, wrong),
                    }
                }
                Later::Send(mut sent) => {
                    let is_done = |call: &CallId| done.contains(call);
                    if let Some(call) = sent.sender.filter(is_done)
                        && self.has_room(id, sent.tensor.bytes)
                    {
                        sent.sender = None;
                        self.tell(call, Told::Done);
                    }
                    self.put(id, sent);
                    self.give_room(done);
                }
                Later::Recv { call, key } => {
                    let due = self.waiting.remove(&call).flatten();
                    let answer = self.recv(now, call, id, key, due);
                    self.answer(call, answer);
                    self.give_room(done);
                }
                Later::RecvLocal(waits) if !has(worker, is_from_here(waits.key), waits.key) => {
                    self.forget(waits.request);
                    for call in waits.calls {
                        self.refuse(call, fault(Code::InvalidArgument, "(src)"));
                    }
                }
                Later::RecvLocal(waits) => {
                    self.take(id, waits);
                    self.give_room(done);
                }
            }
        }
        Ok(Some(Told::Done))
    }

    fn send(
        &mut self,
        now: Time,
        id: i64,
        mut sent: Sent,
        waits: bool,
    ) -> Result<Option<Told>, Fault> {
        let home = self.open(now, id)?.home;
        if let Some(home) = home {
            if !has(home, is_from_here(sent.key), sent.key) {
                return Err(fault(Code::InvalidArgument, "Invalid rendezvous key (src)"));
            }
            if self.steps[&id].waits.iter().any(|waits| waits.key == sent.key) {
                sent.sender = None;
                self.put(id, sent);
                return Ok(Some(Told::Done));
            }
        }
        let call = sent.sender.take().unwrap();
        let told = if self.has_room(id, sent.tensor.bytes) {
            Some(Told::Done)
        } else if !waits || !self.could_have_room(sent.tensor.bytes) {
            return Err(fault(Code::ResourceExhausted, "no room for a tensor of"));
        } else {
            self.wait(call, None)?;
            sent.sender = Some(call);
            None
        };
        let step = self.steps.get_mut(&id).unwrap();
        match home {
            Some(_) => step.sent.push(sent),
            None => step.later.push(Later::Send(sent)),
        }
        Ok(told)
    }

    /// A tensor goes to who has waited longest, or behind those that were sent before.
    fn put(&mut self, id: i64, sent: Sent) {
        let step = self.steps.get_mut(&id).unwrap();
        let Some(nth) = step.waits.iter().position(|waits| waits.key == sent.key) else {
            return step.sent.push(sent);
        };
        let waits = step.waits.remove(nth);
        self.hand_over(sent, waits);
    }

    fn hand_over(&mut self, sent: Sent, waits: Waits) {
        if let Some(sender) = sent.sender {
            self.tell(sender, Told::Done);
        }
        for call in waits.calls {
            self.tell(call, Told::Got(sent.tensor));
        }
        if let Some(kept) = waits.request.and_then(|request| self.kept.get_mut(&request)) {
            kept.tensor = Some(sent.tensor);
        }
    }

    /// Takes the tensor that was sent first, or waits behind those who came before.
    fn take(&mut self, id: i64, waits: Waits) {
        let step = self.steps.get_mut(&id).unwrap();
        match step.sent.iter().position(|sent| sent.key == waits.key) {
            Some(nth) => {
                let sent = step.sent.remove(nth);
                self.hand_over(sent, waits);
            }
            None => step.waits.push(waits),
        }
    }

    fn recv(
        &mut self,
        now: Time,
        call: CallId,
        id: i64,
        key: usize,
        due: Option<Time>,
    ) -> Result<Option<Told>, Fault> {
        let step = self.open(now, id)?;
        let Some(home) = step.home else {
            self.wait(call, due)?;
            self.steps.get_mut(&id).unwrap().later.push(Later::Recv { call, key });
            return Ok(None);
        };
        if !has(home, is_to_here(key), usize::MAX) {
            return Err(fault(Code::InvalidArgument, "Invalid rendezvous key (dst)"));
        }
        if !has(home, is_from_here(key), key) {
            self.wait(call, due)?;
            let fetch = Fetch { call, asked: now, away: None, again: None };
            self.steps.get_mut(&id).unwrap().fetches.push(fetch);
            self.fetches.push(call);
            return Ok(None);
        }
        self.take_or_wait(id, Waits { key, calls: vec![call], request: None }, due)
    }

    /// Gets what is there, which needs nobody to wait.
    fn take_or_wait(
        &mut self,
        id: i64,
        waits: Waits,
        due: Option<Time>,
    ) -> Result<Option<Told>, Fault> {
        if !self.steps[&id].sent.iter().any(|sent| sent.key == waits.key) {
            self.wait(waits.calls[0], due)?;
        }
        self.take(id, waits);
        Ok(None)
    }

    fn recv_local(
        &mut self,
        now: Time,
        call: CallId,
        (id, key): (i64, usize),
        due: Option<Time>,
        asked: Option<(i64, bool)>,
    ) -> Result<Option<Told>, Fault> {
        let mut request = None;
        if let Some((number, keeps)) = asked.filter(|(number, _)| *number != 0) {
            match self.kept.get(&number).copied().filter(|_| keeps) {
                Some(kept) if (kept.step, kept.key) != (id, key) => {
                    return Err(fault(Code::InvalidArgument, "the request_id"));
                }
                Some(Kept { tensor: Some(tensor), .. }) => return Ok(Some(Told::Got(tensor))),
                Some(_) => return self.join(call, id, number, due),
                None if keeps && self.kept_bytes() >= self.bytes_max => {
                    return Err(fault(Code::ResourceExhausted, "answers of"));
                }
                None if !self.seen.insert(number) => {
                    return Err(fault(Code::Aborted, "was received twice"));
                }
                None => request = keeps.then_some(number),
            }
        }
        let answer = self.admitted(now, call, (id, key), due, request);
        if answer.is_err() {
            self.forget(request);
        }
        answer
    }

    fn admitted(
        &mut self,
        now: Time,
        call: CallId,
        (id, key): (i64, usize),
        due: Option<Time>,
        request: Option<i64>,
    ) -> Result<Option<Told>, Fault> {
        let home = self.open(now, id)?.home;
        if home.is_some_and(|home| !has(home, is_from_here(key), key)) {
            return Err(fault(Code::InvalidArgument, "Invalid rendezvous key (src)"));
        }
        if let Some(request) = request {
            self.kept.insert(request, Kept { step: id, key, tensor: None });
        }
        let waits = Waits { key, calls: vec![call], request };
        if home.is_some() {
            return self.take_or_wait(id, waits, due);
        }
        self.wait(call, due)?;
        self.steps.get_mut(&id).unwrap().later.push(Later::RecvLocal(waits));
        Ok(None)
    }

    /// A call waits where others do that made the same request.
    fn join(
        &mut self,
        call: CallId,
        id: i64,
        request: i64,
        due: Option<Time>,
    ) -> Result<Option<Told>, Fault> {
        self.wait(call, due)?;
        let step = self.steps.get_mut(&id).unwrap();
        let later = step.later.iter_mut().filter_map(|later| match later {
            Later::RecvLocal(waits) => Some(waits),
            _ => None,
        });
        let mut places = step.waits.iter_mut().chain(later);
        places.find(|waits| waits.request == Some(request)).unwrap().calls.push(call);
        Ok(None)
    }

    /// Nothing was given out for a request, which may come again.
    pub(super) fn forget(&mut self, request: Option<i64>) {
        if let Some(request) = request {
            self.kept.remove(&request);
            self.seen.remove(&request);
        }
    }
}

/// Whether a step of this worker has a device that is here, or is that of the fifth key's source.
fn has(worker: &str, is_here: bool, key: usize) -> bool {
    match worker {
        crate::story::HERE => is_here,
        _ => key == 4,
    }
}

//! How waiting ends without a tensor, and how steps do.

use super::*;

impl Model {
    pub(crate) fn cancel(&mut self, call: CallId) {
        self.give_up(call, fault(Code::Cancelled, "[_Derived_]RecvAsync is cancelled."));
    }

    /// Takes a call away from wherever it is.
    fn give_up(&mut self, call: CallId, why: Fault) {
        let mut is_sender = false;
        let mut forgotten = None;
        for step in self.steps.values_mut() {
            let mine = |sent: &Sent| sent.sender == Some(call);
            is_sender |= step.sent.iter().any(mine);
            step.sent.retain(|sent| !mine(sent));
            step.fetches.retain(|fetch| fetch.call != call);
            let mut leave = |waits: &mut Waits| {
                waits.calls.retain(|it| *it != call);
                if waits.calls.is_empty() {
                    forgotten = forgotten.or(waits.request);
                }
                !waits.calls.is_empty()
            };
            step.waits.retain_mut(&mut leave);
            step.later.retain_mut(|later| match later {
                Later::Send(sent) => {
                    is_sender |= mine(sent);
                    !mine(sent)
                }
                Later::Recv { call: it, .. } => *it != call,
                Later::RecvLocal(waits) => leave(waits),
            });
        }
        self.forget(forgotten);
        match is_sender {
            true => self.refuse(call, fault(Code::Cancelled, "the sender gave up")),
            false => self.refuse(call, why),
        }
    }

    pub(crate) fn finished(&mut self, request: i64) {
        if self.kept.get(&request).is_some_and(|kept| kept.tensor.is_some()) {
            self.kept.remove(&request);
        }
    }

    /// The call's fetch, taken out, with a note that something happened with its step.
    fn fetch(&mut self, now: Time, call: CallId) -> Option<Fetch> {
        for step in self.steps.values_mut() {
            if let Some(nth) = step.fetches.iter().position(|fetch| fetch.call == call) {
                step.used = now;
                return Some(step.fetches.remove(nth));
            }
        }
        None
    }

    pub(crate) fn fetched(&mut self, now: Time, call: CallId, tensor: Tensor) {
        if self.fetch(now, call).is_some() {
            self.tell(call, Told::Got(tensor));
        }
    }

    /// Whether it is not asked for just now, but later.
    pub(crate) fn is_paused(&self, call: CallId) -> bool {
        let mut fetches = self.steps.values().flat_map(|step| &step.fetches);
        fetches.any(|fetch| fetch.call == call && fetch.again.is_some())
    }

    /// A tensor does not come; or, if nothing is said why not, its worker is away.
    pub(crate) fn not_fetched(&mut self, now: Time, call: CallId, why: Option<Fault>) {
        let patience = self.patience;
        let mut fetches = self.steps.values_mut().flat_map(|step| &mut step.fetches);
        let Some(fetch) = fetches.find(|fetch| fetch.call == call) else {
            return;
        };
        // A worker that was asked so long ago has been there meanwhile.
        let was_there = now.since(fetch.asked) >= patience;
        let (since, tries) = fetch.away.filter(|_| !was_there).unwrap_or((now, 0));
        let is_patient = now.since(since) < patience;
        if why.is_none() && is_patient {
            // 50 ms, 100 ms, … 1.6 s, and not beyond the end of patience.
            let pause =
                Duration::from_millis([50, 100, 200, 400, 800, 1_600][tries.min(5) as usize]);
            fetch.away = Some((since, tries + 1));
            fetch.again = Some(now.after(pause).min(since.after(patience)));
            return;
        }
        self.fetch(now, call);
        self.refuse(call, why.unwrap_or_else(|| fault(Code::Unavailable, "cannot be reached")));
    }

    pub(crate) fn tick(&mut self, now: Time) {
        for call in self.calls() {
            if self.waiting.get(&call).is_some_and(|due| due.is_some_and(|due| due <= now)) {
                self.give_up(call, fault(Code::DeadlineExceeded, "no tensor came"));
            }
        }
        let fetches = self.steps.values_mut().flat_map(|step| &mut step.fetches);
        for fetch in fetches {
            if fetch.again.is_some_and(|at| at <= now) {
                fetch.again = None;
                fetch.asked = now;
                self.fetches.push(fetch.call);
            }
        }
        let expiry = self.expiry;
        let over = self.steps.iter().filter(|(_, step)| step.used.after(expiry) <= now);
        let over: Vec<i64> = over.map(|(id, _)| *id).collect();
        for id in over {
            self.end_step(id, fault(Code::Aborted, format!("step {id} is given up")));
            self.steps.remove(&id);
        }
    }

    pub(crate) fn abort(&mut self, now: Time, id: i64, code: Code) {
        let text = match code {
            Code::Aborted | Code::Cancelled => "[_Derived_]broken",
            _ => "broken",
        };
        if self.open(now, id).is_ok() {
            self.end_step(id, fault(code, text));
        }
    }

    pub(crate) fn cleanup(&mut self, id: i64) {
        self.end_step(id, fault(Code::Aborted, format!("Cleanup {id}")));
        self.steps.remove(&id);
    }

    pub(crate) fn cleanup_all(&mut self) {
        let ids: Vec<i64> = self.steps.keys().copied().collect();
        for id in ids {
            self.end_step(id, fault(Code::Aborted, "Shutdown"));
            self.steps.remove(&id);
        }
    }

    /// All who wait in a step are told, and what is in it is gone.
    pub(super) fn end_step(&mut self, id: i64, why: Fault) {
        let Some(step) = self.steps.get_mut(&id) else {
            return;
        };
        let first = step.over.get_or_insert_with(|| why.clone()).clone();
        let Step { sent, waits, later, fetches, .. } = std::mem::replace(
            step,
            Step {
                sent: Vec::new(),
                waits: Vec::new(),
                later: Vec::new(),
                fetches: Vec::new(),
                over: Some(first),
                home: step.home,
                used: step.used,
            },
        );
        let senders = sent.iter().filter_map(|sent| sent.sender);
        let waiting = waits.into_iter().flat_map(|waits| waits.calls);
        let fetching = fetches.iter().map(|fetch| fetch.call);
        for call in senders.chain(waiting).chain(fetching).collect::<Vec<_>>() {
            self.refuse(call, why.clone());
        }
        later.into_iter().for_each(|later| self.end_later(later, &why));
        self.kept.retain(|_, kept| kept.step != id);
    }

    pub(super) fn end_later(&mut self, later: Later, why: &Fault) {
        let calls = match later {
            Later::Send(sent) => sent.sender.into_iter().collect(),
            Later::Recv { call, .. } => vec![call],
            Later::RecvLocal(waits) => waits.calls,
        };
        calls.into_iter().for_each(|call| self.refuse(call, why.clone()));
    }
}

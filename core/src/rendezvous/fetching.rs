//! Tensors of other workers: asked for, and asked for again while their worker is away.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::calls::{Fetching, Place};
use super::machine::Rendezvous;
use super::refusal;
use super::types::{Args, Delivery, Effect, Event, Failure, Value};
use crate::ids::{CallId, StepId};
use crate::status::Status;
use crate::time::{Duration, Time};

/// The pause before another worker is asked again the first time; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest such pause, in doublings of the first.
const DOUBLINGS_MAX: u32 = 5;

impl<T: Clone> Rendezvous<T> {
    /// Asks another worker for a tensor.
    pub(super) fn fetch(
        &mut self,
        call: CallId,
        id: StepId,
        mut fetching: Fetching,
        due: Option<Time>,
        out: &mut Vec<Effect<T>>,
    ) {
        let Some(step) = self.steps.get_mut(&id) else {
            return;
        };
        fetching.asked = step.used;
        step.contents.fetches.insert(call);
        out.push(asking(call, id, &fetching));
        self.calls.wait(call, id, Place::Fetching(Arc::new(fetching)), due);
    }

    fn fetching(&self, call: CallId) -> Option<(StepId, Arc<Fetching>)> {
        let pending = self.calls.pending.get(&call)?;
        match &pending.place {
            Place::Fetching(fetching) => Some((pending.step, fetching.clone())),
            _ => None,
        }
    }

    /// Another worker gave a tensor.
    pub(super) fn fetched(
        &mut self,
        now: Time,
        call: CallId,
        value: Value<T>,
        out: &mut Vec<Effect<T>>,
    ) {
        let Some((id, fetching)) = self.fetching(call) else {
            return;
        };
        if self.leave_fetches(now, id, call) {
            let delivery = Delivery { value, sent: Args::default(), received: fetching.args };
            self.answer(call, Ok(delivery), out);
        }
    }

    /// Another worker gave no tensor.
    pub(super) fn not_fetched(
        &mut self,
        now: Time,
        call: CallId,
        failure: Failure,
        out: &mut Vec<Effect<T>>,
    ) {
        let Some((id, fetching)) = self.fetching(call) else {
            return;
        };
        let status = match failure {
            Failure::Refused(status) => status,
            Failure::Lost(last) => refusal::lost(&fetching.worker, &fetching.key, &last),
            Failure::Away(last) => match self.ask_again(now, call, id, &fetching, &last, out) {
                Ok(()) => return,
                Err(status) => status,
            },
        };
        if self.leave_fetches(now, id, call) {
            self.answer(call, Err(status), out);
        }
    }

    /// A fetch is over, unless its step is: then all of them are.
    fn leave_fetches(&mut self, now: Time, id: StepId, call: CallId) -> bool {
        let Some(step) = self.steps.get_mut(&id) else {
            return false;
        };
        step.used = now;
        step.contents.fetches.remove(&call)
    }

    /// Asks again later, unless the worker has been away for too long.
    fn ask_again(
        &mut self,
        now: Time,
        call: CallId,
        id: StepId,
        fetching: &Fetching,
        last: &Status,
        out: &mut Vec<Effect<T>>,
    ) -> Result<(), Status> {
        // No connection takes so long to be refused: it was there, and broke only now.
        let was_there = now.since(fetching.asked) >= self.config.patience;
        let away = fetching.away.filter(|_| !was_there);
        let (since, tries) = away.unwrap_or((now, 0));
        if now.since(since) >= self.config.patience {
            return Err(refusal::away(&fetching.worker, since, now, &self.config, last));
        }
        let pause = PAUSE_MIN.as_nanos() << tries.min(DOUBLINGS_MAX);
        let at = now.after(Duration::from_nanos(pause)).min(since.after(self.config.patience));
        let away = Some((since, tries.saturating_add(1)));
        self.calls.go_to(call, Place::Fetching(Arc::new(Fetching { away, ..fetching.clone() })));
        self.calls.retries.insert((at, call));
        let (worker, reason) = (fetching.worker.clone(), last.message.clone());
        out.push(Effect::Observe(Event::FetchedAgain { step: id, worker, reason }));
        Ok(())
    }

    /// Asks those workers again whose time it is.
    pub(super) fn retry(&mut self, now: Time, budget: usize, out: &mut Vec<Effect<T>>) {
        for _ in 0..budget {
            let Some((at, call)) = self.calls.retries.first().copied().filter(|(at, _)| *at <= now)
            else {
                return;
            };
            self.calls.retries.remove(&(at, call));
            if let Some((id, fetching)) = self.fetching(call) {
                let fetching = Fetching { asked: now, ..fetching.as_ref().clone() };
                out.push(asking(call, id, &fetching));
                self.calls.go_to(call, Place::Fetching(Arc::new(fetching)));
            }
        }
    }
}

fn asking<T>(call: CallId, step: StepId, fetching: &Fetching) -> Effect<T> {
    let Fetching { key, worker, request, .. } = fetching.clone();
    Effect::Fetch { call, step, key, worker, request }
}

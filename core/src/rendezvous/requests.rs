//! Requests of other workers: those that come twice, and what answers those that may.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::calls::Place;
use super::config::Config;
use super::key::Key;
use super::machine::Rendezvous;
use super::refusal;
use super::step::{Answer, Kept};
use super::types::{Asked, Delivery, Effect, Event};
use crate::ids::{CallId, RequestId, StepId};
use crate::limits::RENDEZVOUS_ITEMS_PER_STEP_MAX;
use crate::status::Status;
use crate::time::Time;

/// What a receiver is told.
pub(super) type Received<T> = Result<Delivery<T>, Status>;

/// Requests that came, and ids for those that go out.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    /// When each came, counted from 1.
    seen: BTreeMap<RequestId, u64>,
    /// In the order in which they came, some of which are not to be remembered any more.
    order: VecDeque<(u64, RequestId)>,
    last: u64,
    /// The step of each whose answer is kept.
    pub(super) kept: BTreeMap<RequestId, StepId>,
    /// From which ids of requests of our own are made.
    entropy: u64,
}

impl Requests {
    pub(super) fn new(entropy: u64) -> Self {
        let (seen, kept) = (BTreeMap::new(), BTreeMap::new());
        Self { seen, order: VecDeque::new(), last: 0, kept, entropy }
    }

    /// An id that nobody else draws, never 0.
    pub(super) fn draw(&mut self) -> RequestId {
        self.entropy = self.entropy.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.entropy ^ (self.entropy >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        RequestId::new(i64::from_ne_bytes((mixed ^ (mixed >> 31)).max(1).to_ne_bytes()))
    }

    /// Notes a request. Whether it came before.
    fn note(&mut self, request: RequestId, config: &Config) -> bool {
        if self.seen.contains_key(&request) {
            return true;
        }
        self.last = self.last.saturating_add(1);
        self.seen.insert(request, self.last);
        self.order.push_back((self.last, request));
        while self.order.len() > config.requests_max {
            if let Some((number, first)) = self.order.pop_front()
                && self.seen.get(&first) == Some(&number)
            {
                self.seen.remove(&first);
            }
        }
        false
    }

    /// Nothing was given out for a request: it may come again.
    pub(super) fn forget(&mut self, request: RequestId) {
        self.seen.remove(&request);
        self.kept.remove(&request);
    }
}

/// What becomes of a request.
pub(super) enum Admitted<T> {
    /// It is carried out; what answers it is kept if it has an id here.
    New(Option<RequestId>),
    /// It is answered.
    Answered(Received<T>),
    /// It gets what the same one gets that came before.
    Follows(RequestId),
}

impl<T: Clone> Rendezvous<T> {
    /// Looks whether a request came before.
    pub(super) fn admit(
        &mut self,
        id: StepId,
        key: &Key,
        asked: Asked,
        out: &mut Vec<Effect<T>>,
    ) -> Admitted<T> {
        let request = asked.request;
        if request == RequestId::default() {
            return Admitted::New(None);
        }
        let keeps = asked.keeps || self.config.caches_responses;
        if keeps && let Some(step) = self.requests.kept.get(&request).copied() {
            return self.admit_again(id, key, asked, step, out);
        }
        if keeps && self.room.kept_bytes >= self.config.bytes_max {
            let refused = refusal::too_much_kept(&self.config, self.room.kept_bytes);
            return Admitted::Answered(Err(refused));
        }
        if self.requests.note(request, &self.config) {
            out.push(Effect::Observe(Event::Repeated { request, is_answered: false }));
            return Admitted::Answered(Err(refusal::repeated(request)));
        }
        Admitted::New(Some(request).filter(|_| keeps))
    }

    /// A request whose answer is kept, or awaited, comes again.
    fn admit_again(
        &mut self,
        id: StepId,
        key: &Key,
        asked: Asked,
        step: StepId,
        out: &mut Vec<Effect<T>>,
    ) -> Admitted<T> {
        let request = asked.request;
        let kept = self.steps.get(&step).and_then(|step| step.contents.kept.get(&request));
        let Some(kept) = kept else {
            // Its step ended, which whoever asked first is about to be told.
            return Admitted::Answered(Err(refusal::cleaned_up(step)));
        };
        if step != id || kept.key != *key {
            return Admitted::Answered(Err(refusal::other_request(asked, id, key, &kept.key)));
        }
        let (admitted, is_answered) = match &kept.answer {
            // All who follow are told at once.
            Answer::Awaited { followers } if followers.len() >= RENDEZVOUS_ITEMS_PER_STEP_MAX => {
                (Admitted::Answered(Err(refusal::repeated(request))), false)
            }
            Answer::Awaited { .. } => (Admitted::Follows(request), true),
            Answer::Given(delivery) => (Admitted::Answered(Ok(delivery.clone())), true),
        };
        out.push(Effect::Observe(Event::Repeated { request, is_answered }));
        admitted
    }

    /// A call waits for what the first one of the same request gets.
    pub(super) fn follow(
        &mut self,
        call: CallId,
        id: StepId,
        request: RequestId,
        due: Option<Time>,
    ) {
        let step = self.steps.get_mut(&id);
        let kept = step.and_then(|step| step.contents.kept.get_mut(&request));
        if let Some(Kept { answer: Answer::Awaited { followers }, .. }) = kept {
            followers.push(call);
            self.calls.wait(call, id, Place::Following { request }, due);
        }
    }

    /// A request is carried out whose answer will be kept. Those who made it before the step was
    /// initialised follow it still.
    pub(super) fn await_answer(&mut self, id: StepId, key: &Key, request: RequestId) {
        if let Some(step) = self.steps.get_mut(&id) {
            let awaited = || {
                let answer = Answer::Awaited { followers: Vec::new() };
                Kept { key: key.clone(), answer }
            };
            step.contents.kept.entry(request).or_insert_with(awaited);
            self.requests.kept.insert(request, id);
        }
    }

    /// What answers a request is known: it is kept, and all who wait for it get it. Whether it counted
    /// among what is held before is said; it does from now on.
    pub(super) fn keep(
        &mut self,
        id: StepId,
        request: RequestId,
        delivery: &Delivery<T>,
        was_held: bool,
        out: &mut Vec<Effect<T>>,
    ) {
        let Some(step) = self.steps.get_mut(&id) else {
            return;
        };
        let Some(kept) = step.contents.kept.get_mut(&request) else {
            return;
        };
        if !was_held {
            // Of what is on its way there may be more than the bounds allow; senders wait meanwhile.
            step.held.add(delivery.value.bytes);
            self.room.held.add(delivery.value.bytes);
        }
        self.room.kept_bytes = self.room.kept_bytes.saturating_add(delivery.value.bytes);
        let before = core::mem::replace(&mut kept.answer, Answer::Given(delivery.clone()));
        if let Answer::Awaited { followers } = before {
            for call in followers {
                self.answer(call, Ok(delivery.clone()), out);
            }
        }
    }

    /// A client has what answered its request.
    pub(super) fn finished(&mut self, request: RequestId, out: &mut Vec<Effect<T>>) {
        let Some(id) = self.requests.kept.get(&request).copied() else {
            return;
        };
        let Some(step) = self.steps.get_mut(&id) else {
            return;
        };
        let given = step.contents.kept.get(&request).and_then(|kept| match &kept.answer {
            Answer::Given(delivery) => Some(delivery.value.bytes),
            Answer::Awaited { .. } => None,
        });
        let Some(bytes) = given else {
            return;
        };
        step.contents.kept.remove(&request);
        step.held.take(bytes);
        self.room.take_kept(bytes);
        self.requests.kept.remove(&request);
        self.fill_room(Some(id), out);
    }
}

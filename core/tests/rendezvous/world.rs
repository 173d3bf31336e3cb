//! A rendezvous and all who ask it: each call is answered once, and invariants hold after every step.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::ids::{CallId, RequestId, StepId};
use rondo_core::rendezvous::{
    Args, Asked, Config, Delivery, Effect, Event, Failure, Input, Key, Rendezvous, Value, check,
};
use rondo_core::status::Status;
use rondo_core::time::{Duration, Time};

use crate::model::{Tensor, Told};
use crate::story::session;

/// Slices and alarms at one time after which something goes round in circles.
const TICKS_MAX: usize = 100_000;
/// With more in it a rendezvous is looked at now and then only, which takes long.
const SMALL: usize = 100;

/// What the rendezvous asked of another worker.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    pub(crate) call: CallId,
    pub(crate) key: Key,
    pub(crate) worker: String,
    pub(crate) request: RequestId,
    pub(crate) at: Time,
}

pub(crate) struct World {
    pub(crate) machine: Rendezvous<u32>,
    pub(crate) now: Time,
    last_call: u64,
    steps: u64,
    asked: BTreeSet<CallId>,
    done: BTreeMap<CallId, Result<(), Status>>,
    sent: BTreeMap<CallId, Result<(), Status>>,
    received: BTreeMap<CallId, Result<Delivery<u32>, Status>>,
    /// In the order in which they were given.
    pub(crate) answered: Vec<CallId>,
    pub(crate) fetches: Vec<Fetch>,
    pub(crate) withdrawn: Vec<CallId>,
    pub(crate) events: Vec<Event>,
}

impl World {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            machine: Rendezvous::start(config).unwrap(),
            now: Time::from_millis(1_000_000),
            last_call: 0,
            steps: 0,
            asked: BTreeSet::new(),
            done: BTreeMap::new(),
            sent: BTreeMap::new(),
            received: BTreeMap::new(),
            answered: Vec::new(),
            fetches: Vec::new(),
            withdrawn: Vec::new(),
            events: Vec::new(),
        }
    }

    #[track_caller]
    pub(crate) fn step(&mut self, input: Input<u32>) {
        let mut out = Vec::new();
        self.machine.step(self.now, input, &mut out);
        let answered = self.answered.len();
        for effect in out {
            self.carry_out(effect);
        }
        let answered = self.answered.len() - answered;
        self.steps += 1;
        let report = self.machine.report();
        let is_small = report.waiting.saturating_add(report.held.tensors) <= SMALL;
        if is_small || answered > 1 || self.steps.is_multiple_of(32) {
            check(&self.machine).unwrap_or_else(|violation| panic!("{violation}"));
        }
    }

    #[track_caller]
    fn carry_out(&mut self, effect: Effect<u32>) {
        match effect {
            Effect::Done { call, result } => {
                self.answers(call);
                self.done.insert(call, result);
            }
            Effect::Sent { call, result } => {
                self.answers(call);
                self.sent.insert(call, result);
            }
            Effect::Received { call, result } => {
                self.answers(call);
                self.received.insert(call, result);
            }
            Effect::Fetch { call, key, worker, request, .. } => {
                assert!(self.asked.contains(&call), "{call} is fetched for, and does not wait");
                let (worker, at) = (worker.to_string(), self.now);
                self.fetches.push(Fetch { call, key, worker, request, at });
            }
            Effect::Withdraw { call } => self.withdrawn.push(call),
            Effect::Observe(event) => self.events.push(event),
        }
    }

    #[track_caller]
    fn answers(&mut self, call: CallId) {
        assert!(self.asked.remove(&call), "call {call} is answered, and does not wait");
        self.answered.push(call);
    }

    /// What is to be done at once is done, in slices.
    #[track_caller]
    pub(crate) fn settle(&mut self) {
        for _ in 0..TICKS_MAX {
            if self.machine.deadline().is_none_or(|at| at > self.now) {
                return;
            }
            self.step(Input::Tick);
        }
        panic!("there is always more to do");
    }

    /// Lives through so many milliseconds.
    #[track_caller]
    pub(crate) fn wait(&mut self, millis: u64) {
        let end = self.now.after(Duration::from_millis(millis));
        self.settle();
        while let Some(at) = self.machine.deadline().filter(|at| *at <= end) {
            self.now = at;
            self.settle();
        }
        self.now = end;
    }

    pub(crate) fn ask(&mut self) -> CallId {
        self.last_call += 1;
        let call = CallId::new(self.last_call);
        self.asked.insert(call);
        call
    }

    #[track_caller]
    pub(crate) fn find(&mut self, step: StepId) -> Result<(), Status> {
        let call = self.ask();
        self.step(Input::Find { call, step });
        self.done[&call].clone()
    }

    #[track_caller]
    pub(crate) fn initialize(&mut self, step: StepId, worker: &str) -> Result<(), Status> {
        let call = self.ask();
        self.step(Input::Initialize { call, step, session: session(worker) });
        self.done[&call].clone()
    }

    #[track_caller]
    pub(crate) fn send(&mut self, step: StepId, key: &Key, value: Value<u32>) -> CallId {
        self.send_with(step, key, value, Args::default(), false)
    }

    /// Sends, and waits for room.
    #[track_caller]
    pub(crate) fn send_waiting(&mut self, step: StepId, key: &Key, value: Value<u32>) -> CallId {
        self.send_with(step, key, value, Args::default(), true)
    }

    #[track_caller]
    pub(crate) fn send_with(
        &mut self,
        step: StepId,
        key: &Key,
        value: Value<u32>,
        args: Args,
        waits: bool,
    ) -> CallId {
        let (call, key) = (self.ask(), key.clone());
        self.step(Input::Send { call, step, key, args, value, waits });
        call
    }

    #[track_caller]
    pub(crate) fn recv(&mut self, step: StepId, key: &Key) -> CallId {
        self.recv_with(step, key, Args::default(), None)
    }

    #[track_caller]
    pub(crate) fn recv_within(&mut self, step: StepId, key: &Key, millis: u64) -> CallId {
        self.recv_with(step, key, Args::default(), Some(millis))
    }

    #[track_caller]
    pub(crate) fn recv_with(
        &mut self,
        step: StepId,
        key: &Key,
        args: Args,
        millis: Option<u64>,
    ) -> CallId {
        let (call, key, timeout) = (self.ask(), key.clone(), millis.map(Duration::from_millis));
        self.step(Input::Recv { call, step, key, args, timeout });
        call
    }

    #[track_caller]
    pub(crate) fn recv_local(&mut self, step: StepId, key: &Key) -> CallId {
        self.recv_local_with(step, key, None, None)
    }

    /// Another worker asks.
    #[track_caller]
    pub(crate) fn request(&mut self, step: StepId, key: &Key, asked: Asked) -> CallId {
        self.recv_local_with(step, key, None, Some(asked))
    }

    #[track_caller]
    pub(crate) fn recv_local_with(
        &mut self,
        step: StepId,
        key: &Key,
        millis: Option<u64>,
        asked: Option<Asked>,
    ) -> CallId {
        let (call, key, timeout) = (self.ask(), key.clone(), millis.map(Duration::from_millis));
        self.step(Input::RecvLocal { call, step, key, timeout, asked });
        call
    }

    #[track_caller]
    pub(crate) fn finished(&mut self, request: i64) {
        self.step(Input::MarkRecvFinished { request: RequestId::new(request) });
    }

    #[track_caller]
    pub(crate) fn cancel(&mut self, call: CallId) {
        self.step(Input::Cancel { call });
    }

    #[track_caller]
    pub(crate) fn fetched(&mut self, call: CallId, value: Value<u32>) {
        self.step(Input::Fetched { call, value });
    }

    #[track_caller]
    pub(crate) fn not_fetched(&mut self, call: CallId, failure: Failure) {
        self.step(Input::NotFetched { call, failure });
    }

    #[track_caller]
    pub(crate) fn abort(&mut self, step: StepId, status: Status) {
        self.step(Input::Abort { step, status });
    }

    #[track_caller]
    pub(crate) fn cleanup(&mut self, step: StepId) {
        self.step(Input::Cleanup { step });
    }

    pub(crate) fn is_waiting(&self, call: CallId) -> bool {
        self.asked.contains(&call)
    }

    /// What a call was told.
    #[track_caller]
    pub(crate) fn told(&self, call: CallId) -> Told {
        let done = self.done.get(&call).or_else(|| self.sent.get(&call));
        let done = done.map(|result| result.as_ref().map(|()| Told::Done));
        let received = self.received.get(&call).map(|result| {
            let value = result.as_ref().map(|delivery| &delivery.value);
            value.map(|it| {
                let Value { tensor, bytes, is_dead } = *it;
                Told::Got(Tensor { tensor, bytes, is_dead })
            })
        });
        let told = done.or(received).unwrap_or_else(|| panic!("call {call} was not told anything"));
        told.unwrap_or_else(Told::of_status)
    }

    /// What a sender was told.
    #[track_caller]
    pub(crate) fn sent(&self, call: CallId) -> &Result<(), Status> {
        self.sent.get(&call).unwrap_or_else(|| panic!("sender {call} was not told anything"))
    }

    /// What a receiver got.
    #[track_caller]
    pub(crate) fn delivery(&self, call: CallId) -> &Delivery<u32> {
        let result = self.received.get(&call);
        let result = result.unwrap_or_else(|| panic!("receiver {call} was not told anything"));
        result.as_ref().unwrap_or_else(|status| panic!("receiver {call} got {status:?}"))
    }

    /// The tensor that a receiver got.
    #[track_caller]
    pub(crate) fn got(&self, call: CallId) -> u32 {
        self.delivery(call).value.tensor
    }

    /// Why a call failed.
    #[track_caller]
    pub(crate) fn refused(&self, call: CallId) -> &Status {
        let received = self.received.get(&call).and_then(|result| result.as_ref().err());
        let sent = || self.sent.get(&call).and_then(|result| result.as_ref().err());
        received.or_else(sent).unwrap_or_else(|| panic!("call {call} was not refused"))
    }

    /// Nothing is held, and nobody waits.
    #[track_caller]
    pub(crate) fn assert_empty(&self) {
        let report = self.machine.report();
        assert_eq!((report.held.tensors, report.held.bytes), (0, 0));
        assert_eq!((report.waiting, report.parked, report.kept), (0, 0, 0));
        assert!(self.asked.is_empty(), "{:?} wait", self.asked);
    }
}

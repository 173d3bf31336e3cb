//! The rendezvous of all steps of one worker: takes what happens, and says what to do.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::calls::Calls;
use super::config::Config;
use super::ending::Ended;
use super::refusal;
use super::requests::Requests;
use super::room::Room;
use super::step::{Home, Step};
use super::types::{Effect, Input};
use crate::ids::{CallId, StepId};
use crate::status::Status;
use crate::time::Time;

/// The rendezvous of all steps of one worker. `T` is a tensor; a clone of it shares its memory.
#[derive(Clone, Debug)]
pub struct Rendezvous<T> {
    pub(super) config: Config,
    /// The worker that every step is of from its beginning, if the settings say so.
    pub(super) home: Option<Home>,
    pub(super) steps: BTreeMap<StepId, Step<T>>,
    pub(super) calls: Calls,
    pub(super) room: Room,
    pub(super) requests: Requests,
    /// What was in steps that ended, of which not all is seen to.
    pub(super) ended: VecDeque<Ended<T>>,
    /// Steps that were initialised, of which not all that was asked before is done.
    pub(super) beginning: BTreeSet<StepId>,
    /// When to look whether a step is still in use.
    pub(super) expiries: BTreeSet<(Time, StepId)>,
    /// Numbers tensors and receivers in the order in which they came.
    last_number: u64,
    /// Since when there is more to do at once.
    pub(super) busy: Option<Time>,
}

impl<T: Clone> Rendezvous<T> {
    /// A worker without steps.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when the settings name a worker that is none.
    pub fn start(config: Config) -> Result<Self, Status> {
        let home = config.session.as_ref().map(Home::of).transpose()?;
        Ok(Self {
            home,
            steps: BTreeMap::new(),
            calls: Calls::default(),
            room: Room::default(),
            requests: Requests::new(config.entropy),
            ended: VecDeque::new(),
            beginning: BTreeSet::new(),
            expiries: BTreeSet::new(),
            last_number: 0,
            busy: None,
            config,
        })
    }

    /// Takes one input and pushes what must be done into `out`, in order.
    pub fn step(&mut self, now: Time, input: Input<T>, out: &mut Vec<Effect<T>>) {
        match input {
            Input::Find { call, step } => {
                let result = self.begin(now, step).map(|_| ());
                out.push(Effect::Done { call, result });
            }
            Input::Initialize { call, step, session } => {
                let result = self.initialize(now, step, &session);
                out.push(Effect::Done { call, result });
            }
            Input::Send { call, step, key, args, value, waits } => {
                self.send(now, (call, waits), step, key, args, value, out);
            }
            Input::Recv { call, step, key, args, timeout } => {
                self.recv(now, call, step, key, args, timeout, out);
            }
            Input::RecvLocal { call, step, key, timeout, asked } => {
                self.recv_local(now, call, step, key, timeout, asked, out);
            }
            Input::MarkRecvFinished { request } => self.finished(request, out),
            Input::Cancel { call } => self.cancel(call, out),
            Input::Fetched { call, value } => self.fetched(now, call, value, out),
            Input::NotFetched { call, failure } => self.not_fetched(now, call, failure, out),
            Input::Abort { step, status } => self.abort(now, step, status, out),
            Input::Cleanup { step } => self.cleanup(step),
            Input::CleanupAll => self.cleanup_all(),
            Input::Tick => self.look_at_times(now, out),
        }
        self.proceed(now, out);
    }

    /// When to call [`Rendezvous::step`] with [`Input::Tick`] next.
    pub fn deadline(&self) -> Option<Time> {
        let due = self.calls.dues.first().map(|(at, _)| *at);
        let retry = self.calls.retries.first().map(|(at, _)| *at);
        let expiry = self.expiries.first().map(|(at, _)| *at);
        [self.busy, due, retry, expiry].into_iter().flatten().min()
    }

    /// The settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Does some of what there is more to do.
    fn proceed(&mut self, now: Time, out: &mut Vec<Effect<T>>) {
        if self.ended.is_empty() && self.beginning.is_empty() {
            self.busy = None;
            return;
        }
        // In this order, because the first may end a step.
        self.carry_out_deferred(now, out);
        self.see_to_ended(out);
        let is_done = self.ended.is_empty() && self.beginning.is_empty();
        self.busy = if is_done { None } else { Some(now) };
    }

    /// A step, which begins if it was not there.
    pub(super) fn begin(&mut self, now: Time, id: StepId) -> Result<&mut Step<T>, Status> {
        let (count, serial) = (self.steps.len(), self.next_number());
        match self.steps.entry(id) {
            Entry::Occupied(step) => {
                let step = step.into_mut();
                step.used = now;
                Ok(step)
            }
            Entry::Vacant(_) if count >= self.config.steps_max => {
                Err(refusal::too_many_steps(&self.config, id))
            }
            Entry::Vacant(place) => {
                let expires = self.config.step_expiry.map(|expiry| now.after(expiry));
                self.expiries.extend(expires.map(|at| (at, id)));
                Ok(place.insert(Step::new(self.home.clone(), serial, now, expires)))
            }
        }
    }

    /// A step of which something can be asked.
    pub(super) fn open(&mut self, now: Time, id: StepId) -> Result<&mut Step<T>, Status> {
        let step = self.begin(now, id)?;
        match &step.status {
            Some(status) => Err(status.clone()),
            None => Ok(step),
        }
    }

    /// The number of the next tensor or receiver.
    pub(super) const fn next_number(&mut self) -> u64 {
        self.last_number = self.last_number.saturating_add(1);
        self.last_number
    }

    /// Whether one more call may wait.
    pub(super) fn may_wait(&self) -> bool {
        !self.calls.are_full(&self.config)
    }

    /// Answers a receiver that waits.
    pub(super) fn answer(
        &mut self,
        call: CallId,
        result: super::requests::Received<T>,
        out: &mut Vec<Effect<T>>,
    ) {
        self.calls.end(call);
        out.push(Effect::Received { call, result });
    }
}

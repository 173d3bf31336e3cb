//! The machine, who waits for what it says, and what it has others do: everything behind the lock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rondo_core::element::Tensor;
use rondo_core::ids::{CallId, RequestId, StepId};
use rondo_core::rendezvous::{Config, Delivery, Effect, Event, Input, Key, Rendezvous, Report};
use rondo_core::status::Status;
use rondo_core::time::Time;
use tokio::sync::{mpsc, oneshot};

use super::assembling::Partial;
use super::driver::Order;
use crate::clock::Clock;
use crate::memory::Ceiling;

/// The answer to a call.
#[derive(Debug)]
pub(super) enum Outcome {
    /// To all but receivers.
    Done(Result<(), Status>),
    /// To receivers.
    Received(Result<Delivery<Tensor>, Status>),
}

/// A call's answer, or who will have it.
pub(super) enum Asked {
    Answered(Outcome),
    Waits(CallId, oneshot::Receiver<Outcome>),
}

/// What all who use a rendezvous share.
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) clock: Clock,
    /// The bound on the process's memory.
    pub(super) ceiling: Ceiling,
    orders: mpsc::UnboundedSender<Order>,
}

struct State {
    machine: Rendezvous<Tensor>,
    /// Kept for its memory.
    effects: Vec<Effect<Tensor>>,
    waiting: BTreeMap<CallId, oneshot::Sender<Outcome>>,
    fetches: BTreeMap<CallId, Fetch>,
    last_call: CallId,
    /// When the driver ticks next, as far as it knows.
    ticks_at: Option<Time>,
}

/// What is to be fetched from another worker.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) call: CallId,
    pub(super) step: StepId,
    pub(super) key: Key,
    pub(super) worker: Arc<str>,
    pub(super) request: RequestId,
}

/// A fetch, as long as its call waits.
#[derive(Default)]
struct Fetch {
    /// What came before the connection broke.
    partial: Partial,
    running: Option<Running>,
}

/// A task that ends with this.
pub(super) struct Running(pub(super) tokio::task::JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Shared {
    pub(super) fn start(
        config: Config,
        clock: Clock,
        ceiling: Ceiling,
    ) -> Result<(Arc<Self>, mpsc::UnboundedReceiver<Order>), Status> {
        let (orders, taken) = mpsc::unbounded_channel();
        let state = State {
            machine: Rendezvous::start(config)?,
            effects: Vec::new(),
            waiting: BTreeMap::new(),
            fetches: BTreeMap::new(),
            last_call: CallId::default(),
            ticks_at: None,
        };
        let state = Mutex::new(state);
        Ok((Arc::new(Self { state, clock, ceiling, orders }), taken))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call, which is answered at once or waits.
    pub(super) fn ask(&self, input: impl FnOnce(CallId) -> Input<Tensor>) -> Asked {
        let mut state = self.lock();
        let call = state.last_call.next();
        state.last_call = call;
        match self.step(&mut state, input(call), Some(call)) {
            Some(outcome) => Asked::Answered(outcome),
            None => {
                let (answer, answered) = oneshot::channel();
                state.waiting.insert(call, answer);
                Asked::Waits(call, answered)
            }
        }
    }

    /// Tells the machine what needs no answer.
    pub(super) fn tell(&self, input: Input<Tensor>) {
        self.step(&mut self.lock(), input, None);
    }

    /// Nobody waits for a call any more. One that has its answer is over.
    pub(super) fn cancel(&self, call: CallId) {
        let mut state = self.lock();
        if state.waiting.remove(&call).is_some() {
            self.step(&mut state, Input::Cancel { call }, None);
        }
    }

    pub(super) fn report(&self) -> Report {
        self.lock().machine.report()
    }

    /// When to tick next; from now on that is known.
    pub(super) fn next_tick(&self) -> Option<Time> {
        let mut state = self.lock();
        state.ticks_at = state.machine.deadline();
        state.ticks_at
    }

    /// What came of a tensor before; `None` if nobody waits for it any more.
    pub(super) fn begin_fetch(&self, call: CallId) -> Option<Partial> {
        self.lock().fetches.get_mut(&call).map(|fetch| std::mem::take(&mut fetch.partial))
    }

    /// A fetch runs, and ends with its call.
    pub(super) fn run_fetch(&self, call: CallId, running: Running) {
        if let Some(fetch) = self.lock().fetches.get_mut(&call) {
            fetch.running = Some(running);
        }
    }

    /// A fetch is over, and may be made again with what came of it.
    pub(super) fn end_fetch(&self, call: CallId, partial: Partial, input: Input<Tensor>) {
        let mut state = self.lock();
        if let Some(fetch) = state.fetches.get_mut(&call) {
            fetch.partial = partial;
            self.step(&mut state, input, None);
        }
    }

    /// Steps the machine, and carries out what it asks for, in order. The answer to `own` is returned.
    fn step(
        &self,
        state: &mut State,
        input: Input<Tensor>,
        own: Option<CallId>,
    ) -> Option<Outcome> {
        let mut effects = std::mem::take(&mut state.effects);
        let held = state.machine.report().held.bytes;
        state.machine.step(self.clock.now(), input, &mut effects);
        self.tell_ceiling(held, state.machine.report().held.bytes);
        let mut answer = None;
        for effect in effects.drain(..) {
            if let Some((call, outcome)) = self.carry_out(state, effect) {
                if own == Some(call) {
                    answer = Some(outcome);
                } else if let Some(waiting) = state.waiting.remove(&call) {
                    // Who has gone meanwhile says so itself.
                    drop(waiting.send(outcome));
                }
            }
        }
        state.effects = effects;
        let due = state.machine.deadline();
        if due.is_some_and(|due| state.ticks_at.is_none_or(|at| due < at)) {
            state.ticks_at = due;
            self.order(Order::Look);
        }
        answer
    }

    /// Tells the ceiling that a step has changed how many bytes of tensors are held. No snapshot has them, so
    /// they leave more memory for state than keys do.
    fn tell_ceiling(&self, before: u64, now: u64) {
        match now.checked_sub(before) {
            Some(more) => self.ceiling.hold(more),
            None => self.ceiling.let_go(before.saturating_sub(now)),
        }
    }

    fn carry_out(&self, state: &mut State, effect: Effect<Tensor>) -> Option<(CallId, Outcome)> {
        match effect {
            Effect::Done { call, result } | Effect::Sent { call, result } => {
                Some((call, Outcome::Done(result)))
            }
            Effect::Received { call, result } => {
                state.fetches.remove(&call);
                Some((call, Outcome::Received(result)))
            }
            Effect::Fetch { call, step, key, worker, request } => {
                state.fetches.entry(call).or_default().running = None;
                self.order(Order::Fetch(Wanted { call, step, key, worker, request }));
                None
            }
            Effect::Withdraw { call } => {
                state.fetches.remove(&call);
                None
            }
            Effect::Observe(event) => {
                observe(&event);
                None
            }
        }
    }

    fn order(&self, order: Order) {
        // Without a driver the process is ending.
        drop(self.orders.send(order));
    }
}

fn observe(event: &Event) {
    match event {
        Event::StepAborted { step, status } => tracing::info!(%step, %status, "step aborted"),
        Event::StepExpired { step, tensors, bytes, waiting } => {
            tracing::warn!(
                %step, tensors, bytes, waiting,
                "step given up: nothing happened with it, and nobody cleaned it up"
            );
        }
        Event::NoRoom { step, bytes } => tracing::warn!(%step, bytes, "no room for a tensor"),
        Event::Repeated { request, is_answered } => {
            tracing::debug!(%request, is_answered, "a request came twice");
        }
        Event::FetchedAgain { step, worker, reason } => {
            tracing::info!(%step, %worker, reason, "a tensor is asked for again");
        }
    }
}

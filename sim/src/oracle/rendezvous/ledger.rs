//! What goes into a machine and comes out of it, and what must be in it therefore.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::element::Tensor;
use rondo_core::ids::{CallId, RequestId, StepId};
use rondo_core::rendezvous::{Config, Effect, Event, Held, Input, Key, Rendezvous};
use rondo_core::status::Status;
use rondo_core::time::Time;

use super::super::{Broken, broken};
use super::book::{Book, Call, Given, Queues, Role, State, serial_of};

/// What must be in a machine.
#[derive(Debug)]
pub(super) struct Ledger {
    /// The worker's name.
    pub(super) name: String,
    pub(super) config: Config,
    pub(super) steps: BTreeMap<StepId, Book>,
    pub(super) calls: BTreeMap<CallId, Call>,
    /// What answered requests and is kept.
    pub(super) given: BTreeMap<RequestId, Given>,
    /// Requests that others have made of it.
    pub(super) asked: BTreeSet<RequestId>,
    /// Those of them that were answered with a tensor.
    pub(super) answered: BTreeSet<RequestId>,
    /// Requests that it has made of others.
    pub(super) drawn: BTreeSet<RequestId>,
    pub(super) held: Held,
    /// Whether the machine had nothing more to do at once.
    pub(super) is_quiet: bool,
}

/// One step of the machine.
pub(super) struct Turn<'a> {
    pub(super) now: Time,
    pub(super) input: &'a Input<Tensor>,
    /// The call that the input names.
    pub(super) own: Option<CallId>,
    /// Tensors that somebody gets.
    pub(super) delivered: BTreeSet<u64>,
    /// Other calls of a request that was just answered, and with what.
    pub(super) shared: BTreeMap<CallId, u64>,
    /// Steps that were given up in it; what was due was done before.
    pub(super) expired: BTreeSet<StepId>,
    /// Fetches that were called off.
    pub(super) withdrawn: BTreeSet<CallId>,
    /// Whether the call of the input was answered.
    pub(super) is_answered: bool,
    /// Calls that waited before.
    pub(super) waited: usize,
}

/// What a ledger says of what it has seen.
pub(super) type Seen = Result<(), Broken>;

pub(super) fn wrong<T>(promise: &str, text: String) -> Result<T, Broken> {
    Err(broken(promise, text))
}

impl Ledger {
    pub(super) fn new(name: &str, config: Config) -> Self {
        Self {
            name: name.to_owned(),
            config,
            steps: BTreeMap::new(),
            calls: BTreeMap::new(),
            given: BTreeMap::new(),
            asked: BTreeSet::new(),
            answered: BTreeSet::new(),
            drawn: BTreeSet::new(),
            held: Held { tensors: 0, bytes: 0 },
            is_quiet: true,
        }
    }

    /// Sees one step of the machine.
    pub(super) fn see(
        &mut self,
        now: Time,
        input: &Input<Tensor>,
        effects: &[Effect<Tensor>],
        machine: &Rendezvous<Tensor>,
    ) -> Seen {
        let mut turn = Turn {
            now,
            input,
            own: own_call(input),
            delivered: effects.iter().filter_map(delivered).collect(),
            shared: BTreeMap::new(),
            expired: BTreeSet::new(),
            withdrawn: BTreeSet::new(),
            is_answered: false,
            waited: self.calls.len(),
        };
        if matches!(input, Input::Tick) {
            turn.expired = self.expired(now, machine)?;
        }
        self.take_in(&turn, effects)?;
        for effect in effects {
            self.take_out(&mut turn, effect)?;
        }
        self.is_done(&turn)?;
        self.is_quiet = machine.deadline().is_none_or(|at| at > now);
        if self.is_quiet { self.quiet(now, machine) } else { Ok(()) }
    }

    fn take_in(&mut self, turn: &Turn<'_>, effects: &[Effect<Tensor>]) -> Seen {
        match turn.input {
            Input::Find { step, .. } | Input::Initialize { step, .. } => {
                self.begin(turn.now, *step);
            }
            Input::Send { .. } => self.asked_to_send(turn),
            Input::Recv { call, step, key, args, timeout } => {
                self.begin(turn.now, *step);
                let due = timeout.map(|timeout| turn.now.after(timeout));
                self.wait(*call, *step, key, (None, *args), due);
            }
            Input::RecvLocal { .. } => self.asked_for(turn, effects)?,
            Input::MarkRecvFinished { request } => self.finished(*request),
            Input::Cancel { .. } | Input::Tick => {}
            Input::Fetched { call, .. } | Input::NotFetched { call, .. } => {
                self.fetch_is_over(turn, *call, effects);
            }
            Input::Abort { step, status } => {
                self.begin(turn.now, *step);
                self.abort(*step, status);
            }
            Input::Cleanup { step } => self.cleaned_up(*step),
            Input::CleanupAll => self.all_cleaned_up(),
        }
        Ok(())
    }

    fn take_out(&mut self, turn: &mut Turn<'_>, effect: &Effect<Tensor>) -> Seen {
        match effect {
            Effect::Done { call, result } => self.done(turn, *call, result),
            Effect::Sent { call, result } => self.sent(turn, *call, result),
            Effect::Received { call, result } => self.received(turn, *call, result),
            Effect::Fetch { call, step, key, worker, request } => {
                self.fetches(turn, *call, (*step, key, worker), *request)
            }
            Effect::Withdraw { call } => {
                turn.withdrawn.insert(*call);
                Ok(())
            }
            Effect::Observe(Event::StepAborted { step, status }) => {
                self.aborted(turn, *step, status)
            }
            Effect::Observe(_) => Ok(()),
        }
    }

    /// A step begins if it was not there and there is room; something happens with it.
    pub(super) fn begin(&mut self, now: Time, step: StepId) {
        let is_full = self.steps.len() >= self.config.steps_max;
        if let Some(book) = self.steps.get_mut(&step) {
            book.used = now;
        } else if !is_full {
            let book = Book {
                is_initialized: self.config.session.is_some(),
                status: None,
                lines: BTreeMap::new(),
                held: Held::default(),
                used: now,
            };
            self.steps.insert(step, book);
        }
    }

    pub(super) fn queues(&mut self, step: StepId, key: &str) -> Option<&mut Queues> {
        self.steps.get_mut(&step)?.lines.get_mut(key)
    }

    fn done(&mut self, turn: &mut Turn<'_>, call: CallId, result: &Result<(), Status>) -> Seen {
        if turn.own != Some(call) {
            return wrong("told", format!("call {call} is answered, which nobody made"));
        }
        turn.is_answered = true;
        if let (Input::Initialize { step, .. }, Ok(())) = (turn.input, result)
            && let Some(book) = self.steps.get_mut(step)
        {
            book.is_initialized = true;
        }
        Ok(())
    }

    /// What must be answered at once has been.
    fn is_done(&self, turn: &Turn<'_>) -> Seen {
        let must = match turn.input {
            Input::Find { .. } | Input::Initialize { .. } => true,
            Input::Send { call, waits, .. } => {
                if *waits && !turn.is_answered {
                    self.waits_for_room(*call)?;
                }
                !waits
            }
            Input::Cancel { call } => {
                self.calls.get(call).is_some_and(|waiting| waiting.ends.is_none())
            }
            Input::RecvLocal { call, key, asked, .. } => {
                let is_again = |it: &Call| matches!(it.role, Role::Again { .. });
                let is_of_another_run = asked.is_some() && !self.is_present(key);
                is_of_another_run || self.calls.get(call).is_some_and(is_again)
            }
            Input::Fetched { call, .. } => {
                let open = self.calls.get(call);
                open.is_some_and(|it| it.ends.is_none() && matches!(it.role, Role::Fetcher(_)))
            }
            _ => false,
        };
        if must && !turn.is_answered {
            return wrong("told", format!("{} is not answered", name_of(turn.input)));
        }
        if let Some((call, _)) = turn.shared.first_key_value() {
            return wrong("repeated", format!("call {call} of the same request is not answered"));
        }
        Ok(())
    }

    /// The tensor that is there for who asks under this key.
    pub(super) fn offers(&self, step: StepId, key: &Key) -> Option<u64> {
        let book = self.steps.get(&step).filter(|book| book.is_initialized)?;
        let queues = book.lines.get(key.text())?;
        queues.tensors.front().filter(|sent| sent.state == State::Held).map(|sent| sent.serial)
    }
}

fn delivered(effect: &Effect<Tensor>) -> Option<u64> {
    match effect {
        Effect::Received { result: Ok(delivery), .. } => serial_of(&delivery.value.tensor),
        _ => None,
    }
}

const fn own_call(input: &Input<Tensor>) -> Option<CallId> {
    match input {
        Input::Find { call, .. }
        | Input::Initialize { call, .. }
        | Input::Send { call, .. }
        | Input::Recv { call, .. }
        | Input::RecvLocal { call, .. }
        | Input::Cancel { call }
        | Input::Fetched { call, .. }
        | Input::NotFetched { call, .. } => Some(*call),
        Input::MarkRecvFinished { .. }
        | Input::Abort { .. }
        | Input::Cleanup { .. }
        | Input::CleanupAll
        | Input::Tick => None,
    }
}

const fn name_of(input: &Input<Tensor>) -> &'static str {
    match input {
        Input::Find { .. } => "finding a step",
        Input::Initialize { .. } => "initialising a step",
        Input::Send { .. } => "a sender that does not wait",
        Input::Cancel { .. } => "a call that was given up",
        Input::RecvLocal { .. } => "a request whose answer is known",
        Input::Fetched { .. } => "a receiver whose tensor was fetched",
        _ => "a call",
    }
}

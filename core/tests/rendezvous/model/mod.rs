//! What a worker's rendezvous should do, as simply as it can be said: lists that are searched from
//! their beginning, sums that are summed anew. Nothing is told in slices.

mod asking;
mod ending;
mod room;

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::ids::CallId;
use rondo_core::rendezvous::Config;
use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};

/// A tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tensor {
    pub(crate) tensor: u32,
    pub(crate) bytes: u64,
    pub(crate) is_dead: bool,
}

/// Why not: a code, and a part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    code: Code,
    text: String,
}

pub(crate) fn fault(code: Code, text: impl Into<String>) -> Fault {
    Fault { code, text: text.into() }
}

/// What somebody is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// All is well.
    Done,
    /// A tensor.
    Got(Tensor),
    /// Why not. What the rendezvous tells has the whole text.
    Fault(Fault),
}

impl Told {
    pub(crate) fn of_status(status: &Status) -> Self {
        Self::Fault(fault(status.code, &status.message))
    }

    /// Whether it may be told so.
    pub(crate) fn fits(&self, told: &Self) -> bool {
        match (self, told) {
            (Self::Fault(mine), Self::Fault(its)) => {
                mine.code == its.code && its.text.contains(&mine.text)
            }
            _ => self == told,
        }
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) enum Asks {
    Find { step: i64 },
    Initialize { step: i64, worker: &'static str },
    Send { step: i64, key: usize, tensor: Tensor, waits: bool },
    Recv { step: i64, key: usize, timeout: Option<Duration> },
    RecvLocal { step: i64, key: usize, timeout: Option<Duration>, asked: Option<(i64, bool)> },
}

/// Keys whose source is here are the first three; those whose destination is, all but the third.
const fn is_from_here(key: usize) -> bool {
    key < 3
}

const fn is_to_here(key: usize) -> bool {
    key != 2
}

/// A tensor that was sent; its sender, if that waits for room.
#[derive(Clone, Copy, Debug)]
struct Sent {
    key: usize,
    tensor: Tensor,
    sender: Option<CallId>,
    /// Senders wait in this order.
    number: u64,
}

/// A place in the queue of a key. All calls that made one request share it.
#[derive(Clone, Debug)]
struct Waits {
    key: usize,
    calls: Vec<CallId>,
    request: Option<i64>,
}

/// Something that comes later, when the step is initialised.
#[derive(Clone, Debug)]
enum Later {
    Send(Sent),
    Recv { call: CallId, key: usize },
    RecvLocal(Waits),
}

/// An answer that is kept.
#[derive(Clone, Copy, Debug)]
struct Kept {
    step: i64,
    key: usize,
    /// `None` while it is awaited.
    tensor: Option<Tensor>,
}

#[derive(Clone, Debug)]
struct Step {
    home: Option<&'static str>,
    over: Option<Fault>,
    sent: Vec<Sent>,
    waits: Vec<Waits>,
    later: Vec<Later>,
    fetches: Vec<Fetch>,
    used: Time,
}

/// A tensor that is wanted of another worker.
#[derive(Clone, Copy, Debug)]
struct Fetch {
    call: CallId,
    /// When it was last asked for.
    asked: Time,
    /// Since when that is away, how often it was asked since, and when it is asked again.
    away: Option<(Time, u32)>,
    again: Option<Time>,
}

pub(crate) struct Model {
    home: Option<&'static str>,
    steps_max: usize,
    step_tensors_max: usize,
    step_bytes_max: u64,
    tensors_max: usize,
    bytes_max: u64,
    calls_max: usize,
    expiry: Duration,
    patience: Duration,
    steps: BTreeMap<i64, Step>,
    kept: BTreeMap<i64, Kept>,
    seen: BTreeSet<i64>,
    /// Who waits, and until when.
    waiting: BTreeMap<CallId, Option<Time>>,
    number: u64,
    /// What was told since somebody looked.
    pub(crate) told: BTreeMap<CallId, Told>,
    /// For which calls other workers were asked since somebody looked.
    pub(crate) fetches: Vec<CallId>,
}

impl Model {
    pub(crate) fn new(config: &Config, is_home: bool) -> Self {
        Self {
            home: is_home.then_some(crate::story::HERE),
            steps_max: config.steps_max,
            step_tensors_max: config.step_tensors_max,
            step_bytes_max: config.step_bytes_max,
            tensors_max: config.tensors_max,
            bytes_max: config.bytes_max,
            calls_max: config.calls_max,
            expiry: config.step_expiry.unwrap(),
            patience: config.patience,
            steps: BTreeMap::new(),
            kept: BTreeMap::new(),
            seen: BTreeSet::new(),
            waiting: BTreeMap::new(),
            number: 0,
            told: BTreeMap::new(),
            fetches: Vec::new(),
        }
    }

    /// Who waits.
    pub(crate) fn calls(&self) -> Vec<CallId> {
        self.waiting.keys().copied().collect()
    }

    fn tell(&mut self, call: CallId, told: Told) {
        self.waiting.remove(&call);
        let before = self.told.insert(call, told);
        assert_eq!(before, None, "the model tells {call} twice");
    }

    fn refuse(&mut self, call: CallId, fault: Fault) {
        self.tell(call, Told::Fault(fault));
    }

    /// A step, which begins if there is room for one more.
    fn begin(&mut self, now: Time, id: i64) -> Result<&mut Step, Fault> {
        if !self.steps.contains_key(&id) && self.steps.len() >= self.steps_max {
            return Err(fault(Code::ResourceExhausted, "--rendezvous-steps-max"));
        }
        let home = self.home;
        let step = self.steps.entry(id).or_insert_with(|| Step {
            home,
            over: None,
            sent: Vec::new(),
            waits: Vec::new(),
            later: Vec::new(),
            fetches: Vec::new(),
            used: now,
        });
        step.used = now;
        Ok(step)
    }

    /// A step that goes on.
    fn open(&mut self, now: Time, id: i64) -> Result<&mut Step, Fault> {
        let step = self.begin(now, id)?;
        match &step.over {
            Some(fault) => Err(fault.clone()),
            None => Ok(step),
        }
    }

    fn wait(&mut self, call: CallId, due: Option<Time>) -> Result<(), Fault> {
        if self.waiting.len() >= self.calls_max {
            return Err(fault(Code::ResourceExhausted, "--rendezvous-calls-max"));
        }
        self.waiting.insert(call, due);
        Ok(())
    }
}

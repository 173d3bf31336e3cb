//! A worker with a dispatcher and data that are made up.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use rondo_core::ids::{CallId, ConnectionId, DatasetId, IterationId, TaskId};
use rondo_core::invariant::check_worker;
use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};
use rondo_core::worker::{
    Answer, Ask, Config, Effect, ElementAsk, Event, From, Input, Part, Reply, Request, RpcId,
    RunId, TaskDef, Then, Worker,
};

pub(crate) const ADDRESS: &str = "worker:1";
pub(crate) const VERSION: i64 = 9;

pub(crate) type Outcome = Result<Answer, Status>;

/// The worker, and all it asked for that was not done yet.
pub(crate) struct World {
    pub(crate) worker: Worker,
    pub(crate) now: Time,
    pub(crate) calls: u64,
    pub(crate) answers: BTreeMap<u64, Outcome>,
    pub(crate) sent: Vec<(RpcId, Request)>,
    pub(crate) opening: Vec<(RunId, Part, bool)>,
    /// The definition of each run that was opened.
    pub(crate) definitions: BTreeMap<RunId, Bytes>,
    pub(crate) wanted: Vec<(RunId, From, u64)>,
    pub(crate) closed: Vec<RunId>,
    pub(crate) told: Vec<Effect>,
    pub(crate) observed: Vec<Event>,
    /// What the dispatcher hands out.
    pub(crate) splits: VecDeque<i64>,
    pub(crate) compressed: bool,
    /// Tasks that the dispatcher was told are over.
    pub(crate) completed: Vec<TaskId>,
}

pub(crate) fn soft() -> Status {
    Status::new(Code::Unavailable, "away")
}

/// A task of one dataset.
pub(crate) fn task(id: i64, part: Part) -> TaskDef {
    TaskDef {
        task: TaskId::new(id),
        iteration: IterationId::new(7),
        dataset: DatasetId::new("numbers"),
        definition: Some(Bytes::from_static(b"definition")),
        worker_address: ADDRESS.into(),
        part,
        consumers: None,
        uses_cache: false,
    }
}

pub(crate) fn ask(task: i64) -> ElementAsk {
    ElementAsk {
        task: TaskId::new(task),
        round: None,
        skipped_previous_round: false,
        allow_skip: false,
        trainer: String::new(),
    }
}

/// The element of this number, with as many bytes more.
pub(crate) fn element(number: u64, more: usize) -> Bytes {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(8 + more, 0);
    bytes.into()
}

pub(crate) fn number(element: &Bytes) -> u64 {
    u64::from_le_bytes(element[..8].try_into().unwrap())
}

impl World {
    /// A worker that nobody has started.
    pub(crate) fn new(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::of(ADDRESS, VERSION);
        change(&mut config);
        Self {
            worker: Worker::new(config),
            now: Time::from_millis(1_000_000),
            calls: 0,
            answers: BTreeMap::new(),
            sent: Vec::new(),
            opening: Vec::new(),
            definitions: BTreeMap::new(),
            wanted: Vec::new(),
            closed: Vec::new(),
            told: Vec::new(),
            observed: Vec::new(),
            splits: VecDeque::new(),
            compressed: false,
            completed: Vec::new(),
        }
    }

    /// A worker that its dispatcher knows.
    pub(crate) fn registered() -> Self {
        Self::registered_with(|_| {})
    }

    pub(crate) fn registered_with(change: impl FnOnce(&mut Config)) -> Self {
        let mut world = Self::new(change);
        world.step(Input::Start);
        world.dispatch();
        assert_eq!(world.told, [Effect::Registered]);
        world.told.clear();
        world
    }

    /// A registered worker with these tasks.
    pub(crate) fn with_tasks(tasks: impl IntoIterator<Item = TaskDef>) -> Self {
        let mut world = Self::registered();
        world.add(tasks);
        world
    }

    pub(crate) fn add(&mut self, tasks: impl IntoIterator<Item = TaskDef>) {
        for task in tasks {
            let call = self.call(Ask::Process(task));
            assert_eq!(self.answers.remove(&call), Some(Ok(Answer::Done)));
        }
    }

    pub(crate) fn step(&mut self, input: Input) {
        let mut out = Vec::new();
        self.worker.step(self.now, input, &mut out);
        assert_eq!(check_worker(&self.worker), Ok(()));
        for effect in out {
            match effect {
                Effect::Send { rpc, request } => self.sent.push((rpc, request)),
                Effect::Answer { call, result } => {
                    let before = self.answers.insert(call.get(), result);
                    assert_eq!(before, None, "{call} is answered twice");
                }
                Effect::Open { run, definition, part, compressed } => {
                    self.definitions.insert(run, definition);
                    self.opening.push((run, part, compressed));
                }
                Effect::Produce { run, from, room_bytes } => {
                    assert!(!self.closed.contains(&run));
                    self.wanted.push((run, from, room_bytes));
                }
                Effect::Close { run } => {
                    self.wanted.retain(|(wanted, ..)| *wanted != run);
                    self.opening.retain(|(opening, ..)| *opening != run);
                    self.closed.push(run);
                }
                Effect::Observe(event) => self.observed.push(event),
                other => self.told.push(other),
            }
        }
    }

    pub(crate) fn call(&mut self, ask: Ask) -> u64 {
        self.calls += 1;
        let client = ConnectionId::new(1);
        self.step(Input::Asked { call: CallId::new(self.calls), client, ask });
        self.calls
    }

    pub(crate) fn get(&mut self, ask: ElementAsk) -> u64 {
        self.call(Ask::Element(ask))
    }

    pub(crate) fn left(&mut self, call: u64) {
        self.step(Input::Left { call: CallId::new(call) });
    }

    pub(crate) fn cancel(&mut self, call: u64) {
        self.step(Input::Cancel { call: CallId::new(call) });
    }

    /// Lets time pass and wakes the worker whenever it wants to be woken.
    pub(crate) fn sleep(&mut self, span_ms: u64) {
        let until = self.now.after(Duration::from_millis(span_ms));
        for _ in 0..10_000 {
            match self.worker.deadline() {
                Some((at, _)) if at <= until => {
                    self.now = self.now.max(at);
                    self.step(Input::Tick);
                }
                _ => {
                    self.now = until;
                    return;
                }
            }
        }
        panic!("the worker does not let time pass: {:?}", self.worker.deadline());
    }

    pub(crate) fn answer(&mut self, rpc: RpcId, result: Result<Reply, Status>) {
        self.sent.retain(|(sent, _)| *sent != rpc);
        self.step(Input::Answered { rpc, result, entropy: rpc.0 });
    }

    /// Answers all calls to the dispatcher, and opens all that is to be opened.
    pub(crate) fn dispatch(&mut self) {
        let mut answered = 0;
        while let Some((rpc, request)) = self.sent.first().cloned() {
            let reply = self.reply(&request);
            self.answer(rpc, Ok(reply));
            answered += 1;
            assert!(answered < 10_000, "it asks without end: {request:?}");
        }
        while let Some((run, ..)) = self.opening.pop() {
            self.step(Input::Opened { run, result: Ok(-2) });
        }
        if !self.sent.is_empty() {
            self.dispatch();
        }
    }

    fn reply(&mut self, request: &Request) -> Reply {
        match request {
            Request::Version => Reply::Version(VERSION),
            Request::Heartbeat { .. } => Reply::Tasks { new: Vec::new(), deleted: Vec::new() },
            Request::Update { completed } => {
                self.completed.extend(completed);
                Reply::Done
            }
            Request::Split { .. } => Reply::Split(self.splits.pop_front()),
            Request::Compression { .. } => Reply::Compression(self.compressed),
            Request::Definition { .. } => Reply::Definition(Bytes::from_static(b"definition")),
        }
    }

    /// Refuses all calls to the dispatcher that are under way.
    pub(crate) fn refuse(&mut self, status: &Status) {
        for (rpc, _) in std::mem::take(&mut self.sent) {
            self.step(Input::Answered { rpc, result: Err(status.clone()), entropy: 1 });
        }
    }

    /// Gives what is wanted first these elements.
    pub(crate) fn made(&mut self, numbers: impl IntoIterator<Item = u64>, then: Then) {
        let (run, ..) = self.wanted.remove(0);
        let elements = numbers.into_iter().map(|number| element(number, 0)).collect();
        self.step(Input::Produced { run, elements, then });
    }

    /// The element with which a call was answered.
    pub(crate) fn element_of(&mut self, call: u64) -> u64 {
        match self.answers.remove(&call) {
            Some(Ok(Answer::Element(element))) => number(&element),
            other => panic!("call {call} is answered with {other:?}"),
        }
    }

    pub(crate) fn code_of(&mut self, call: u64) -> Code {
        match self.answers.remove(&call) {
            Some(Err(status)) => status.code,
            other => panic!("call {call} is answered with {other:?}"),
        }
    }
}

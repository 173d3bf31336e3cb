//! Drives one node as a runtime would: gives it requests, keeps what it writes, makes it durable
//! (at once or on demand), collects what it answers, and restarts it from what was durable.
//!
//! After every step it checks all invariants, that replaying the journal gives the live state, and
//! that no update is acknowledged before its records are durable.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::control::{
    self, Durability, Effect, Effects, Health, Input, Node, Record, Recovered, Recovery, Timer,
};
use rondo_core::dispatcher::{Config, Event, Reply, Request, State, TaskDef};
use rondo_core::ids::{CallId, Digest, Lsn};
use rondo_core::invariant;
use rondo_core::memory::Memory;
use rondo_core::status::Status;
use rondo_core::time::{Duration, Time};

pub(crate) type Answer = Result<Reply, Status>;

/// What the journal does with records.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Journal {
    /// Takes them and makes them durable at once.
    Prompt,
    /// Takes them; they are durable after [`Driver::sync`].
    Slow,
    /// Takes none.
    Full,
}

pub(crate) struct Driver {
    pub(crate) node: Node,
    pub(crate) now: Time,
    pub(crate) journal: Journal,
    pub(crate) pushes: Vec<TaskDef>,
    pub(crate) events: Vec<Event>,
    pub(crate) halted: Option<String>,
    /// How often the node asked to try refused records again.
    pub(crate) retries: u32,
    /// Blobs on the disk.
    pub(crate) blobs: BTreeSet<Digest>,
    pub(crate) config: Config,
    durability: Durability,
    effects: Effects,
    /// Every record the journal holds, the one at position n at index n - 1.
    records: Vec<Record>,
    /// The state that replay has built from those.
    shadow: Recovery,
    /// Positions at which a step ended: a crash keeps or loses whole steps.
    steps: Vec<Lsn>,
    durable: Lsn,
    /// The first record the journal did not take, if so.
    refused: Option<Lsn>,
    /// The newest record each call's own step wrote.
    written: BTreeMap<CallId, Lsn>,
    answers: BTreeMap<CallId, Answer>,
    next_call: u64,
}

impl Driver {
    pub(crate) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(crate) fn with(config: Config) -> Self {
        Self::start(config, Durability::Journal)
    }

    pub(crate) fn start(config: Config, durability: Durability) -> Self {
        let now = Time::from_millis(1_000_000);
        let node = Node::start(durability, config.clone(), Recovered::default(), now);
        Self {
            node,
            now,
            journal: Journal::Prompt,
            pushes: Vec::new(),
            events: Vec::new(),
            halted: None,
            retries: 0,
            blobs: BTreeSet::new(),
            config,
            durability,
            effects: Effects::new(),
            records: Vec::new(),
            shadow: Recovery::new(),
            steps: vec![Lsn::NONE],
            durable: Lsn::NONE,
            refused: None,
            written: BTreeMap::new(),
            answers: BTreeMap::new(),
            next_call: 1,
        }
    }

    /// Asks, and expects an answer at once.
    #[track_caller]
    pub(crate) fn ask(&mut self, request: Request) -> Answer {
        let call = self.send(request);
        self.take(call).expect("the call is parked")
    }

    /// Asks, and expects a refusal at once.
    #[track_caller]
    pub(crate) fn refused(&mut self, request: Request) -> Status {
        self.ask(request).expect_err("a refusal")
    }

    /// Asks, and leaves the answer for [`Driver::take`].
    #[track_caller]
    pub(crate) fn send(&mut self, request: Request) -> CallId {
        let call = CallId::new(self.next_call);
        self.next_call += 1;
        if let Request::RegisterDataset(registration) = &request
            && registration.definition.inline.is_none()
        {
            self.blobs.insert(registration.definition.digest);
        }
        let request = control::Request::Dispatcher(request);
        let entropy = call.get();
        self.step(Input::Request { call, request, entropy });
        call
    }

    /// The process has so much memory left from now on.
    pub(crate) fn learn(&mut self, memory: Memory) {
        self.step(Input::Memory(memory));
    }

    /// The answer to a call, if there is one by now.
    pub(crate) fn take(&mut self, call: CallId) -> Option<Answer> {
        self.answers.remove(&call)
    }

    /// The same, left for later.
    pub(crate) fn peek(&self, call: CallId) -> Option<&Answer> {
        self.answers.get(&call)
    }

    /// All answers not taken yet.
    pub(crate) fn take_all(&mut self) -> BTreeMap<CallId, Answer> {
        std::mem::take(&mut self.answers)
    }

    pub(crate) fn cancel(&mut self, call: CallId) {
        self.step(Input::Cancel { call });
    }

    /// Makes everything written durable.
    #[track_caller]
    pub(crate) fn sync(&mut self) {
        self.sync_upto(self.written_upto());
    }

    #[track_caller]
    pub(crate) fn sync_upto(&mut self, upto: Lsn) {
        self.durable = self.durable.max(upto);
        self.step(Input::Synced { upto });
    }

    /// Lets time pass and ticks as often as the node wants.
    #[track_caller]
    pub(crate) fn advance(&mut self, span: Duration) {
        let until = self.now.after(span);
        let mut at_once = 0;
        while let Some((at, _)) = self.node.deadline().filter(|(at, _)| *at <= until) {
            at_once = if at > self.now { 0 } else { at_once + 1 };
            assert!(at_once < 10_000, "no time passes: {:?}", self.node.deadline());
            self.now = self.now.max(at);
            self.step(Input::Tick);
        }
        self.now = until;
    }

    pub(crate) fn tick(&mut self) {
        self.step(Input::Tick);
    }

    /// What the journal says when its disk has room again.
    #[track_caller]
    pub(crate) fn make_room(&mut self) {
        assert!(self.refused.is_some(), "nothing was refused");
        (self.journal, self.refused) = (Journal::Prompt, None);
        self.step(Input::AppendAccepted);
    }

    #[track_caller]
    pub(crate) fn fail_sync(&mut self) {
        self.step(Input::SyncFailed { reason: "device error".into() });
    }

    /// Kills the process and starts it from what is durable.
    #[track_caller]
    pub(crate) fn restart(&mut self) {
        self.restart_from(self.durable);
    }

    /// Kills the process and starts it from the records up to `upto`: the durable ones, and more if
    /// the disk was quick.
    #[track_caller]
    pub(crate) fn restart_from(&mut self, upto: Lsn) {
        assert!(upto >= self.durable && self.steps.contains(&upto));
        self.records.truncate(usize::try_from(upto.get()).unwrap());
        self.shadow = replay(&self.records, 0);
        let half = replay(&self.records, self.records.len() / 2);
        assert_eq!(half, self.shadow, "a snapshot half-way changes what replay builds");
        self.steps.retain(|step| *step <= upto);
        self.durable = upto;
        self.answers.clear();
        (self.journal, self.refused, self.halted) = (Journal::Prompt, None, None);
        let recovered = self.shadow.clone().finish();
        self.node = Node::start(self.durability, self.config.clone(), recovered, self.now);
        invariant::check_all(&self.node).unwrap();
        for dataset in self.state().datasets().values() {
            let definition = &dataset.definition;
            assert!(
                definition.inline.is_some() || self.blobs.contains(&definition.digest),
                "the blob of dataset {} is gone",
                dataset.id
            );
        }
    }

    /// Removes a blob, which no journal that a crash now could leave may name.
    fn forget_blob(&mut self, digest: Digest) {
        assert!(!self.node.names_blob(digest), "{digest} is named");
        let mut possible = Recovery::new();
        for (lsn, record) in (1..).map(Lsn::new).zip(&self.records) {
            possible.apply(lsn, record).unwrap();
            let defines = possible.clone().finish().dispatcher.defines(digest);
            assert!(lsn < self.durable || !defines, "{digest} is named at {lsn}");
        }
        self.blobs.remove(&digest);
    }

    /// Kills the process and starts it with nothing.
    pub(crate) fn restart_empty(&mut self) {
        let now = self.now;
        *self = Self::start(self.config.clone(), self.durability);
        self.now = now;
    }

    pub(crate) fn state(&self) -> &State {
        self.node.dispatcher().state()
    }

    /// Every record the journal holds.
    pub(crate) fn into_journal(self) -> Vec<Record> {
        self.records
    }

    pub(crate) const fn durable(&self) -> Lsn {
        self.durable
    }

    /// Positions from which a crash now could leave the journal, oldest first.
    pub(crate) fn crash_points(&self) -> Vec<Lsn> {
        let written = self.written_upto();
        let possible = self.steps.iter().copied();
        possible.filter(|step| *step >= self.durable && *step <= written).collect()
    }

    /// The last record the journal has taken.
    pub(crate) fn written_upto(&self) -> Lsn {
        match self.refused {
            Some(from) => Lsn::new(from.get() - 1),
            None => Lsn::new(self.records.len() as u64),
        }
    }

    #[track_caller]
    fn step(&mut self, input: Input) {
        let call = match &input {
            Input::Request { call, .. } => Some(*call),
            _ => None,
        };
        let before = self.records.len();
        let mut effects = std::mem::take(&mut self.effects);
        self.node.step(self.now, input, &mut effects);
        let performed: Vec<Effect> = effects.drain().collect();
        self.effects = effects;
        self.note_written(call, &performed);
        let wants_sync = performed.into_iter().filter(|effect| !self.perform(effect.clone()));
        let wants_sync = wants_sync.count() > 0;
        self.check();
        if self.records.len() > before {
            self.steps.push(self.node.last());
            self.after_append(before);
        }
        if wants_sync && self.journal == Journal::Prompt && self.halted.is_none() {
            self.sync();
        }
    }

    fn note_written(&mut self, call: Option<CallId>, effects: &[Effect]) {
        let last = effects.iter().rev().find_map(|effect| match effect {
            Effect::Append { lsn, .. } => Some(*lsn),
            _ => None,
        });
        if let (Some(call), Some(lsn)) = (call, last) {
            self.written.insert(call, lsn);
        }
    }

    /// Carries one effect out; false for the wish to sync.
    fn perform(&mut self, effect: Effect) -> bool {
        match effect {
            Effect::Append { lsn, record } => self.append(lsn, record),
            Effect::Sync { upto } => {
                assert_eq!(upto, self.node.last(), "a sync of something else than everything");
                return false;
            }
            Effect::RetryAppend => self.retries += 1,
            Effect::Reply { call, result } => self.answer(call, result),
            Effect::Push { task } => self.pushes.push(task),
            Effect::ForgetBlob { digest } => self.forget_blob(digest),
            Effect::Observe(control::Event::Dispatcher(event)) => self.events.push(event),
            Effect::Observe(other) => panic!("{other:?}"),
            Effect::Halt { reason } => self.halted = Some(reason),
        }
        true
    }

    fn append(&mut self, lsn: Lsn, record: Record) {
        assert_eq!(lsn.get(), self.records.len() as u64 + 1, "a gap in the journal");
        self.shadow.apply(lsn, &record).unwrap();
        self.records.push(record);
    }

    fn after_append(&mut self, before: usize) {
        if self.journal == Journal::Full && self.refused.is_none() {
            let from = Lsn::new(before as u64 + 1);
            self.refused = Some(from);
            self.step(Input::AppendRefused { from, reason: "no space left".into() });
        }
    }

    fn answer(&mut self, call: CallId, answer: Released) {
        let answer = answer.map(of_dispatcher);
        if let (Ok(reply), Some(lsn)) = (&answer, self.written.get(&call))
            && self.durability == Durability::Journal
        {
            assert!(
                *lsn <= self.durable,
                "{reply:?} is acknowledged before record {lsn} is durable"
            );
        }
        let halted = matches!(self.node.health(), Health::Halted(_));
        assert!(!halted || answer.is_err(), "a halted node answered {answer:?}");
        assert!(self.answers.insert(call, answer).is_none(), "call {call} is answered twice");
    }

    fn check(&self) {
        invariant::check_all(&self.node).unwrap_or_else(|violation| panic!("{violation}"));
        if self.durability == Durability::Journal {
            let replayed = self.shadow.clone().finish();
            assert_eq!(replayed.dispatcher, *self.state(), "replay is not live");
        }
    }

    /// Whether the node wants to be woken for this, and when.
    pub(crate) fn deadline_of(&self, timer: Timer) -> Option<Time> {
        let deadline = self.node.deadline();
        deadline.filter(|(_, of)| *of == timer).map(|(at, _)| at)
    }
}

type Released = Result<control::Reply, Status>;

/// Replays records, going through a snapshot after the first `snapshot_at` of them.
fn replay(records: &[Record], snapshot_at: usize) -> Recovery {
    let mut recovery = Recovery::new();
    for (at, record) in records.iter().enumerate() {
        if at == snapshot_at {
            recovery = through_snapshot(&recovery);
        }
        recovery.apply(Lsn::new(at as u64 + 1), record).unwrap();
    }
    recovery
}

fn through_snapshot(of: &Recovery) -> Recovery {
    let mut restored = Recovery::new();
    for part in of.parts() {
        restored.restore(part).unwrap();
    }
    restored.restored_upto(of.applied());
    restored
}

/// What a node started from a state that no history leads to answers. Nothing is checked.
pub(crate) fn answer_of(durability: Durability, recovered: Recovered, request: Request) -> Answer {
    let now = Time::from_millis(1_000_000);
    let mut node = Node::start(durability, Config::default(), recovered, now);
    let mut effects = Effects::new();
    let call = CallId::new(1);
    let request = control::Request::Dispatcher(request);
    node.step(now, Input::Request { call, request, entropy: 0 }, &mut effects);
    let answers = effects.drain().filter_map(|effect| match effect {
        Effect::Reply { result, .. } => Some(result),
        _ => None,
    });
    let answer = answers.last().expect("an answer");
    answer.map(of_dispatcher)
}

/// What the driver's node answers to a request made once more than `times`, after that many of
/// them were parked. Nothing is checked in between.
pub(crate) fn parked(driver: &Driver, request: Request, times: usize) -> Answer {
    let mut node = driver.node.clone();
    let mut effects = Effects::new();
    for call in (1_000_000..).take(times + 1).map(CallId::new) {
        assert!(effects.is_empty(), "a call was not parked");
        let request = control::Request::Dispatcher(request.clone());
        node.step(driver.now, Input::Request { call, request, entropy: 0 }, &mut effects);
    }
    match effects.drain().next() {
        Some(Effect::Reply { result, .. }) => result.map(of_dispatcher),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn of_dispatcher(reply: control::Reply) -> Reply {
    match reply {
        control::Reply::Dispatcher(reply) => reply,
        other => panic!("{other:?}"),
    }
}

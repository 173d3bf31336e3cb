//! Drives one node as a runtime would, for the coordination service: gives it requests, keeps what
//! it writes, makes it durable at once or on demand, collects what it answers, and restarts it from
//! what was durable.
//!
//! After every step it checks all invariants, that replaying the journal gives the live state, and
//! that no change is acknowledged before its records are durable.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::control::{
    self, Config, Durability, Effect, Effects, Event, Input, Node, Part, Record, Recovered,
    Recovery,
};
use rondo_core::coordination::{self, NamespaceConfig, Reply, Request};
use rondo_core::ids::{CallId, Digest, Lsn};
use rondo_core::invariant;
use rondo_core::memory::Memory;
use rondo_core::status::Status;
use rondo_core::time::{Duration, Time};

pub(crate) type Answer = Result<Reply, Status>;

pub(crate) struct Driver {
    pub(crate) node: Node,
    pub(crate) now: Time,
    /// Whether what is written becomes durable at once.
    pub(crate) prompt: bool,
    /// How often the node asked for a sync.
    pub(crate) syncs_asked: usize,
    /// Whether the journal takes records.
    pub(crate) full: bool,
    pub(crate) events: Vec<coordination::Event>,
    pub(crate) forgotten_blobs: BTreeSet<Digest>,
    pub(crate) halted: Option<String>,
    config: Config,
    records: Vec<Record>,
    shadow: Recovery,
    /// Positions at which a step ended: a crash keeps or loses whole steps.
    steps: Vec<Lsn>,
    durable: Lsn,
    refused: Option<Lsn>,
    written: BTreeMap<CallId, Lsn>,
    answers: BTreeMap<CallId, Answer>,
    next_call: u64,
}

pub(crate) fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

impl Driver {
    /// One namespace of this many tasks, with short timeouts.
    pub(crate) fn of(tasks: u32) -> Self {
        Self::with(settings(tasks))
    }

    pub(crate) fn recoverable(tasks: u32) -> Self {
        Self::with(NamespaceConfig { recoverable: true, ..settings(tasks) })
    }

    pub(crate) fn with(settings: NamespaceConfig) -> Self {
        Self::serving(vec![settings])
    }

    pub(crate) fn serving(namespaces: Vec<NamespaceConfig>) -> Self {
        let coordination = coordination::Config { namespaces };
        let config = Config { coordination, ..Config::default() };
        let now = Time::from_millis(1_000_000);
        let (recovered, durability) = (Recovered::default(), Durability::Journal);
        Self {
            node: Node::start(durability, config.clone(), recovered, now),
            now,
            prompt: true,
            syncs_asked: 0,
            full: false,
            events: Vec::new(),
            forgotten_blobs: BTreeSet::new(),
            halted: None,
            config,
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

    /// Asks, and leaves the answer for [`Driver::take`].
    #[track_caller]
    pub(crate) fn send(&mut self, request: Request) -> CallId {
        let call = CallId::new(self.next_call);
        self.next_call += 1;
        let entropy = call.get().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let request = control::Request::Coordination(request);
        self.step(Input::Request { call, request, entropy });
        call
    }

    /// Asks, and expects an answer at once.
    #[track_caller]
    pub(crate) fn ask(&mut self, request: Request) -> Answer {
        let call = self.send(request);
        self.take(call).expect("the call waits")
    }

    /// The process has so much memory left from now on.
    #[track_caller]
    pub(crate) fn learn(&mut self, memory: Memory) {
        self.step(Input::Memory(memory));
    }

    /// The answer to a call, if there is one by now.
    pub(crate) fn take(&mut self, call: CallId) -> Option<Answer> {
        self.answers.remove(&call)
    }

    /// All answers not taken yet.
    pub(crate) fn take_all(&mut self) -> BTreeMap<CallId, Answer> {
        std::mem::take(&mut self.answers)
    }

    pub(crate) fn is_waiting(&self, call: CallId) -> bool {
        !self.answers.contains_key(&call)
    }

    #[track_caller]
    pub(crate) fn cancel(&mut self, call: CallId) {
        self.step(Input::Cancel { call });
    }

    #[track_caller]
    pub(crate) fn tick(&mut self) {
        self.step(Input::Tick);
    }

    /// Lets time pass and ticks as often as the node wants.
    #[track_caller]
    pub(crate) fn advance(&mut self, span: Duration) {
        let until = self.now.after(span);
        for _ in 0..10_000 {
            let Some((at, _)) = self.node.deadline().filter(|(at, _)| *at <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(at);
            self.step(Input::Tick);
        }
        panic!("ticks without end: {:?} at {:?}", self.node.deadline(), self.now);
    }

    /// Lets time pass while the node is held up: it is neither asked nor woken.
    pub(crate) fn hold_up(&mut self, span: Duration) {
        self.now = self.now.after(span);
    }

    /// The first namespace.
    pub(crate) fn namespace(&self) -> &coordination::Namespace {
        self.node.coordination().state().namespaces().values().next().unwrap()
    }

    /// The records that are left in the end.
    pub(crate) fn into_journal(self) -> Vec<Record> {
        self.records
    }

    /// Makes everything written durable.
    #[track_caller]
    pub(crate) fn sync(&mut self) {
        let upto = self.written_upto();
        self.durable = self.durable.max(upto);
        self.step(Input::Synced { upto });
    }

    /// The journal has room again.
    #[track_caller]
    pub(crate) fn make_room(&mut self) {
        assert!(self.refused.is_some(), "nothing was refused");
        (self.full, self.refused) = (false, None);
        self.step(Input::AppendAccepted);
    }

    /// Kills the process and starts it from what is durable.
    #[track_caller]
    pub(crate) fn restart(&mut self) {
        self.restart_from(self.durable);
    }

    /// Kills the process and starts it from what is durable, with other settings.
    #[track_caller]
    pub(crate) fn restart_with(&mut self, settings: NamespaceConfig) {
        self.config.coordination.namespaces = vec![settings];
        self.restart();
    }

    /// Kills the process and starts it from the records up to `upto`.
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
        (self.full, self.refused, self.halted) = (false, None, None);
        let recovered = self.shadow.clone().finish();
        self.node = Node::start(Durability::Journal, self.config.clone(), recovered, self.now);
        invariant::check_all(&self.node).unwrap();
    }

    /// Positions from which a crash now could leave the journal, oldest first.
    pub(crate) fn crash_points(&self) -> Vec<Lsn> {
        let written = self.written_upto();
        let possible = self.steps.iter().copied();
        possible.filter(|step| *step >= self.durable && *step <= written).collect()
    }

    fn written_upto(&self) -> Lsn {
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
        let mut effects = Effects::new();
        self.node.step(self.now, input, &mut effects);
        let effects: Vec<Effect> = effects.drain().collect();
        let last = effects.iter().rev().find_map(|effect| match effect {
            Effect::Append { lsn, .. } => Some(*lsn),
            _ => None,
        });
        if let (Some(call), Some(lsn)) = (call, last) {
            self.written.insert(call, lsn);
        }
        let mut wants_sync = false;
        for effect in effects {
            if matches!(effect, Effect::Sync { .. }) {
                wants_sync = true;
                self.syncs_asked += 1;
            }
            self.perform(effect);
        }
        self.check();
        if self.records.len() > before {
            self.steps.push(self.node.last());
            if self.full && self.refused.is_none() {
                let from = Lsn::new(before as u64 + 1);
                self.refused = Some(from);
                self.step(Input::AppendRefused { from, reason: "no space left".into() });
            }
        }
        if wants_sync && self.prompt && self.halted.is_none() && self.refused.is_none() {
            self.sync();
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Append { lsn, record } => {
                assert_eq!(lsn.get(), self.records.len() as u64 + 1, "a gap in the journal");
                self.shadow.apply(lsn, &record).unwrap();
                self.records.push(record);
            }
            Effect::Reply { call, result } => self.answer(call, result),
            Effect::ForgetBlob { digest } => {
                assert!(!self.node.names_blob(digest), "{digest} is named");
                self.forgotten_blobs.insert(digest);
            }
            Effect::Observe(Event::Coordination(event)) => self.events.push(event),
            Effect::Observe(Event::Dispatcher(event)) => panic!("{event:?}"),
            Effect::Halt { reason } => self.halted = Some(reason),
            Effect::Sync { .. } | Effect::RetryAppend | Effect::Push { .. } => {}
        }
    }

    fn answer(&mut self, call: CallId, result: Result<control::Reply, Status>) {
        let answer = result.map(|reply| match reply {
            control::Reply::Coordination(reply) => reply,
            other @ control::Reply::Dispatcher(_) => panic!("{other:?}"),
        });
        if let (Ok(reply), Some(lsn)) = (&answer, self.written.get(&call)) {
            assert!(*lsn <= self.durable, "{reply:?} is acknowledged before {lsn} is durable");
        }
        let before = self.answers.insert(call, answer);
        assert_eq!(before, None, "call {call} is answered twice");
    }

    fn check(&self) {
        assert_eq!(self.halted, None, "the node halts");
        invariant::check_all(&self.node).unwrap();
        assert_eq!(self.shadow.clone().finish(), self.node.recovered(), "replay differs from live");
    }
}

/// Short timeouts, and nothing learnt.
pub(crate) fn settings(tasks: u32) -> NamespaceConfig {
    NamespaceConfig {
        tasks: Some(tasks),
        heartbeat_timeout: seconds(10),
        register_timeout: seconds(60),
        shutdown_timeout: seconds(30),
        ..NamespaceConfig::named("default")
    }
}

/// What the first `snapshot_at` records build, taken through a snapshot, and then the others.
pub(crate) fn replay(records: &[Record], snapshot_at: usize) -> Recovery {
    let mut recovery = Recovery::new();
    for (index, record) in records.iter().enumerate() {
        if index == snapshot_at {
            recovery = through_parts(&recovery);
        }
        recovery.apply(Lsn::new(index as u64 + 1), record).unwrap();
    }
    recovery
}

fn through_parts(recovery: &Recovery) -> Recovery {
    let parts: Vec<Part> = recovery.parts();
    let mut restored = Recovery::new();
    for part in parts {
        restored.restore(part).unwrap();
    }
    restored.restored_upto(recovery.applied());
    assert_eq!(restored, *recovery, "parts leave something out");
    restored
}

impl Driver {
    /// A request after which nothing is checked, for those that come by the thousand.
    pub(crate) fn node_only(&mut self, request: Request) {
        let call = CallId::new(self.next_call);
        self.next_call += 1;
        let mut effects = Effects::new();
        let request = control::Request::Coordination(request);
        self.node.step(self.now, Input::Request { call, request, entropy: 1 }, &mut effects);
        let effects: Vec<Effect> = effects.drain().collect();
        effects.into_iter().for_each(|effect| self.perform(effect));
        let upto = self.node.last();
        if upto > self.durable {
            self.steps.push(upto);
            self.durable = upto;
            let mut effects = Effects::new();
            self.node.step(self.now, Input::Synced { upto }, &mut effects);
            let effects: Vec<Effect> = effects.drain().collect();
            effects.into_iter().for_each(|effect| self.perform(effect));
        }
    }

    /// Asks with this random number.
    #[track_caller]
    pub(crate) fn tell_with_entropy(
        &mut self,
        method: coordination::Method,
        entropy: u64,
    ) -> Answer {
        let call = CallId::new(self.next_call);
        self.next_call += 1;
        let request = control::Request::Coordination(crate::world::of(method));
        self.step(Input::Request { call, request, entropy });
        self.take(call).expect("the call waits")
    }
}

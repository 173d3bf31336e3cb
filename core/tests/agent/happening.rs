//! Events in the life of an agent, and the promises that it keeps through all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::agent::{
    Agent, Ask, Config, Effect, Input, KeyChange, Reply, Request, RpcId, State,
};
use rondo_core::ids::{CallId, Incarnation, Revision, ServiceIncarnation, TaskIndex};
use rondo_core::status::{Code, Detail, Status};
use rondo_core::time::{Duration, Time};

/// Spans between what happens, in milliseconds: around a lost heartbeat's pause, the grace of a heartbeat
/// that failed, a heartbeat's period, the time for registering and leaving.
pub(crate) const WAITS_MS: [u64; 8] = [1, 99, 100, 999, 1_000, 5_000, 20_000, 60_000];
const REGISTER: Duration = Duration::from_secs(30);
const SHUTDOWN: Duration = Duration::from_secs(40);
/// How much longer than the service an agent waits for it.
const GRACE: Duration = Duration::from_secs(5);
/// How long an agent goes on after a heartbeat that failed.
const FAILING: Duration = Duration::from_secs(1);

/// The way in which a call to the server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Answers it well.
    Well,
    /// Answers it as another life of the namespace.
    OtherLife,
    /// Refuses it; the service says so.
    Refused,
    /// The connection breaks.
    Broken,
    /// Answers with what no such call is answered with.
    Nonsense,
}

/// An event in the life of an agent.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// The agent learns who it is: the same run of the process as before, or another one.
    Initialize { anew: bool },
    /// The application asks.
    Ask(Ask),
    /// The application gives up one of its calls.
    Cancel(usize),
    /// One of the calls to the server ends.
    Answer(usize, How),
    /// Time passes, in milliseconds.
    Wait(u64),
}

/// How often a run of the process beats, in milliseconds: each run at a pace of its own.
const fn heartbeat_ms(incarnation: u64) -> u64 {
    10_000 + incarnation
}

/// An application's call.
struct Waiting {
    ask: Ask,
    /// The life in which it was asked, if the agent took part.
    life: Option<ServiceIncarnation>,
    /// When it must have ended.
    due: Time,
}

/// An agent, its application and its server.
struct World {
    agent: Agent,
    now: Time,
    calls: u64,
    last_rpc: u64,
    incarnation: u64,
    life: u64,
    revision: u64,
    waiting: BTreeMap<CallId, Waiting>,
    /// Calls to the server under way, and when each takes too long.
    rpcs: BTreeMap<RpcId, (Request, Time)>,
    passed: BTreeSet<(u64, ServiceIncarnation, Arc<str>, i64)>,
    /// Since when no heartbeat was answered well, if one has failed.
    failing: Option<Time>,
    /// Errors told since the agent was not in error.
    told: u32,
    /// Up to which revision each key's watcher knows all.
    known: BTreeMap<Arc<str>, Revision>,
}

/// Lives a history, and then all that it needs to come to rest.
pub(crate) fn live(history: &[Happening]) {
    let mut world = World {
        agent: Agent::new(),
        now: Time::from_millis(5_000),
        calls: 0,
        last_rpc: 0,
        incarnation: 0,
        life: 70,
        revision: 0,
        waiting: BTreeMap::new(),
        rpcs: BTreeMap::new(),
        passed: BTreeSet::new(),
        failing: None,
        told: 0,
        known: BTreeMap::new(),
    };
    for happening in history {
        world.happens(happening);
    }
    world.rest();
}

impl World {
    fn happens(&mut self, happening: &Happening) {
        match happening {
            Happening::Initialize { anew } => self.initialize(*anew),
            Happening::Ask(ask) => self.ask(ask.clone()),
            Happening::Cancel(which) => {
                if let Some(call) = nth(self.waiting.keys(), *which) {
                    self.waiting.remove(&call);
                    self.step(Input::Cancel { call });
                }
            }
            Happening::Answer(which, how) => {
                if let Some(rpc) = nth(self.rpcs.keys(), *which) {
                    self.answer(rpc, *how);
                }
            }
            Happening::Wait(ms) => self.wait(Duration::from_millis(*ms)),
        }
    }

    fn initialize(&mut self, anew: bool) {
        let is_taken = matches!(self.agent.state(), State::Uninitialized | State::Disconnected)
            && !self.agent.is_connecting();
        // No run has the incarnation of a former one.
        let incarnation = self.incarnation + u64::from(anew || self.incarnation == 0);
        if is_taken {
            self.incarnation = incarnation;
        }
        let config = Config {
            register_timeout: REGISTER,
            heartbeat_timeout: Duration::from_millis(2 * heartbeat_ms(incarnation)),
            shutdown_timeout: SHUTDOWN,
            ..Config::of("job", TaskIndex::new(1), Incarnation::new(incarnation))
        };
        self.step(Input::Initialize { config });
    }

    fn ask(&mut self, ask: Ask) {
        self.calls += 1;
        let call = CallId::new(self.calls);
        let within = match ask {
            Ask::Connect => Some(REGISTER),
            Ask::Shutdown => Some(SHUTDOWN),
            _ => None,
        };
        let due = within.map_or(Time::NEVER, |within| self.now.after(within).after(GRACE));
        let life = self.agent.life().filter(|_| self.agent.state() == State::Running);
        if let Ask::StopWatch { key } = &ask {
            self.known.remove(key);
        }
        self.waiting.insert(call, Waiting { ask: ask.clone(), life, due });
        self.step(Input::Asked { call, ask });
    }

    fn answer(&mut self, rpc: RpcId, how: How) {
        let (request, _) = self.rpcs.remove(&rpc).unwrap();
        if how == How::OtherLife {
            self.life += 1;
        }
        let result = match how {
            How::Well | How::OtherLife => Ok(self.reply(&request)),
            How::Refused => Err(Status::new(Code::InvalidArgument, "no").with([Detail::SERVICE])),
            How::Broken => Err(Status::new(Code::Unavailable, "connection reset")),
            How::Nonsense => Ok(Reply::Alive(Vec::new())),
        };
        self.answered(rpc, &request, result);
    }

    fn answered(&mut self, rpc: RpcId, request: &Request, result: Result<Reply, Status>) {
        let was_running = self.agent.state() == State::Running;
        if *request == Request::Heartbeat && was_running {
            match &result {
                Ok(_) => self.failing = None,
                Err(_) => drop(self.failing.get_or_insert(self.now)),
            }
        }
        if let (Request::Watch { key, .. }, Ok(Reply::Changes { upto, .. })) = (request, &result) {
            self.known.insert(key.clone(), *upto);
        }
        self.step(Input::Answered { rpc, result, entropy: rpc.0 });
    }

    fn reply(&mut self, request: &Request) -> Reply {
        match request {
            Request::Register | Request::Heartbeat => {
                Reply::Life(ServiceIncarnation::new(self.life))
            }
            Request::WaitForAllTasks { devices } => Reply::Devices(devices.clone()),
            Request::Barrier { counter, .. } => Reply::Barrier { counter: *counter },
            Request::Watch { key, from } => {
                self.revision += 1;
                let revision = Revision::new(self.revision);
                let change = KeyChange {
                    key: key.clone(),
                    revision,
                    value: Some(Bytes::new()),
                    with_all_under: false,
                };
                Reply::Changes { whole: from.is_none(), changes: vec![change], upto: revision }
            }
            Request::Get { .. } => Reply::Value(Bytes::new()),
            _ => Reply::Done,
        }
    }

    /// Lets time pass: calls take too long, and the agent is woken whenever it wants to be.
    fn wait(&mut self, span: Duration) {
        let until = self.now.after(span);
        loop {
            let late = self.rpcs.iter().min_by_key(|(_, (_, due))| *due);
            let late = late.map(|(rpc, (_, due))| (*due, *rpc)).filter(|(due, _)| *due <= until);
            let wake = self.agent.deadline().map(|(at, _)| at).filter(|at| *at <= until);
            match (late, wake) {
                (Some((due, rpc)), wake) if wake.is_none_or(|at| due <= at) => {
                    self.now = self.now.max(due);
                    let (request, _) = self.rpcs.remove(&rpc).unwrap();
                    let status = Status::new(Code::DeadlineExceeded, "too long");
                    self.answered(rpc, &request, Err(status));
                }
                (_, Some(at)) => {
                    self.now = self.now.max(at);
                    self.step(Input::Tick);
                    let next = self.agent.deadline().map(|(at, _)| at);
                    assert!(next.is_none_or(|at| at > self.now), "a tick that is due does nothing");
                }
                (_, None) => break,
            }
        }
        self.now = until;
        self.look();
    }

    fn step(&mut self, input: Input) {
        let mut out = Vec::new();
        self.agent.step(self.now, input, &mut out);
        for effect in out {
            match effect {
                Effect::Send { rpc, request, deadline } => self.sent(rpc, request, deadline),
                Effect::Withdraw { rpc } => {
                    assert!(self.rpcs.remove(&rpc).is_some(), "{rpc:?} is not under way");
                }
                Effect::Done { call, result } => self.done(call, result),
                Effect::Failed { .. } => self.told += 1,
                Effect::Changed { .. } => {}
                Effect::WatchEnded { key, .. } => drop(self.known.remove(&key)),
            }
        }
        self.look();
    }

    fn sent(&mut self, rpc: RpcId, request: Request, deadline: Option<Duration>) {
        assert!(rpc.0 > self.last_rpc, "{rpc:?} is used again");
        self.last_rpc = rpc.0;
        if let Request::Watch { key, from } = &request {
            let known = self.known.get(key).copied();
            assert!(from.is_none() || *from == known, "{key} is known up to {known:?}: {from:?}");
        }
        if request == Request::Heartbeat {
            let own = Duration::from_millis(heartbeat_ms(self.incarnation));
            assert_eq!(deadline, Some(own), "it beats as another run than it registered as");
        }
        let due = deadline.map_or(Time::NEVER, |span| self.now.after(span));
        self.rpcs.insert(rpc, (request, due));
    }

    fn done(&mut self, call: CallId, result: Result<Reply, Status>) {
        let waiting = self.waiting.remove(&call);
        let waiting = waiting.unwrap_or_else(|| panic!("{call} is answered, and does not wait"));
        match (&waiting.ask, waiting.life, result) {
            (Ask::Connect, _, Ok(Reply::Life(_))) => self.failing = None,
            (Ask::Shutdown, Some(_), Ok(_)) => self.look_at_who_left(),
            (Ask::Barrier { id, .. }, Some(life), Ok(Reply::Barrier { counter })) => {
                let instance = (self.incarnation, life, id.clone(), counter);
                assert!(self.passed.insert(instance), "{id}::{counter} is passed twice");
            }
            _ => {}
        }
    }

    /// Checks the promises that hold after each step.
    fn look(&mut self) {
        let state = self.agent.state();
        assert_eq!(self.agent.error().is_some(), state == State::Error);
        assert!(!self.agent.is_connecting() || state == State::Disconnected, "{state:?} registers");
        match state {
            State::Error => assert_eq!(self.told, 1, "an error is told once"),
            _ => self.told = 0,
        }
        let count = |of: &Request| self.rpcs.values().filter(|(request, _)| request == of).count();
        assert!(count(&Request::Register) <= usize::from(self.agent.is_connecting()));
        assert!(count(&Request::PollForError) <= usize::from(state == State::Running));
        if state != State::Running {
            assert_eq!(count(&Request::Heartbeat), 0, "{state:?} beats");
            self.failing = None;
        } else {
            assert!(self.agent.life().is_some() && self.agent.deadline().is_some());
        }
        let ends = self.failing.map_or(Time::NEVER, |since| since.after(FAILING));
        assert!(self.now <= ends, "no heartbeat was answered, and the agent goes on");
        for Waiting { ask, due, .. } in self.waiting.values() {
            assert!(self.now <= *due, "{ask:?} should have ended");
        }
    }

    /// Who has left waits for nothing at the server.
    fn look_at_who_left(&self) {
        let waits = |request: &Request| {
            matches!(request, Request::Watch { .. } | Request::Get { .. } | Request::Barrier { .. })
        };
        let waiting: Vec<&Request> =
            self.rpcs.values().map(|(request, _)| request).filter(|it| waits(it)).collect();
        assert!(waiting.is_empty(), "it has left, and these wait: {waiting:?}");
    }

    /// Answers everything that waits: then nobody of the application waits.
    fn rest(&mut self) {
        for _ in 0..1_000 {
            let ends = |(_, (request, _)): &(&RpcId, &(Request, Time))| match request {
                Request::Heartbeat | Request::PollForError => false,
                Request::Watch { key, .. } => !self.known.contains_key(key),
                _ => true,
            };
            match self.rpcs.iter().find(ends).map(|(rpc, _)| *rpc) {
                Some(rpc) => self.answer(rpc, How::Well),
                None if self.waiting.is_empty() => return,
                // Something is tried again later.
                None => self.wait(Duration::from_millis(100)),
            }
        }
        let waiting: Vec<&Ask> = self.waiting.values().map(|waiting| &waiting.ask).collect();
        panic!("these wait for ever: {waiting:?}");
    }
}

fn nth<'a, T: Copy + 'a>(mut of: impl ExactSizeIterator<Item = &'a T>, which: usize) -> Option<T> {
    let count = of.len();
    (count > 0).then(|| *of.nth(which % count).unwrap())
}

//! A task whose process has the core's agent: its application connects, meets the others at barriers,
//! sets errors, resets and shuts down, in every order, and the agent calls the service for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::agent::{Agent, Ask, Config, Effect, Input, Reply as Told, Request, RpcId, State};
use rondo_core::coordination::{Call, Caller, Condition, Dialect, Method, Reply, TaskName, Value};
use rondo_core::ids::{CallId, Incarnation, TaskIndex};
use rondo_core::status::{Code, Status};
use rondo_core::time::Time;

use super::task::ms;
use super::{namespace_of, some_barrier};
use crate::mark::Mark;
use crate::swarm::NamespaceShape;
use crate::workload::actor::{Act, Actor, Happening, Role, With};
use crate::workload::agents::{AppCall, OfAgent};
use crate::workload::outstanding::Outstanding;

/// Calls of an application that wait at once.
const CALLS_MAX: usize = 3;

/// A task with an agent.
#[derive(Clone, Debug)]
pub struct AgentTask {
    index: u32,
    number: u32,
    shape: NamespaceShape,
    namespace: Arc<str>,
    relay: Option<u32>,
    dialect: Dialect,
    /// Counts its processes.
    run: u64,
    agent: Agent,
    /// Calls to the service under way.
    rpcs: Outstanding<RpcId>,
    beats: BTreeSet<RpcId>,
    /// Calls of the application under way.
    calls: BTreeMap<CallId, AppCall>,
    next_call: u64,
    begins_at: Option<Time>,
    act_at: Time,
}

impl AgentTask {
    /// The task of this index in a job; its number is its own among all tasks.
    pub fn new(job: u32, index: u32, number: u32, shape: &NamespaceShape) -> Self {
        Self {
            index,
            number,
            shape: shape.clone(),
            namespace: namespace_of(job),
            relay: None,
            dialect: Dialect::X,
            run: 0,
            agent: Agent::new(),
            rpcs: Outstanding::new(1),
            beats: BTreeSet::new(),
            calls: BTreeMap::new(),
            next_call: 1,
            begins_at: Some(Time::ZERO),
            act_at: Time::NEVER,
        }
    }

    /// The same, talking to a relay if there is one for it.
    pub fn behind(self, relay: Option<u32>) -> Self {
        Self { relay, ..self }
    }

    fn task(&self) -> TaskIndex {
        TaskIndex::new(i32::try_from(self.index).unwrap_or(0))
    }

    fn incarnation(&self) -> Incarnation {
        Incarnation::new(u64::from(self.number).saturating_mul(1000).saturating_add(self.run))
    }

    fn config(&self, polls_for_errors: bool) -> Config {
        Config {
            recoverable: self.shape.recoverable,
            register_timeout: ms(self.shape.register_ms),
            heartbeat_timeout: ms(self.shape.heartbeat_ms),
            shutdown_timeout: ms(self.shape.shutdown_ms),
            polls_for_errors,
            ..Config::of("jax_worker", self.task(), self.incarnation())
        }
    }

    /// Another process begins.
    fn begin(&mut self, now: Time, with: &mut With<'_>) {
        self.run = self.run.saturating_add(1);
        let dialects = [Dialect::X, Dialect::Rondo];
        self.dialect = with.stream.pick(&dialects).copied().unwrap_or_default();
        (self.begins_at, self.act_at) = (None, now);
        self.agent = Agent::new();
        let config = self.config(with.stream.chance(500));
        let (register, shutdown) = (config.register_timeout, config.shutdown_timeout);
        with.acts.push(Act::Agent(OfAgent::Began { register, shutdown }));
        self.step(now, Input::Initialize { config }, with);
    }

    /// The process is gone, and another one is started after a while.
    fn end(&mut self, now: Time, with: &mut With<'_>) {
        self.rpcs.give_up_overdue(Time::NEVER, with.acts);
        with.acts.push(Act::End);
        self.rpcs.clear();
        self.beats.clear();
        self.calls.clear();
        self.act_at = Time::NEVER;
        self.begins_at = Some(now.after(ms(100 + with.stream.exponential(800))));
    }

    fn step(&mut self, now: Time, input: Input, with: &mut With<'_>) {
        let mut out = Vec::new();
        self.agent.step(now, input, &mut out);
        for effect in out {
            self.perform(now, effect, with);
        }
    }

    fn perform(&mut self, now: Time, effect: Effect, with: &mut With<'_>) {
        match effect {
            Effect::Send { rpc, request, deadline } => {
                if request == Request::Heartbeat {
                    self.beats.insert(rpc);
                }
                let until = deadline.map_or(Time::NEVER, |deadline| now.after(deadline));
                let token = self.rpcs.add(until, rpc);
                let caller = Caller {
                    dialect: self.dialect,
                    life: self.agent.life(),
                    task: Some(self.task()),
                    incarnation: Some(self.incarnation()),
                    ..Caller::default()
                };
                let method = self.method(request);
                let call = Call { namespace: self.namespace.clone(), caller, method };
                with.acts.push(Act::Coordinate { token, call: Box::new(call) });
            }
            Effect::Withdraw { rpc } => {
                self.beats.remove(&rpc);
                if let Some(token) = self.rpcs.take_one(|of| *of == rpc) {
                    with.acts.push(Act::GiveUp { token });
                }
            }
            Effect::Done { call, result } => {
                self.calls.remove(&call);
                with.acts.push(Act::Agent(OfAgent::Done { call, result }));
            }
            Effect::Failed { .. } => with.acts.push(Act::Agent(OfAgent::Failed)),
            Effect::Changed { .. } | Effect::WatchEnded { .. } => {}
        }
    }

    fn method(&self, request: Request) -> Method {
        let name = TaskName { index: self.task(), job: None };
        let incarnation = self.incarnation();
        match request {
            Request::Register => Method::RegisterTask {
                task: name,
                incarnation,
                recoverable: self.shape.recoverable,
                tasks: self.shape.said.then_some(self.shape.tasks),
            },
            Request::Heartbeat => Method::Heartbeat { task: name, incarnation },
            Request::PollForError => Method::PollForError { task: name },
            Request::ReportError { message, .. } => {
                Method::ReportErrorToService { task: name, code: 13, message }
            }
            Request::Reset => Method::ResetTask { task: name },
            Request::Shutdown => Method::ShutdownTask { task: name },
            Request::Barrier { id, counter, timeout, tasks } => {
                let tasks = tasks.iter().map(|task| TaskName::of(task.get())).collect();
                let timeout_ms = i64::try_from(timeout.as_millis()).unwrap_or(0);
                Method::Barrier { id, counter, timeout_ms, tasks, source: name }
            }
            Request::CancelBarrier { id, counter } => Method::CancelBarrier { id, counter },
            Request::Get { key } => Method::GetKeyValue { key },
            Request::Put { key, value, .. } => {
                let (value, condition) = (Value::Inline(value), Condition::Always);
                Method::PutKeyValue { key, value, condition, lease: None }
            }
            _ => Method::GetTaskState { tasks: vec![name] },
        }
    }

    fn ask(&mut self, now: Time, what: AppCall, ask: Ask, with: &mut With<'_>) {
        let call = CallId::new(self.next_call);
        self.next_call = self.next_call.saturating_add(1);
        self.calls.insert(call, what.clone());
        with.acts.push(Act::Agent(OfAgent::Asked { call, what }));
        self.step(now, Input::Asked { call, ask }, with);
    }

    fn wake(&mut self, now: Time, with: &mut With<'_>) {
        if let Some(at) = self.begins_at {
            if now >= at {
                self.begin(now, with);
            }
            return;
        }
        self.catch_up(now, with);
        if now >= self.act_at {
            let mean = with.swarm.coordination.as_ref().map_or(400, |shape| shape.act_ms);
            self.act_at = now.after(ms(mean / 2 + with.stream.exponential(mean) / 2 + 1));
            self.act(now, with);
        }
        self.look(with);
    }

    /// Does all that is due.
    fn catch_up(&mut self, now: Time, with: &mut With<'_>) {
        loop {
            while let Some((token, rpc)) = self.rpcs.take_overdue(now) {
                with.acts.push(Act::GiveUp { token });
                let late = Status::new(Code::DeadlineExceeded, "no answer in time");
                self.hear(now, rpc, Err(late), with);
            }
            let before = self.agent.deadline();
            if before.is_none_or(|(at, _)| at > now) {
                return;
            }
            self.step(now, Input::Tick, with);
            if self.agent.deadline() == before {
                with.acts.push(Act::Agent(OfAgent::Spins));
                return;
            }
        }
    }

    /// Shows how the agent stands after all that has happened up to now.
    fn look(&self, with: &mut With<'_>) {
        let looks = OfAgent::Looked {
            state: self.agent.state(),
            error: self.agent.error().is_some(),
            connecting: self.agent.is_connecting(),
        };
        with.acts.push(Act::Agent(looks));
    }

    /// The service has answered, or the call to it has failed.
    fn hear(&mut self, now: Time, rpc: RpcId, result: Result<Told, Status>, with: &mut With<'_>) {
        if self.beats.remove(&rpc) {
            let good = result.is_ok();
            with.acts.push(Act::Agent(OfAgent::Beat { good }));
        }
        let entropy = with.stream.below(u64::MAX);
        self.step(now, Input::Answered { rpc, result, entropy }, with);
    }

    /// The application does something, mostly what makes sense.
    fn act(&mut self, now: Time, with: &mut With<'_>) {
        let shape = with.swarm.coordination.as_ref();
        let barriers = shape.map_or(1, |shape| shape.barriers);
        let crowded = self.calls.len() >= CALLS_MAX;
        let chosen = with.stream.below(40);
        if chosen == 0 || (crowded && chosen < 10) {
            return self.cancel(now, with);
        }
        if chosen == 1 {
            return self.set_error(now, with);
        }
        match (self.agent.state(), chosen) {
            (State::Error, 2..4) | (State::Disconnected, 2) => self.end(now, with),
            (State::Error, _) if !crowded => {
                with.tally.mark(Mark::AgentReset);
                self.ask(now, AppCall::Other, Ask::Reset, with);
            }
            (State::Disconnected, _) if !self.agent.is_connecting() => {
                self.ask(now, AppCall::Connect, Ask::Connect, with);
            }
            (State::Running, 2..5) if !with.calm => {
                with.tally.mark(Mark::AgentShutDown);
                self.ask(now, AppCall::Shutdown, Ask::Shutdown, with);
            }
            (State::Running, 5) if !with.calm => {
                let (code, message) = (Code::Internal, format!("task {} found it", self.index));
                self.ask(now, AppCall::Other, Ask::ReportError { code, message }, with);
            }
            (_, 6..30) if !crowded => self.come(now, barriers, with),
            (State::Running, 30..) if !crowded => self.share(now, with),
            _ => {}
        }
    }

    fn come(&mut self, now: Time, barriers: u64, with: &mut With<'_>) {
        let id = some_barrier(barriers, with.stream);
        let all = (0..self.shape.tasks).map(|index| i32::try_from(index).unwrap_or(0));
        let tasks = match with.stream.chance(300) {
            true => all.map(TaskIndex::new).collect(),
            false => Vec::new(),
        };
        let timeout = ms(with.stream.pick(&[4000, 1000, 15_000]).copied().unwrap_or(4000));
        let ask = Ask::Barrier { id: id.clone(), timeout, tasks };
        self.ask(now, AppCall::Barrier(id), ask, with);
    }

    fn share(&mut self, now: Time, with: &mut With<'_>) {
        let number = with.stream.below(3);
        let key = format!("k/{number}");
        let request = match with.stream.chance(500) {
            true => Request::Get { key },
            false => Request::Put {
                key,
                value: Bytes::from(format!("{}.{}", self.number, self.next_call)),
                condition: rondo_core::agent::PutCondition::Always,
                leased: false,
            },
        };
        self.ask(now, AppCall::Other, Ask::Call(request), with);
    }

    fn set_error(&mut self, now: Time, with: &mut With<'_>) {
        if self.agent.is_connecting() {
            with.tally.mark(Mark::AgentErrorWhileConnecting);
        }
        let status = Status::new(Code::Internal, "the application says so");
        self.ask(now, AppCall::Other, Ask::SetError { status }, with);
    }

    fn cancel(&mut self, now: Time, with: &mut With<'_>) {
        let place = with.stream.below(self.calls.len() as u64);
        let place = usize::try_from(place).unwrap_or(0);
        let Some(call) = self.calls.keys().nth(place).copied() else {
            return;
        };
        self.calls.remove(&call);
        with.acts.push(Act::Agent(OfAgent::Cancelled { call }));
        self.step(now, Input::Cancel { call }, with);
    }
}

/// An answer of the service as an agent reads it.
fn read(reply: Reply) -> Told {
    match reply {
        Reply::Registered(life) | Reply::Heartbeat(life) => Told::Life(life),
        Reply::BarrierPassed { counter } => Told::Barrier { counter },
        Reply::Put { revision } => Told::Put(revision),
        Reply::Value { value: Value::Inline(value), .. } => Told::Value(value),
        _ => Told::Done,
    }
}

impl Actor for AgentTask {
    fn role(&self) -> Role {
        Role::Task
    }

    fn happen(&mut self, now: Time, what: Happening, with: &mut With<'_>) {
        match what {
            Happening::Wake => self.wake(now, with),
            Happening::Coordinated { token, answer } => {
                if let Some(rpc) = self.rpcs.take(token) {
                    self.hear(now, rpc, answer.map(read), with);
                    self.catch_up(now, with);
                    self.look(with);
                }
            }
            Happening::Reborn { .. } => self.end(now, with),
            Happening::Answered { .. }
            | Happening::Pushed(_)
            | Happening::Asked { .. }
            | Happening::Told { .. }
            | Happening::Element(_) => {}
        }
    }

    fn wake_at(&self) -> Time {
        if let Some(at) = self.begins_at {
            return at;
        }
        let agent = self.agent.deadline().map_or(Time::NEVER, |(at, _)| at);
        self.act_at.min(agent).min(self.rpcs.deadline())
    }

    fn state(&self) -> String {
        let Self { namespace, index, run, calls, .. } = self;
        let state = self.agent.state();
        format!("{namespace}/{index} in run {run}, {state:?}, waits for {calls:?}")
    }

    fn relay(&self) -> Option<u32> {
        self.relay
    }
}

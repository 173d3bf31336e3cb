//! A task whose process has the core's agent: its application connects, meets the others at barriers,
//! sets errors, resets and shuts down, in every order, and the agent calls the service for it.

mod application;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_core::agent::{Agent, Ask, Config, Effect, Input, Reply as Told, Request, RpcId};
use rondo_core::coordination::{Call, Caller, Dialect};
use rondo_core::ids::{CallId, Incarnation, TaskIndex};
use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};

use self::wire::{LINK_CODES, ended, purpose, read};
use super::namespace_of;
use super::task::ms;
use crate::mark::Mark;
use crate::swarm::{AppShape, NamespaceShape};
use crate::workload::actor::{Act, Actor, Happening, Role, With};
use crate::workload::agents::{AppCall, OfAgent};
use crate::workload::outstanding::Outstanding;

/// A call that is lost fails within so many ms.
const LOST_MS: u64 = 30;

/// A call to the service.
#[derive(Clone, Copy, Debug)]
struct Rpc {
    rpc: RpcId,
    is_beat: bool,
    /// It is lost on its way, and this is the status that the agent is told.
    lost: Option<Code>,
}

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
    rpcs: Outstanding<Rpc>,
    /// Calls of the application under way.
    calls: BTreeMap<CallId, AppCall>,
    next_call: u64,
    /// What the application cancelled last and makes again.
    again: Option<AppCall>,
    /// Whether a heartbeat was lost, and none has succeeded since.
    lost_beat: bool,
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
            calls: BTreeMap::new(),
            next_call: 1,
            again: None,
            lost_beat: false,
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
        self.calls.clear();
        (self.again, self.lost_beat) = (None, false);
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
                self.send(now, rpc, request, deadline, with);
            }
            Effect::Withdraw { rpc } => {
                with.acts.push(Act::Agent(OfAgent::Withdrawn { rpc: rpc.0 }));
                if let Some(token) = self.rpcs.take_one(|of| of.rpc == rpc) {
                    with.acts.push(Act::GiveUp { token });
                }
            }
            Effect::Done { call, result } => {
                self.calls.remove(&call);
                with.acts.push(Act::Agent(OfAgent::Done { call, result }));
            }
            Effect::Failed { .. } => with.acts.push(Act::Agent(OfAgent::Failed)),
            Effect::Changed { key, whole, changes } => {
                with.tally.mark(Mark::AgentToldOfChanges);
                let revisions = changes.iter().map(|change| change.revision).collect();
                with.acts.push(Act::Agent(OfAgent::Changed { key, whole, revisions }));
            }
            Effect::WatchEnded { key, .. } => {
                with.acts.push(Act::Agent(OfAgent::WatchEnded { key }));
            }
        }
    }

    /// The agent calls the service, unless the call is lost on its way.
    fn send(
        &mut self,
        now: Time,
        rpc: RpcId,
        request: Request,
        deadline: Option<Duration>,
        with: &mut With<'_>,
    ) {
        with.acts.push(Act::Agent(OfAgent::Called { rpc: rpc.0, what: purpose(&request) }));
        let is_beat = request == Request::Heartbeat;
        let lost = app_shape(with).filter(|_| !with.calm).and_then(|shape| {
            let often = if is_beat { shape.lost_beats } else { shape.lost };
            with.stream.chance(often).then(|| some_code(with))
        });
        let mut until = deadline.map_or(Time::NEVER, |deadline| now.after(deadline));
        if lost.is_some() {
            with.tally.mark(Mark::AgentCallLost);
            until = until.min(now.after(ms(1 + with.stream.below(LOST_MS))));
        }
        let token = self.rpcs.add(until, Rpc { rpc, is_beat, lost });
        if lost.is_some() {
            return;
        }
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

    fn ask(&mut self, now: Time, what: AppCall, ask: Ask, with: &mut With<'_>) {
        let call = CallId::new(self.next_call);
        self.next_call = self.next_call.saturating_add(1);
        self.calls.insert(call, what.clone());
        let state = self.agent.state();
        with.acts.push(Act::Agent(OfAgent::Asked { call, what, state }));
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
                let status = match rpc.lost {
                    Some(code) => Status::new(code, "the call was lost on its way"),
                    None => Status::new(Code::DeadlineExceeded, "no answer in time"),
                };
                self.hear(now, rpc, Err(status), with);
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
    fn hear(&mut self, now: Time, of: Rpc, result: Result<Told, Status>, with: &mut With<'_>) {
        let Rpc { rpc, is_beat, .. } = of;
        if is_beat {
            let was_lost = std::mem::replace(&mut self.lost_beat, result.is_err());
            if was_lost && result.is_ok() {
                with.tally.mark(Mark::AgentBeatAfterLoss);
            }
        }
        with.acts.push(Act::Agent(OfAgent::Heard { rpc: rpc.0, ended: ended(&result) }));
        let entropy = with.stream.below(u64::MAX);
        self.step(now, Input::Answered { rpc, result, entropy }, with);
    }
}

/// What applications do with their agents, and how calls are lost.
fn app_shape(with: &With<'_>) -> Option<AppShape> {
    with.swarm.coordination.as_ref().and_then(|shape| shape.apps)
}

/// A status that a link breaks with.
fn some_code(with: &mut With<'_>) -> Code {
    with.stream.pick(&LINK_CODES).copied().unwrap_or(Code::Unavailable)
}

/// What an agent is told in place of an answer that is lost on its way back.
fn lost_on_its_way_back(with: &mut With<'_>) -> Option<Status> {
    let often = app_shape(with).filter(|_| !with.calm).map_or(0, |shape| shape.cut_answers);
    if !with.stream.chance(often) {
        return None;
    }
    with.tally.mark(Mark::AgentAnswerLost);
    Some(Status::new(some_code(with), "the answer was lost on its way"))
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
                    let answer = match lost_on_its_way_back(with) {
                        Some(status) => Err(status),
                        None => answer.map(read),
                    };
                    self.hear(now, rpc, answer, with);
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

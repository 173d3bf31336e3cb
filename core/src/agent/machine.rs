//! The agent's machine: takes what happens, and says what to do.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

use super::barriers::Barriers;
use super::calls::Purpose;
use super::config::Config;
use super::connecting::Connecting;
use super::errors;
use super::types::{Ask, Effect, Input, Reply, Request, RpcId, State};
use super::watching::Watch;
use crate::ids::{CallId, ServiceIncarnation};
use crate::status::Status;
use crate::time::{Duration, Time};

/// A task's agent.
#[derive(Clone, Debug)]
pub struct Agent {
    pub(super) state: State,
    pub(super) config: Option<Config>,
    pub(super) error: Option<Status>,
    /// Calls to the server under way, with what for.
    pub(super) rpcs: BTreeMap<RpcId, Purpose>,
    last_rpc: u64,
    pub(super) connecting: Option<Connecting>,
    /// The life of the namespace in which the task registered.
    pub(super) life: Option<ServiceIncarnation>,
    pub(super) next_heartbeat: Option<Time>,
    /// A heartbeat failed; unless the agent stops before, it is in error then, and why.
    pub(super) failing: Option<(Time, Status)>,
    pub(super) barriers: Barriers,
    pub(super) watches: BTreeMap<Arc<str>, Watch>,
    pub(super) devices: Option<Bytes>,
}

/// Why an agent wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wake {
    /// To try to register again.
    Register,
    /// To show that the task lives.
    Heartbeat,
    /// To be in error after a heartbeat that failed.
    Fail,
    /// To watch again.
    Watch,
}

impl Default for Agent {
    fn default() -> Self {
        Self::new()
    }
}

impl Agent {
    /// An agent that knows nothing yet.
    pub const fn new() -> Self {
        Self {
            state: State::Uninitialized,
            config: None,
            error: None,
            rpcs: BTreeMap::new(),
            last_rpc: 0,
            connecting: None,
            life: None,
            next_heartbeat: None,
            failing: None,
            barriers: Barriers::new(),
            watches: BTreeMap::new(),
            devices: None,
        }
    }

    /// How it stands.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Whether it knows who it is.
    pub const fn is_initialized(&self) -> bool {
        !matches!(self.state, State::Uninitialized)
    }

    /// Whether it registers now.
    pub const fn is_connecting(&self) -> bool {
        self.connecting.is_some()
    }

    /// Why it is in error, if it is.
    pub const fn error(&self) -> Option<&Status> {
        self.error.as_ref()
    }

    /// The life of the namespace in which the task registered.
    pub const fn life(&self) -> Option<ServiceIncarnation> {
        self.life
    }

    /// All tasks' encoded devices, once [`Ask::WaitForAllTasks`] was answered.
    pub const fn cluster_devices(&self) -> Option<&Bytes> {
        self.devices.as_ref()
    }

    /// Takes one input and pushes what must be done into `out`, in order.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Vec<Effect>) {
        match input {
            Input::Initialize { config } => self.initialize(config),
            Input::Asked { call, ask } => {
                if let Err(status) = self.ask(now, call, ask, out) {
                    out.push(Effect::Done { call, result: Err(status) });
                }
            }
            Input::Cancel { call } => self.cancel(call, out),
            Input::Answered { rpc, result, entropy } => {
                if let Some(purpose) = self.rpcs.remove(&rpc) {
                    self.answered(now, purpose, result, entropy, out);
                }
            }
            Input::Tick => self.tick(now, out),
        }
    }

    /// When to call [`Agent::step`] with [`Input::Tick`] next, and what for.
    pub fn deadline(&self) -> Option<(Time, Wake)> {
        let register = self.connecting.as_ref().and_then(|it| it.retry_at);
        let watch = self.watches.values().filter_map(|watch| watch.retry_at).min();
        let wakes = [
            (register, Wake::Register),
            (self.next_heartbeat, Wake::Heartbeat),
            (self.failing.as_ref().map(|(at, _)| *at), Wake::Fail),
            (watch, Wake::Watch),
        ];
        wakes.into_iter().filter_map(|(at, wake)| Some((at?, wake))).min()
    }

    fn initialize(&mut self, config: Config) {
        // Who it is does not change while it takes part, or is about to.
        let apart = matches!(self.state, State::Uninitialized | State::Disconnected);
        if !apart || self.connecting.is_some() {
            return;
        }
        let name = |it: &Config| (it.job.clone(), it.task, it.incarnation);
        if self.config.as_ref().map(name) != Some(name(&config)) {
            self.barriers.forget();
        }
        self.config = Some(config);
        self.state = State::Disconnected;
    }

    fn ask(
        &mut self,
        now: Time,
        call: CallId,
        ask: Ask,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        if !self.is_initialized() {
            return Err(errors::uninitialized());
        }
        match ask {
            Ask::Connect => self.connect(now, call, out),
            Ask::WaitForAllTasks { devices } => self.wait_for_all(call, devices, out),
            Ask::ReportError { code, message } => self.report(call, code, message, out),
            Ask::Reset => self.reset(call, out),
            Ask::Shutdown => self.shut_down(call, out),
            Ask::Barrier { id, timeout, tasks } => self.barrier(call, (id, timeout, tasks), out),
            Ask::CancelBarrier { id } => {
                let counter = self.barriers.counter(&id);
                self.send_for(call, Request::CancelBarrier { id, counter }, out);
                Ok(())
            }
            Ask::StartWatch { key } => self.start_watch(now, call, key, out),
            Ask::StopWatch { key } => self.stop_watch(call, &key, out),
            Ask::ActivateWatch { key, changes } => self.activate_watch(call, key, changes, out),
            Ask::SetError { status } => {
                self.set_error(status, out);
                out.push(Effect::Done { call, result: Ok(Reply::Done) });
                Ok(())
            }
            Ask::Call(request) => {
                self.send_for(call, request, out);
                Ok(())
            }
        }
    }

    fn tick(&mut self, now: Time, out: &mut Vec<Effect>) {
        self.retry_registration(now, out);
        self.beat_if_due(now, out);
        self.fail_if_due(now, out);
        self.watch_again(now, out);
    }

    /// Calls the server for the application.
    pub(super) fn send_for(&mut self, call: CallId, request: Request, out: &mut Vec<Effect>) {
        let purpose = Purpose::of(call, &request);
        self.send(purpose, request, None, out);
    }

    /// Calls the server.
    pub(super) fn send(
        &mut self,
        purpose: Purpose,
        request: Request,
        deadline: Option<Duration>,
        out: &mut Vec<Effect>,
    ) {
        self.last_rpc = self.last_rpc.saturating_add(1);
        let rpc = RpcId(self.last_rpc);
        self.rpcs.insert(rpc, purpose);
        out.push(Effect::Send { rpc, request, deadline });
    }

    /// Takes calls to the server back, and names them.
    pub(super) fn withdraw(
        &mut self,
        which: impl Fn(&Purpose) -> bool,
        out: &mut Vec<Effect>,
    ) -> Vec<Purpose> {
        let rpcs = core::mem::take(&mut self.rpcs);
        let mut taken = Vec::new();
        for (rpc, purpose) in rpcs {
            if which(&purpose) {
                out.push(Effect::Withdraw { rpc });
                taken.push(purpose);
            } else {
                self.rpcs.insert(rpc, purpose);
            }
        }
        taken
    }
}

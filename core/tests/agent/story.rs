//! An agent and what it asked for, step by step.

use rondo_core::agent::{Agent, Ask, Config, Effect, Input, Reply, Request, RpcId, State};
use rondo_core::ids::{CallId, Incarnation, ServiceIncarnation, TaskIndex};
use rondo_core::status::{Code, Detail, Status};
use rondo_core::time::{Duration, Time};

pub(crate) const LIFE: ServiceIncarnation = ServiceIncarnation::new(77);

/// An agent of one story.
pub(crate) struct Story {
    pub(crate) agent: Agent,
    pub(crate) now: Time,
    calls: u64,
}

impl Story {
    pub(crate) fn new() -> Self {
        Self { agent: Agent::new(), now: Time::from_millis(5_000), calls: 0 }
    }

    /// The agent knows who it is.
    pub(crate) fn initialized() -> Self {
        let mut story = Self::new();
        let config = Config::of("job", TaskIndex::new(1), Incarnation::new(9));
        story.step(Input::Initialize { config });
        story
    }

    /// The agent takes part; returns the call that polls for errors too.
    pub(crate) fn running() -> (Self, RpcId) {
        let mut story = Self::initialized();
        let (_, effects) = story.ask(Ask::Connect);
        let register = sent(&effects)[0].0;
        let effects = story.answer(register, Ok(Reply::Life(LIFE)));
        let poll = sent(&effects)[0].0;
        assert_eq!(story.agent.state(), State::Running);
        (story, poll)
    }

    pub(crate) fn step(&mut self, input: Input) -> Vec<Effect> {
        let mut out = Vec::new();
        self.agent.step(self.now, input, &mut out);
        out
    }

    pub(crate) fn ask(&mut self, ask: Ask) -> (CallId, Vec<Effect>) {
        self.calls += 1;
        let call = CallId::new(self.calls);
        (call, self.step(Input::Asked { call, ask }))
    }

    pub(crate) fn answer(&mut self, rpc: RpcId, result: Result<Reply, Status>) -> Vec<Effect> {
        self.step(Input::Answered { rpc, result, entropy: 11 })
    }

    /// Goes to the next moment at which the agent wants to be woken.
    pub(crate) fn sleep(&mut self) -> Vec<Effect> {
        let (at, _) = self.agent.deadline().expect("it wants to be woken");
        self.now = self.now.max(at);
        self.step(Input::Tick)
    }

    pub(crate) fn wait(&mut self, span: Duration) -> Vec<Effect> {
        self.now = self.now.after(span);
        self.step(Input::Tick)
    }
}

/// What was sent to the server, in order.
pub(crate) fn sent(effects: &[Effect]) -> Vec<(RpcId, Request, Option<Duration>)> {
    let sent = effects.iter().filter_map(|effect| match effect {
        Effect::Send { rpc, request, deadline } => Some((*rpc, request.clone(), *deadline)),
        _ => None,
    });
    sent.collect()
}

pub(crate) fn done(call: CallId, result: Result<Reply, Status>) -> Effect {
    Effect::Done { call, result }
}

/// A refusal of the service itself.
pub(crate) fn refused(code: Code) -> Status {
    Status::new(code, "no").with([Detail::SERVICE])
}

/// A failure of the way to the service.
pub(crate) fn broken() -> Status {
    Status::new(Code::Unavailable, "connection reset")
}

/// With which code an asked call was refused.
pub(crate) fn code_of(effects: &[Effect]) -> Option<Code> {
    effects.iter().find_map(|effect| match effect {
        Effect::Done { result: Err(status), .. } => Some(status.code),
        _ => None,
    })
}

//! A relay and what it asked for, step by step.

use bytes::Bytes;
use rondo_core::ids::{CallId, ConnectionId, Incarnation, ServiceIncarnation, TaskIndex};
use rondo_core::invariant::check_relay;
use rondo_core::relay::{
    Answer, Asked, Config, Effect, Event, Forwarding, Input, Kind, Link, Refused, Relay, Task, Who,
};
use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};

pub(crate) const LIFE: ServiceIncarnation = ServiceIncarnation::new(77);
pub(crate) const ONCE: Kind = Kind::Once { waits: false };
pub(crate) const BARRIER: Kind = Kind::Once { waits: true };

pub(crate) fn task(index: i32) -> Task {
    Task { job: "".into(), index: TaskIndex::new(index) }
}

pub(crate) fn who(index: i32, incarnation: u64) -> Who {
    Who { task: task(index), incarnation: Incarnation::new(incarnation) }
}

/// A relay of one story.
pub(crate) struct Story {
    pub(crate) relay: Relay,
    pub(crate) now: Time,
    calls: u64,
    /// The newest way that was tried, and whether that goes on.
    link: Link,
    trying: bool,
    pub(crate) events: Vec<Event>,
}

impl Story {
    /// Nobody has asked for anything, and the server has not been reached.
    pub(crate) fn new(config: Config) -> Self {
        let now = Time::from_millis(1_000_000);
        let relay = Relay::start(config, now);
        Self { relay, now, calls: 0, link: Link(0), trying: false, events: Vec::new() }
    }

    /// The server has been reached.
    pub(crate) fn reached(config: Config) -> Self {
        let mut story = Self::new(config);
        story.reach();
        story
    }

    /// A task has registered on connection 1.
    pub(crate) fn registered() -> Self {
        let mut story = Self::reached(Config::of("up:1"));
        let call = story.ask(Kind::Register(who(0, 5))).0;
        story.answer(call, Some(LIFE));
        story
    }

    pub(crate) fn step(&mut self, input: Input) -> Vec<Effect> {
        let mut out = Vec::new();
        self.relay.step(self.now, input, &mut out);
        check_relay(&self.relay).unwrap();
        let events = out.iter().filter_map(|effect| match effect {
            Effect::Observe(event) => Some(event.clone()),
            _ => None,
        });
        self.events.extend(events);
        if let Some(link) = out.iter().find_map(reach) {
            (self.link, self.trying) = (link, true);
        }
        out.retain(|effect| !matches!(effect, Effect::Observe(_)));
        out
    }

    /// A call on connection 1.
    pub(crate) fn ask(&mut self, kind: Kind) -> (CallId, Vec<Effect>) {
        self.ask_on(1, kind, "message")
    }

    pub(crate) fn ask_on(
        &mut self,
        client: u64,
        kind: Kind,
        message: impl Into<Bytes>,
    ) -> (CallId, Vec<Effect>) {
        self.calls += 1;
        let call = CallId::new(self.calls);
        let asked = Asked {
            client: ConnectionId::new(client),
            peer: "127.0.0.1:9".into(),
            path: "/service/Method".into(),
            message: message.into(),
            kind,
        };
        (call, self.step(Input::Asked { call, asked, entropy: 40 + self.calls }))
    }

    pub(crate) fn answer(&mut self, call: CallId, life: Option<ServiceIncarnation>) -> Vec<Effect> {
        self.step(Input::Answered { call, result: Ok(Bytes::from_static(b"done")), life })
    }

    pub(crate) fn refuse(&mut self, call: CallId, code: Code) -> Vec<Effect> {
        let details = Bytes::from_static(b"details");
        let refused = Refused { code, message: "no".into(), details };
        self.step(Input::Answered { call, result: Err(refused), life: None })
    }

    /// The way to the server fails under a call.
    pub(crate) fn lose(&mut self, call: CallId) -> Vec<Effect> {
        self.lose_with(call, Code::Unavailable)
    }

    /// The same, with the code that the transport gives it.
    pub(crate) fn lose_with(&mut self, call: CallId, code: Code) -> Vec<Effect> {
        let link = self.link;
        let status = Status::new(code, "connection reset");
        self.step(Input::Failed { call, link, status })
    }

    /// The relay looks for the server, and finds it.
    pub(crate) fn reach(&mut self) -> Vec<Effect> {
        let link = self.begin_reaching();
        self.step(Input::Reached { link })
    }

    /// The relay looks for the server, in vain.
    pub(crate) fn miss(&mut self) -> Vec<Effect> {
        let link = self.begin_reaching();
        self.step(Input::Unreachable { link, reason: "connection refused".into(), entropy: 3 })
    }

    pub(crate) const fn is_trying(&self) -> bool {
        self.trying
    }

    /// The attempt that is under way fails.
    pub(crate) fn fail(&mut self, entropy: u64) {
        assert!(std::mem::take(&mut self.trying), "no attempt is under way");
        let (link, reason) = (self.link, "connection refused".into());
        self.step(Input::Unreachable { link, reason, entropy });
    }

    fn begin_reaching(&mut self) -> Link {
        for _ in 0..100 {
            if std::mem::take(&mut self.trying) {
                return self.link;
            }
            self.wait(50);
        }
        panic!("nobody looks for the server");
    }

    /// Time passes, and the relay is woken whenever it wants to be.
    pub(crate) fn wait(&mut self, millis: u64) -> Vec<Effect> {
        let end = self.now.after(Duration::from_millis(millis));
        let mut effects = Vec::new();
        let mut woken = 0;
        while let Some((at, _)) = self.relay.deadline().filter(|(at, _)| *at < end) {
            self.now = self.now.max(at);
            effects.extend(self.step(Input::Tick));
            woken += 1;
            assert!(woken < 10_000, "it never rests: {:?}", self.relay.deadline());
        }
        self.now = end;
        effects.extend(self.step(Input::Tick));
        effects
    }

    /// The relay's process stands still.
    pub(crate) fn stand_still(&mut self, millis: u64) {
        self.now = self.now.after(Duration::from_millis(millis));
    }
}

const fn reach(effect: &Effect) -> Option<Link> {
    match effect {
        Effect::Reach { link } => Some(*link),
        _ => None,
    }
}

/// What was sent, in order.
pub(crate) fn forwarded(effects: &[Effect]) -> Vec<(CallId, Forwarding)> {
    let forwarded = effects.iter().filter_map(|effect| match effect {
        Effect::Forward { call, forwarding, .. } => Some((*call, forwarding.clone())),
        _ => None,
    });
    forwarded.collect()
}

/// Who was refused, and with what.
pub(crate) fn refusals(effects: &[Effect]) -> Vec<(CallId, Refused)> {
    let refused = effects.iter().filter_map(|effect| match effect {
        Effect::Reply { call, result: Err(refused) } => Some((*call, refused.clone())),
        _ => None,
    });
    refused.collect()
}

pub(crate) fn passed(call: CallId) -> Effect {
    Effect::Reply { call, result: Ok(Answer::Passed(Bytes::from_static(b"done"))) }
}

pub(crate) fn heartbeat(call: CallId, life: ServiceIncarnation) -> Effect {
    Effect::Reply { call, result: Ok(Answer::Heartbeat(life)) }
}

//! A relay, its clients, a server, and a network between that loses and delays.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rondo_core::ids::{CallId, ConnectionId, Incarnation, ServiceIncarnation};
use rondo_core::invariant::check_relay;
use rondo_core::relay::{
    Answer, Asked, Config, Effect, Event, Forwarding, Input, Kind, Link, Refused, Relay, Task,
};
use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};

use crate::server::{Said, Server, said};

/// How a call of a client stands.
#[derive(Clone, Debug, PartialEq)]
enum Standing {
    Waits,
    /// Its client has gone.
    Gone,
    Answered(Result<Answer, Refused>),
}

/// One call of a client.
struct Made {
    client: u64,
    kind: Kind,
    at: Time,
    /// The run that its connection belongs to, if it belongs to one alone.
    run: Option<Incarnation>,
    standing: Standing,
}

/// Everything, seen from above.
pub(crate) struct World {
    relay: Relay,
    now: Time,
    server: Server,
    server_up: bool,
    /// The way that works, and the one that is being tried.
    link: Option<Link>,
    trying: Option<Link>,
    down_since: Option<Time>,
    /// When the server last answered anything.
    heard: Time,
    made: BTreeMap<CallId, Made>,
    /// Requests on their way; those of ways that are given up may still arrive.
    requests: Vec<(Link, CallId, Forwarding)>,
    answers: Vec<(CallId, Said)>,
    /// What the relay was last told of tasks: who is registered, by which connection.
    told: BTreeMap<Task, (u64, u64)>,
    told_life: Option<ServiceIncarnation>,
    closed: BTreeSet<u64>,
    /// Calls that the relay still has to bring to an end.
    open: BTreeSet<CallId>,
    /// Calls that were sent on the present way.
    in_flight: BTreeSet<CallId>,
    /// The relay has told everybody that the server is away for too long.
    gave_up: bool,
    /// Calls answered with success before all was lost are no longer among the effects.
    wiped: bool,
    /// The newest run of each task that has registered or shown that it lives, by client.
    speakers: BTreeMap<u64, BTreeMap<Task, Incarnation>>,
    /// Nothing but time has passed for the relay.
    is_ticked: bool,
}

const PATIENCE: Duration = Duration::from_secs(20);
const HEARTBEAT_PATIENCE: Duration = Duration::from_secs(2);

impl World {
    pub(crate) fn new() -> Self {
        let mut config = Config::of("up:1");
        config.patience = PATIENCE;
        let now = Time::from_millis(1);
        Self {
            relay: Relay::start(config, now),
            now,
            server: Server::default(),
            server_up: true,
            link: None,
            trying: None,
            down_since: Some(now),
            heard: now,
            made: BTreeMap::new(),
            requests: Vec::new(),
            answers: Vec::new(),
            told: BTreeMap::new(),
            told_life: None,
            closed: BTreeSet::new(),
            open: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            gave_up: false,
            wiped: false,
            speakers: BTreeMap::new(),
            is_ticked: false,
        }
    }

    fn step(&mut self, input: Input) {
        let mut out = Vec::new();
        self.is_ticked = matches!(input, Input::Tick);
        self.relay.step(self.now, input, &mut out);
        check_relay(&self.relay).unwrap();
        for effect in out {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Reach { link } => {
                assert_eq!((self.link, self.trying), (None, None), "one way at a time");
                self.trying = Some(link);
            }
            Effect::Abandon { link } => {
                assert_eq!(self.link, Some(link));
                self.link = None;
                // Only who was told that the server is away is told so again sooner.
                let is_silent = self.is_silent();
                let is_due = !self.is_ticked || is_silent || self.gave_up;
                assert!(is_due, "the server is given up before its time is over");
                let since = if is_silent { self.heard } else { self.now };
                self.down_since.get_or_insert(since);
                self.in_flight.clear();
                // Heartbeats that have their answer are not asked again.
                self.open.retain(|call| !matches!(self.made[call].standing, Standing::Answered(_)));
            }
            Effect::Forward { link, call, forwarding } => {
                assert_eq!(self.link, Some(link), "sent on a way that is none");
                assert_eq!(forwarding.incarnation, self.made[&call].run, "of another run");
                self.in_flight.insert(call);
                self.requests.push((link, call, forwarding));
            }
            Effect::Withdraw { call } => {
                assert!(!matches!(self.made[&call].kind, Kind::Once { .. } | Kind::Shutdown(_)));
                self.in_flight.remove(&call);
                self.open.remove(&call);
                self.requests.retain(|(_, sent, _)| *sent != call);
                self.server.waiting.retain(|(_, waiting), _| *waiting != call);
            }
            Effect::Reply { call, result } => self.replied(call, result),
            Effect::Observe(Event::GaveUp { .. }) => {
                self.gave_up = true;
                self.open.retain(|call| self.made[call].standing != Standing::Gone);
            }
            Effect::Observe(_) => {}
        }
    }

    /// Whether the server has answered nothing for too long, although it was asked.
    fn is_silent(&self) -> bool {
        let long_ago = |at: Time| self.now.since(at) >= PATIENCE;
        let prompt =
            |made: &Made| matches!(made.kind, Kind::Heartbeat(_) | Kind::Once { waits: false });
        let made = self.in_flight.iter().map(|call| &self.made[call]);
        long_ago(self.heard) && made.filter(|made| prompt(made)).any(|made| long_ago(made.at))
    }

    fn replied(&mut self, call: CallId, result: Result<Answer, Refused>) {
        let made = &self.made[&call];
        assert_eq!(made.standing, Standing::Waits, "call {call} was answered twice");
        match &result {
            Ok(Answer::Passed(body)) => assert_eq!(&said(call).unwrap(), body),
            Ok(Answer::Heartbeat(life)) => self.check_heartbeat(made, *life),
            Err(refused) if refused.details.is_empty() => {
                assert_eq!(refused.code, Code::Unavailable, "{refused:?}");
                let away = self.down_since.map(|since| self.now.since(since));
                assert!(self.link.is_none(), "{refused:?}");
                assert!(away.is_some_and(|away| away >= PATIENCE), "{refused:?} after {away:?}");
            }
            Err(refused) => assert_eq!(refused.message, format!("no to {call}")),
        }
        let stays = matches!(result, Ok(Answer::Heartbeat(_))) && self.link.is_some();
        if !stays {
            self.open.remove(&call);
        }
        self.made.get_mut(&call).unwrap().standing = Standing::Answered(result);
    }

    /// A heartbeat was answered in the server's place: rightly?
    fn check_heartbeat(&self, made: &Made, life: ServiceIncarnation) {
        let Kind::Heartbeat(who) = &made.kind else {
            panic!("{:?} was answered as a heartbeat", made.kind);
        };
        let told = self.told.get(&who.task);
        assert_eq!(told.map(|(incarnation, _)| *incarnation), Some(who.incarnation.get()));
        assert_eq!(self.told_life, Some(life));
        let overdue = self.now.since(made.at) >= HEARTBEAT_PATIENCE;
        assert!(self.link.is_none() || overdue, "the server could have been asked");
    }

    pub(crate) fn ask(&mut self, client: u64, kind: Kind) {
        if self.closed.contains(&client) {
            return;
        }
        let call = CallId::new(self.made.len() as u64 + 1);
        let asked = Asked {
            client: ConnectionId::new(client),
            peer: "127.0.0.1:9".into(),
            path: "/service/Method".into(),
            message: Bytes::from_static(b"message"),
            kind: kind.clone(),
        };
        let run = self.hear(client, &kind);
        let made = Made { client, kind, at: self.now, run, standing: Standing::Waits };
        self.made.insert(call, made);
        self.open.insert(call);
        self.step(Input::Asked { call, asked, entropy: call.get() });
    }

    /// The run that a client's connection belongs to when it makes this call.
    fn hear(&mut self, client: u64, kind: &Kind) -> Option<Incarnation> {
        let speakers = self.speakers.entry(client).or_default();
        if let Kind::Register(who) | Kind::Heartbeat(who) = kind {
            speakers.insert(who.task.clone(), who.incarnation);
        }
        let is_one = speakers.len() == 1;
        speakers.values().next().copied().filter(|_| is_one)
    }

    /// One of the clients that wait goes away.
    pub(crate) fn cancel(&mut self, nth: usize) {
        let waits = |(_, made): &(&CallId, &mut Made)| made.standing == Standing::Waits;
        let mut waiting: Vec<_> = self.made.iter_mut().filter(waits).collect();
        let Some(index) = nth.checked_rem(waiting.len()) else {
            return;
        };
        let call = *waiting[index].0;
        waiting[index].1.standing = Standing::Gone;
        self.leave(call);
    }

    fn leave(&mut self, call: CallId) {
        if !matches!(self.made[&call].kind, Kind::Once { .. } | Kind::Shutdown(_)) {
            self.open.remove(&call);
            self.in_flight.remove(&call);
        }
        self.step(Input::Cancel { call });
    }

    pub(crate) fn close(&mut self, client: u64) {
        self.closed.insert(client);
        self.told.retain(|_, (_, of)| *of != client);
        let mine = |made: &&mut Made| made.client == client && made.standing == Standing::Waits;
        self.made.values_mut().filter(mine).for_each(|made| made.standing = Standing::Gone);
        let gone =
            |(_, made): &(&CallId, &Made)| made.client == client && made.standing == Standing::Gone;
        let calls: Vec<CallId> = self.made.iter().filter(gone).map(|(call, _)| *call).collect();
        self.step(Input::Closed { client: ConnectionId::new(client) });
        for call in calls {
            self.leave(call);
        }
    }

    /// A request arrives, in whatever order.
    pub(crate) fn deliver(&mut self, nth: usize) {
        let Some(index) = nth.checked_rem(self.requests.len()) else {
            return;
        };
        let (link, call, forwarding) = self.requests.remove(index);
        // The server takes nothing on a way once the relay has found it on a later one.
        if self.link.is_some_and(|newest| link < newest) {
            return;
        }
        // One that was answered late, after it was sent again, is nobody's any more.
        let current = self.link == Some(link) && self.open.contains(&call);
        if !self.server_up {
            let status = Status::new(Code::Unavailable, "connection refused");
            return self.step(Input::Failed { call, link, status });
        }
        let kind = self.made[&call].kind.clone();
        if let Some(said) = self.server.take((link, call), &kind, &forwarding, current) {
            self.send_answer(link, call, said);
        }
    }

    fn send_answer(&mut self, link: Link, call: CallId, said: Said) {
        if self.link == Some(link) {
            self.answers.push((call, said));
        }
    }

    /// An answer arrives, in whatever order, and perhaps once more later.
    pub(crate) fn answer(&mut self, nth: usize, again: bool) {
        let Some(index) = nth.checked_rem(self.answers.len()) else {
            return;
        };
        let (call, (result, life)) = match again {
            true => self.answers[index].clone(),
            false => self.answers.remove(index),
        };
        self.tell(call, &result, life);
        self.down_since = self.down_since.filter(|_| self.link.is_none());
        self.heard = if self.link.is_some() { self.now } else { self.heard };
        self.step(Input::Answered { call, result, life });
    }

    /// Notes what the relay learns from an answer to a call that it still has.
    fn tell(
        &mut self,
        call: CallId,
        result: &Result<Bytes, Refused>,
        life: Option<ServiceIncarnation>,
    ) {
        self.in_flight.remove(&call);
        if !self.open.remove(&call) {
            return;
        }
        let made = &self.made[&call];
        if life.is_some_and(|life| self.told_life.replace(life) != Some(life)) {
            self.told.clear();
        }
        match (&made.kind, result) {
            (Kind::Register(who), Ok(_)) if !self.closed.contains(&made.client) => {
                self.told.insert(who.task.clone(), (who.incarnation.get(), made.client));
            }
            (Kind::Heartbeat(who), Err(_)) => {
                let same = |(incarnation, _): &(u64, u64)| *incarnation == who.incarnation.get();
                if self.told.get(&who.task).is_some_and(same) {
                    self.told.remove(&who.task);
                }
            }
            (Kind::Shutdown(task), result) => {
                let told = self.told.get(task);
                let is_own = told.is_some_and(|(_, client)| *client == made.client);
                let is_other =
                    told.is_some_and(|(run, _)| made.run.is_some_and(|own| own.get() != *run));
                if (result.is_ok() && !is_other) || (result.is_err() && is_own) {
                    self.told.remove(task);
                }
            }
            _ => {}
        }
    }

    /// The way to the server breaks; the relay notices by its oldest call.
    pub(crate) fn break_way(&mut self) {
        let Some(link) = self.link else {
            return;
        };
        if let Some(call) = self.in_flight.first().copied() {
            let status = Status::new(Code::Unavailable, "connection reset");
            self.step(Input::Failed { call, link, status });
        }
    }

    pub(crate) fn crash(&mut self, lose_all: bool) {
        self.server_up = false;
        self.break_way();
        self.requests.clear();
        self.server.waiting.clear();
        if lose_all {
            self.server.wipe();
            self.wiped = true;
        }
    }

    pub(crate) fn restart(&mut self) {
        self.server_up = true;
    }

    pub(crate) fn expire(&mut self, nth: usize) {
        self.server.expire(nth);
    }

    pub(crate) fn release(&mut self, nth: usize) {
        if let Some((link, call, said)) = self.server.release(nth) {
            self.send_answer(link, call, said);
        }
    }

    /// The server is found or not.
    pub(crate) fn find(&mut self) {
        let Some(link) = self.trying.take() else {
            return;
        };
        if self.server_up {
            self.link = Some(link);
            self.step(Input::Reached { link });
        } else {
            let reason = "connection refused".into();
            self.step(Input::Unreachable { link, reason, entropy: self.now.as_nanos() });
        }
    }

    pub(crate) fn wait(&mut self, millis: u64) {
        let until = self.now.after(Duration::from_millis(millis));
        for _ in 0..10_000 {
            match self.relay.deadline() {
                Some((at, _)) if at <= until => self.now = self.now.max(at),
                _ => break,
            }
            self.step(Input::Tick);
        }
        assert!(self.relay.deadline().is_none_or(|(at, _)| at > until), "it never rests");
        self.now = until;
    }

    /// All goes well from here on: everybody is answered, and everything has happened once.
    pub(crate) fn settle(&mut self) {
        self.restart();
        for _ in 0..50 {
            self.wait(1100);
            self.find();
            while !self.requests.is_empty() || !self.server.waiting.is_empty() {
                self.deliver(0);
                self.release(0);
            }
            while !self.answers.is_empty() {
                self.answer(0, false);
            }
            // Whatever waits at the server on a way that was given up is nobody's.
            if self.relay.calls_under_way() == 0 && self.link.is_some() {
                break;
            }
        }
        assert_eq!(self.relay.calls_under_way(), 0, "{:?}", self.relay);
        for (call, made) in &self.made {
            assert_ne!(made.standing, Standing::Waits, "call {call} was never answered");
            self.check_effect(*call, made);
        }
    }

    fn check_effect(&self, call: CallId, made: &Made) {
        let times = self.server.effects.get(&call).copied().unwrap_or(0);
        assert!(times <= 1, "call {call} happened {times} times");
        let done = matches!(made.standing, Standing::Answered(Ok(_)));
        let once = matches!(made.kind, Kind::Once { .. } | Kind::Shutdown(_));
        let due = done || (made.standing == Standing::Gone && !self.gave_up);
        assert!(self.wiped || !(once && due) || times == 1, "call {call} never happened");
    }
}

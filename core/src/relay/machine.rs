//! The relay's machine: takes what happens, and says what to do.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

use super::calls::{Calls, Pending};
use super::clients::{Clients, Load};
use super::config::{Config, Host};
use super::lanes::Lanes;
use super::refusal;
use super::types::{Answer, Asked, Effect, Event, Input, Kind, Link, Refused};
use super::upstream::Upstream;
use crate::ids::{CallId, ConnectionId, ServiceIncarnation};
use crate::limits::{
    HELD_UP_AFTER, RELAY_CLIENT_CALLS_MIN, RELAY_LONG_BYTES_MIN, RELAY_SHORT_BYTES_MAX,
};
use crate::status::{Code, Status};
use crate::time::{Duration, Time};

/// The relay asks to be woken so long after a step while it tries to reach the server.
const WAKE_UP_AFTER: Duration = Duration::from_secs(1);

/// A node-local relay.
#[derive(Clone, Debug)]
pub struct Relay {
    pub(super) config: Config,
    pub(super) upstream: Upstream,
    pub(super) calls: Calls,
    pub(super) clients: Clients,
    pub(super) lanes: Lanes,
    /// Whether it is to end.
    stopping: bool,
    /// Calls that are refused because it is to end.
    pub(super) leaving: BTreeSet<CallId>,
    /// More is to be done at once, since then.
    pub(super) busy: Option<Time>,
    /// Its last step.
    stepped: Time,
}

/// Why a relay wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wake {
    /// There is more to do.
    Work,
    /// The server is looked for again.
    Reach,
    /// A heartbeat waits for the server too long.
    Heartbeat,
    /// The server has been away for too long, or has answered nothing for too long.
    Patience,
    /// Nothing else would show during a try to reach the server that the relay itself is held up.
    HeldUp,
}

impl Relay {
    /// A relay that has not reached its server yet.
    pub fn start(config: Config, now: Time) -> Self {
        Self {
            config,
            upstream: Upstream::unknown(now),
            calls: Calls::default(),
            clients: Clients::default(),
            lanes: Lanes::default(),
            stopping: false,
            leaving: BTreeSet::new(),
            busy: None,
            stepped: now,
        }
    }

    /// Takes one input and pushes what must be done into `out`, in order.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Vec<Effect>) {
        self.excuse_own_hold_up(now);
        match input {
            Input::Asked { call, asked, entropy } => self.asked(call, asked, entropy, out),
            Input::Cancel { call } => self.cancel(call, out),
            Input::Closed { client } => self.close(client, out),
            Input::Answered { call, result, life } => {
                self.upstream.heard(now);
                self.answered(call, result, life, out);
            }
            Input::Failed { call, link, status } => self.failed(now, call, link, status, out),
            Input::Reached { link } => self.reached(now, link, out),
            Input::Unreachable { link, reason, entropy } => {
                self.upstream.unreachable(now, link, reason, entropy);
            }
            Input::Tick => {}
            Input::Stop => self.stop(),
        }
        self.proceed(now, out);
    }

    /// Gives the server back the time in which the relay's own process was held up. The relay asked to be
    /// woken long ago then, and what the server has answered since waits in the socket.
    fn excuse_own_hold_up(&mut self, now: Time) {
        let is_held_up = self.deadline().is_some_and(|(due, _)| now.since(due) > HELD_UP_AFTER);
        if is_held_up {
            let lost = now.since(self.stepped);
            self.calls.postpone(lost);
            self.upstream.postpone(lost);
        }
        self.stepped = self.stepped.max(now);
    }

    /// When to call [`Relay::step`] with [`Input::Tick`] next, and what for.
    pub fn deadline(&self) -> Option<(Time, Wake)> {
        let work = self.busy.map(|since| (since, Wake::Work));
        let reach = self.upstream.next_try().map(|at| (at, Wake::Reach));
        let heartbeat = self.calls.alarms.first().map(|(at, _)| (*at, Wake::Heartbeat));
        let patient = |_: &_| !self.calls.queue.is_empty();
        let outage = self.upstream.outage().filter(|outage| !outage.given_up).filter(patient);
        let patience = outage.map(|outage| (self.patience_ends(outage), Wake::Patience));
        let silence = self.silence_ends().map(|at| (at, Wake::Patience));
        let is_trying = self.upstream.is_trying();
        let held_up = is_trying.then(|| (self.stepped.after(WAKE_UP_AFTER), Wake::HeldUp));
        [work, reach, heartbeat, patience, silence, held_up].into_iter().flatten().min()
    }

    /// What is known of a call under way.
    pub fn kind_of(&self, call: CallId) -> Option<&Kind> {
        self.calls.calls.get(&call).map(|pending| &pending.asked.kind)
    }

    /// Calls under way, those whose client has gone among them.
    pub fn calls_under_way(&self) -> usize {
        self.calls.calls.len()
    }

    fn asked(&mut self, call: CallId, asked: Asked, entropy: u64, out: &mut Vec<Effect>) {
        if let Err(refused) = self.check_room(&asked) {
            out.push(Effect::Reply { call, result: Err(refused) });
            return;
        }
        self.clients.begin(&asked);
        let once = asked.kind.is_once();
        let number = once.then(|| self.lanes.draw(asked.kind.waits(), entropy));
        if let Kind::Register(who) | Kind::Heartbeat(who) = &asked.kind {
            self.clients.hear(asked.client, who);
        }
        let identity = self.clients.identity(asked.client);
        self.calls.add(call, Pending::new(asked, number, identity));
    }

    /// Whether one more call is taken on. One registration or heartbeat of each client always is: no other
    /// client can take its room. Each client may have some other calls above the bound, and some by which its
    /// tasks come, show that they live, and leave, while there is room for these.
    fn check_room(&self, asked: &Asked) -> Result<(), Refused> {
        let (config, clients) = (&self.config, &self.clients.clients);
        if self.stopping {
            return Err(refusal::stopping());
        }
        if !clients.contains_key(&asked.client) && clients.len() >= config.clients_max {
            return Err(full("clients", "--clients-max", config.clients_max, clients.len()));
        }
        let load = self.clients.load_of(asked.client);
        let bytes = asked.message.len() as u64;
        let of_kind = if asked.kind.is_of_tasks() { load.of_tasks } else { load.others() };
        let is_due = of_kind < RELAY_CLIENT_CALLS_MIN;
        let has_own_room = asked.kind.shows_life() && load.of_life == 0;
        if !is_due && !has_own_room {
            self.check_calls(&load)?;
        }
        let all = self.shared();
        if !has_own_room && all >= self.shared_max() {
            let setting = "--calls-max and --clients-max";
            return Err(full("calls", setting, self.shared_max(), all));
        }
        if (is_due || has_own_room) && bytes <= RELAY_SHORT_BYTES_MAX {
            Ok(())
        } else {
            self.check_bytes(&load, bytes)
        }
    }

    /// Returns how many calls have no room that is their client's own.
    fn shared(&self) -> usize {
        self.calls.calls.len().saturating_sub(self.clients.reserved())
    }

    /// Returns how many such calls there may be.
    const fn shared_max(&self) -> usize {
        self.config.calls_max.saturating_add(self.config.clients_max)
    }

    /// Counts a heartbeat as answered by the relay itself. Returns whether the call goes on, so that the
    /// server has the last word: it does for the oldest of each run of a task. One of each client has room of
    /// its own, and others go on while there is room.
    pub(super) fn leave_with_server(&mut self, call: CallId) -> bool {
        let Some(client) = self.calls.calls.get(&call).map(|pending| pending.asked.client) else {
            return false;
        };
        self.clients.stand_in(client);
        let is_only = self.clients.load_of(client).stood_in == 1;
        self.calls.stand_in(call) && (is_only || self.shared() <= self.shared_max())
    }

    /// A connection is closed. Nobody waits for the server's last word to its heartbeats.
    fn close(&mut self, client: ConnectionId, out: &mut Vec<Effect>) {
        for call in self.calls.stood_in_of(client) {
            self.end(call);
            out.push(Effect::Withdraw { call });
        }
        self.clients.close(client);
    }

    /// Whether a client may have a call more. Each may have as many as are free, so that it leaves some for
    /// others.
    fn check_calls(&self, load: &Load) -> Result<(), Refused> {
        let (config, all) = (&self.config, self.shared());
        if load.calls >= config.calls_per_client_max {
            let setting = "--calls-per-client-max";
            return Err(full(
                "calls of one client",
                setting,
                config.calls_per_client_max,
                load.calls,
            ));
        }
        if all >= config.calls_max {
            return Err(full("calls", "--calls-max", config.calls_max, all));
        }
        let free = config.calls_max.saturating_sub(all);
        if config.host == Host::Relay && load.calls >= free {
            let (bound, found) = (config.calls_max as u64, load.calls.saturating_add(1) as u64);
            return Err(refusal::share("calls", "--calls-max", bound, free as u64, found));
        }
        Ok(())
    }

    /// Whether a client may hold so many bytes more. Each may hold as many in long messages as are free.
    fn check_bytes(&self, load: &Load, bytes: u64) -> Result<(), Refused> {
        let (what, setting) = ("bytes of messages", "--held-size-max");
        let bound = self.config.held_bytes_max;
        let held = self.calls.held_bytes.saturating_add(bytes);
        if held > bound {
            return Err(refusal::full(what, setting, bound, held));
        }
        let free = bound.saturating_sub(self.calls.held_bytes);
        let found = load.bytes.saturating_add(bytes);
        let is_long = bytes > RELAY_LONG_BYTES_MIN;
        if self.config.host == Host::Relay && is_long && found > free {
            return Err(refusal::share(what, setting, bound, free, found));
        }
        Ok(())
    }

    /// The client has gone. What must not happen twice goes on: it may have happened already, and
    /// who has come to a barrier has come.
    fn cancel(&mut self, call: CallId, out: &mut Vec<Effect>) {
        let Some(pending) = self.calls.calls.get(&call) else {
            return;
        };
        if pending.asked.kind.outlives_client() {
            return self.calls.leave(call);
        }
        let sent = self.calls.in_flight.contains(&call);
        self.end(call);
        if sent {
            out.push(Effect::Withdraw { call });
        }
    }

    fn answered(
        &mut self,
        call: CallId,
        result: Result<Bytes, Refused>,
        life: Option<ServiceIncarnation>,
        out: &mut Vec<Effect>,
    ) {
        let Some(pending) = self.end(call) else {
            return;
        };
        self.learn(&pending, &result, life, out);
        if pending.waits {
            out.push(Effect::Reply { call, result: result.map(Answer::Passed) });
        }
    }

    /// Takes from an answer what the relay itself may say later.
    fn learn(
        &mut self,
        pending: &Pending,
        result: &Result<Bytes, Refused>,
        life: Option<ServiceIncarnation>,
        out: &mut Vec<Effect>,
    ) {
        if let (Ok(_), Some(life)) = (result, life)
            && let Some(before) = self.clients.hear_life(life)
        {
            out.push(Effect::Observe(Event::LifeChanged { before, now: life }));
        }
        match (&pending.asked.kind, result, life) {
            (Kind::Register(who), Ok(_), Some(life)) => {
                self.clients.register(pending.asked.client, who, life);
                let task = who.task.clone();
                out.push(Effect::Observe(Event::TaskRegistered { task, life }));
            }
            (Kind::Heartbeat(who), Err(refused), _) if refused.code != Code::Unavailable => {
                self.clients.forget_run(who);
            }
            (Kind::Shutdown(task), Ok(_), _) => {
                self.clients.forget(task, pending.identity.incarnation);
            }
            (Kind::Shutdown(task), Err(_), _) => self.clients.leave(task, pending.asked.client),
            _ => {}
        }
    }

    fn failed(
        &mut self,
        now: Time,
        call: CallId,
        link: Link,
        status: Status,
        out: &mut Vec<Effect>,
    ) {
        if self.upstream.link() != Some(link) {
            return;
        }
        // The server itself refuses within its answers.
        if !status.code.is_of_connection() {
            self.upstream.heard(now);
            return self.answered(call, Err(status.into()), None, out);
        }
        let reason: Arc<str> = status.message.into();
        if self.upstream.lost(now, link, self.calls.asked_since(), reason.clone()) {
            self.abandon(link, reason, out);
        }
    }

    /// Takes back all that was sent on a connection that is of no use any more.
    pub(super) fn abandon(&mut self, link: Link, reason: Arc<str>, out: &mut Vec<Effect>) {
        out.push(Effect::Abandon { link });
        for call in self.calls.unsend() {
            self.end(call);
        }
        let calls = self.calls.calls.len();
        out.push(Effect::Observe(Event::UpstreamLost { reason, calls }));
    }

    fn reached(&mut self, now: Time, link: Link, out: &mut Vec<Effect>) {
        if let Some(away) = self.upstream.reached(now, link) {
            let calls = self.calls.queue.len();
            out.push(Effect::Observe(Event::UpstreamReached { away, calls }));
        }
    }

    fn stop(&mut self) {
        self.stopping = true;
        let calls =
            self.calls.calls.iter().filter(|(_, pending)| !pending.asked.kind.outlives_client());
        self.leaving = calls.map(|(call, _)| *call).collect();
    }

    /// A call ends, and gives back what it had.
    pub(super) fn end(&mut self, call: CallId) -> Option<Pending> {
        let pending = self.calls.end(call)?;
        if let Some(number) = pending.number {
            self.lanes.settle(number);
        }
        self.clients.end(&pending.asked, pending.waits);
        Some(pending)
    }
}

fn full(what: &str, setting: &str, bound: usize, found: usize) -> Refused {
    refusal::full(what, setting, bound as u64, found.saturating_add(1) as u64)
}

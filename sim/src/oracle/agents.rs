//! An agent answers each call of its application at most once, and has a call to the service under way
//! for each that waits; no two instances of a barrier share one result; it tells an error exactly while
//! it is in error, tells each error once and never without a cause; registering, leaving and the grace
//! of a heartbeat that failed end in time, and not before; it refuses nothing that could be done.

mod calls;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_core::agent::{Reply, State};
use rondo_core::ids::{CallId, ServiceIncarnation};
use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};

use self::calls::Calls;
use self::watched::Watched;
use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};
use crate::workload::agents::{AgentCall, AppCall, Ended, OfAgent};

/// How much longer than the service an agent waits for it.
const GRACE: Duration = Duration::from_secs(5);
/// How long an agent goes on after a heartbeat that failed.
const FAILING: Duration = Duration::from_secs(1);
/// The world rounds what a machine's clock shows, and wakes nothing twice within a millisecond.
const SLACK: Duration = Duration::from_millis(3);

/// A call of an application.
#[derive(Debug)]
struct Waiting {
    what: AppCall,
    /// The life that the agent took part in when it was asked.
    life: Option<ServiceIncarnation>,
    asked: Time,
    /// When it must have ended.
    due: Time,
}

/// Heartbeats that have failed since the last one that was answered well.
#[derive(Clone, Copy, Debug)]
struct Failing {
    since: Time,
    /// Whether the first of them was lost on its way, so that another one may come through.
    was_lost: bool,
    /// Whether another one was sent since.
    was_repeated: bool,
}

/// An agent in one process.
#[derive(Debug, Default)]
struct OneAgent {
    register: Duration,
    shutdown: Duration,
    waiting: BTreeMap<CallId, Waiting>,
    calls: Calls,
    watched: Watched,
    life: Option<ServiceIncarnation>,
    /// Instances of barriers that it has passed, by life.
    passed: BTreeSet<(ServiceIncarnation, Arc<str>, i64)>,
    failing: Option<Failing>,
    /// Since the last look something has happened that is an error.
    has_cause: bool,
    /// Errors told since the agent was not in error.
    told: u32,
}

/// All agents, by actor.
#[derive(Default)]
pub(super) struct Agents {
    all: BTreeMap<u32, OneAgent>,
}

impl OneAgent {
    fn asked(&mut self, now: Time, call: CallId, (what, state): (AppCall, State)) {
        let within = match what {
            AppCall::Connect => Some(self.register),
            AppCall::Shutdown => Some(self.shutdown),
            _ => None,
        };
        let due = within.map_or(Time::NEVER, |within| now.after(within).after(GRACE));
        let has_to = self.must_refuse(&what, state);
        self.calls.asked(call, has_to);
        match &what {
            AppCall::StartWatch(key) if !has_to => self.watched.begin(key.clone(), call),
            AppCall::Error => self.has_cause = true,
            _ => {}
        }
        let waiting = Waiting { what, life: self.life, asked: now, due };
        self.waiting.insert(call, waiting);
    }

    /// Whether an agent that stands so cannot do what it is asked for.
    fn must_refuse(&self, what: &AppCall, state: State) -> bool {
        let waits = self.waiting.values().any(|waiting| waiting.what == *what);
        match what {
            AppCall::Connect => state != State::Disconnected || waits,
            AppCall::Shutdown => matches!(state, State::Error) || waits,
            AppCall::Barrier(_) => state == State::Error || waits,
            AppCall::StartWatch(key) => self.watched.has(key),
            AppCall::StopWatch(key) => !self.watched.has(key),
            AppCall::Reset => state != State::Error,
            AppCall::Error => state != State::Running,
            AppCall::Plain => false,
        }
    }

    fn done(&mut self, now: Time, call: CallId, result: &Result<Reply, Status>) -> Verdict {
        let Some(waiting) = self.waiting.remove(&call) else {
            return Err(format!("call {call} of an application is answered, and does not wait"));
        };
        let Waiting { what, life, .. } = &waiting;
        if let Err(status) = result {
            self.calls.may_refuse(call, what, status)?;
            self.not_too_soon(now, &waiting)?;
        }
        self.watched.done(call, what, result);
        match (what, life, result) {
            (AppCall::Connect, _, Ok(Reply::Life(life))) => {
                (self.life, self.failing) = (Some(*life), None);
            }
            (AppCall::Barrier(id), Some(life), Ok(Reply::Barrier { counter })) => {
                reached(Check::AgentPassed);
                if !self.passed.insert((*life, id.clone(), *counter)) {
                    return Err(format!("{id}::{counter} was passed twice by one process"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Registering is tried again while that makes sense. The pauses between grow to twice what has
    /// passed, so that a try that would come too late is given up after a third of the time.
    fn not_too_soon(&self, now: Time, waiting: &Waiting) -> Verdict {
        let Some(code) = self.calls.register_failed().filter(|_| waiting.what == AppCall::Connect)
        else {
            return Ok(());
        };
        reached(Check::AgentNotRegistered);
        let whole = self.register.plus(GRACE).as_nanos();
        let least = whole.saturating_sub(Duration::from_secs(1).as_nanos()) / 3;
        let tried = now.since(waiting.asked);
        match tried.plus(SLACK).as_nanos() < least {
            true => Err(format!(
                "registering failed with {code:?} after {} ms, and was not tried again",
                tried.as_millis()
            )),
            false => Ok(()),
        }
    }

    fn heard(&mut self, now: Time, rpc: u64, ended: Ended) {
        let what = self.calls.heard(rpc, ended);
        match (what, ended) {
            (Some(AgentCall::Heartbeat), Ended::Well(life)) => {
                self.failing = None;
                self.has_cause |= life.is_some() && life != self.life;
            }
            (Some(AgentCall::Heartbeat), Ended::Refused(code) | Ended::Lost(code)) => {
                let of_way = is_of_the_way(code) && matches!(ended, Ended::Lost(_));
                let begins = Failing { since: now, was_lost: of_way, was_repeated: false };
                self.failing.get_or_insert(begins);
            }
            // A poll that another one has replaced, or whose task has left, tells no error.
            (Some(AgentCall::Poll), Ended::Refused(code) | Ended::Lost(code)) => {
                self.has_cause |= code != Code::Cancelled;
            }
            (Some(AgentCall::Watch(key)), Ended::Refused(code) | Ended::Lost(code)) => {
                self.watched.has_no_room(&key, code == Code::ResourceExhausted);
            }
            (Some(AgentCall::Register), Ended::Refused(_) | Ended::Lost(_)) => {
                self.has_cause = true;
            }
            _ => {}
        }
    }

    fn called(&mut self, rpc: u64, what: &AgentCall) {
        if let Some(failing) = self.failing.as_mut().filter(|_| *what == AgentCall::Heartbeat) {
            failing.was_repeated = true;
        }
        self.calls.called(rpc, what);
    }

    fn failed(&mut self, now: Time) -> Verdict {
        self.told = self.told.saturating_add(1);
        if self.told > 1 {
            return Err("an agent has told its application twice that it is in error".into());
        }
        reached(Check::AgentFailed);
        if std::mem::take(&mut self.has_cause) {
            return Ok(());
        }
        let Some(failing) = self.failing else {
            return Err("an agent tells an error, and nothing has happened that is one".into());
        };
        reached(Check::AgentGaveUp);
        let ms = now.since(failing.since).as_millis();
        if now.after(SLACK) < failing.since.after(FAILING) {
            return Err(format!("an agent gave up {ms} ms after a heartbeat failed"));
        }
        match failing.was_lost && !failing.was_repeated {
            true => Err("a heartbeat was lost, and the agent gave up without another one".into()),
            false => Ok(()),
        }
    }

    fn looked(&mut self, now: Time, (state, error, connecting): (State, bool, bool)) -> Verdict {
        reached(Check::AgentLooked);
        if error != (state == State::Error) {
            return Err(format!("an agent is {state:?}; whether it tells an error: {error}"));
        }
        if connecting && state != State::Disconnected {
            return Err(format!("an agent that is {state:?} registers"));
        }
        if state != State::Error {
            self.told = 0;
        } else if self.told == 0 {
            return Err("an agent is in error, and its application was not told".into());
        }
        if state != State::Running {
            (self.failing, self.life) = (None, None);
        }
        self.has_cause = false;
        if let Some(Failing { since, .. }) =
            self.failing.filter(|of| now > of.since.after(FAILING).after(SLACK))
        {
            let ms = now.since(since).as_millis();
            return Err(format!("for {ms} ms no heartbeat was answered, and the agent goes on"));
        }
        let waits = |call: CallId| self.waiting.contains_key(&call);
        self.calls.looked((state, connecting), waits)?;
        let pending = self.waiting.iter().filter(|(_, waiting)| needs_a_call(&waiting.what));
        for (call, waiting) in pending {
            self.calls.is_asked(*call, &waiting.what)?;
        }
        self.watched.looked(now, self.calls.watches())?;
        let late = self.waiting.values().find(|waiting| now > waiting.due.after(SLACK));
        match late {
            Some(Waiting { what, due, .. }) => {
                let ms = now.since(*due).as_millis();
                Err(format!("{what:?} of an application should have ended {ms} ms ago"))
            }
            None => Ok(()),
        }
    }

    fn see(&mut self, now: Time, what: &OfAgent) -> Verdict {
        match what {
            OfAgent::Began { register, shutdown } => {
                *self = Self { register: *register, shutdown: *shutdown, ..Self::default() };
            }
            OfAgent::Asked { call, what, state } => self.asked(now, *call, (what.clone(), *state)),
            OfAgent::Cancelled { call } => drop(self.waiting.remove(call)),
            OfAgent::Called { rpc, what } => self.called(*rpc, what),
            OfAgent::Withdrawn { rpc } => self.calls.withdrawn(*rpc),
            OfAgent::Heard { rpc, ended } => self.heard(now, *rpc, *ended),
            OfAgent::Done { call, result } => return self.done(now, *call, result),
            OfAgent::Failed => return self.failed(now),
            OfAgent::Changed { key, whole, revisions } => {
                return self.watched.changed(key, *whole, revisions);
            }
            OfAgent::WatchEnded { key } => self.watched.end(key),
            OfAgent::Spins => return Err("a tick of an agent is due and changes nothing".into()),
            OfAgent::Looked { state, error, connecting } => {
                return self.looked(now, (*state, *error, *connecting));
            }
        }
        Ok(())
    }
}

/// Whether a call to the service is under way for it as long as it waits. Registering has pauses, and a
/// watch has calls of its own.
const fn needs_a_call(what: &AppCall) -> bool {
    !matches!(what, AppCall::Connect | AppCall::StartWatch(_))
}

/// Whether a call that ended so may succeed when it is made again at once.
const fn is_of_the_way(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::Unknown | Code::Cancelled | Code::DeadlineExceeded)
}

impl Oracle for Agents {
    fn name(&self) -> &'static str {
        "agent"
    }

    fn outlives_disk(&self) -> bool {
        true
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[SeenKind::Agent]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, _: &Shadow) -> Verdict {
        match seen {
            Seen::Agent { actor, at, what } => self.all.entry(*actor).or_default().see(*at, what),
            _ => Ok(()),
        }
    }
}

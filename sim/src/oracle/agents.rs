//! An agent answers each call of its application at most once; no two instances of a barrier share one
//! result; it tells an error exactly while it is in error, and tells each error once; registering,
//! leaving and the grace of a heartbeat that failed end in time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_core::agent::{Reply, State};
use rondo_core::ids::{CallId, ServiceIncarnation};
use rondo_core::status::Status;
use rondo_core::time::{Duration, Time};

use super::{Oracle, Seen, Shadow, Verdict};
use crate::checks::{Check, reached};
use crate::workload::agents::{AppCall, OfAgent};

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
    /// When it must have ended.
    due: Time,
}

/// An agent in one process.
#[derive(Debug, Default)]
struct OneAgent {
    register: Duration,
    shutdown: Duration,
    waiting: BTreeMap<CallId, Waiting>,
    life: Option<ServiceIncarnation>,
    /// Instances of barriers that it has passed, by life.
    passed: BTreeSet<(ServiceIncarnation, Arc<str>, i64)>,
    /// Since when no heartbeat was answered well, if one has failed.
    failing: Option<Time>,
    /// Errors told since the agent was not in error.
    told: u32,
}

/// All agents, by actor.
#[derive(Default)]
pub(super) struct Agents {
    all: BTreeMap<u32, OneAgent>,
}

impl OneAgent {
    fn asked(&mut self, now: Time, call: CallId, what: AppCall) {
        let within = match what {
            AppCall::Connect => Some(self.register),
            AppCall::Shutdown => Some(self.shutdown),
            AppCall::Barrier(_) | AppCall::Other => None,
        };
        let due = within.map_or(Time::NEVER, |within| now.after(within).after(GRACE));
        self.waiting.insert(call, Waiting { what, life: self.life, due });
    }

    fn done(&mut self, call: CallId, result: &Result<Reply, Status>) -> Verdict {
        let Some(Waiting { what, life, .. }) = self.waiting.remove(&call) else {
            return Err(format!("call {call} of an application is answered, and does not wait"));
        };
        match (what, life, result) {
            (AppCall::Connect, _, Ok(Reply::Life(life))) => {
                (self.life, self.failing) = (Some(*life), None);
            }
            (AppCall::Barrier(id), Some(life), Ok(Reply::Barrier { counter })) => {
                reached(Check::AgentPassed);
                if !self.passed.insert((life, id.clone(), *counter)) {
                    return Err(format!("{id}::{counter} was passed twice by one process"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn failed(&mut self) -> Verdict {
        self.told = self.told.saturating_add(1);
        match self.told {
            1 => Ok(()),
            _ => Err("an agent has told its application twice that it is in error".into()),
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
        if let Some(since) = self.failing.filter(|since| now > since.after(FAILING).after(SLACK)) {
            let ms = now.since(since).as_millis();
            return Err(format!("for {ms} ms no heartbeat was answered, and the agent goes on"));
        }
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
            OfAgent::Asked { call, what } => self.asked(now, *call, what.clone()),
            OfAgent::Cancelled { call } => drop(self.waiting.remove(call)),
            OfAgent::Beat { good: true } => self.failing = None,
            OfAgent::Beat { good: false } => drop(self.failing.get_or_insert(now)),
            OfAgent::Done { call, result } => return self.done(*call, result),
            OfAgent::Failed => return self.failed(),
            OfAgent::Spins => return Err("a tick of an agent is due and changes nothing".into()),
            OfAgent::Looked { state, error, connecting } => {
                return self.looked(now, (*state, *error, *connecting));
            }
        }
        Ok(())
    }
}

impl Oracle for Agents {
    fn name(&self) -> &'static str {
        "agent"
    }

    fn outlives_disk(&self) -> bool {
        true
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, _: &Shadow) -> Verdict {
        match seen {
            Seen::Agent { actor, at, what } => self.all.entry(*actor).or_default().see(*at, what),
            _ => Ok(()),
        }
    }
}

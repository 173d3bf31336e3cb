//! The calls of an agent to the service: none for nobody, and none missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_core::agent::State;
use rondo_core::ids::CallId;
use rondo_core::status::{Code, Status};

use super::Verdict;
use crate::checks::{Check, reached};
use crate::workload::agents::{AgentCall, AppCall, Ended};

/// Calls to the service under way.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Each with the application's call that it is for, if it is for one.
    open: BTreeMap<u64, (AgentCall, Option<CallId>)>,
    /// What the application has just asked for, and whether the agent has to refuse it.
    asking: Option<(CallId, bool)>,
    /// The application's calls for which the service was called.
    sent: BTreeSet<CallId>,
    /// A registration has just failed in a way that may pass, with this status.
    register_failed: Option<Code>,
}

impl Calls {
    pub(super) fn asked(&mut self, call: CallId, has_to_refuse: bool) {
        (self.asking, self.register_failed) = (Some((call, has_to_refuse)), None);
    }

    pub(super) fn called(&mut self, rpc: u64, what: &AgentCall) {
        self.register_failed = None;
        let of = self.asking.map(|(call, _)| call).filter(|_| *what == AgentCall::Application);
        self.sent.extend(of);
        self.open.insert(rpc, (what.clone(), of));
    }

    pub(super) fn withdrawn(&mut self, rpc: u64) {
        self.open.remove(&rpc);
        self.register_failed = None;
    }

    /// A call has ended; what it was for.
    pub(super) fn heard(&mut self, rpc: u64, ended: Ended) -> Option<AgentCall> {
        let (what, _) = self.open.remove(&rpc)?;
        let passes = match ended {
            Ended::Lost(code) => Some(code),
            Ended::Refused(code) => Some(code).filter(|code| *code == Code::Aborted),
            Ended::Well(_) => None,
        };
        (self.asking, self.register_failed) =
            (None, passes.filter(|_| what == AgentCall::Register));
        Some(what)
    }

    /// The status with which a registration has just failed, if trying again makes sense.
    pub(super) const fn register_failed(&self) -> Option<Code> {
        self.register_failed
    }

    /// Whether the agent may tell that a call has failed: it has asked the service, or the call makes
    /// no sense as it stands.
    pub(super) fn may_refuse(&mut self, call: CallId, what: &AppCall, status: &Status) -> Verdict {
        let by_itself = self.asking.take_if(|(asked, _)| *asked == call);
        let Some((_, has_to)) = by_itself.filter(|_| !self.sent.remove(&call)) else {
            return Ok(());
        };
        reached(Check::AgentRefused);
        match has_to {
            true => Ok(()),
            false => Err(format!("an agent refuses {what:?}, which it could do: {status}")),
        }
    }

    /// Each call that an application waits for is asked for.
    pub(super) fn is_asked(&self, call: CallId, what: &AppCall) -> Verdict {
        reached(Check::AgentAsks);
        match self.open.values().any(|(_, of)| *of == Some(call)) {
            true => Ok(()),
            false => Err(format!("{what:?} of an application waits, and nothing is under way")),
        }
    }

    /// Nothing is asked for that nobody wants.
    pub(super) fn looked(
        &mut self,
        (state, connecting): (State, bool),
        waits: impl Fn(CallId) -> bool,
    ) -> Verdict {
        (self.asking, self.register_failed) = (None, None);
        self.sent.retain(|call| waits(*call));
        let count = |of: &AgentCall| self.open.values().filter(|(what, _)| what == of).count();
        let (polls, registers) = (count(&AgentCall::Poll), count(&AgentCall::Register));
        if polls > usize::from(state == State::Running) {
            return Err(format!("{polls} polls of an agent that is {state:?}"));
        }
        if registers > usize::from(connecting) {
            return Err(format!("{registers} registrations of an agent that is {state:?}"));
        }
        let for_nobody = self.open.values().find_map(|(_, of)| of.filter(|call| !waits(*call)));
        match for_nobody {
            Some(call) => Err(format!("call {call} does not wait, and the service is asked")),
            None => Ok(()),
        }
    }

    /// Keys that the service is asked to watch.
    pub(super) fn watches(&self) -> impl Iterator<Item = &Arc<str>> {
        self.open.values().filter_map(|(what, _)| match what {
            AgentCall::Watch(key) => Some(key),
            _ => None,
        })
    }
}

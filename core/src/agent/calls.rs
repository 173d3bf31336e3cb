//! Calls to the server, what they are for, and what their answers mean.

use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

use super::errors;
use super::machine::Agent;
use super::types::{Effect, Reply, Request, State};
use crate::ids::CallId;
use crate::status::{Code, Status};
use crate::time::Time;

/// What a call to the server is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Register,
    Heartbeat,
    Poll,
    Watch(Arc<str>),
    Barrier(CallId, Arc<str>),
    Devices(CallId),
    Reset(CallId),
    Shutdown(CallId),
    /// A key or a change is waited for: whoever leaves does not wait any more.
    Wait(CallId),
    /// The application's own affair.
    Plain(CallId),
}

impl Purpose {
    /// That of a request which the application alone wants answered.
    pub(super) const fn of(call: CallId, request: &Request) -> Self {
        match request {
            Request::Get { .. } | Request::WatchJob { .. } => Self::Wait(call),
            _ => Self::Plain(call),
        }
    }

    /// The application's call that waits for it.
    pub(super) const fn call(&self) -> Option<CallId> {
        match self {
            Self::Register | Self::Heartbeat | Self::Poll | Self::Watch(_) => None,
            Self::Barrier(call, _)
            | Self::Devices(call)
            | Self::Reset(call)
            | Self::Shutdown(call)
            | Self::Wait(call)
            | Self::Plain(call) => Some(*call),
        }
    }
}

impl Agent {
    pub(super) fn answered(
        &mut self,
        now: Time,
        purpose: Purpose,
        result: Result<Reply, Status>,
        entropy: u64,
        out: &mut Vec<Effect>,
    ) {
        match purpose {
            Purpose::Register => self.register_answered(now, result, entropy, out),
            Purpose::Heartbeat => self.heartbeat_answered(now, result, out),
            Purpose::Poll => self.poll_answered(result, out),
            Purpose::Watch(key) => self.watch_answered(now, key, result, entropy, out),
            Purpose::Barrier(call, id) => {
                self.barriers.end(&id, &result);
                out.push(Effect::Done { call, result });
            }
            Purpose::Devices(call) => {
                if let Ok(Reply::Devices(devices)) = &result {
                    self.devices = Some(devices.clone());
                }
                out.push(Effect::Done { call, result });
            }
            Purpose::Reset(call) => self.reset_answered(call, result, out),
            Purpose::Shutdown(call) => {
                self.leave(out);
                out.push(Effect::Done { call, result });
            }
            Purpose::Wait(call) | Purpose::Plain(call) => out.push(Effect::Done { call, result }),
        }
    }

    /// The service refuses a reset when the task is neither connected nor in an error, and when the life in
    /// which it was is over. Either way nothing is left to reset there: the error is this agent's alone.
    fn reset_answered(
        &mut self,
        call: CallId,
        result: Result<Reply, Status>,
        out: &mut Vec<Effect>,
    ) {
        let result = result.or_else(|status| match status.code {
            Code::FailedPrecondition | Code::Aborted => Ok(Reply::Done),
            _ => Err(status),
        });
        if result.is_ok() {
            self.forget_error(out);
        }
        out.push(Effect::Done { call, result });
    }

    /// The application does not wait any more. That the task came to a barrier stays.
    pub(super) fn cancel(&mut self, call: CallId, out: &mut Vec<Effect>) {
        if self.connecting.as_ref().is_some_and(|connecting| connecting.call == call) {
            self.connecting = None;
            self.withdraw(|purpose| *purpose == Purpose::Register, out);
        }
        for purpose in self.withdraw(|purpose| purpose.call() == Some(call), out) {
            if let Purpose::Barrier(_, id) = purpose {
                self.barriers.abandon(&id);
            }
        }
        for watch in self.watches.values_mut().filter(|watch| watch.starting == Some(call)) {
            watch.starting = None;
        }
    }

    pub(super) fn wait_for_all(
        &mut self,
        call: CallId,
        devices: Bytes,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        if self.state != State::Running {
            return Err(errors::wrong_state("WaitForAllTasks", "RUNNING", self.state));
        }
        self.send(Purpose::Devices(call), Request::WaitForAllTasks { devices }, None, out);
        Ok(())
    }
}

//! Registering: tried again until it succeeds, the server says no, or the time is over.

use alloc::vec::Vec;

use super::calls::Purpose;
use super::errors;
use super::machine::Agent;
use super::types::{Effect, Reply, Request, State};
use crate::ids::CallId;
use crate::status::{Code, Detail, Status};
use crate::time::{Duration, Time};

/// The server's own timeout should be heard of before the agent gives up.
const GRACE: Duration = Duration::from_secs(5);
/// Pause after the first try that failed, and the longest one.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// See [`PAUSE_MIN`].
const PAUSE_MAX: Duration = Duration::from_secs(16);

/// A registration under way.
#[derive(Clone, Debug)]
pub(super) struct Connecting {
    pub(super) call: CallId,
    until: Time,
    pause: Duration,
    pub(super) retry_at: Option<Time>,
}

impl Agent {
    pub(super) fn connect(
        &mut self,
        now: Time,
        call: CallId,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        if self.state != State::Disconnected {
            return Err(errors::wrong_state("Connect", "DISCONNECTED", self.state));
        }
        if self.connecting.is_some() {
            return Err(errors::already("Connect is under way"));
        }
        let timeout = self.config.as_ref().map_or(Duration::ZERO, |it| it.register_timeout);
        let until = now.after(timeout).after(GRACE);
        self.connecting = Some(Connecting { call, until, pause: PAUSE_MIN, retry_at: None });
        self.register(now, out);
        Ok(())
    }

    fn register(&mut self, now: Time, out: &mut Vec<Effect>) {
        if let Some(connecting) = &mut self.connecting {
            connecting.retry_at = None;
            let deadline = connecting.until.since(now);
            self.send(Purpose::Register, Request::Register, Some(deadline), out);
        }
    }

    pub(super) fn retry_registration(&mut self, now: Time, out: &mut Vec<Effect>) {
        let due = self.connecting.as_ref().and_then(|connecting| connecting.retry_at);
        if due.is_some_and(|at| at <= now) {
            self.register(now, out);
        }
    }

    pub(super) fn register_answered(
        &mut self,
        now: Time,
        result: Result<Reply, Status>,
        entropy: u64,
        out: &mut Vec<Effect>,
    ) {
        let Some(mut connecting) = self.connecting.take() else {
            return;
        };
        let status = match result {
            Ok(Reply::Life(life)) => {
                self.life = Some(life);
                self.barriers.begin(life);
                self.state = State::Running;
                out.push(Effect::Done { call: connecting.call, result: Ok(Reply::Life(life)) });
                return self.begin_living(now, out);
            }
            Ok(_) => Status::new(Code::Internal, "the server's answer tells no life"),
            Err(status) => status,
        };
        let retry_at = now.after(connecting.next_pause(entropy));
        if is_worth_a_retry(&status) && retry_at < connecting.until {
            connecting.retry_at = Some(retry_at);
            self.connecting = Some(connecting);
            return;
        }
        out.push(Effect::Done { call: connecting.call, result: Err(status.clone()) });
        self.set_error(status, out);
    }
}

impl Agent {
    /// Ends a registration under way: its late answer counts for nothing.
    pub(super) fn stop_connecting(&mut self, status: &Status, out: &mut Vec<Effect>) {
        if let Some(connecting) = self.connecting.take() {
            self.withdraw(|purpose| *purpose == Purpose::Register, out);
            out.push(Effect::Done { call: connecting.call, result: Err(status.clone()) });
        }
    }
}

impl Connecting {
    /// Half the pause, and up to as much again, so that not all tasks of a job try in one moment.
    fn next_pause(&mut self, entropy: u64) -> Duration {
        let half = (self.pause.as_nanos() / 2).max(1);
        self.pause = Duration::from_nanos(self.pause.as_nanos().saturating_mul(2)).min(PAUSE_MAX);
        Duration::from_nanos(half.saturating_add(entropy % half))
    }
}

/// Whether a registration may succeed later: the way to the service has failed, or it says so.
fn is_worth_a_retry(status: &Status) -> bool {
    let of_service = |detail: &Detail| matches!(detail, Detail::CoordinationService { .. });
    matches!(status.code, Code::Aborted | Code::Internal) || !status.details.iter().any(of_service)
}

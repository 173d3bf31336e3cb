//! While the task takes part: it shows that it lives, and hears of errors.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::calls::Purpose;
use super::errors;
use super::machine::Agent;
use super::types::{Effect, Reply, Request, State};
use crate::ids::CallId;
use crate::status::{Code, Status};
use crate::time::{Duration, Time};

/// A heartbeat that failed may have failed because everybody is leaving.
const FAILING: Duration = Duration::from_secs(1);
/// Pause before a heartbeat that got lost on its way goes out again.
const LOST_HEARTBEAT: Duration = Duration::from_millis(100);
/// The server's own timeout should be heard of before the agent gives up.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

impl Agent {
    pub(super) fn begin_living(&mut self, now: Time, out: &mut Vec<Effect>) {
        let Some(config) = &self.config else {
            return;
        };
        self.next_heartbeat = Some(now.after(config.heartbeat_period()));
        if config.polls_for_errors {
            self.send(Purpose::Poll, Request::PollForError, None, out);
        }
    }

    pub(super) fn beat_if_due(&mut self, now: Time, out: &mut Vec<Effect>) {
        let period = self.config.as_ref().map(|config| config.heartbeat_period());
        let due = self.next_heartbeat.filter(|at| *at <= now);
        let (Some(period), Some(_)) = (period, due) else {
            return;
        };
        self.next_heartbeat = None;
        self.send(Purpose::Heartbeat, Request::Heartbeat, Some(period), out);
        // The next one counts from when this one was sent, however long its answer takes.
        self.next_heartbeat = Some(now.after(period));
    }

    pub(super) fn heartbeat_answered(
        &mut self,
        now: Time,
        result: Result<Reply, Status>,
        out: &mut Vec<Effect>,
    ) {
        if self.state != State::Running {
            return;
        }
        match result {
            Ok(Reply::Life(life)) if Some(life) != self.life => {
                let known = self.life.map_or(0, |life| life.get());
                let text = format!("the server has begun another life: {life}, not {known}");
                self.set_error(Status::new(Code::Aborted, text), out);
            }
            Ok(_) => self.failing = None,
            Err(status) => {
                if status.code.is_of_connection() {
                    let again = now.after(LOST_HEARTBEAT);
                    self.next_heartbeat = self.next_heartbeat.map(|at| at.min(again));
                }
                self.failing.get_or_insert((now.after(FAILING), status));
            }
        }
    }

    pub(super) fn fail_if_due(&mut self, now: Time, out: &mut Vec<Effect>) {
        if self.failing.as_ref().is_some_and(|(at, _)| *at <= now)
            && let Some((_, status)) = self.failing.take()
        {
            self.set_error(status, out);
        }
    }

    pub(super) fn poll_answered(&mut self, result: Result<Reply, Status>, out: &mut Vec<Effect>) {
        match result {
            // Somebody else polls for this task, or the job is over.
            Err(status) if status.code == Code::Cancelled => {}
            Err(status) => self.set_error(status, out),
            Ok(_) => {}
        }
    }

    /// The agent is in error, and its application is told, once.
    pub(super) fn set_error(&mut self, status: Status, out: &mut Vec<Effect>) {
        if matches!(self.state, State::Error | State::Uninitialized) {
            return;
        }
        self.state = State::Error;
        self.error = Some(status.clone());
        self.stop_connecting(&status, out);
        self.stop_living(out);
        out.push(Effect::Failed { status });
    }

    fn stop_living(&mut self, out: &mut Vec<Effect>) {
        (self.next_heartbeat, self.failing) = (None, None);
        self.withdraw(|purpose| matches!(purpose, Purpose::Heartbeat | Purpose::Poll), out);
    }

    pub(super) fn report(
        &mut self,
        call: CallId,
        code: Code,
        message: String,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        if self.state != State::Running {
            return Err(errors::wrong_state("ReportError", "RUNNING", self.state));
        }
        self.set_error(Status::new(code, message.as_str()), out);
        self.send_for(call, Request::ReportError { code, message }, out);
        Ok(())
    }

    pub(super) fn reset(&mut self, call: CallId, out: &mut Vec<Effect>) -> Result<(), Status> {
        if self.state != State::Error {
            return Err(errors::wrong_state("Reset", "ERROR", self.state));
        }
        self.send(Purpose::Reset(call), Request::Reset, None, out);
        Ok(())
    }

    /// The server has disconnected the task, so that nothing waits for it there.
    pub(super) fn forget_error(&mut self, out: &mut Vec<Effect>) {
        if self.state == State::Error {
            (self.state, self.error, self.life) = (State::Disconnected, None, None);
            self.stop_waiting(|it| matches!(it, Purpose::Barrier(..) | Purpose::Shutdown(_)), out);
            self.leave_barriers();
        }
    }

    /// Takes calls back, and tells the application that the task has left.
    fn stop_waiting(&mut self, which: impl Fn(&Purpose) -> bool, out: &mut Vec<Effect>) {
        for purpose in self.withdraw(which, out) {
            if let Some(call) = purpose.call() {
                out.push(Effect::Done { call, result: Err(errors::left()) });
            }
        }
    }

    fn leave_barriers(&mut self) {
        let recoverable = self.config.as_ref().is_some_and(|config| config.recoverable);
        self.barriers.leave(recoverable);
    }

    pub(super) fn shut_down(&mut self, call: CallId, out: &mut Vec<Effect>) -> Result<(), Status> {
        let timeout = self.config.as_ref().map_or(Duration::ZERO, |it| it.shutdown_timeout);
        let leaves = |purpose: &Purpose| matches!(purpose, Purpose::Shutdown(_));
        match self.state {
            State::Running if self.rpcs.values().any(leaves) => {
                Err(errors::already("Shutdown is under way"))
            }
            State::Running => {
                let deadline = timeout.plus(SHUTDOWN_GRACE);
                let purpose = Purpose::Shutdown(call);
                self.send(purpose, Request::Shutdown, Some(deadline), out);
                Ok(())
            }
            State::Disconnected => {
                self.stop_connecting(&errors::left(), out);
                out.push(Effect::Done { call, result: Ok(Reply::Done) });
                Ok(())
            }
            state => Err(errors::wrong_state("Shutdown", "RUNNING", state)),
        }
    }

    /// The task takes no part any more: nothing of it waits.
    pub(super) fn leave(&mut self, out: &mut Vec<Effect>) {
        if self.state == State::Running {
            self.state = State::Disconnected;
        }
        self.life = None;
        self.stop_living(out);
        let waits = |purpose: &Purpose| {
            matches!(purpose, Purpose::Wait(_) | Purpose::Barrier(..) | Purpose::Watch(_))
        };
        self.stop_waiting(waits, out);
        self.leave_barriers();
        for (key, watch) in core::mem::take(&mut self.watches) {
            let status = errors::left();
            out.push(match watch.starting {
                Some(call) => Effect::Done { call, result: Err(status) },
                None => Effect::WatchEnded { key, status },
            });
        }
    }
}

//! The reader and the dispatcher: becoming a client of the iteration, and staying one.

use alloc::format;
use alloc::vec::Vec;

use super::config::Config;
use super::retry::Retry;
use super::shared::{Purpose, Shared};
use super::types::{Answer, Effect, HeartbeatAnswer, Request, RpcId};
use crate::ids::JobId;
use crate::status::{Code, Status};
use crate::time::{Duration, Time};

/// Where the reader is on its way to being a client, and when it was heard of last.
#[derive(Clone, Debug, Default)]
pub(super) struct Membership {
    job: Option<JobId>,
    /// The call under way: one at a time.
    call: Option<RpcId>,
    pub(super) retry: Retry,
    next_heartbeat: Option<Time>,
    /// The pause before it while something is about to change.
    pause: Option<Duration>,
}

/// What a heartbeat says of rounds: the last begun, and the one that is not begun.
pub(super) type Rounds = (Option<i64>, Option<i64>);

impl Membership {
    /// Calls the dispatcher if it is time to.
    pub(super) fn go_on(
        &mut self,
        now: Time,
        rounds: Rounds,
        shared: &mut Shared,
        out: &mut Vec<Effect>,
    ) {
        if self.call.is_some() || self.retry.waits(now) {
            return;
        }
        let request = match (self.job, shared.client) {
            (_, Some(client)) => {
                if self.next_heartbeat.is_some_and(|at| now < at) {
                    return;
                }
                let (current_round, blocked_round) = rounds;
                Request::Heartbeat { client, current_round, blocked_round }
            }
            (Some(job), None) => {
                Request::CreateIteration { job, repetition: shared.config.repetition }
            }
            (None, None) => Request::CreateJob,
        };
        let purpose = match request {
            Request::CreateJob => Purpose::Job,
            Request::CreateIteration { .. } => Purpose::Iteration,
            _ => Purpose::Heartbeat,
        };
        self.retry.begin();
        self.call = Some(shared.ask(purpose, request, shared.config.ask_deadline, out));
    }

    /// When to go on, while no call is under way.
    pub(super) fn deadline(&self, shared: &Shared) -> Option<Time> {
        match (self.call, self.retry.at()) {
            (Some(_), _) => None,
            (None, Some(at)) => Some(at),
            (None, None) if shared.client.is_some() => self.next_heartbeat,
            (None, None) => Some(Time::ZERO),
        }
    }

    /// Whether it is about to become a client.
    pub(super) fn is_joining(&self, shared: &Shared) -> bool {
        let call = self.call.and_then(|rpc| shared.purposes.get(&rpc));
        call == Some(&Purpose::Iteration)
    }

    /// The next heartbeat goes out now, or with the answer to the one under way.
    pub(super) fn hurry(&mut self) {
        self.next_heartbeat = Some(Time::ZERO);
    }

    /// Takes an answer, or a failure that may be made good. A heartbeat's answer is passed on.
    ///
    /// # Errors
    /// A refusal that is final.
    pub(super) fn answered(
        &mut self,
        now: Time,
        result: Result<Answer, Status>,
        entropy: u64,
        shared: &mut Shared,
    ) -> Result<Option<HeartbeatAnswer>, Status> {
        self.call = None;
        match result {
            Ok(Answer::Job(job)) => self.job = Some(job),
            Ok(Answer::Client(client)) => shared.client = Some(client),
            Ok(Answer::Heartbeat(answer)) => {
                self.retry.succeeded();
                self.next_heartbeat = Some(now.after(shared.config.heartbeat_interval));
                return Ok(Some(answer));
            }
            Ok(_) => return Err(Status::new(Code::Internal, "an answer to something else")),
            Err(status)
                if status.code.is_soft() || shared.client.is_some() && status.code.may_pass() =>
            {
                shared.count_retry();
                self.retry.failed(now, status, entropy, shared.config.heartbeat_interval);
                return Ok(None);
            }
            Err(status) => return Err(self.refused(status, shared)),
        }
        self.retry.succeeded();
        Ok(None)
    }

    fn refused(&self, status: Status, shared: &mut Shared) -> Status {
        let Status { code, message, details } = status;
        let what = match (self.job, shared.client) {
            (None, _) => "the dispatcher refuses the job",
            (Some(_), None) => "the dispatcher refuses the iteration",
            (Some(_), Some(_)) => "the dispatcher refuses this reader",
        };
        if code == Code::NotFound && shared.client.take().is_some() {
            return Status::new(code, format!("{GIVEN_UP}: {message}")).with(details);
        }
        Status::new(code, format!("{what}: {message}")).with(details)
    }

    /// The next heartbeat goes out sooner than usual, since something is about to change.
    pub(super) fn sooner(&mut self, now: Time, config: &Config) {
        let pause = self.pause.map_or(config.heartbeat_interval_min, |pause| {
            Duration::from_nanos(pause.as_nanos().saturating_mul(3) / 2)
        });
        let pause = pause.min(config.heartbeat_interval);
        self.pause = Some(pause);
        let at = now.after(pause);
        self.next_heartbeat = Some(self.next_heartbeat.map_or(at, |usual| usual.min(at)));
    }

    /// Nothing is about to change.
    pub(super) fn as_usual(&mut self) {
        self.pause = None;
    }
}

/// What became of a reader that the dispatcher does not know.
pub(super) const GIVEN_UP: &str = "the dispatcher has given this reader up, or lost its state";

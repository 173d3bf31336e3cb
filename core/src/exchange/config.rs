//! What an operator may set.

use alloc::format;
use alloc::string::String;

use crate::status::{Code, Status};
use crate::time::Duration;

/// What becomes of requests that need a server that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// They fail at once.
    Fail,
    /// They do without it: who waits is told of whom there is no answer. If nobody is left they fail.
    Partial,
    /// They are sent to the process that takes its rank, and fail if none does within this time.
    WaitForReturn {
        /// How long after the server was lost, or the request was made if that was later.
        timeout: Duration,
    },
}

/// The settings of an exchange: bounds and spans of its scheduler, workers and servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Workers and servers, counted in processes, that a scheduler manages at most.
    pub processes_max: u32,
    /// Addresses of one process.
    pub addresses_max: usize,
    /// How long the scheduler waits until all have registered; `None` for ever.
    pub bootstrap_timeout: Option<Duration>,
    /// How often a process says that it lives.
    pub heartbeat_interval: Duration,
    /// A process not heard of for this long is lost.
    pub heartbeat_timeout: Duration,
    /// How long a connection may be broken until its other end counts as lost.
    pub reconnect_grace: Duration,
    /// The pause before the first attempt to connect again; each further one is twice as long.
    pub reconnect_pause_min: Duration,
    /// The longest pause between attempts to connect.
    pub reconnect_pause_max: Duration,
    /// How long a worker waits for a request to go along with before it acknowledges an answer.
    pub acknowledge_pause: Duration,
    /// Barriers of one process at which it waits at once.
    pub barriers_max: usize,
    /// What becomes of requests that need a server that is lost.
    pub policy: Policy,
    /// Tensors of one request of a worker: pushes and pulls together.
    pub tensors_max: usize,
    /// Bytes of what one request pushes or pulls, counted for one server.
    pub request_bytes_max: u64,
    /// Requests of a worker that nobody has waited for.
    pub handlers_max: usize,
    /// Traces kept of requests that are over, and passages of requests to servers and back.
    pub traces_max: usize,
    /// Connections to the scheduler of who only looks on, to collect traces.
    pub observers_max: usize,
    /// Requests of one worker that are not over on one server.
    pub worker_requests_max: u32,
    /// Bytes of what they push.
    pub worker_bytes_max: u64,
    /// Requests of one worker that push the same key and are not over on one server.
    pub key_credits: u32,
    /// Calls that wait in one process at once.
    pub calls_max: usize,
    /// Receive slots registered on one server.
    pub slots_max: usize,
    /// Whether a call for a batch of all workers fails when one of them is lost, and does not wait for
    /// its return.
    pub batch_fails_on_loss: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            processes_max: 1 << 16,
            addresses_max: 16,
            bootstrap_timeout: None,
            heartbeat_interval: Duration::from_secs(1),
            heartbeat_timeout: Duration::from_secs(10),
            reconnect_grace: Duration::from_secs(2),
            reconnect_pause_min: Duration::from_millis(10),
            reconnect_pause_max: Duration::from_millis(500),
            acknowledge_pause: Duration::from_millis(100),
            barriers_max: 64,
            policy: Policy::Fail,
            tensors_max: 1 << 12,
            request_bytes_max: 4 << 30,
            handlers_max: 1 << 16,
            traces_max: 1 << 12,
            observers_max: 16,
            worker_requests_max: 1 << 8,
            worker_bytes_max: 8 << 30,
            key_credits: 1,
            calls_max: 1 << 16,
            slots_max: 1 << 20,
            batch_fails_on_loss: true,
        }
    }
}

impl Config {
    /// Whether the settings make sense together.
    ///
    /// # Errors
    /// INVALID_ARGUMENT, naming the settings that do not.
    pub fn check(&self) -> Result<(), Status> {
        self.check_counts()?;
        let longer = |long: (&str, Duration), short: (&str, Duration)| match long.1 > short.1 {
            true => Ok(()),
            false => Err(refused(format!(
                "{} is {} ms, which must be longer than {}, {} ms",
                long.0,
                long.1.as_millis(),
                short.0,
                short.1.as_millis()
            ))),
        };
        let interval = ("heartbeat_interval", self.heartbeat_interval);
        longer(interval, ("no time", Duration::ZERO))?;
        longer(("heartbeat_timeout", self.heartbeat_timeout), interval)?;
        let pause = ("reconnect_pause_min", self.reconnect_pause_min);
        longer(pause, ("no time", Duration::ZERO))?;
        longer(("reconnect_grace", self.reconnect_grace), pause)?;
        if self.reconnect_pause_max < self.reconnect_pause_min {
            return Err(refused("reconnect_pause_max is less than reconnect_pause_min".into()));
        }
        if self.worker_bytes_max < self.request_bytes_max {
            return Err(refused(format!(
                "worker_bytes_max is {}, less than request_bytes_max, {}: a request could never be sent",
                self.worker_bytes_max, self.request_bytes_max
            )));
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<(), Status> {
        let counts = [
            ("processes_max", u64::from(self.processes_max)),
            ("addresses_max", self.addresses_max as u64),
            ("barriers_max", self.barriers_max as u64),
            ("tensors_max", self.tensors_max as u64),
            ("request_bytes_max", self.request_bytes_max),
            ("handlers_max", self.handlers_max as u64),
            ("traces_max", self.traces_max as u64),
            ("observers_max", self.observers_max as u64),
            ("worker_requests_max", u64::from(self.worker_requests_max)),
            ("key_credits", u64::from(self.key_credits)),
            ("calls_max", self.calls_max as u64),
            ("slots_max", self.slots_max as u64),
        ];
        match counts.into_iter().find(|(_, count)| *count == 0) {
            Some((name, _)) => Err(refused(format!("{name} is 0: it must be at least 1"))),
            None => Ok(()),
        }
    }
}

fn refused(text: String) -> Status {
    Status::new(Code::InvalidArgument, text)
}

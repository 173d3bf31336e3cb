//! A run of an exchange of tensors: how many take part, how they are set, and what their applications do.
//! Drawn from a stream of its own, so that all other runs stay what they are.

use rondo_core::exchange::membership::Sizes;
use rondo_core::exchange::{Config, Policy};
use rondo_core::time::Duration;
use serde::{Deserialize, Serialize};

use super::draw::small;
use crate::rng::Stream;

/// An exchange. What is likely is said in thousandths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExchangeShape {
    /// Groups of workers.
    pub workers: u32,
    /// Groups of servers.
    pub servers: u32,
    /// Processes of each group.
    pub group: u32,
    /// What each is started with.
    pub settings: ExchangeSettings,
    /// Between two things that an application does, on average, in ms.
    pub act_ms: u64,
    /// How much slower servers' applications are.
    pub slower: u64,
    /// Keys that are pushed.
    pub keys: u64,
    /// Tensors pushed in a request at most.
    pub pushes: u64,
    /// Tensors pulled of each server in a request at most.
    pub pulls: u64,
    /// Bytes of a tensor at most.
    pub bytes: u64,
    /// Requests of a worker that nobody has waited for, at most.
    pub open: u64,
    /// How likely a frame's tensors come long after its header.
    pub slow_bodies: u32,
    /// How much later they come then, on average, in ms.
    pub body_ms: u64,
    /// How likely a call waits for a time only.
    pub timed: u32,
    /// How likely somebody gives up waiting, or a whole request.
    pub cancelled: u32,
    /// How likely a batch may do without some.
    pub partial: u32,
    /// How likely servers have registered buffers.
    pub registered: u32,
    /// How likely what is done is none of what may be done.
    pub astray: u32,
    /// How likely an application comes to a barrier.
    pub barriers: u32,
    /// How likely a process takes any rank.
    pub any_rank: u32,
    /// Between two things that go wrong with a process, on average, in ms; 0 for never.
    pub trouble_ms: u64,
    /// How long it, or the way to it, is away then, on average, in ms.
    pub away_ms: u64,
}

/// What becomes of requests that need a server that is lost; see [`Policy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lost {
    /// They fail.
    Fail,
    /// They do without it.
    Partial,
    /// They wait for its return.
    WaitForReturn,
}

/// What the processes of an exchange are started with; see [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExchangeSettings {
    /// Between heartbeats, in ms.
    pub heartbeat_ms: u64,
    /// Who is not heard of for so long is lost, in ms.
    pub timeout_ms: u64,
    /// How long a connection may be broken, in ms.
    pub grace_ms: u64,
    /// How long an acknowledgement waits for a request, in ms.
    pub acknowledge_ms: u64,
    /// What becomes of requests whose server is lost.
    pub lost: Lost,
    /// How long they wait for its return, in ms.
    pub return_ms: u64,
    /// Requests of a worker on a server.
    pub requests_max: u32,
    /// Their bytes.
    pub bytes_max: u64,
    /// Of them those that push one key.
    pub key_credits: u32,
    /// Requests that nobody has waited for.
    pub handlers_max: usize,
    /// Calls that wait.
    pub calls_max: usize,
    /// Whether a call for a batch fails when a worker is lost.
    pub batch_fails_on_loss: bool,
    /// Whether barriers go on without who is lost.
    pub goes_on_without_lost: bool,
    /// How long the scheduler may be away, in ms; 0 for ever.
    pub patience_ms: u64,
}

impl ExchangeShape {
    /// In one of seven runs.
    pub(super) fn draw(s: &mut Stream) -> Option<Self> {
        if !s.chance(140) {
            return None;
        }
        let settings = ExchangeSettings::draw(s);
        let mut pick = |of: &[u64]| s.pick(of).copied().unwrap_or(0);
        let mut shape = Self {
            workers: small(pick(&[2, 1, 2, 3])),
            servers: small(pick(&[1, 2, 2, 3])),
            group: small(pick(&[1, 1, 1, 2])),
            settings,
            act_ms: pick(&[100, 10, 500]),
            slower: pick(&[1, 1, 10]),
            keys: pick(&[3, 1, 8]),
            pushes: pick(&[2, 1, 4]),
            pulls: pick(&[1, 2, 0, 3]),
            bytes: pick(&[40, 8, 300]),
            open: pick(&[4, 1, 12]),
            body_ms: pick(&[1, 50, 1500]),
            trouble_ms: pick(&[0, 2000, 6000, 15_000]),
            away_ms: pick(&[500, 50, 4000]),
            ..Self::calm()
        };
        let mut rate = |of: &[u32]| s.pick(of).copied().unwrap_or(0);
        shape.slow_bodies = rate(&[0, 200, 700]);
        shape.timed = rate(&[0, 200, 600]);
        shape.cancelled = rate(&[0, 60, 200]);
        shape.partial = rate(&[0, 300, 1000]);
        shape.registered = rate(&[0, 500, 1000]);
        shape.astray = rate(&[0, 0, 40]);
        shape.barriers = rate(&[60, 0, 250]);
        shape.any_rank = rate(&[0, 0, 500]);
        Some(shape)
    }

    /// Two workers and a server, and nothing out of the way.
    pub const fn calm() -> Self {
        Self {
            workers: 2,
            servers: 1,
            group: 1,
            settings: ExchangeSettings::roomy(),
            act_ms: 100,
            slower: 1,
            keys: 3,
            pushes: 2,
            pulls: 1,
            bytes: 40,
            open: 4,
            slow_bodies: 0,
            body_ms: 1,
            timed: 0,
            cancelled: 0,
            partial: 0,
            registered: 0,
            astray: 0,
            barriers: 60,
            any_rank: 0,
            trouble_ms: 0,
            away_ms: 500,
        }
    }

    /// How many take part.
    pub const fn sizes(&self) -> Sizes {
        Sizes { workers: self.workers, servers: self.servers, group: self.group }
    }
}

impl ExchangeSettings {
    const fn roomy() -> Self {
        Self {
            heartbeat_ms: 1000,
            timeout_ms: 10_000,
            grace_ms: 2000,
            acknowledge_ms: 100,
            lost: Lost::Fail,
            return_ms: 3000,
            requests_max: 64,
            bytes_max: 1 << 20,
            key_credits: 1,
            handlers_max: 1000,
            calls_max: 1000,
            batch_fails_on_loss: true,
            goes_on_without_lost: false,
            patience_ms: 0,
        }
    }

    /// Bounds so low that they are met, or as they are.
    fn draw(s: &mut Stream) -> Self {
        let lost = [Lost::Fail, Lost::Partial, Lost::WaitForReturn];
        let (heartbeat_ms, timeout_ms) =
            s.pick(&[(1000, 10_000), (200, 2000), (1000, 5000)]).copied().unwrap_or((1000, 10_000));
        Self {
            heartbeat_ms,
            timeout_ms,
            grace_ms: s.pick(&[2000, 300, 6000]).copied().unwrap_or(2000),
            acknowledge_ms: s.pick(&[100, 1, 2000]).copied().unwrap_or(100),
            lost: s.pick(&lost).copied().unwrap_or(Lost::Fail),
            return_ms: s.pick(&[3000, 200, 20_000]).copied().unwrap_or(3000),
            requests_max: s.pick(&[64, 1, 3]).copied().unwrap_or(64),
            bytes_max: s.pick(&[1 << 20, 4000]).copied().unwrap_or(1 << 20),
            key_credits: s.pick(&[1, 1, 3]).copied().unwrap_or(1),
            handlers_max: s.pick(&[1000, 6]).copied().unwrap_or(1000),
            calls_max: s.pick(&[1000, 8]).copied().unwrap_or(1000),
            batch_fails_on_loss: !s.chance(400),
            goes_on_without_lost: s.chance(400),
            patience_ms: s.pick(&[0, 1500, 20_000]).copied().unwrap_or(0),
        }
    }

    /// The settings of every process.
    pub fn config(&self) -> Config {
        let policy = match self.lost {
            Lost::Fail => Policy::Fail,
            Lost::Partial => Policy::Partial,
            Lost::WaitForReturn => {
                Policy::WaitForReturn { timeout: Duration::from_millis(self.return_ms) }
            }
        };
        Config {
            heartbeat_interval: Duration::from_millis(self.heartbeat_ms),
            heartbeat_timeout: Duration::from_millis(self.timeout_ms),
            reconnect_grace: Duration::from_millis(self.grace_ms),
            acknowledge_pause: Duration::from_millis(self.acknowledge_ms),
            policy,
            request_bytes_max: self.bytes_max,
            worker_bytes_max: self.bytes_max,
            worker_requests_max: self.requests_max,
            key_credits: self.key_credits,
            handlers_max: self.handlers_max,
            calls_max: self.calls_max,
            batch_fails_on_loss: self.batch_fails_on_loss,
            ..Config::default()
        }
    }

    /// How long the scheduler may be away.
    pub fn patience(&self) -> Option<Duration> {
        Some(self.patience_ms).filter(|ms| *ms > 0).map(Duration::from_millis)
    }
}

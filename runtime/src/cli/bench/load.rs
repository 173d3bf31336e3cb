//! Load: calls on many streams of several connections at once, from one thread.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::JoinSet;

use super::rpc::{Answer, Broken, Connection, Drivers};

/// What to call, again and again.
pub(super) trait Calls: Send + Sync + 'static {
    /// The method's path.
    fn path(&self) -> &'static str;

    /// The encoded message of the call of this number.
    fn message(&self, serial: u64) -> Bytes;

    /// The status that is the answer, by its number on the wire: OK.
    fn code(&self) -> u32 {
        0
    }

    /// How long the answer is meant to take, which is no part of the latency reported.
    fn due_after(&self) -> Duration {
        Duration::ZERO
    }
}

/// How much load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Connections.
    pub(super) connections: u32,
    /// Calls under way on each.
    pub(super) streams: u32,
    /// No call is begun after this time.
    pub(super) duration: Duration,
    /// No more calls than this.
    pub(super) calls_max: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// From the first call to the last answer.
    pub(super) elapsed: Duration,
    /// Each answered call's time in microseconds, sorted.
    pub(super) latencies_us: Vec<u32>,
    /// Calls answered with another status than they should be.
    pub(super) refused: u64,
    /// The first of those statuses.
    pub(super) refusal: Option<String>,
}

/// What all streams share.
struct Run {
    calls: Arc<dyn Calls>,
    begun: AtomicU64,
    first_serial: u64,
    shape: Shape,
    start: Instant,
}

/// Lays the load on the server at `address`. Calls are numbered from `first_serial`.
///
/// # Errors
/// When a connection cannot be made or breaks.
pub(super) async fn lay(
    address: SocketAddr,
    calls: Arc<dyn Calls>,
    shape: Shape,
    first_serial: u64,
) -> Result<Outcome, Broken> {
    let mut connections = Vec::new();
    let mut drivers = Drivers::new();
    for _ in 0..shape.connections {
        connections.push(Connection::open(address, &mut drivers).await?);
    }
    let start = Instant::now();
    let run = Arc::new(Run { calls, begun: AtomicU64::new(0), first_serial, shape, start });
    let mut streams = JoinSet::new();
    for connection in &connections {
        for _ in 0..shape.streams {
            streams.spawn(stream(connection.clone(), Arc::clone(&run)));
        }
    }
    let mut outcome = Outcome::default();
    while let Some(ended) = streams.join_next().await {
        outcome.add(ended??);
    }
    outcome.end(start);
    Ok(outcome)
}

impl Outcome {
    /// Notes an answered call.
    pub(super) fn took(&mut self, time: Duration) {
        self.latencies_us.push(micros(time));
    }

    /// Notes a call that was answered otherwise than it should be.
    pub(super) fn refuse(&mut self, answer: &Answer) {
        self.refused = self.refused.saturating_add(1);
        let Answer { code, text, .. } = answer;
        self.refusal.get_or_insert_with(|| format!("grpc-status {code}: {text}"));
    }

    /// Ends a round that began at `start`.
    pub(super) fn end(&mut self, start: Instant) {
        self.elapsed = start.elapsed();
        self.latencies_us.sort_unstable();
    }

    /// Takes another's calls in.
    pub(super) fn add(&mut self, other: Self) {
        self.latencies_us.extend(other.latencies_us);
        self.refused = self.refused.saturating_add(other.refused);
        self.refusal = self.refusal.take().or(other.refusal);
    }
}

/// Makes one call after the other.
async fn stream(mut connection: Connection, run: Arc<Run>) -> Result<Outcome, Broken> {
    let mut outcome = Outcome::default();
    while run.start.elapsed() < run.shape.duration {
        let number = run.begun.fetch_add(1, Ordering::Relaxed);
        if number >= run.shape.calls_max {
            break;
        }
        let message = run.calls.message(run.first_serial.saturating_add(number));
        let begun = Instant::now();
        let answer = connection.call(run.calls.path(), &message).await?;
        if answer.code == run.calls.code() {
            outcome.took(begun.elapsed().saturating_sub(run.calls.due_after()));
        } else {
            outcome.refuse(&answer);
        }
    }
    Ok(outcome)
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

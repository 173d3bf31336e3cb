//! What answering a call means to a server of any kind: bounds, deadlines, panics, shutdown.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use rondo_core::status::{Code, Status};

use super::budget::Budget;
#[cfg(not(madsim))]
use super::gate::Gate;
use super::phase::{Phase, PhaseReceiver};
#[cfg(madsim)]
use super::sim_accept::Accepting;

/// How long answers may take to leave once calls have been cut.
pub(super) const FLUSH_MAX: Duration = Duration::from_secs(1);

/// A server's bounds.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Longest request message, in bytes.
    pub message_bytes_max: u64,
    /// Memory for large requests under way.
    pub budget: Budget,
    /// The number of the next connection. Servers of one process that share it give each connection a number
    /// of its own.
    pub connections: Arc<AtomicU64>,
    /// The gate at which busy connections wait for their turns. Servers of one process share it.
    #[cfg(not(madsim))]
    pub gate: Arc<Gate>,
    /// Open connections; above it, new ones are refused.
    pub connections_max: usize,
    /// Those of one address; of IPv6, of one network of 64 bits.
    pub connections_of_address_max: usize,
    /// Calls under way on one connection; above it, the client waits.
    pub calls_per_connection_max: u32,
    /// Memory for messages to clients on the same host, in bytes; with too little for one connection they
    /// go over that.
    pub shared_memory_bytes_max: u64,
    /// How often an idle connection is asked whether it is alive.
    pub keepalive_interval: Duration,
    /// How long it may take to answer.
    pub keepalive_timeout: Duration,
    /// How long a client may be silent before its first call and within a request.
    pub silence_max: Duration,
    /// How long a long answer may stay unread, beside a second for each 256 KiB of it, until its connection
    /// is closed; `None` for as long as its client likes.
    pub unread_max: Option<Duration>,
    /// How long calls under way may take once shutdown has begun.
    pub shutdown_grace: Duration,
    /// Whether accepting connections fails.
    #[cfg(madsim)]
    pub accepting: Accepting,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            message_bytes_max: 512 << 20,
            budget: Budget::new(1 << 30, 512 << 20),
            connections: Arc::default(),
            #[cfg(not(madsim))]
            gate: Arc::default(),
            connections_max: 10_000,
            connections_of_address_max: usize::MAX,
            calls_per_connection_max: 4096,
            shared_memory_bytes_max: 1 << 30,
            keepalive_interval: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
            silence_max: Duration::from_secs(60),
            unread_max: None,
            shutdown_grace: Duration::from_secs(2),
            #[cfg(madsim)]
            accepting: Accepting::default(),
        }
    }
}

/// How long a long answer may stay unread on a connection of no task.
pub const UNREAD_MAX: Duration = Duration::from_secs(60);

/// How many of so many connections one address may have: three quarters, so that a stranger leaves some for
/// others.
pub fn of_one_address(connections: usize) -> usize {
    connections.saturating_sub(connections / 4)
}

/// Refuses a message above a server's bound.
pub(super) fn check_length(length: u64, bound: u64) -> Result<(), Status> {
    if length <= bound {
        return Ok(());
    }
    let text = format!(
        "a message of {length} bytes exceeds the bound of {bound} bytes (--message-size-max)"
    );
    Err(Status::new(Code::ResourceExhausted, text))
}

/// Ends a call when its client's deadline has passed.
pub(super) async fn within_deadline<T>(
    deadline: Option<Duration>,
    call: Pin<&mut impl Future<Output = Result<T, Status>>>,
) -> Result<T, Status> {
    let Some(deadline) = deadline else {
        return call.await;
    };
    tokio::time::timeout(deadline, call).await.unwrap_or_else(|_| {
        let text = format!("not done within the client's deadline of {deadline:?}");
        Err(Status::new(Code::DeadlineExceeded, text))
    })
}

/// Refuses a call with `cut` once the server's life has come to its end for calls of this kind.
pub(super) async fn until_cut<T>(
    (mut phase, end): (PhaseReceiver, Phase),
    call: impl Future<Output = Result<T, Status>>,
    cut: impl FnOnce() -> Status,
) -> Result<T, Status> {
    tokio::select! {
        biased;
        result = call => result,
        () = phase.reached(end) => Err(cut()),
    }
}

/// Turns a panic in a handler into a refusal, so that neither the process nor the other calls of
/// the connection suffer.
pub(crate) async fn contain_panic<T>(
    path: &str,
    mut call: Pin<&mut impl Future<Output = Result<T, Status>>>,
) -> Result<T, Status> {
    let outcome =
        poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => std::task::Poll::Ready(Err(panic)),
        });
    outcome.await.unwrap_or_else(|panic| {
        let text = panic_text(panic.as_ref());
        tracing::error!(path, text, "a handler panicked: this is a bug in Rondo");
        Err(Status::new(Code::Internal, format!("{path} failed on a bug in Rondo: {text}")))
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text")
}

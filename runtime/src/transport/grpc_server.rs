//! gRPC in: connections in, calls to a [`Service`] by path, answers out. Nothing is decoded here.

use std::any::Any;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rondo_core::status::{Code, Status};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::budget::Budget;
use super::grpc_frame::{Allowance, ReplyBody, read_message};
use super::grpc_head::{self, Head, NotACall};
use super::{Call, ConnectionId, Service};

/// Unread data of one connection, and of one call, in bytes.
const WINDOW_BYTES: u32 = 16 << 20;
/// Longest HTTP/2 frame, in bytes.
const FRAME_BYTES_MAX: u32 = 1 << 20;
/// How long answers may take to leave once calls have been cut.
const FLUSH_MAX: Duration = Duration::from_secs(1);
/// Pause after the system refused to accept (out of file descriptors, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A server's bounds.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Longest request message, in bytes.
    pub message_bytes_max: u64,
    /// Memory for large requests under way.
    pub budget: Budget,
    /// Open connections; above it, new ones wait unaccepted.
    pub connections_max: usize,
    /// Calls under way on one connection; above it, the client waits.
    pub calls_per_connection_max: u32,
    /// How often an idle connection is asked whether it is alive.
    pub keepalive_interval: Duration,
    /// How long it may take to answer.
    pub keepalive_timeout: Duration,
    /// How long a client may be silent before its first call and within a request.
    pub silence_max: Duration,
    /// How long calls under way may take once shutdown has begun.
    pub shutdown_grace: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            message_bytes_max: 512 << 20,
            budget: Budget::new(1 << 30),
            connections_max: 10_000,
            calls_per_connection_max: 4096,
            keepalive_interval: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
            silence_max: Duration::from_secs(60),
            shutdown_grace: Duration::from_secs(2),
        }
    }
}

/// How far a server's life has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Takes connections and calls.
    Serving,
    /// Takes no new ones; calls under way go on.
    Draining,
    /// Calls under way are refused.
    Cutting,
}

/// What all connections share.
struct Shared {
    service: Arc<dyn Service>,
    config: ServerConfig,
    allowance: Allowance,
    phase: watch::Receiver<Phase>,
    connections: AtomicU64,
}

/// A connection as long as it is open.
struct Open {
    id: ConnectionId,
    service: Arc<dyn Service>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.service.closed(self.id);
    }
}

/// Serves `service` on `listener` until `shutdown` completes, then lets calls under way finish
/// within the grace, refuses the rest with UNAVAILABLE, and returns.
pub async fn serve(
    listener: TcpListener,
    service: Arc<dyn Service>,
    config: ServerConfig,
    shutdown: impl Future<Output = ()> + Send,
) {
    let (phase_sender, phase) = watch::channel(Phase::Serving);
    let allowance = Allowance {
        message_bytes_max: config.message_bytes_max,
        silence_max: config.silence_max,
        budget: config.budget.clone(),
    };
    let grace = config.shutdown_grace;
    let shared =
        Arc::new(Shared { service, config, allowance, phase, connections: AtomicU64::new(0) });
    let mut connections = JoinSet::new();
    tokio::select! {
        biased;
        () = shutdown => {}
        () = accept_all(&listener, &shared, &mut connections) => {}
    }
    drop(listener);
    drain(&phase_sender, &mut connections, grace).await;
}

async fn drain(phase: &watch::Sender<Phase>, connections: &mut JoinSet<()>, grace: Duration) {
    phase.send_replace(Phase::Draining);
    if tokio::time::timeout(grace, join_all(connections)).await.is_err() {
        phase.send_replace(Phase::Cutting);
        if tokio::time::timeout(FLUSH_MAX, join_all(connections)).await.is_err() {
            tracing::warn!(connections = connections.len(), "connections did not close; cut");
        }
    }
    connections.shutdown().await;
}

async fn join_all(connections: &mut JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

/// Accepts for ever.
async fn accept_all(listener: &TcpListener, shared: &Arc<Shared>, connections: &mut JoinSet<()>) {
    let slots = Arc::new(Semaphore::new(shared.config.connections_max.min(Semaphore::MAX_PERMITS)));
    loop {
        let slot = free_slot(&slots, shared.config.connections_max).await;
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => {
                connections.spawn(connection(Arc::clone(shared), stream, peer, slot));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn free_slot(slots: &Arc<Semaphore>, bound: usize) -> Option<OwnedSemaphorePermit> {
    if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
        return Some(slot);
    }
    tracing::warn!(bound, "connections at their bound (--connections-max); new ones wait");
    Arc::clone(slots).acquire_owned().await.ok()
}

/// Serves one connection to its end.
async fn connection(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    _slot: Option<OwnedSemaphorePermit>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
    }
    let open = Open {
        id: ConnectionId::new(shared.connections.fetch_add(1, Ordering::Relaxed)),
        service: Arc::clone(&shared.service),
    };
    let from = (open.id, peer);
    let used = Arc::new(AtomicBool::new(false));
    let handler = service_fn(|request| {
        used.store(true, Ordering::Relaxed);
        let shared = Arc::clone(&shared);
        // Boxed, since the library moves a call's future several times before it runs.
        Box::pin(async move { Ok::<_, Infallible>(answer(&shared, from, request).await) })
    });
    let serving = http_settings(&shared.config).serve_connection(TokioIo::new(stream), handler);
    let mut serving = pin!(serving);
    let mut phase = shared.phase.clone();
    let mut first_call = pin!(tokio::time::sleep(shared.config.silence_max));
    let mut draining = false;
    let mut watched = true;
    loop {
        tokio::select! {
            biased;
            ended = &mut serving => {
                if let Err(error) = ended {
                    tracing::debug!(%peer, %error, "connection ended");
                }
                return;
            }
            _ = phase.wait_for(|phase| *phase >= Phase::Draining), if !draining => {
                draining = true;
                serving.as_mut().graceful_shutdown();
            }
            () = &mut first_call, if watched => {
                watched = false;
                if !used.load(Ordering::Relaxed) {
                    tracing::debug!(%peer, "connection closed: no call within the bound");
                    return;
                }
            }
        }
    }
}

fn http_settings(config: &ServerConfig) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES_MAX)
        .auto_date_header(false)
        .max_concurrent_streams(config.calls_per_connection_max)
        .keep_alive_interval(config.keepalive_interval)
        .keep_alive_timeout(config.keepalive_timeout);
    builder
}

/// Answers one request of any kind.
async fn answer(
    shared: &Shared,
    from: (ConnectionId, SocketAddr),
    request: Request<Incoming>,
) -> Response<ReplyBody> {
    let (parts, body) = request.into_parts();
    let head = match grpc_head::read(&parts) {
        Ok(head) => head,
        Err(NotACall::NotGrpc) => return grpc_head::not_grpc(),
        Err(NotACall::Refused(status)) => return grpc_head::refusal(&status),
    };
    let deadline = head.deadline;
    // Pinned here and handed on by reference, so that it stands in this future only once.
    let call = pin!(dispatch(shared, from, parts.uri.path(), head, body));
    let call = within_deadline(deadline, call);
    let mut phase = shared.phase.clone();
    let result = tokio::select! {
        biased;
        result = call => result,
        _ = phase.wait_for(|phase| *phase >= Phase::Cutting) => {
            Err(Status::new(Code::Unavailable, "the server is shutting down"))
        }
    };
    match result {
        Ok(message) => grpc_head::answer(message),
        Err(status) => grpc_head::refusal(&status),
    }
}

async fn within_deadline(
    deadline: Option<Duration>,
    call: Pin<&mut impl Future<Output = Result<Bytes, Status>>>,
) -> Result<Bytes, Status> {
    let Some(deadline) = deadline else {
        return call.await;
    };
    tokio::time::timeout(deadline, call).await.unwrap_or_else(|_| {
        let text = format!("not done within the client's deadline of {deadline:?}");
        Err(Status::new(Code::DeadlineExceeded, text))
    })
}

async fn dispatch(
    shared: &Shared,
    (connection, peer): (ConnectionId, SocketAddr),
    path: &str,
    head: Head,
    body: Incoming,
) -> Result<Bytes, Status> {
    let (message, _share) = read_message(body, head.gzip, &shared.allowance).await?;
    let call = Call { path: path.to_owned(), message, peer, connection, worker: head.worker };
    let answered = pin!(async { shared.service.unary(call).await });
    contain_panic(path, answered).await
}

/// Turns a panic in a handler into a refusal, so that neither the process nor the other calls of
/// the connection suffer.
async fn contain_panic(
    path: &str,
    mut call: Pin<&mut impl Future<Output = Result<Bytes, Status>>>,
) -> Result<Bytes, Status> {
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

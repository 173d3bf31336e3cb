//! gRPC on a connection: calls to a service by path, answers out. Nothing is decoded here.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rondo_core::status::Status;
use tokio::net::TcpStream;

use super::answering::{contain_panic, until_cut, within_deadline};
use super::gate::Way;
use super::grpc_frame::{ReplyBody, read_message};
use super::grpc_head::{self, Head, NotACall};
use super::leaving::Leaving;
use super::phase::Phase;
use super::server::Shared;
use super::streams::messages_of;
use super::turns::{Begun, InTurns, UnderWay, in_turns};
use super::{Call, ConnectionId, MessageStream, RequestMemory, ServerConfig};

/// Unread data of one connection, and of one call, in bytes.
const WINDOW_BYTES: u32 = 16 << 20;
/// Longest HTTP/2 frame, in bytes.
const FRAME_BYTES_MAX: u32 = 1 << 20;

/// Serves one connection to its end.
pub(super) async fn serve(
    shared: Arc<Shared>,
    stream: TcpStream,
    from: (ConnectionId, SocketAddr),
) {
    let (_, peer) = from;
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
    }
    let way = Way::new(&shared.config.gate, peer.ip());
    let (stream, mut calls) = in_turns(stream, way);
    answer_all(&shared, stream, from, &mut calls).await;
    calls.cancel().await;
}

/// Answers the calls of a connection until it ends, and closes it.
async fn answer_all(
    shared: &Arc<Shared>,
    stream: InTurns<TcpStream>,
    from: (ConnectionId, SocketAddr),
    calls: &mut UnderWay,
) {
    let (_, peer) = from;
    let used = Arc::new(AtomicBool::new(false));
    let connection = Arc::new(Connection::new(&shared.config, from));
    let leaving = Arc::clone(&connection.leaving);
    let handler = service_fn(|request| {
        used.store(true, Ordering::Relaxed);
        let (shared, connection) = (Arc::clone(shared), Arc::clone(&connection));
        // Boxed, since the library moves a call's future several times before it runs.
        Box::pin(async move { Ok::<_, Infallible>(answer(&shared, &connection, request).await) })
    });
    let settings = http_settings(&shared.config, calls.begun());
    let mut serving = pin!(settings.serve_connection(TokioIo::new(stream), handler));
    let mut phase = shared.phase.clone();
    let mut first_call = pin!(tokio::time::sleep(shared.config.silence_max));
    let mut draining = false;
    let mut watched = true;
    loop {
        tokio::select! {
            biased;
            ended = poll_fn(|context| {
                calls.begin_turn(context);
                let served = serving.as_mut().poll(context);
                calls.go_on(context);
                served
            }) => {
                if let Err(error) = ended {
                    tracing::debug!(%peer, %error, "connection ended");
                }
                return;
            }
            () = phase.reached(Phase::Draining), if !draining => {
                draining = true;
                serving.as_mut().graceful_shutdown();
            }
            () = leaving.overdue() => {
                tracing::warn!(%peer, "connection closed: its client does not read its answers");
                return;
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

fn http_settings(config: &ServerConfig, calls: Begun) -> http2::Builder<Begun> {
    let mut builder = http2::Builder::new(calls);
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

/// What the calls of one connection share.
struct Connection {
    id: ConnectionId,
    peer: SocketAddr,
    /// The server's settings, with the connection's own places in the memory for messages.
    config: ServerConfig,
    leaving: Arc<Leaving>,
}

impl Connection {
    fn new(config: &ServerConfig, (id, peer): (ConnectionId, SocketAddr)) -> Self {
        let budget = config.budget.of_connection();
        let config = ServerConfig { budget, ..config.clone() };
        Self { id, peer, leaving: Leaving::new(config.unread_max), config }
    }

    /// Reads a call to the end of its message.
    async fn call(&self, path: String, head: Head, body: Incoming) -> Result<Call, Status> {
        let (message, share) = read_message(body, head.gzip, &self.config).await?;
        Ok(Call {
            path,
            message,
            peer: self.peer,
            connection: self.id,
            worker: head.worker,
            memory: RequestMemory::new(share),
            budget: self.config.budget.clone(),
        })
    }
}

/// Answers one request of any kind.
async fn answer(
    shared: &Arc<Shared>,
    connection: &Arc<Connection>,
    request: Request<Incoming>,
) -> Response<ReplyBody> {
    let (parts, body) = request.into_parts();
    let (head, uri) = match grpc_head::take(parts) {
        Ok(taken) => taken,
        Err(NotACall::NotGrpc) => return grpc_head::not_grpc(),
        Err(NotACall::Refused(status)) => return grpc_head::refusal(&status, Bytes::new()),
    };
    let (deadline, path) = (head.deadline, uri.path());
    if shared.is_streaming(path) {
        let messages = stream(shared, connection, path.to_owned(), head, body);
        return grpc_head::stream(messages, Arc::clone(&connection.leaving));
    }
    // Pinned here and handed on by reference, so that it stands in this future only once.
    let call = pin!(dispatch(shared, connection, path, head, body));
    let call = within_deadline(deadline, call);
    let end = (shared.phase.clone(), Phase::Cutting);
    match until_cut(end, call, || shared.service.cut(path)).await {
        Ok(message) => grpc_head::answer(connection.leaving.with(message)),
        Err(status) => grpc_head::refusal(&status, shared.service.details(path, &status)),
    }
}

async fn dispatch(
    shared: &Shared,
    connection: &Connection,
    path: &str,
    head: Head,
    body: Incoming,
) -> Result<Bytes, Status> {
    let call = connection.call(path.to_owned(), head, body).await?;
    let answered = pin!(async { shared.service.unary(call).await });
    contain_panic(path, answered).await
}

/// Answers one call with messages, which the answer's body asks for.
fn stream(
    shared: &Arc<Shared>,
    connection: &Arc<Connection>,
    path: String,
    head: Head,
    body: Incoming,
) -> MessageStream {
    let (deadline, connection, called) = (head.deadline, Arc::clone(connection), path.clone());
    messages_of(shared, path, deadline, async move { connection.call(called, head, body).await })
}

//! gRPC on a connection: calls to a service by path, answers out. Nothing is decoded here.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rondo_core::status::Status;
use tokio::net::TcpStream;

use super::answering::{contain_panic, until_cut, within_deadline};
use super::grpc_frame::{ReplyBody, read_message};
use super::grpc_head::{self, Head, NotACall};
use super::leaving::Leaving;
use super::phase::Phase;
use super::server::Shared;
use super::streams::messages_of;
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
    let used = Arc::new(AtomicBool::new(false));
    let leaving = Leaving::new(shared.config.unread_max);
    let handler = service_fn(|request| {
        used.store(true, Ordering::Relaxed);
        let (shared, leaving) = (Arc::clone(&shared), Arc::clone(&leaving));
        // Boxed, since the library moves a call's future several times before it runs.
        Box::pin(async move { Ok::<_, Infallible>(answer(&shared, &leaving, from, request).await) })
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
    shared: &Arc<Shared>,
    leaving: &Arc<Leaving>,
    from: (ConnectionId, SocketAddr),
    request: Request<Incoming>,
) -> Response<ReplyBody> {
    let (parts, body) = request.into_parts();
    let head = match grpc_head::read(&parts) {
        Ok(head) => head,
        Err(NotACall::NotGrpc) => return grpc_head::not_grpc(),
        Err(NotACall::Refused(status)) => return grpc_head::refusal(&status, Bytes::new()),
    };
    let (deadline, path) = (head.deadline, parts.uri.path());
    if shared.is_streaming(path) {
        let messages = stream(shared, from, path.to_owned(), head, body);
        return grpc_head::stream(messages, Arc::clone(leaving));
    }
    // Pinned here and handed on by reference, so that it stands in this future only once.
    let call = pin!(dispatch(shared, from, path, head, body));
    let call = within_deadline(deadline, call);
    let end = (shared.phase.clone(), Phase::Cutting);
    match until_cut(end, call, || shared.service.cut(path)).await {
        Ok(message) => grpc_head::answer(leaving.with(message)),
        Err(status) => grpc_head::refusal(&status, shared.service.details(path, &status)),
    }
}

async fn dispatch(
    shared: &Shared,
    (connection, peer): (ConnectionId, SocketAddr),
    path: &str,
    head: Head,
    body: Incoming,
) -> Result<Bytes, Status> {
    let (message, share) = read_message(body, head.gzip, &shared.config).await?;
    let memory = RequestMemory::new(share);
    let path_of_call = path.to_owned();
    let call = Call { path: path_of_call, message, peer, connection, worker: head.worker, memory };
    let answered = pin!(async { shared.service.unary(call).await });
    contain_panic(path, answered).await
}

/// Answers one call with messages, which the answer's body asks for.
fn stream(
    shared: &Arc<Shared>,
    (connection, peer): (ConnectionId, SocketAddr),
    path: String,
    head: Head,
    body: Incoming,
) -> MessageStream {
    let (deadline, config, called) = (head.deadline, shared.config.clone(), path.clone());
    messages_of(shared, path, deadline, async move {
        let (message, share) = read_message(body, head.gzip, &config).await?;
        let memory = RequestMemory::new(share);
        Ok(Call { path: called, message, peer, connection, worker: head.worker, memory })
    })
}

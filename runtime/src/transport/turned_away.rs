//! Connections above the bound: their clients are told so, and the server closes them.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{BULK_PREFACE, BulkFrame, encode_bulk_end};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::timeout;

use super::bulk_wire::write;
use super::grpc_head;
use super::places::Full;

/// Connections that are turned away at a time. What comes beside them is closed without a word.
pub(crate) const TURNED_AWAY_MAX: usize = 16;

/// How long a client may take to make the call that is refused.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long a client may take to read the refusal.
const PARTING: Duration = Duration::from_millis(100);

/// Refuses the calls of a connection, and closes it.
pub(super) async fn turn_away(stream: TcpStream, full: Full, _place: OwnedSemaphorePermit) {
    let text = match full {
        Full::All(bound) => format!(
            "the server has {bound} connections open here, its bound (--connections-max, or what the \
             limit on open files leaves)"
        ),
        Full::Address(bound) => format!(
            "the server has {bound} connections open here with your address; one address may have three \
             quarters of its bound (--connections-max, or what the limit on open files leaves)"
        ),
    };
    let status = Status::new(Code::Unavailable, text);
    let told = timeout(PATIENCE, async {
        let mut first = [0; 1];
        let read = stream.peek(&mut first).await?;
        match BULK_PREFACE.starts_with(&first) && read == 1 {
            true => end_bulk(stream, status).await,
            false => refuse_calls(stream, &status).await,
        }
    });
    // Either way the connection is closed.
    if let Ok(Err(error)) = told.await {
        tracing::debug!(%error, "a connection above the bound ended");
    }
}

/// Answers each call with the status. Some time after the first one the connection ends.
async fn refuse_calls(stream: TcpStream, status: &Status) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let answered = Arc::new(Notify::new());
    let handler = service_fn(|_| {
        answered.notify_one();
        std::future::ready(Ok::<_, Infallible>(grpc_head::refusal(status, Bytes::new())))
    });
    let serving =
        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), handler);
    let mut serving = pin!(serving);
    tokio::select! {
        biased;
        ended = &mut serving => return ended.map_err(io::Error::other),
        () = answered.notified() => serving.as_mut().graceful_shutdown(),
    }
    timeout(PARTING, serving).await?.map_err(io::Error::other)
}

/// Ends a bulk connection with the status, and waits until its client has read that.
async fn end_bulk(mut stream: TcpStream, status: Status) -> io::Result<()> {
    stream.write_all(&BULK_PREFACE).await?;
    write(&mut stream, BulkFrame::End, encode_bulk_end(Err(status)).into()).await?;
    stream.shutdown().await?;
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

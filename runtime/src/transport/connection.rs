//! A connection that comes in: its first byte says what is spoken on it.

use std::net::SocketAddr;
use std::sync::Arc;

use rondo_proto::convert::BULK_PREFACE;
use tokio::net::TcpStream;

use super::phase::Phase;
use super::places::Place;
use super::server::{Open, Shared};
use super::{bulk_server, grpc_server};

/// Serves one connection to its end.
pub(super) async fn connection(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    _place: Option<Place>,
) {
    let open = Open::new(&shared);
    match first_byte(&shared, &stream).await {
        Some(first) if BULK_PREFACE.starts_with(&[first]) => {
            bulk_server::serve(shared, stream, (open.id, peer)).await;
        }
        Some(_) => grpc_server::serve(shared, stream, (open.id, peer)).await,
        None => tracing::debug!(%peer, "connection closed: nothing came within the bound"),
    }
}

/// What the client begins with, left where it is; `None` if nothing comes in time.
async fn first_byte(shared: &Shared, stream: &TcpStream) -> Option<u8> {
    let mut phase = shared.phase.clone();
    let mut first = [0; 1];
    let peeked = tokio::select! {
        biased;
        () = phase.reached(Phase::Draining) => return None,
        peeked = tokio::time::timeout(shared.config.silence_max, stream.peek(&mut first)) => peeked,
    };
    let [byte] = first;
    matches!(peeked, Ok(Ok(1))).then_some(byte)
}

//! Unary gRPC calls over HTTP/2, spoken through `h2` itself so that the generator takes as little as
//! possible of the processors it shares with the server it measures.

use std::net::SocketAddr;

use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Unread data of one connection and of one call, in bytes.
const WINDOW_BYTES: u32 = 1 << 20;
/// Before each message: whether it is compressed, and its length.
const FRAME_HEAD_BYTES: usize = 5;

/// A call cannot be made, or its answer not be read.
pub(super) type Broken = Box<dyn std::error::Error + Send + Sync>;

/// What moves the connections' bytes; whoever drops it ends them.
pub(super) type Drivers = JoinSet<Result<(), h2::Error>>;

/// A connection to a server. Clones share it.
#[derive(Clone)]
pub(super) struct Connection {
    sender: SendRequest<Bytes>,
    authority: SocketAddr,
}

/// An answer to a call.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// The status's number on the wire; 0 is OK.
    pub(super) code: u32,
    /// The status's text, still percent-encoded.
    pub(super) text: String,
    /// The message, empty when there is none.
    pub(super) message: Bytes,
}

impl Connection {
    /// Connects to the server at this address.
    ///
    /// # Errors
    /// When nobody accepts, or does not speak HTTP/2.
    pub(super) async fn open(address: SocketAddr, drivers: &mut Drivers) -> Result<Self, Broken> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = h2::client::Builder::new()
            .initial_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .enable_push(false)
            .handshake(socket)
            .await?;
        drivers.spawn(connection);
        Ok(Self { sender, authority: address })
    }

    /// Makes a call, once the connection has room for it.
    ///
    /// # Errors
    /// When the connection breaks, or the answer is none of gRPC.
    pub(super) async fn call(&mut self, path: &str, message: &[u8]) -> Result<Answer, Broken> {
        self.sender = self.sender.clone().ready().await?;
        let head = Request::post(format!("http://{}{path}", self.authority))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())?;
        let (response, mut body) = self.sender.send_request(head, false)?;
        body.send_data(framed(message), true)?;
        answer(response.await?).await
    }
}

/// A message behind gRPC's own head.
fn framed(message: &[u8]) -> Bytes {
    let length = message.len().saturating_add(FRAME_HEAD_BYTES);
    let mut framed = BytesMut::with_capacity(length);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

/// Reads an answer to its end.
async fn answer(response: http::Response<RecvStream>) -> Result<Answer, Broken> {
    let (head, mut body) = response.into_parts();
    if let Some(answer) = status(&head.headers) {
        return Ok(answer);
    }
    let mut pieces = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        pieces.push(piece);
    }
    let trailers = body.trailers().await?.unwrap_or_default();
    let mut answer = status(&trailers).ok_or("an answer without a status")?;
    answer.message = Bytes::from(pieces.concat());
    answer.message = answer.message.split_off(answer.message.len().min(FRAME_HEAD_BYTES));
    Ok(answer)
}

fn status(headers: &HeaderMap) -> Option<Answer> {
    let text = |name| Some(headers.get(name)?.to_str().unwrap_or("?"));
    let code = text("grpc-status")?.parse().unwrap_or(u32::MAX);
    let text = text("grpc-message").unwrap_or_default().to_owned();
    Some(Answer { code, text, message: Bytes::new() })
}

//! Load: unary gRPC calls on many streams of several connections at once, from one thread.
//!
//! HTTP/2 is spoken through `h2` itself, so that the generator takes as little as possible of the
//! processors it shares with the server it measures.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Unread data of one connection and of one call, in bytes.
const WINDOW_BYTES: u32 = 1 << 20;

/// What to call, again and again.
pub(super) trait Calls: Send + Sync + 'static {
    /// The method's path.
    fn path(&self) -> &'static str;

    /// The encoded message of the call of this number.
    fn message(&self, serial: u64) -> Bytes;
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
    /// Calls answered with another status than OK.
    pub(super) refused: u64,
    /// The first of those statuses.
    pub(super) refusal: Option<String>,
}

/// The load cannot be laid on.
pub(super) type Broken = Box<dyn std::error::Error + Send + Sync>;

/// What all streams share.
struct Run {
    calls: Arc<dyn Calls>,
    authority: SocketAddr,
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
    let mut drivers = JoinSet::new();
    for _ in 0..shape.connections {
        connections.push(connect(address, &mut drivers).await?);
    }
    let start = Instant::now();
    let run = Arc::new(Run {
        calls,
        authority: address,
        begun: AtomicU64::new(0),
        first_serial,
        shape,
        start,
    });
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
    outcome.elapsed = start.elapsed();
    outcome.latencies_us.sort_unstable();
    Ok(outcome)
}

impl Outcome {
    fn add(&mut self, other: Self) {
        self.latencies_us.extend(other.latencies_us);
        self.refused = self.refused.saturating_add(other.refused);
        self.refusal = self.refusal.take().or(other.refusal);
    }
}

async fn connect(
    address: SocketAddr,
    drivers: &mut JoinSet<Result<(), h2::Error>>,
) -> Result<SendRequest<Bytes>, Broken> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let (sender, connection) = h2::client::Builder::new()
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .enable_push(false)
        .handshake(socket)
        .await?;
    drivers.spawn(connection);
    Ok(sender)
}

/// Makes one call after the other.
async fn stream(connection: SendRequest<Bytes>, run: Arc<Run>) -> Result<Outcome, Broken> {
    let mut outcome = Outcome::default();
    let mut connection = connection.ready().await?;
    while run.start.elapsed() < run.shape.duration {
        let number = run.begun.fetch_add(1, Ordering::Relaxed);
        if number >= run.shape.calls_max {
            break;
        }
        let message = framed(&run.calls.message(run.first_serial.saturating_add(number)));
        let begun = Instant::now();
        let (response, mut body) = connection.send_request(head(&run)?, false)?;
        body.send_data(message, true)?;
        let status = answer(response.await?).await?;
        match status {
            None => outcome.latencies_us.push(micros(begun.elapsed())),
            Some(refusal) => {
                outcome.refused = outcome.refused.saturating_add(1);
                outcome.refusal.get_or_insert(refusal);
            }
        }
        connection = connection.ready().await?;
    }
    Ok(outcome)
}

fn head(run: &Run) -> Result<Request<()>, http::Error> {
    Request::post(format!("http://{}{}", run.authority, run.calls.path()))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
}

fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(message.len().saturating_add(5));
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

/// Reads an answer to its end: `None` when it is OK, else its status.
async fn answer(response: http::Response<RecvStream>) -> Result<Option<String>, Broken> {
    let (head, mut body) = response.into_parts();
    if let Some(refusal) = refusal(&head.headers) {
        return Ok(Some(refusal));
    }
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
    }
    let trailers = body.trailers().await?.unwrap_or_default();
    Ok(refusal(&trailers))
}

fn refusal(headers: &HeaderMap) -> Option<String> {
    let text = |name| Some(headers.get(name)?.to_str().unwrap_or("?"));
    let code = text("grpc-status").filter(|code| *code != "0")?;
    Some(format!("grpc-status {code}: {}", text("grpc-message").unwrap_or_default()))
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

//! The gRPC glue over real loopback connections: our server against tonic's client and against
//! bytes written by hand.

use std::future::pending;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::uri::PathAndQuery;
use http_body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rondo_core::status::{Code, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tonic::codec::CompressionEncoding;

use super::budget::Budget;
use super::grpc_client::{BytesCodec, GrpcClient};
use super::turned_away::TURNED_AWAY_MAX;
use super::{BoxFuture, Call, ConnectionId, ServerConfig, Service, Transport, listener, serve};

const SOON: Duration = Duration::from_secs(20);

/// Answers as the method's name says, and counts the calls it has begun and those dropped.
#[derive(Default)]
struct Probe {
    begun: AtomicUsize,
    dropped: AtomicUsize,
    closed: AtomicUsize,
}

/// Counts its drop.
struct Dropped<'a>(&'a AtomicUsize);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Service for Probe {
    fn closed(&self, _connection: ConnectionId) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }

    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        if call.path == "/test/PanicEarly" {
            panic!("early");
        }
        Box::pin(async move {
            self.begun.fetch_add(1, Ordering::SeqCst);
            match call.path.as_str() {
                "/test/Echo" => Ok(call.message),
                "/test/Wait" => {
                    let _dropped = Dropped(&self.dropped);
                    pending().await
                }
                "/test/Park" => {
                    drop(call.message);
                    call.memory.release();
                    pending().await
                }
                "/test/Panic" => panic!("the text of the panic"),
                "/test/Refuse" => Err(Status::new(Code::NotFound, "Iteration id 7 – not found")),
                path => Err(Status::new(Code::Unimplemented, format!("no method {path}"))),
            }
        })
    }
}

type Running = super::grpc_running::Running<Probe>;

impl Running {
    async fn call(&self, path: &'static str, message: Bytes) -> Result<Bytes, Status> {
        GrpcClient::new().unary(&self.address, path, message, SOON).await
    }
}

async fn until(what: impl Fn() -> bool) {
    let began = Instant::now();
    while !what() {
        assert!(began.elapsed() < SOON, "did not happen");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Bytes that neither compress nor repeat.
fn noise(length: usize) -> Bytes {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_many_sizes_come_back_unchanged() {
    let server = Running::start(ServerConfig::default());
    for length in [0, 1, 5, 16_379, 65_536, 1 << 20, 64 << 20] {
        let message = noise(length);
        let answer = server.call("/test/Echo", message.clone()).await.unwrap();
        assert!(answer == message, "{length} bytes differ");
    }
}

#[tokio::test]
async fn a_host_name_is_an_address() {
    let server = Running::start(ServerConfig::default());
    let port = server.address.rsplit(':').next().unwrap();
    let client = GrpcClient::new();
    let address = format!("localhost:{port}");
    let answer = client.unary(&address, "/test/Echo", Bytes::from_static(b"x"), SOON).await;
    assert_eq!(answer.unwrap(), "x");
}

async fn call_gzip(address: &str, message: Bytes) -> Result<Bytes, tonic::Status> {
    call_gzip_at(address, "/test/Echo", message).await
}

async fn call_gzip_at(
    address: &str,
    path: &'static str,
    message: Bytes,
) -> Result<Bytes, tonic::Status> {
    let uri = format!("http://{address}");
    let channel = tonic::transport::Endpoint::from_shared(uri).unwrap().connect().await.unwrap();
    let mut grpc = tonic::client::Grpc::new(channel)
        .send_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(usize::MAX);
    grpc.ready().await.unwrap();
    let path = PathAndQuery::from_static(path);
    grpc.unary(tonic::Request::new(message), path, BytesCodec).await.map(|r| r.into_inner())
}

#[tokio::test(flavor = "multi_thread")]
async fn gzip_requests_are_understood() {
    let server = Running::start(ServerConfig::default());
    for message in [Bytes::new(), noise(300_000), Bytes::from(vec![0; 5 << 20])] {
        assert!(call_gzip(&server.address, message.clone()).await.unwrap() == message);
    }
}

#[tokio::test]
async fn a_gzip_bomb_hits_the_bound() {
    let config = ServerConfig { message_bytes_max: 1 << 20, ..ServerConfig::default() };
    let server = Running::start(config);
    let bomb = Bytes::from(vec![0; (1 << 20) + 1]);
    let status = call_gzip(&server.address, bomb.clone()).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    assert!(status.message().contains("1048576"), "{status}");
    assert!(call_gzip(&server.address, bomb.slice(1..)).await.is_ok());
}

#[tokio::test]
async fn an_oversized_message_is_refused_with_size_and_bound() {
    let config = ServerConfig { message_bytes_max: 1000, ..ServerConfig::default() };
    let server = Running::start(config);
    let status = server.call("/test/Echo", noise(1001)).await.unwrap_err();
    assert_eq!(status.code, Code::ResourceExhausted);
    assert!(status.message.contains("1001") && status.message.contains("1000"), "{status}");
    assert_eq!(server.service.begun.load(Ordering::SeqCst), 0);
    assert_eq!(server.call("/test/Echo", noise(1000)).await.unwrap().len(), 1000);
}

#[tokio::test]
async fn refusals_keep_code_and_text() {
    let server = Running::start(ServerConfig::default());
    let status = server.call("/test/Refuse", Bytes::new()).await.unwrap_err();
    assert_eq!(status, Status::new(Code::NotFound, "Iteration id 7 – not found"));
    let status = server.call("/test/Other", Bytes::new()).await.unwrap_err();
    assert_eq!(status.code, Code::Unimplemented);
    assert!(status.message.contains("/test/Other"), "{status}");
}

#[tokio::test]
async fn a_panic_is_contained() {
    let server = Running::start(ServerConfig::default());
    let client = GrpcClient::new();
    for path in ["/test/Panic", "/test/PanicEarly"] {
        let status = client.unary(&server.address, path, Bytes::new(), SOON).await.unwrap_err();
        assert_eq!(status.code, Code::Internal);
        assert!(status.message.contains(path), "{status}");
    }
    let answer = client.unary(&server.address, "/test/Echo", Bytes::new(), SOON).await;
    assert_eq!(answer, Ok(Bytes::new()), "the same connection goes on");
}

#[tokio::test]
async fn a_client_that_leaves_cancels_its_call() {
    let server = Running::start(ServerConfig::default());
    let client = GrpcClient::new();
    let call = client.unary(&server.address, "/test/Wait", Bytes::new(), SOON);
    let call = tokio::spawn(call);
    until(|| server.service.begun.load(Ordering::SeqCst) == 1).await;
    assert_eq!(server.service.dropped.load(Ordering::SeqCst), 0);
    call.abort();
    until(|| server.service.dropped.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn the_clients_deadline_ends_the_call_on_both_sides() {
    let server = Running::start(ServerConfig::default());
    let client = GrpcClient::new();
    let deadline = Duration::from_millis(60);
    let status = client.unary(&server.address, "/test/Wait", Bytes::new(), deadline).await;
    assert_eq!(status.unwrap_err().code, Code::DeadlineExceeded);
    until(|| server.service.dropped.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn an_unreachable_peer_is_unavailable_by_name() {
    let free = listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let status = GrpcClient::new().unary(&address, "/a/B", Bytes::new(), SOON).await.unwrap_err();
    assert_eq!(status.code, Code::Unavailable);
    assert!(status.message.contains(&address), "{status}");
}

#[tokio::test]
async fn a_peer_that_never_answers_meets_the_deadline() {
    let silent = listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let deadline = Duration::from_millis(80);
    let status = GrpcClient::new().unary(&address, "/a/B", Bytes::new(), deadline).await;
    assert_eq!(status.unwrap_err().code, Code::DeadlineExceeded);
}

#[tokio::test]
async fn a_bad_address_is_refused_by_name() {
    for address in ["", "host", "host:", "a b:1", "host:1/path", "u@host:1x", "host:99999"] {
        let status = GrpcClient::new().unary(address, "/a/B", Bytes::new(), SOON).await;
        let status = status.unwrap_err();
        assert_eq!(status.code, Code::InvalidArgument, "{address}");
        assert!(status.message.contains(&format!("{address:?}")), "{status}");
    }
}

#[tokio::test]
async fn a_peer_that_comes_back_is_reached_again() {
    let mut server = Running::start(ServerConfig::default());
    let client = GrpcClient::new();
    let echo = || client.unary(&server.address, "/test/Echo", Bytes::new(), SOON);
    assert!(echo().await.is_ok());
    let address: SocketAddr = server.address.parse().unwrap();
    server.stop();
    (&mut server.served).await.unwrap();
    let echo = || client.unary(&server.address, "/test/Echo", Bytes::new(), SOON);
    assert_eq!(echo().await.unwrap_err().code, Code::Unavailable);
    let listener = listener::bind(address).unwrap();
    tokio::spawn(serve(listener, server.service.clone(), ServerConfig::default(), pending()));
    assert!(echo().await.is_ok());
}

#[tokio::test]
async fn shutdown_answers_what_is_quick_and_refuses_what_is_parked() {
    let grace = Duration::from_millis(100);
    let mut server =
        Running::start(ServerConfig { shutdown_grace: grace, ..ServerConfig::default() });
    let client = GrpcClient::new();
    let parked = client.unary(&server.address, "/test/Wait", Bytes::new(), SOON);
    let parked = tokio::spawn(parked);
    until(|| server.service.begun.load(Ordering::SeqCst) == 1).await;
    let began = Instant::now();
    server.stop();
    let status = parked.await.unwrap().unwrap_err();
    assert_eq!(status.code, Code::Unavailable, "{status}");
    assert!(began.elapsed() >= grace);
    (&mut server.served).await.unwrap();
    assert!(began.elapsed() < SOON);
}

/// Waits until the server closes the connection; returns what it had sent.
async fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut received = Vec::new();
    let read = tokio::time::timeout(SOON, stream.read_to_end(&mut received)).await;
    // A reset is as good an end as an orderly one.
    let _ = read.expect("the connection stays open");
    received
}

#[tokio::test]
async fn a_connection_that_never_calls_is_closed() {
    let silence_max = Duration::from_millis(100);
    let server = Running::start(ServerConfig { silence_max, ..ServerConfig::default() });
    let mut mute = TcpStream::connect(&server.address).await.unwrap();
    read_to_end(&mut mute).await;
}

const PREFACE_AND_SETTINGS: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

#[tokio::test]
async fn a_peer_that_stops_answering_is_closed() {
    let server = Running::start(ServerConfig {
        keepalive_interval: Duration::from_millis(50),
        keepalive_timeout: Duration::from_millis(50),
        ..ServerConfig::default()
    });
    let mut half_open = TcpStream::connect(&server.address).await.unwrap();
    half_open.write_all(PREFACE_AND_SETTINGS).await.unwrap();
    let received = read_to_end(&mut half_open).await;
    assert!(!received.is_empty(), "the server speaks HTTP/2 first");
}

/// Takes one connection and hands on what comes, up to so many bytes of the client's; then, or when
/// told to, it breaks.
async fn fragile(to: String, client_bytes_max: u64) -> (String, JoinHandle<()>) {
    let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = front.local_addr().unwrap().to_string();
    let broken = tokio::spawn(async move {
        let (mut client, _) = front.accept().await.unwrap();
        let mut server = TcpStream::connect(to).await.unwrap();
        let (from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        let mut from_client = from_client.take(client_bytes_max);
        tokio::select! {
            biased;
            _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
            _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
        }
    });
    (address, broken)
}

#[tokio::test]
async fn a_connection_that_breaks_ends_its_calls_on_both_sides() {
    let server = Running::start(ServerConfig::default());
    let (address, connection) = fragile(server.address.clone(), u64::MAX).await;
    let client = GrpcClient::new();
    let call = tokio::spawn(client.unary(&address, "/test/Wait", Bytes::new(), SOON));
    until(|| server.service.begun.load(Ordering::SeqCst) == 1).await;
    connection.abort();
    let status = call.await.unwrap().unwrap_err();
    assert_eq!(status.code, Code::Unavailable, "{status}");
    assert!(status.message.contains(&address), "{status}");
    until(|| server.service.dropped.load(Ordering::SeqCst) == 1).await;
    until(|| server.service.closed.load(Ordering::SeqCst) == 1).await;
    assert!(server.call("/test/Echo", Bytes::new()).await.is_ok(), "others do not notice");
}

#[tokio::test]
async fn a_message_that_is_cut_short_reaches_nobody() {
    let server = Running::start(ServerConfig::default());
    let (address, _connection) = fragile(server.address.clone(), 30_000).await;
    let call = GrpcClient::new().unary(&address, "/test/Echo", noise(100_000), SOON);
    assert_eq!(call.await.unwrap_err().code, Code::Unavailable);
    until(|| server.service.closed.load(Ordering::SeqCst) == 1).await;
    assert_eq!(server.service.begun.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn bytes_that_are_not_http2_do_no_harm() {
    let server = Running::start(ServerConfig::default());
    let mut stranger = TcpStream::connect(&server.address).await.unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    read_to_end(&mut stranger).await;
    assert!(server.call("/test/Echo", Bytes::new()).await.is_ok());
}

/// A client without a deadline would wait for ever otherwise.
#[tokio::test]
async fn connections_above_the_bound_are_told_so() {
    let config = ServerConfig { connections_max: 1, ..ServerConfig::default() };
    let server = Running::start(config);
    let (first, second) = (GrpcClient::new(), GrpcClient::new());
    let echo = |client: &GrpcClient| client.unary(&server.address, "/test/Echo", noise(9), SOON);
    assert!(echo(&first).await.is_ok());
    let refused = echo(&second).await.unwrap_err();
    assert_eq!(refused.code, Code::Unavailable);
    assert!(refused.message.contains("1 connections open here"), "{refused}");
    assert_eq!(echo(&first).await.unwrap(), noise(9));
    drop(first);
    until(|| server.service.closed.load(Ordering::SeqCst) == 1).await;
    assert_eq!(echo(&GrpcClient::new()).await.unwrap(), noise(9));
}

/// Connections that say nothing take none of the places of those that are told why.
#[tokio::test]
async fn silent_connections_above_the_bound_are_closed() {
    let server = Running::start(ServerConfig { connections_max: 1, ..ServerConfig::default() });
    let first = GrpcClient::new();
    first.unary(&server.address, "/test/Echo", noise(9), SOON).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..2 * TURNED_AWAY_MAX {
        silent.push(TcpStream::connect(&server.address).await.unwrap());
    }
    for stream in &mut silent {
        let mut said = Vec::new();
        let read = stream.read_to_end(&mut said);
        let _reset_or_end = tokio::time::timeout(SOON, read).await.expect("it stays open");
    }
    let told = GrpcClient::new().unary(&server.address, "/test/Echo", noise(9), SOON).await;
    assert!(told.unwrap_err().message.contains("--connections-max"));
}

/// Each of these messages is as long as all that may be under way (`inflight_bytes_max`).
#[tokio::test]
async fn large_requests_are_read_one_after_the_other_and_none_is_refused() {
    const LENGTH: usize = 1 << 20;
    let budget = Budget::new(LENGTH as u64, LENGTH as u64);
    let server = Running::start(ServerConfig { budget, ..ServerConfig::default() });
    let clients = [(); 2].map(|()| GrpcClient::new());
    let call = |client: &GrpcClient, path, length| {
        tokio::spawn(client.unary(&server.address, path, noise(length), SOON))
    };
    let first = call(&clients[0], "/test/Wait", LENGTH);
    until(|| server.service.begun.load(Ordering::SeqCst) == 1).await;
    let second = call(&clients[1], "/test/Echo", LENGTH);
    // Short ones pass meanwhile, on the same connection too.
    for client in &clients {
        assert_eq!(call(client, "/test/Echo", 1000).await.unwrap().unwrap().len(), 1000);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(server.service.begun.load(Ordering::SeqCst), 3, "the second is read");
    assert!(!second.is_finished());
    first.abort();
    assert_eq!(second.await.unwrap().unwrap().len(), LENGTH);
}

/// A request body that sends its first bytes, if any, and then never ends.
struct Begun(Option<Bytes>);

impl http_body::Body for Begun {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
    }
}

/// A connection whose requests begin and never end.
async fn connected(address: &str) -> hyper::client::conn::http2::SendRequest<Begun> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    sender
}

fn begun(address: &str, path: &str, begun: &'static [u8]) -> http::Request<Begun> {
    let body = Some(Bytes::from_static(begun)).filter(|it| !it.is_empty());
    request(address, path, Begun(body))
}

fn request<B>(address: &str, path: &str, body: B) -> http::Request<B> {
    http::Request::post(format!("http://{address}{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body)
        .unwrap()
}

/// A stranger that announces as much as may be under way, and sends ten bytes of it.
#[tokio::test]
async fn what_is_only_announced_holds_nobody_up() {
    let config = ServerConfig {
        message_bytes_max: 1 << 20,
        budget: Budget::new(2 << 20, 1 << 20),
        ..ServerConfig::default()
    };
    let server = Running::start(config);
    let mut stranger = connected(&server.address).await;
    for _ in 0..20 {
        let request = begun(&server.address, "/test/Echo", b"\0\0\x10\0\0begin");
        tokio::spawn(stranger.send_request(request));
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(server.call("/test/Echo", noise(1 << 20)).await.unwrap().len(), 1 << 20);
}

/// A compressed message takes as much memory as it has bytes, not as it could have.
#[tokio::test(flavor = "multi_thread")]
async fn compressed_requests_that_wait_hold_what_they_take() {
    const CALLS: usize = 9;
    let config = ServerConfig {
        message_bytes_max: 1 << 20,
        budget: Budget::new(2 << 20, 1 << 20),
        ..ServerConfig::default()
    };
    let server = Running::start(config);
    for _ in 0..CALLS {
        let address = server.address.clone();
        tokio::spawn(async move { call_gzip_at(&address, "/test/Wait", noise(100_000)).await });
    }
    until(|| server.service.begun.load(Ordering::SeqCst) == CALLS).await;
}

/// A call that waits for days holds no memory that others need.
#[tokio::test]
async fn a_request_that_nobody_needs_any_more_gives_its_memory_back() {
    let budget = Budget::new(1 << 20, 1 << 20);
    let server = Running::start(ServerConfig { budget, ..ServerConfig::default() });
    for parked in 1..=5 {
        let call = GrpcClient::new();
        let call = call.unary(&server.address, "/test/Park", noise(1 << 20), SOON);
        tokio::spawn(call);
        until(|| server.service.begun.load(Ordering::SeqCst) == parked).await;
    }
    assert_eq!(server.call("/test/Echo", noise(1 << 20)).await.unwrap().len(), 1 << 20);
}

/// A client that asks for long answers and reads none of them.
#[tokio::test]
async fn a_client_that_does_not_read_its_answers_loses_its_connection() {
    const LENGTH: usize = 200_000;
    let unread_max = Some(Duration::from_millis(300));
    let server = Running::start(ServerConfig { unread_max, ..ServerConfig::default() });
    let stream = TcpStream::connect(&server.address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(1000)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let message = [&[0, 0, 3, 13, 64][..], &noise(LENGTH)].concat();
    let request = request(&server.address, "/test/Echo", Whole(Some(message.into())));
    let answer = sender.send_request(request).await.unwrap();
    tokio::time::timeout(SOON, connection).await.expect("the connection stays open").unwrap().ok();
    until(|| server.service.closed.load(Ordering::SeqCst) == 1).await;
    drop(answer);
}

/// A request body of one piece.
struct Whole(Option<Bytes>);

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

#[tokio::test]
async fn a_client_that_falls_silent_within_a_request_is_cancelled_and_holds_no_memory() {
    assert_eq!(ServerConfig::default().silence_max, Duration::from_secs(60));
    let (silence_max, budget) = (Duration::from_millis(100), Budget::new(1 << 20, 1 << 20));
    let config = ServerConfig { silence_max, budget, ..ServerConfig::default() };
    let server = Running::start(config);
    let mut sender = connected(&server.address).await;
    // The second request announces a message that takes the whole budget, and sends a part of it.
    for bytes in [&b""[..], b"\0\0\x10\0\0 begins"] {
        let request = begun(&server.address, "/test/Echo", bytes);
        let answer = tokio::time::timeout(SOON, sender.send_request(request)).await;
        let answer = answer.expect("the server waits for ever").unwrap();
        let status = answer.headers()["grpc-status"].to_str().unwrap();
        assert_eq!(status, Code::Cancelled.number().to_string());
    }
    assert_eq!(server.service.begun.load(Ordering::SeqCst), 0);
    assert!(server.call("/test/Echo", noise(1 << 20)).await.is_ok());
}

#[tokio::test]
async fn the_service_hears_of_every_closed_connection() {
    let running = Running::start(ServerConfig::default());
    for count in 1..=2 {
        let client = GrpcClient::new();
        let echo = client.unary(&running.address, "/test/Echo", Bytes::new(), SOON);
        echo.await.unwrap();
        assert!(running.service.closed.load(Ordering::SeqCst) < count);
        drop(client);
        until(|| running.service.closed.load(Ordering::SeqCst) == count).await;
    }
}

/// A server may then stop work that nobody waits for any more.
#[tokio::test]
async fn a_call_says_how_long_its_caller_waits() {
    let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = door.local_addr().unwrap().to_string();
    let client = GrpcClient::new();
    let call = client.unary(&address, "/test/Wait", Bytes::new(), Duration::from_secs(7));
    let heard = async {
        let (peer, _) = door.accept().await.unwrap();
        let mut connection = h2::server::handshake(peer).await.unwrap();
        let (request, _) = connection.accept().await.unwrap().unwrap();
        request.headers().get("grpc-timeout").map(|found| found.to_str().unwrap().to_owned())
    };
    let said = tokio::select! {
        biased;
        answer = call => panic!("answered: {answer:?}"),
        said = tokio::time::timeout(SOON, heard) => said.expect("no call came"),
    };
    let said = said.expect("no grpc-timeout");
    let (count, unit) = said.split_at(said.len() - 1);
    let micros = count.parse::<u64>().unwrap()
        * match unit {
            "u" => 1,
            "m" => 1000,
            "S" => 1_000_000,
            _ => 0,
        };
    assert_eq!(micros, 7_000_000, "{said}");
}

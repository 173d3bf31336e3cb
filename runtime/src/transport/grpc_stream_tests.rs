//! Streams over real loopback connections: our server against tonic's client.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::uri::PathAndQuery;
use rondo_core::status::{Code, Status};
use rondo_proto::pieces::Pieces;
use tonic::codec::CompressionEncoding;

use super::grpc_client::{BytesCodec, GrpcClient};
use super::{BoxFuture, Call, MessageStream, MessageWriter, ServerConfig, Service, Transport};

const SOON: Duration = Duration::from_secs(20);
/// Bytes of each message of `/test/Count`.
const COUNTED_BYTES: usize = 1 << 20;

/// Writes as the method's name says.
#[derive(Default)]
struct Feed {
    /// Messages made.
    made: AtomicUsize,
    /// Streams under way.
    open: AtomicUsize,
}

/// A stream as long as it is under way.
struct Open<'a>(&'a AtomicUsize);

impl<'a> Open<'a> {
    fn on(open: &'a AtomicUsize) -> Self {
        open.fetch_add(1, Ordering::SeqCst);
        Self(open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service for Feed {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(async move { Ok(call.message) })
    }

    fn streaming_paths(&self) -> Vec<&'static str> {
        vec![
            "/test/Count",
            "/test/Pieces",
            "/test/Mixed",
            "/test/Refuse",
            "/test/Panic",
            "/test/Wait",
        ]
    }

    fn streaming(&self, call: Call, mut to: MessageWriter) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(async move {
            let _open = Open::on(&self.open);
            match call.path.as_str() {
                "/test/Count" => loop {
                    let number = self.made.fetch_add(1, Ordering::SeqCst);
                    to.write(vec![u8::try_from(number % 251).unwrap(); COUNTED_BYTES]).await;
                },
                "/test/Pieces" => {
                    for length in [0, 1, 5000, call.message.len()] {
                        to.write(call.message.slice(..length.min(call.message.len()))).await;
                    }
                    Ok(())
                }
                "/test/Mixed" => {
                    to.write(mixed(&call.message)).await;
                    to.write(mixed(&Bytes::from_static(b"short"))).await;
                    Ok(())
                }
                "/test/Refuse" => {
                    to.write(call.message).await;
                    Err(Status::new(Code::NotFound, "key – not found"))
                }
                "/test/Panic" => panic!("the text of the panic"),
                _ => {
                    to.write(Bytes::new()).await;
                    pending().await
                }
            }
        })
    }
}

/// A message thrice, in pieces.
fn mixed(message: &Bytes) -> Pieces {
    let between = Bytes::from_static(b"between");
    [message.clone(), between.clone(), message.clone(), between, message.clone()]
        .into_iter()
        .collect()
}

type Running = super::grpc_running::Running<Feed>;

impl Running {
    fn stream(&self, path: &'static str, message: Bytes) -> MessageStream {
        GrpcClient::new().streaming(&self.address, path, message)
    }

    async fn until_open(&self, count: usize) {
        let began = Instant::now();
        while self.service.open.load(Ordering::SeqCst) != count {
            assert!(began.elapsed() < SOON, "{:?} streams, not {count}", self.service.open);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

async fn next(stream: &mut MessageStream) -> Result<Option<Bytes>, Status> {
    tokio::time::timeout(SOON, stream.next()).await.expect("nothing comes")
}

#[tokio::test]
async fn messages_of_any_size_come_in_order_before_the_end() {
    let server = Running::start(ServerConfig::default());
    let message: Bytes = (0..3_000_000_u32).map(|at| at.to_le_bytes()[at as usize % 3]).collect();
    let mut stream = server.stream("/test/Pieces", message.clone());
    for length in [0, 1, 5000, message.len()] {
        assert!(next(&mut stream).await.unwrap().unwrap() == message.slice(..length), "{length}");
    }
    assert_eq!(next(&mut stream).await, Ok(None));
    server.until_open(0).await;
}

#[tokio::test]
async fn a_message_in_pieces_is_one_to_any_client() {
    let server = Running::start(ServerConfig::default());
    let long = Bytes::from((0..200_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    let wanted = [mixed(&long).join(), mixed(&Bytes::from_static(b"short")).join()];
    for client in [GrpcClient::new(), GrpcClient::of_reader()] {
        let mut stream = client.streaming(&server.address, "/test/Mixed", long.clone());
        for message in &wanted {
            assert!(next(&mut stream).await.unwrap().unwrap() == message);
        }
        assert_eq!(next(&mut stream).await, Ok(None));
    }
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address));
    let mut client = tonic::client::Grpc::new(channel.unwrap().connect().await.unwrap())
        .max_decoding_message_size(usize::MAX);
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/test/Mixed");
    let answer = client.server_streaming(tonic::Request::new(long), path, BytesCodec).await;
    let mut messages = answer.unwrap().into_inner();
    for message in &wanted {
        assert!(messages.message().await.unwrap().unwrap() == message);
    }
    assert!(messages.message().await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_is_made_than_a_slow_client_has_room_for() {
    // Not one fits its window, and the next is asked for when the last has gone.
    const ROOM: usize = 3;
    let server = Running::start(ServerConfig::default());
    let mut stream = server.stream("/test/Count", Bytes::new());
    next(&mut stream).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let made = server.service.made.load(Ordering::SeqCst);
    assert!(made <= ROOM, "{made} messages of 1 MiB were made");
    for number in 1..100_u8 {
        let message = next(&mut stream).await.unwrap().unwrap();
        assert!(message.len() == COUNTED_BYTES && message[0] == number, "{number}");
    }
}

/// Streams whose messages nobody takes hold up neither calls nor other streams to the same server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_streams_hold_up_nobody() {
    let server = Running::start(ServerConfig::default());
    let client = GrpcClient::new();
    let count = || client.streaming(&server.address, "/test/Count", Bytes::new());
    let mut full: Vec<MessageStream> = (0..300).map(|_| count()).collect();
    for stream in &mut full {
        next(stream).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let message = Bytes::from(vec![9; 8 << 20]);
    let call = client.unary(&server.address, "/test/Echo", message.clone(), SOON).await;
    assert!(call.unwrap() == message);
    let mut other = count();
    for _ in 0..5 {
        next(&mut other).await.unwrap().unwrap();
    }
    for stream in &mut full {
        next(stream).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_refusal_or_a_panic_stands_behind_the_messages() {
    let server = Running::start(ServerConfig::default());
    let mut stream = server.stream("/test/Refuse", Bytes::from_static(b"first"));
    assert_eq!(next(&mut stream).await, Ok(Some(Bytes::from_static(b"first"))));
    let refused = next(&mut stream).await.unwrap_err();
    assert_eq!(refused, Status::new(Code::NotFound, "key – not found"));
    let panicked = next(&mut server.stream("/test/Panic", Bytes::new())).await.unwrap_err();
    assert_eq!(panicked.code, Code::Internal);
    assert!(panicked.message.contains("/test/Panic"), "{panicked}");
}

#[tokio::test]
async fn an_oversized_request_is_refused_with_size_and_bound() {
    let config = ServerConfig { message_bytes_max: 1000, ..ServerConfig::default() };
    let server = Running::start(config);
    let long = Bytes::from(vec![7; 1001]);
    let status = next(&mut server.stream("/test/Pieces", long)).await.unwrap_err();
    assert_eq!(status.code, Code::ResourceExhausted);
    assert!(status.message.contains("1001") && status.message.contains("1000"), "{status}");
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_stream() {
    let server = Running::start(ServerConfig::default());
    let client = GrpcClient::new();
    let mut streams =
        [(); 2].map(|()| client.streaming(&server.address, "/test/Wait", Bytes::new()));
    for stream in &mut streams {
        next(stream).await.unwrap();
    }
    server.until_open(2).await;
    let [leaving, mut staying] = streams;
    drop(leaving);
    server.until_open(1).await;
    let more = tokio::time::timeout(Duration::from_millis(50), staying.next()).await;
    assert!(more.is_err(), "the other goes on: {more:?}");
    drop(client);
    drop(staying);
    server.until_open(0).await;
}

#[tokio::test]
async fn a_slow_client_that_leaves_ends_its_stream() {
    let server = Running::start(ServerConfig::default());
    let mut stream = server.stream("/test/Count", Bytes::new());
    next(&mut stream).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(stream);
    server.until_open(0).await;
}

#[tokio::test]
async fn a_server_that_stops_ends_its_streams_at_once() {
    let grace = Duration::from_secs(600);
    let mut server =
        Running::start(ServerConfig { shutdown_grace: grace, ..ServerConfig::default() });
    let mut stream = server.stream("/test/Wait", Bytes::new());
    next(&mut stream).await.unwrap();
    server.stop();
    let status = next(&mut stream).await.unwrap_err();
    assert_eq!(status, Status::new(Code::Unavailable, "the server is shutting down"));
    tokio::time::timeout(SOON, &mut server.served).await.expect("it goes on").unwrap();
}

#[tokio::test]
async fn a_server_that_is_gone_is_unavailable_by_name() {
    let server = Running::start(ServerConfig::default());
    let mut stream = server.stream("/test/Wait", Bytes::new());
    next(&mut stream).await.unwrap();
    server.served.abort();
    let status = next(&mut stream).await.unwrap_err();
    assert_eq!(status.code, Code::Unavailable, "{status}");
    assert!(status.message.contains(&server.address), "{status}");
    let mut again = server.stream("/test/Wait", Bytes::new());
    let status = next(&mut again).await.unwrap_err();
    assert_eq!(status.code, Code::Unavailable, "{status}");
    assert!(status.message.contains(&server.address), "{status}");
}

#[tokio::test]
async fn streams_count_as_calls_of_their_connection() {
    let config = ServerConfig { calls_per_connection_max: 2, ..ServerConfig::default() };
    let server = Running::start(config);
    let client = GrpcClient::new();
    let wait = || client.streaming(&server.address, "/test/Wait", Bytes::new());
    let mut streams = [wait(), wait()];
    for stream in &mut streams {
        next(stream).await.unwrap();
    }
    let mut third = wait();
    assert!(tokio::time::timeout(Duration::from_millis(100), third.next()).await.is_err());
    drop(streams);
    assert_eq!(next(&mut third).await, Ok(Some(Bytes::new())));
}

/// Tonic's own client, with a compressed request and a deadline, which ours does not send.
#[tokio::test]
async fn a_compressed_request_and_a_deadline_are_kept() {
    let server = Running::start(ServerConfig::default());
    let uri = format!("http://{}", server.address);
    let channel = tonic::transport::Endpoint::from_shared(uri).unwrap().connect().await.unwrap();
    let mut grpc = tonic::client::Grpc::new(channel)
        .send_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Gzip);
    let message = Bytes::from(vec![5; 100_000]);
    grpc.ready().await.unwrap();
    let path = PathAndQuery::from_static("/test/Refuse");
    let request = tonic::Request::new(message.clone());
    let mut stream = grpc.server_streaming(request, path, BytesCodec).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().unwrap() == message);
    assert_eq!(stream.message().await.unwrap_err().code(), tonic::Code::NotFound);

    let mut request = tonic::Request::new(Bytes::new());
    request.metadata_mut().insert("grpc-timeout", "80m".parse().unwrap());
    grpc.ready().await.unwrap();
    let path = PathAndQuery::from_static("/test/Wait");
    let mut stream = grpc.server_streaming(request, path, BytesCodec).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap(), Some(Bytes::new()));
    let status = stream.message().await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::DeadlineExceeded, "{status}");
    server.until_open(0).await;
}

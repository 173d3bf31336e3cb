//! Bulk connections: what gRPC does not have, and peers that do otherwise.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{
    BULK_HEAD_BYTES, BULK_PREFACE, BulkCall, BulkFrame, BulkLent, BulkNear, decode_bulk_end,
    decode_bulk_head, encode_bulk_call, encode_bulk_head, encode_bulk_lent, encode_bulk_near,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::feed::{Running, SOON, clients, mixed, next};
use super::grpc_client::GrpcClient;
use super::{BoxFuture, Call, ConnectionId, MessageWriter, ServerConfig, Service, Transport};
use crate::tensor::ALIGNMENT;

/// Tells on which connections calls come, and who makes them.
#[derive(Default)]
struct Witness {
    calls: Mutex<Vec<(ConnectionId, Option<String>)>>,
}

impl Service for Witness {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(async move { Ok(call.message) })
    }

    fn streaming_paths(&self) -> Vec<&'static str> {
        vec!["/rondo.v1.Test/Echo"]
    }

    fn streaming(&self, call: Call, mut to: MessageWriter) -> BoxFuture<'_, Result<(), Status>> {
        self.calls.lock().unwrap().push((call.connection, call.worker));
        Box::pin(async move {
            to.write(call.message).await;
            Ok(())
        })
    }
}

/// A server that lends no memory.
fn apart() -> ServerConfig {
    ServerConfig { shared_memory_bytes_max: 0, ..ServerConfig::default() }
}

async fn echoed(client: &GrpcClient, address: &str, message: Bytes) -> Result<Bytes, Status> {
    let mut stream = client.streaming(address, "/rondo.v1.Test/Echo", message);
    let answer = next(&mut stream).await?.expect("a message");
    assert_eq!(next(&mut stream).await, Ok(None));
    Ok(answer)
}

/// The keepalive timer of each connection to or from this port, as `/proc` shows it: seconds until the system
/// probes the peer; `None` for a connection without such a timer.
fn silences(port: u16) -> Vec<Option<u64>> {
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let port = format!("{port:04X}");
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    let is_open = |row: &Vec<&str>| {
        row[3] == "01" && [row[1], row[2]].iter().any(|it| it.rsplit(':').next() == Some(&*port))
    };
    let until_asked = |row: Vec<&str>| {
        let (timer, when) = row[5].split_once(':').unwrap();
        // In hundredths of a second.
        (timer == "02").then(|| u64::from_str_radix(when, 16).unwrap() / 100)
    };
    rows.filter(is_open).map(until_asked).collect()
}

#[tokio::test]
async fn both_ends_of_an_idle_connection_probe_each_other() {
    let server = Running::start(apart());
    let client = GrpcClient::of_reader();
    let mut stream = server.stream(&client, "/rondo.v1.Test/Mixed", "x");
    while next(&mut stream).await.unwrap().is_some() {}
    let port = server.address.rsplit(':').next().unwrap().parse().unwrap();
    let began = std::time::Instant::now();
    loop {
        // Unacknowledged data shows another timer for a moment.
        match silences(port)[..] {
            [Some(one), Some(other)] => return assert!(one.max(other) <= 30, "{one} {other}"),
            ref found => assert!(began.elapsed() < SOON, "{found:?}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether a message lies in memory that a server lends.
fn is_lent(message: &[u8]) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("/memfd:rondo-bulk-")).any(|line| {
        let (begin, rest) = line.split_once('-').unwrap();
        let end = rest.split_once(' ').unwrap().0;
        let [begin, end] = [begin, end].map(|it| usize::from_str_radix(it, 16).unwrap());
        (begin..end).contains(&message.as_ptr().addr())
    })
}

#[tokio::test]
async fn long_messages_between_processes_of_a_host_go_through_memory_of_both() {
    let server = Running::start(ServerConfig::default());
    let [_, reader, tensors] = clients();
    let long = Bytes::from(vec![7; 1 << 20]);
    for client in [&reader, &tensors] {
        let mut stream = server.stream(client, "/rondo.v1.Test/Mixed", long.clone());
        let message = next(&mut stream).await.unwrap().unwrap();
        assert!(message == mixed(&long).join() && is_lent(&message));
        assert!(message.as_ptr().addr().is_multiple_of(ALIGNMENT), "its first piece is long");
        let short = next(&mut stream).await.unwrap().unwrap();
        assert!(short == mixed(&Bytes::from_static(b"short")).join() && !is_lent(&short));
        assert_eq!(next(&mut stream).await, Ok(None));
    }
}

#[tokio::test]
async fn a_message_stays_when_its_connection_is_over() {
    let mut server = Running::start(ServerConfig::default());
    let long = Bytes::from((0..1_000_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    let client = GrpcClient::of_reader();
    let mut stream = server.stream(&client, "/rondo.v1.Test/Mixed", long.clone());
    let message = next(&mut stream).await.unwrap().unwrap();
    drop((stream, client));
    server.stop();
    server.served.await.unwrap();
    assert!(is_lent(&message) && message == mixed(&long).join());
}

#[tokio::test]
async fn messages_that_are_kept_leave_later_ones_their_way() {
    let server = Running::start(ServerConfig::default());
    let client = GrpcClient::of_reader();
    let mut stream = server.stream(&client, "/rondo.v1.Test/Count", "");
    let mut kept = Vec::new();
    for number in 0..100_u8 {
        let message = next(&mut stream).await.unwrap().unwrap();
        assert!(message.iter().all(|byte| *byte == number));
        kept.push(message);
    }
    let lent = kept.iter().filter(|message| is_lent(message)).count();
    assert!((32..=64).contains(&lent), "{lent} of 100 MiB lie in 64 MiB");
    assert!(kept.iter().zip(0..).all(|(message, number)| message.iter().all(|it| *it == number)));
}

#[tokio::test]
async fn messages_lie_where_their_reader_wants_them() {
    let server = super::grpc_running::Running::<Witness>::start(apart());
    let client = GrpcClient::of_tensors(|begin| usize::from(begin[0]));
    for at in [0_u8, 1, 63, 200] {
        let sent = Bytes::from([vec![at], vec![1; 50_000]].concat());
        let found = echoed(&client, &server.address, sent.clone()).await.unwrap();
        assert!(found == sent);
        assert!(found[usize::from(at)..].as_ptr().addr().is_multiple_of(ALIGNMENT), "{at}");
    }
}

#[tokio::test]
async fn a_connection_carries_one_call_after_the_other() {
    let server = super::grpc_running::Running::<Witness>::start(ServerConfig::default());
    let client = GrpcClient::of_reader();
    for _ in 0..3 {
        echoed(&client, &server.address, Bytes::from_static(b"again")).await.unwrap();
    }
    let calls = server.service.calls.lock().unwrap().clone();
    assert!(calls.len() == 3 && calls.iter().all(|call| call == &calls[0]), "{calls:?}");
}

#[tokio::test]
async fn a_caller_who_leaves_with_all_messages_leaves_the_connection_to_the_next() {
    let server = super::grpc_running::Running::<Witness>::start(ServerConfig::default());
    let client = GrpcClient::of_reader();
    for _ in 0..3 {
        let message = Bytes::from_static(b"all");
        let mut stream = client.streaming(&server.address, "/rondo.v1.Test/Echo", message.clone());
        assert_eq!(next(&mut stream).await, Ok(Some(message)));
        drop(stream);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let calls = server.service.calls.lock().unwrap().clone();
    assert!(calls.len() == 3 && calls.iter().all(|call| call == &calls[0]), "{calls:?}");
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_not_used() {
    let config = ServerConfig { silence_max: Duration::from_millis(50), ..ServerConfig::default() };
    let server = super::grpc_running::Running::<Witness>::start(config);
    let client = GrpcClient::of_reader();
    for _ in 0..2 {
        echoed(&client, &server.address, Bytes::from_static(b"again")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A server that answers as HTTP/2 servers do to what is none, and in front of it all a count.
async fn before_bulk(server: String) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let strange = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&strange);
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let (server, seen) = (server.clone(), Arc::clone(&seen));
            tokio::spawn(async move {
                let mut first = [0; 1];
                client.peek(&mut first).await.unwrap();
                if first == [BULK_PREFACE[0]] {
                    seen.fetch_add(1, Ordering::SeqCst);
                    // An empty SETTINGS frame.
                    return client.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
                }
                let mut to = TcpStream::connect(server).await?;
                tokio::io::copy_bidirectional(&mut client, &mut to).await.map(|_| ())
            });
        }
    });
    (address, strange)
}

#[tokio::test]
async fn a_server_that_knows_no_bulk_connections_is_asked_by_grpc() {
    let server = super::grpc_running::Running::<Witness>::start(ServerConfig::default());
    let (address, strange) = before_bulk(server.address.clone()).await;
    let client = GrpcClient::of_reader();
    for _ in 0..3 {
        let found = echoed(&client, &address, Bytes::from_static(b"over HTTP/2")).await;
        assert_eq!(found, Ok(Bytes::from_static(b"over HTTP/2")));
    }
    assert_eq!(strange.load(Ordering::SeqCst), 1, "it is remembered");
}

#[tokio::test]
async fn what_is_no_stream_is_refused_and_the_connection_goes_on() {
    let server = Running::start(ServerConfig::default());
    let client = GrpcClient::of_reader();
    let mut stream = server.stream(&client, "/rondo.v1.Test/Unary", "");
    let refused = next(&mut stream).await.unwrap_err();
    assert_eq!(refused.code, Code::Unimplemented, "{refused}");
    assert!(refused.message.contains("/rondo.v1.Test/Unary"), "{refused}");
    let mut stream = server.stream(&client, "/rondo.v1.Test/Pieces", "some");
    assert_eq!(next(&mut stream).await, Ok(Some(Bytes::new())));
}

/// What a server answers to these bytes before it closes the connection.
async fn answer_to(server: &Running, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(&server.address).await?;
    stream.write_all(bytes).await?;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await;
    match read.expect("it does not close the connection") {
        Err(error) if error.kind() != io::ErrorKind::ConnectionReset => Err(error),
        _ => Ok(answer),
    }
}

#[tokio::test]
async fn bytes_that_mean_nothing_end_their_connection_and_no_other() {
    let config = ServerConfig {
        silence_max: Duration::from_millis(300),
        message_bytes_max: 1000,
        ..ServerConfig::default()
    };
    let server = Running::start(config);
    let client = GrpcClient::of_reader();
    let mut waiting = server.stream(&client, "/rondo.v1.Test/Wait", "");
    next(&mut waiting).await.unwrap();
    assert_eq!(answer_to(&server, b"RONDO/2\n").await.unwrap(), b"");
    assert_eq!(answer_to(&server, b"R").await.unwrap(), b"", "it waits for ever");
    let framed = |head: [u8; BULK_HEAD_BYTES]| [&BULK_PREFACE[..], &head[..]].concat();
    let unfinished = framed(encode_bulk_head(BulkFrame::Call, 500));
    assert_eq!(answer_to(&server, &unfinished).await.unwrap(), BULK_PREFACE);
    assert_eq!(answer_to(&server, &framed([7; BULK_HEAD_BYTES])).await.unwrap(), BULK_PREFACE);
    for (frame, length, body, code) in [
        (BulkFrame::Call, 1001, vec![], Code::ResourceExhausted),
        (BulkFrame::Call, u64::MAX, vec![], Code::ResourceExhausted),
        (BulkFrame::Message, 0, vec![], Code::InvalidArgument),
        (BulkFrame::Call, 3, vec![10, 9, 1], Code::InvalidArgument),
    ] {
        let bytes = [framed(encode_bulk_head(frame, length)), body].concat();
        let answer = answer_to(&server, &bytes).await.unwrap();
        let (head, end) = answer[BULK_PREFACE.len()..].split_at(BULK_HEAD_BYTES);
        let (kind, length) = decode_bulk_head(head.try_into().unwrap()).unwrap();
        assert_eq!((kind, length), (BulkFrame::End, end.len() as u64));
        let refused = decode_bulk_end(Bytes::copy_from_slice(end)).unwrap_err();
        assert_eq!(refused.code, code, "{refused}");
    }
    let more = tokio::time::timeout(Duration::from_millis(50), waiting.next()).await;
    assert!(more.is_err(), "the other goes on: {more:?}");
}

#[tokio::test]
async fn a_client_that_speaks_out_of_turn_loses_its_connection() {
    let server = Running::start(ServerConfig::default());
    let path = "/rondo.v1.Test/Wait".to_owned();
    let call = encode_bulk_call(BulkCall { path, worker: None, message: Bytes::new() });
    let head = encode_bulk_head(BulkFrame::Call, call.len() as u64);
    let once = [&head[..], &call[..]].concat();
    let twice = [&BULK_PREFACE[..], &once, &once].concat();
    answer_to(&server, &twice).await.unwrap();
    server.until_open(0).await;
}

/// A server that says this, whatever it is asked.
async fn saying(bytes: Vec<u8>) -> String {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        client.write_all(&bytes).await.unwrap();
        let _ = client.read_to_end(&mut Vec::new()).await;
    });
    address
}

#[tokio::test]
async fn answers_that_are_none_are_refused() {
    let offers_none = encode_bulk_head(BulkFrame::Near, 0);
    let framed = |head: [u8; BULK_HEAD_BYTES], body: &[u8]| {
        [&BULK_PREFACE[..], &offers_none, &head[..], body].concat()
    };
    let place = encode_bulk_lent(BulkLent { mark: 0, start: 64, length: 1 });
    for (bytes, code) in [
        (framed(encode_bulk_head(BulkFrame::Message, 1 << 40), &[]), Code::ResourceExhausted),
        (framed(encode_bulk_head(BulkFrame::Call, 0), &[]), Code::Internal),
        (framed(encode_bulk_head(BulkFrame::End, 2), &[10, 9]), Code::Internal),
        (framed([9; BULK_HEAD_BYTES], &[]), Code::Unavailable),
        (framed(encode_bulk_head(BulkFrame::Near, 0), &[]), Code::Internal),
        (framed(encode_bulk_head(BulkFrame::Lent, 24), &place), Code::Unavailable),
        (framed(encode_bulk_head(BulkFrame::Lent, 3), &[1, 2, 3]), Code::Unavailable),
    ] {
        let address = saying(bytes).await;
        let [_, _, client] = clients();
        let refused = echoed(&client, &address, Bytes::new()).await.unwrap_err();
        assert_eq!(refused.code, code, "{refused}");
    }
}

#[tokio::test]
async fn memory_that_is_not_there_is_done_without() {
    let near = encode_bulk_near(Some(BulkNear { process: u32::MAX, file: 3, token: 5 }));
    let offer = encode_bulk_head(BulkFrame::Near, near.len() as u64);
    let message = encode_bulk_head(BulkFrame::Message, 2);
    let end = encode_bulk_head(BulkFrame::End, 0);
    let all = [&BULK_PREFACE[..], &offer, &near, &message, b"ok", &end].concat();
    let address = saying(all).await;
    let [_, _, client] = clients();
    assert_eq!(echoed(&client, &address, Bytes::new()).await.unwrap(), &b"ok"[..]);
}

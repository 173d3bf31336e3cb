//! Bulk connections: what gRPC does not have, and peers that do otherwise.

use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{
    BULK_HEAD_BYTES, BULK_PREFACE, BulkCall, BulkFrame, BulkLent, BulkNear, decode_bulk_end,
    decode_bulk_head, encode_bulk_call, encode_bulk_head, encode_bulk_lent, encode_bulk_near,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{SockFilter, SockRef};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::bulk_client::{BulkClient, Unfinished};
use super::feed::{Running, SOON, clients, mixed, next};
use super::grpc_client::GrpcClient;
use super::keepalive::Keepalive;
use super::{
    BoxFuture, Call, ConnectionId, MessageStream, MessageWriter, ServerConfig, Service, Transport,
};
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

/// Has the system drop without a word all that comes for a connection, as a network that broke does.
fn cut_off(stream: &TcpStream) {
    const ACCEPT_NO_BYTES: u16 = 0x06;
    SockRef::from(stream).attach_filter(&[SockFilter::new(ACCEPT_NO_BYTES, 0, 0, 0)]).unwrap();
}

/// Times as short as the system knows: a silence of a second, and four seconds for an answer.
const KEEPALIVE: Keepalive =
    Keepalive { interval: Duration::from_secs(1), timeout: Duration::from_secs(4) };

#[tokio::test]
async fn a_server_that_is_cut_off_is_noticed_in_time() {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = tokio::spawn(async move {
        let (mut peer, _) = listener.accept().await.unwrap();
        let no_memory = encode_bulk_head(BulkFrame::Near, 0);
        peer.write_all(&[&BULK_PREFACE[..], &no_memory].concat()).await.unwrap();
        // The preface, the question for memory, and a call.
        let mut said = [0; BULK_PREFACE.len() + 2 * BULK_HEAD_BYTES + 1];
        peer.read_exact(&mut said).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        cut_off(&peer);
        peer
    });
    let mut client = BulkClient::default();
    client.keepalive = KEEPALIVE;
    let call = BulkCall { path: "/rondo.v1.Test/Wait".into(), worker: None, message: Bytes::new() };
    let mut stream = MessageStream::written(|mut writer| async move {
        match client.stream(&address, call, &mut writer).await {
            Err(Unfinished::Refused(status)) => Err(status),
            _ => panic!("a connection that is cut off does not end well"),
        }
    });
    let began = Instant::now();
    let status = next(&mut stream).await.unwrap_err();
    assert_eq!(status.code, Code::Unavailable, "{status}");
    assert!(status.message.contains("timed out"), "{status}");
    let in_time = KEEPALIVE.interval + KEEPALIVE.timeout;
    assert!((in_time / 2..in_time * 2).contains(&began.elapsed()), "{:?}", began.elapsed());
    server.await.unwrap();
}

#[tokio::test]
async fn a_client_that_is_cut_off_is_noticed_in_time() {
    let Keepalive { interval: keepalive_interval, timeout: keepalive_timeout } = KEEPALIVE;
    let config = ServerConfig { keepalive_interval, keepalive_timeout, ..apart() };
    let server = Running::start(config);
    let mut client = TcpStream::connect(&server.address).await.unwrap();
    let path = "/rondo.v1.Test/Wait".to_owned();
    let call = encode_bulk_call(BulkCall { path, worker: None, message: Bytes::new() });
    let head = encode_bulk_head(BulkFrame::Call, call.len() as u64);
    client.write_all(&[&BULK_PREFACE[..], &head, &call].concat()).await.unwrap();
    server.until_open(1).await;
    let mut answer = [0; BULK_PREFACE.len() + BULK_HEAD_BYTES];
    client.read_exact(&mut answer).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    cut_off(&client);
    let began = Instant::now();
    server.until_open(0).await;
    let in_time = keepalive_interval + keepalive_timeout;
    assert!((in_time / 2..in_time * 2).contains(&began.elapsed()), "{:?}", began.elapsed());
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
    assert_eq!(answer_to(&server, &framed([7; BULK_HEAD_BYTES])).await.unwrap(), BULK_PREFACE);
    for (frame, length, body, code) in [
        (BulkFrame::Call, 1001, vec![], Code::ResourceExhausted),
        (BulkFrame::Call, u64::MAX, vec![], Code::ResourceExhausted),
        (BulkFrame::Call, 500, vec![], Code::Cancelled),
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

/// A caller that has all it wants leaves the end to its connection.
#[tokio::test]
async fn an_end_without_a_bound_takes_no_memory_when_its_caller_has_left() {
    let message = encode_bulk_head(BulkFrame::Message, 2);
    let offers_none = encode_bulk_head(BulkFrame::Near, 0);
    let end = encode_bulk_head(BulkFrame::End, 1 << 60);
    let all = [&BULK_PREFACE[..], &offers_none, &message, b"ok", &end].concat();
    let address = saying(all).await;
    let [_, reader, _] = clients();
    let mut stream = reader.streaming(&address, "/rondo.v1.Test/Echo", Bytes::new());
    assert_eq!(next(&mut stream).await.unwrap().unwrap(), &b"ok"[..]);
    drop(stream);
    // The end is read within 20 ms, and the process lives.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(echoed(&reader, &address, Bytes::new()).await.is_err(), "nobody is there any more");
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

/// The limit holds for a whole process, so the test below has one of its own.
#[test]
fn messages_go_over_the_connection_where_one_end_cannot_map_memory() {
    let name = "transport::bulk_tests::in_a_process_of_its_own";
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", name, "--ignored", "--nocapture"]).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// The bytes that this process has mapped.
fn mapped_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    size.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

#[tokio::test]
#[ignore = "leaves its process without address space; the test above starts it"]
async fn in_a_process_of_its_own() {
    /// The bytes that each end maps.
    const MAPPING: u64 = 64 << 20;
    let usual = getrlimit(Resource::As);
    let long = Bytes::from(vec![7; 1 << 20]);
    // There is room for no end, for the server only, for both. A later connection shares memory again.
    for ends in 0..=2 {
        let server = super::grpc_running::Running::<Witness>::start(ServerConfig::default());
        let client = GrpcClient::of_reader();
        let most = Some(mapped_bytes() + ends * MAPPING + MAPPING / 2);
        setrlimit(Resource::As, Rlimit { current: most, maximum: usual.maximum }).unwrap();
        let answer = echoed(&client, &server.address, long.clone()).await;
        setrlimit(Resource::As, usual).unwrap();
        let answer = answer.unwrap();
        assert!(answer == long, "{ends}");
        assert_eq!(is_lent(&answer), ends == 2, "{ends}");
    }
}

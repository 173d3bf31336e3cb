//! Watched keys as streams of the real binary, which is killed, and of the relay in front of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;
use rondo::transport::grpc_client::GrpcClient;
use rondo::transport::{MessageStream, Transport};
use rondo_core::status::{Code, Status};
use rondo_proto::admin::key_change::Kind;
use rondo_proto::{admin, tf};
use rondo_tests::dispatcher::Dispatcher;
use rondo_tests::relay::Relay;
use rondo_tests::server::{Options, Server};
use rondo_tests::{python, tensorflow};

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(120);
const WATCH_KEYS: &str = "/rondo.v1.Coordination/WatchKeys";

fn watch(address: &str, from_revision: u64) -> MessageStream {
    let (key, from_revision) = ("n".to_owned(), Some(from_revision));
    let request = admin::WatchKeysRequest { key, from_revision, ..Default::default() };
    GrpcClient::new().streaming(address, WATCH_KEYS, request.encode_to_vec().into())
}

async fn next(stream: &mut MessageStream) -> Result<admin::WatchKeysResponse, Status> {
    let answer = tokio::time::timeout(PATIENCE, stream.next()).await.expect("nothing comes");
    Ok(admin::WatchKeysResponse::decode(answer?.expect("a watch ends with a status")).unwrap())
}

/// Puts 1, 2, … until the count, each once more when it is not known whether it was put.
fn count(address: String, count: u64) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let client = Dispatcher::connect(&address);
        let began = Instant::now();
        for number in 1..=count {
            let value = Bytes::from(number.to_string());
            let kv = Some(tf::KeyValueEntry { key: "n".into(), value });
            let request = tf::InsertKeyValueRequest { kv, allow_overwrite: true };
            let path = "/tensorflow.CoordinationService/InsertKeyValue";
            while let Err(status) = client.method::<_, tf::InsertKeyValueResponse>(path, &request) {
                // What the service itself refuses bears its mark.
                assert!(status.details().is_empty() && began.elapsed() < PATIENCE, "{status}");
                thread::sleep(Duration::from_millis(5));
            }
            thread::sleep(Duration::from_millis(2));
        }
    })
}

/// Each change makes the next revision: what a client is told over all its streams has no gap, and
/// nothing twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_comes_once_over_deaths_of_the_server() {
    const COUNT: u64 = 500;
    for store in ["segment", "sled"] {
        let mut server = Server::start(&Options::store(store).flag("--tasks=2"));
        let address = server.address();
        let counting = count(address.clone(), COUNT);
        let watching = tokio::spawn(async move {
            let (mut revisions, mut values, mut streams) = (Vec::new(), Vec::new(), 0_u32);
            while values.last() != Some(&COUNT) {
                let mut stream = watch(&address, revisions.last().copied().unwrap_or(0));
                streams += 1;
                while values.last() != Some(&COUNT) {
                    let told = match next(&mut stream).await {
                        Ok(told) => told,
                        Err(status) => {
                            assert_eq!(status.code, Code::Unavailable, "{status}");
                            tokio::time::sleep(Duration::from_millis(5)).await;
                            break;
                        }
                    };
                    assert!(!told.is_whole, "what was missed would be unknown");
                    for change in told.changes {
                        let Some(Kind::Put(value)) = change.kind else { panic!("{change:?}") };
                        revisions.push(change.revision);
                        values.push(String::from_utf8_lossy(&value).parse::<u64>().unwrap());
                    }
                    assert_eq!(Some(&told.upto), revisions.last());
                }
            }
            (revisions, values, streams)
        });
        for _ in 0..4 {
            thread::sleep(Duration::from_millis(400));
            server.kill();
            server.start_again();
        }
        counting.join().unwrap();
        let (revisions, mut values, streams) = watching.await.unwrap();
        let all: Vec<u64> = (1..=revisions.len() as u64).collect();
        assert_eq!(revisions, all, "{store}");
        // A number may have been put twice: its writer was killed in between.
        values.dedup();
        assert_eq!(values, (1..=COUNT).collect::<Vec<_>>(), "{store}");
        println!("{store}: {} changes over {streams} streams", revisions.len());
        assert!(streams > 1, "the server was never killed while it told");
    }
}

/// One stream of an unmodified client goes on while the server behind the relay is killed.
#[test]
fn a_stream_behind_the_relay_outlives_its_server() {
    const COUNT: u64 = 400;
    let Some(python) = tensorflow::python() else {
        return;
    };
    let mut server = Server::start(&Options::store("segment").flag("--tasks=2"));
    let relay = Relay::start(&server.address());
    let arguments =
        [format!("--server={}", relay.address()), "--key=n".to_owned(), format!("--until={COUNT}")];
    let watching = python::program(python, "watch_key.py", &arguments);
    assert!(watching.line_with("watching", PATIENCE).is_some(), "{}", watching.log());
    let counting = count(relay.address(), COUNT);
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(400));
        server.kill();
        thread::sleep(Duration::from_millis(100));
        server.start_again();
    }
    counting.join().unwrap();
    for number in 1..=COUNT {
        let line = watching.next_line(PATIENCE);
        let expected = format!("{number} {number}");
        assert_eq!(line.as_deref(), Some(&*expected), "{}", watching.log());
    }
}

/// A server that ends in order says so to those who watch, at once.
#[test]
fn a_server_that_stops_tells_its_streams() {
    let Some(python) = tensorflow::python() else {
        return;
    };
    let mut server = Server::start(&Options::store("segment").flag("--tasks=2"));
    let arguments =
        [format!("--server={}", server.address()), "--key=n".into(), "--until=x".into()];
    let watching = python::program(python, "watch_key.py", &arguments);
    assert!(watching.line_with("watching", PATIENCE).is_some(), "{}", watching.log());
    let began = Instant::now();
    let ended = server.terminate();
    assert!(ended.status.success(), "{}", ended.log);
    // Calls that wait have two seconds; a stream would have them for nothing.
    assert!(began.elapsed() < Duration::from_millis(1800), "{:?}", began.elapsed());
    let line = watching.next_line(PATIENCE).unwrap_or_else(|| panic!("{}", watching.log()));
    assert_eq!(line, "ended with UNAVAILABLE the server is shutting down");
}

//! The attacks on a relay and on a worker.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rondo_data::Pipeline;
use rondo_proto::convert::WorkerMethod;
use rondo_proto::tf::data::data_service_metadata::Compression;
use rondo_tests::datasets::register;
use rondo_tests::dispatcher::Dispatcher;
use rondo_tests::neighbour::Neighbour;
use rondo_tests::relay::Relay;
use rondo_tests::server::{Options, Server, run};
use rondo_tests::worker::Worker;

use super::attacks::{Report, Victim, chosen, served_again};
use super::{families, keys};

/// Records that are read from the worker after all attacks.
const RECORDS: i64 = 1000;

/// A task behind the relay lives on, and so do keys that it has put.
#[test]
fn attacks_on_a_relay() {
    let options = Options::store("segment").flag("--tasks=1").flag("--message-size-max=32MiB");
    let server = Server::start(&options);
    let relay = Relay::with(&server.address(), &["--held-size-max=128MiB"]);
    let mut neighbour = Neighbour::that_beats(&relay.address());
    let dispatcher = Dispatcher::connect(&relay.address());
    keys::put(&dispatcher, "kept", &b"kept"[..]).unwrap();
    let mut report = Report::of("relay");
    for attack in chosen(families::on_a_relay()) {
        let victim = Victim {
            address: relay.address(),
            process: Some(relay.process()),
            longest: &mut || neighbour.longest_beat(),
            served: &mut || served_again(&dispatcher),
        };
        report.suffer(&attack, victim);
    }
    report.end();
    drop(neighbour);
    assert_eq!(keys::find(&server.dispatcher(), "kept").unwrap(), b"kept"[..]);
}

/// A worker goes on, and serves each record of its dataset once.
#[test]
fn attacks_on_a_worker() {
    let server = Server::start(&Options::store("segment"));
    let numbers = Pipeline { split_records: Some(50), ..Pipeline::range(0, RECORDS) };
    register(&server.dispatcher(), "numbers", &numbers, Compression::Off);
    let worker = Worker::start(&server.address(), &[]);
    let asks = || WorkerMethod::GetWorkerTasks.path();
    let mut neighbour = Neighbour::that_asks(&worker.address(), asks());
    let client = Dispatcher::connect(&worker.address());
    let mut report = Report::of("worker");
    for attack in chosen(families::on_a_worker()) {
        let victim = Victim {
            address: worker.address(),
            process: Some(worker.process()),
            longest: &mut || neighbour.longest_beat(),
            served: &mut || answered(&client, asks()),
        };
        report.suffer(&attack, victim);
    }
    report.end();
    drop(neighbour);
    let address = format!("--server={}", server.address());
    let ended = run(&["read", &address, "--job=after", "--dataset=numbers", "--format=jsonl"]);
    assert!(ended.status.success(), "{}", ended.log);
    let mut read: Vec<i64> = ended.log.lines().filter_map(number_in).collect();
    read.sort_unstable();
    assert_eq!(read, (0..RECORDS).collect::<Vec<_>>());
}

/// The number in a line of JSON that has one field.
fn number_in(line: &str) -> Option<i64> {
    let row: serde_json::Value = serde_json::from_str(line).ok()?;
    row.as_object()?.values().next()?.as_i64()
}

/// How long it takes until a call is answered, 60 s at most.
fn answered(client: &Dispatcher, path: &str) -> Duration {
    let began = Instant::now();
    while client.bytes(path, Bytes::new()).is_err() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    began.elapsed()
}

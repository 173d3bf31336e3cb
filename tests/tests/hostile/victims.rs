//! The attacks on a relay and on a worker.

use std::thread;
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
use super::ceiling::begin_long_values;
use super::{families, keys};

/// Records that are read from the worker after all attacks.
const RECORDS: i64 = 1000;

/// A task behind the relay lives on, and so do keys that it has put.
#[test]
fn attacks_on_a_relay() {
    let options = Options::store("segment").flag("--tasks=1").flag("--message-size-max=32MiB");
    let server = Server::start(&options);
    let relay = Relay::with(&server.address(), &["--held-size-max=128MiB", "--memory-max=512MiB"]);
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

/// Each client of a relay may have 16 MiB unread: together they took whatever the machine had.
#[test]
fn a_relay_stays_below_its_ceiling() {
    const BOUND_MIB: u64 = 128;
    let server = Server::start(&Options::store("segment").flag("--tasks=1"));
    let bound = format!("--memory-max={BOUND_MIB}MiB");
    let relay = Relay::with(&server.address(), &[&bound, "--held-size-max=1GiB"]);
    let mut neighbour = Neighbour::that_beats(&relay.address());
    relay.process().forget_peak();
    let strangers = begin_long_values(&relay.address(), 40);
    thread::sleep(Duration::from_secs(1));
    let longest = neighbour.longest_beat();
    let peak = relay.process().peak_kib() / 1024;
    println!("a relay at its ceiling: longest heartbeat {longest:.1?}, {peak} MiB at most");
    assert!(longest < Duration::from_secs(3), "{longest:?}");
    assert!(peak <= BOUND_MIB + BOUND_MIB / 4, "{peak} MiB");
    drop(strangers);
    let again = served_again(&Dispatcher::connect(&relay.address()));
    assert!(again < Duration::from_secs(10), "{again:?}");
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
        thread::sleep(Duration::from_millis(5));
    }
    began.elapsed()
}

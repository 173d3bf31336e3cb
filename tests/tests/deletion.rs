//! An operator lists and deletes jobs, datasets and workers at the command line, and a reader that comes
//! back to a freed or abandoned job is told what became of it. Everything outlives `kill -9`. A server over
//! a new data directory gives out other ids than the one before it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]

use std::time::{Duration, Instant};

use bytes::Bytes;
use rondo_proto::admin::{Dataset, HoldSplitsRequest, HoldSplitsResponse, SplitProgress};
use rondo_proto::convert::HOLD_SPLITS_PATH;
use rondo_proto::dataset::encode_definition;
use rondo_proto::tf::data::data_service_metadata::Compression;
use rondo_proto::tf::data::processing_mode_def::ShardingPolicy;
use rondo_tests::dispatcher::Dispatcher;
use rondo_tests::graph;
use rondo_tests::server::{Options, Server, run};
use tonic::Code;

/// What must happen takes no longer.
const PATIENCE: Duration = Duration::from_secs(60);

fn definition(splits: u64) -> Bytes {
    encode_definition(&Dataset { version: 1, splits, passes: 1, ..Dataset::default() })
}

/// A job over the splits of a dataset of Rondo's own.
fn job(dispatcher: &Dispatcher, name: &str) -> i64 {
    let metadata = graph::metadata(Compression::Off, -2);
    let dataset = dispatcher.register(Some("data"), definition(2), &metadata).unwrap();
    dispatcher.job(&dataset, Some(name), ShardingPolicy::Dynamic).unwrap()
}

/// Reads both splits to their end, and leaves.
fn read_all(dispatcher: &Dispatcher, job: i64) {
    let client = dispatcher.iteration(job, 0).unwrap();
    let ask = |progress: Vec<SplitProgress>| -> HoldSplitsResponse {
        let request =
            HoldSplitsRequest { client_id: client, hold: 2, progress, ..Default::default() };
        dispatcher.method(HOLD_SPLITS_PATH, &request).unwrap()
    };
    assert_eq!(ask(Vec::new()).splits.len(), 2);
    let read = |place| SplitProgress { place, records: 3, finished: true };
    assert!(ask(vec![read(0), read(1)]).finished);
    dispatcher.release(client).unwrap();
}

/// Runs a command of the binary about a server.
fn rondo(server: &Server, arguments: &[&str]) -> (bool, String) {
    let server = format!("--server={}", server.address());
    let ended = run(&[arguments, &[&server]].concat());
    (ended.status.success(), ended.log)
}

#[track_caller]
fn done(server: &Server, arguments: &[&str], text: &str) {
    let (success, log) = rondo(server, arguments);
    assert!(success && log.contains(text), "{arguments:?}: {log}");
}

#[track_caller]
fn refused(server: &Server, arguments: &[&str], text: &str) {
    let (success, log) = rondo(server, arguments);
    assert!(!success && log.contains(text), "{arguments:?}: {log}");
}

/// Waits until a command shows no more of this.
#[track_caller]
fn until_gone(server: &Server, arguments: &[&str], text: &str) {
    let began = Instant::now();
    loop {
        let (success, log) = rondo(server, arguments);
        if success && !log.contains(text) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{arguments:?}: {log}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn jobs_and_datasets_are_deleted_and_stay_so_after_kill_9() {
    for store in ["sled", "segment"] {
        let mut server = Server::start(&Options::store(store));
        let dispatcher = server.dispatcher();
        let train = job(&dispatcher, "train");
        let client = dispatcher.iteration(train, 0).unwrap();
        done(&server, &["job", "list"], "train");
        refused(&server, &["job", "delete", "train"], "\"train\" is in use: 1 clients");
        refused(&server, &["dataset", "delete", "data"], "in use by job \"train\"");
        dispatcher.release(client).unwrap();
        done(&server, &["job", "delete", "train"], "job \"train\" deleted");
        done(&server, &["dataset", "delete", "data"], "dataset \"data\" deleted");
        server.kill();
        server.start_again();
        refused(&server, &["job", "delete", "train"], "no job named \"train\"");
        refused(&server, &["dataset", "delete", "data"], "Dataset id data not found");
        refused(&server, &["job", "delete", ""], "<NAME> is \"\": it must be a name");
    }
}

#[test]
fn a_reader_that_comes_back_to_a_freed_job_reads_nothing_twice() {
    let options = Options::store("sled")
        .flag("--job-gc-check-interval=100ms")
        .flag("--job-gc-timeout=200ms")
        .flag("--named-job-retention=200ms");
    let mut server = Server::start(&options);
    let dispatcher = server.dispatcher();
    let first = job(&dispatcher, "train");
    read_all(&dispatcher, first);
    // The minute for those that are between two calls, too.
    let began = Instant::now();
    let freed = loop {
        let list = rondo(&server, &["job", "list"]).1;
        if let Some((_, freed)) = list.split_once("Freed jobs") {
            break freed.to_owned();
        }
        assert!(began.elapsed() < 2 * PATIENCE, "the job is not freed: {list}");
        std::thread::sleep(Duration::from_millis(500));
    };
    let row: Vec<&str> = freed.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(row, ["train", "0", "-"]);
    server.kill();
    server.start_again();
    let dispatcher = server.dispatcher();
    let again = job(&dispatcher, "train");
    assert!(again > first);
    let client = dispatcher.iteration(again, 0).unwrap();
    assert!(dispatcher.heartbeat(client).unwrap().iteration_finished);
    dispatcher.release(client).unwrap();
    done(&server, &["job", "delete", "train"], "job \"train\" deleted");
    let anew = job(&dispatcher, "train");
    let client = dispatcher.iteration(anew, 0).unwrap();
    assert!(!dispatcher.heartbeat(client).unwrap().iteration_finished);
}

#[test]
fn a_reader_of_an_abandoned_job_is_told() {
    let options = Options::store("segment")
        .flag("--job-gc-check-interval=100ms")
        .flag("--abandoned-iteration-retention=500ms");
    let server = Server::start(&options);
    let dispatcher = server.dispatcher();
    let train = job(&dispatcher, "train");
    let client = dispatcher.iteration(train, 0).unwrap();
    dispatcher.release(client).unwrap();
    // Nothing is given up in the first minute of a process.
    let began = Instant::now();
    let status = loop {
        std::thread::sleep(Duration::from_millis(1000));
        match dispatcher.iteration(train, 0) {
            Ok(client) => dispatcher.release(client).unwrap(),
            Err(status) => break status,
        }
        assert!(began.elapsed() < 2 * PATIENCE, "the iteration is not abandoned");
    };
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("repetition 0 of job \"train\" was abandoned"), "{status}");
    assert!(status.message().contains("rondo job delete"), "{status}");
}

#[test]
fn lost_workers_are_removed_by_hand_and_by_themselves() {
    let options = Options::store("sled")
        .flag("--worker-timeout=1000ms")
        .flag("--job-gc-check-interval=100ms")
        .flag("--lost-worker-retention=20000ms");
    let mut server = Server::start(&options);
    let dispatcher = server.dispatcher();
    for _ in 0..4 {
        dispatcher.worker_heartbeat("one:1", &[]).unwrap();
        dispatcher.worker_heartbeat("two:1", &[]).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    done(&server, &["worker", "list"], "one:1");
    refused(&server, &["worker", "remove", "one:1"], "worker one:1 is alive");
    refused(&server, &["worker", "remove", "three:1"], "no worker at \"three:1\"");
    until_gone(&server, &["worker", "list"], " ok ");
    done(&server, &["worker", "remove", "one:1"], "worker one:1 removed");
    server.kill();
    server.start_again();
    let (_, list) = rondo(&server, &["worker", "list"]);
    assert!(!list.contains("one:1") && list.contains("two:1"), "{list}");
    let began = Instant::now();
    while rondo(&server, &["worker", "list"]).1.contains("two:1") {
        assert!(began.elapsed() < 3 * PATIENCE, "the lost worker stays");
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn a_new_data_directory_begins_with_other_ids() {
    let metadata = graph::metadata(Compression::Off, -2);
    let first = || -> i64 {
        let server = Server::start(&Options::store("segment"));
        let dataset = server.dispatcher().register(None, definition(2), &metadata).unwrap();
        dataset.parse().unwrap()
    };
    // Of 150,000 numbers: three in a row are not the same by chance.
    let ids = [first(), first(), first()];
    assert!(ids.iter().all(|id| *id > 1000 && id % 10_000 == 1000), "{ids:?}");
    assert!(ids.iter().any(|id| *id != ids[0]), "{ids:?}");
}

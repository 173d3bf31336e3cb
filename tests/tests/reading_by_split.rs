//! Readers hold splits of a dataset of Rondo's own: what they hold and have acknowledged outlives
//! `kill -9`, and a position goes back to the record.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]

use std::time::{Duration, Instant};

use bytes::Bytes;
use rondo_proto::admin::{
    Dataset, HoldSplitsRequest, HoldSplitsResponse, SavePositionRequest, SavePositionResponse,
    SplitProgress,
};
use rondo_proto::convert::{HOLD_SPLITS_PATH, SAVE_POSITION_PATH};
use rondo_proto::dataset::encode_definition;
use rondo_proto::tf::data::data_service_metadata::Compression;
use rondo_proto::tf::data::processing_mode_def::ShardingPolicy;
use rondo_tests::dispatcher::Dispatcher;
use rondo_tests::graph;
use rondo_tests::server::{Options, Server, run};
use serde_json::Value;
use tonic::{Code, Status};

fn definition(splits: u64, passes: u64) -> Bytes {
    encode_definition(&Dataset { version: 1, splits, passes, ..Dataset::default() })
}

/// A job over the splits of a dataset of Rondo's own.
fn job(dispatcher: &Dispatcher, definition: Bytes) -> i64 {
    let metadata = graph::metadata(Compression::Off, -2);
    let dataset = dispatcher.register(None, definition, &metadata).unwrap();
    dispatcher.job(&dataset, Some("train"), ShardingPolicy::Dynamic).unwrap()
}

fn ask(
    dispatcher: &Dispatcher,
    client_id: i64,
    hold: u32,
    progress: &[(u64, u64, bool)],
) -> Result<HoldSplitsResponse, Status> {
    let progress = progress.iter().map(|(place, records, finished)| SplitProgress {
        place: *place,
        records: *records,
        finished: *finished,
    });
    let progress = progress.collect();
    let request = HoldSplitsRequest { client_id, hold, progress, ..Default::default() };
    dispatcher.method(HOLD_SPLITS_PATH, &request)
}

/// Places, values and acknowledged records of what the client holds then.
fn hold(
    dispatcher: &Dispatcher,
    client: i64,
    count: u32,
    progress: &[(u64, u64, bool)],
) -> Vec<(u64, i64, u64)> {
    let held = ask(dispatcher, client, count, progress).unwrap();
    held.splits.iter().map(|split| (split.place, split.split, split.records)).collect()
}

#[test]
fn what_readers_hold_and_acknowledged_outlives_kill_9() {
    for store in ["sled", "segment"] {
        let mut server = Server::start(&Options::store(store));
        let dispatcher = server.dispatcher();
        let job = job(&dispatcher, definition(3, 2));
        let clients = [(); 2].map(|()| dispatcher.iteration(job, 0).unwrap());
        hold(&dispatcher, clients[0], 2, &[]);
        hold(&dispatcher, clients[1], 1, &[]);
        hold(&dispatcher, clients[0], 2, &[(0, 9, true), (1, 5, false)]);
        server.kill();
        server.start_again();
        let dispatcher = server.dispatcher();
        assert_eq!(hold(&dispatcher, clients[1], 1, &[]), [(2, 2, 0)]);
        assert_eq!(hold(&dispatcher, clients[0], 2, &[]), [(1, 1, 5), (3, 3, 0)]);
        // The second pass is the second half of the places.
        assert_eq!(hold(&dispatcher, clients[1], 4, &[]), [(2, 2, 0), (4, 4, 0), (5, 5, 0)]);
        let rest = [(2, 1, true), (4, 1, true), (5, 1, true)];
        assert!(!ask(&dispatcher, clients[1], 4, &rest).unwrap().finished);
        let rest = [(1, 6, true), (3, 1, true)];
        assert!(ask(&dispatcher, clients[0], 4, &rest).unwrap().finished);
        assert!(dispatcher.heartbeat(clients[1]).unwrap().iteration_finished);
        let picture = dispatcher.status().unwrap().dispatcher.unwrap();
        assert_eq!(picture.iterations[0].records_acknowledged, 9 + 6 + 1 + 3);
    }
}

#[test]
fn a_reader_that_is_gone_leaves_its_splits_behind_what_it_acknowledged() {
    let server = Server::start(&Options::store("sled").flag("--reader-timeout=1500ms"));
    let dispatcher = server.dispatcher();
    let job = job(&dispatcher, definition(3, 1));
    let [gone, stays] = [(); 2].map(|()| dispatcher.iteration(job, 0).unwrap());
    hold(&dispatcher, gone, 2, &[]);
    hold(&dispatcher, gone, 2, &[(1, 4, false)]);
    let began = Instant::now();
    while hold(&dispatcher, stays, 3, &[]).len() < 3 {
        assert!(began.elapsed() < Duration::from_secs(30), "the splits stay with the dead");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(hold(&dispatcher, stays, 3, &[]), [(0, 0, 0), (1, 1, 4), (2, 2, 0)]);
    assert_eq!(ask(&dispatcher, gone, 1, &[]).unwrap_err().code(), Code::NotFound);
}

#[test]
fn a_position_goes_back_to_the_record() {
    let mut server = Server::start(&Options::store("sled"));
    let dispatcher = server.dispatcher();
    let job = job(&dispatcher, definition(5, 0));
    let client = dispatcher.iteration(job, 0).unwrap();
    hold(&dispatcher, client, 2, &[]);
    hold(&dispatcher, client, 2, &[(0, 9, true), (1, 5, false)]);
    let request = SavePositionRequest { name: "step 3".into(), job: "train".into() };
    let saved: SavePositionResponse = dispatcher.method(SAVE_POSITION_PATH, &request).unwrap();
    let splits = saved.position.unwrap().reading[0].splits.clone();
    let splits: Vec<_> = splits.iter().map(|split| (split.place, split.records)).collect();
    assert_eq!(splits, [(1, 5), (2, 0)]);
    hold(&dispatcher, client, 3, &[(1, 7, true)]);
    let address = format!("--server={}", server.address());
    let listed = run(&["position", "list", "--format", "json", &address]);
    let listed: Value = serde_json::from_str(&listed.log).unwrap();
    assert_eq!(listed[0]["reading"][0]["splits"][0]["records"], 5);
    let listed = run(&["position", "list", &address]).log;
    assert!(listed.contains("3 of pass 0 but 1 from record 5, 2 from record 0"), "{listed}");
    let status = run(&["status", &address]).log;
    assert!(status.contains("3 held, 16 records"), "{status}");
    server.kill();
    server.start_again();
    let dispatcher = server.dispatcher();
    let address = format!("--server={}", server.address());
    let restored = run(&["position", "restore", "step 3", "--job=train", &address]);
    assert!(restored.status.success(), "{}", restored.log);
    let ended = ask(&dispatcher, client, 1, &[]).unwrap_err();
    assert_eq!(ended.code(), Code::FailedPrecondition, "no shorter epoch: {ended}");
    let client = dispatcher.iteration(job, 0).unwrap();
    assert_eq!(hold(&dispatcher, client, 3, &[]), [(1, 1, 5), (2, 2, 0), (3, 3, 0)]);
}

#[test]
fn what_is_wrong_with_a_dataset_is_said_when_it_is_registered() {
    let server = Server::start(&Options::store("segment"));
    let dispatcher = server.dispatcher();
    let metadata = graph::metadata(Compression::Off, -2);
    let newer = Dataset { version: 2, splits: 1, ..Dataset::default() };
    let refused = dispatcher.register(None, encode_definition(&newer), &metadata).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("version 2"), "{refused}");
    let unsplittable = "take(5) behind filter counts the whole stream".to_owned();
    let whole = Dataset { version: 1, splits: 1, unsplittable, ..Dataset::default() };
    let whole = dispatcher.register(None, encode_definition(&whole), &metadata).unwrap();
    let job = dispatcher.job(&whole, None, ShardingPolicy::Dynamic).unwrap();
    let refused = dispatcher.iteration(job, 0).unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("take(5) behind filter"), "{refused}");
}

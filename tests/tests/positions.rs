//! A trainer goes back to its checkpoint, and the data with it: named positions on the command line,
//! over `kill -9` and a fresh start of the job.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]

use rondo_proto::tf::data::data_service_metadata::Compression;
use rondo_proto::tf::data::processing_mode_def::ShardingPolicy;
use rondo_tests::dispatcher::Dispatcher;
use rondo_tests::graph;
use rondo_tests::process::Ended;
use rondo_tests::server::{Options, Server, run};
use serde_json::Value;
use tonic::Code;

fn position(server: &Server, words: &[&str]) -> Ended {
    let address = format!("--server={}", server.address());
    let words: Vec<&str> = ["position"].iter().chain(words).copied().chain([&*address]).collect();
    run(&words)
}

#[track_caller]
fn assert_ended(ended: &Ended, status: i32, words: &[&str]) {
    assert_eq!(ended.status.code(), Some(status), "{}", ended.log);
    words.iter().for_each(|word| assert!(ended.log.contains(word), "{word:?}: {}", ended.log));
}

fn train(dispatcher: &Dispatcher, job: &str, policy: ShardingPolicy) -> (i64, i64) {
    let metadata = graph::metadata(Compression::Off, 100);
    let dataset = dispatcher.register(None, graph::range(0, 100, 1), &metadata).unwrap();
    let job = dispatcher.job(&dataset, Some(job), policy).unwrap();
    (job, dispatcher.iteration(job, 0).unwrap())
}

fn newest_iteration(dispatcher: &Dispatcher) -> i64 {
    let picture = dispatcher.status().unwrap().dispatcher.unwrap();
    picture.iterations.iter().map(|iteration| iteration.id).max().unwrap()
}

fn splits(dispatcher: &Dispatcher, count: usize) -> Vec<i64> {
    let iteration = newest_iteration(dispatcher);
    (0..count).map(|_| dispatcher.split(iteration, 0, 0).unwrap().unwrap()).collect()
}

#[test]
fn a_job_goes_back_to_a_saved_position() {
    let mut server = Server::start(&Options::store("sled"));
    let (job, reader) = train(&server.dispatcher(), "train", ShardingPolicy::Dynamic);
    assert_eq!(splits(&server.dispatcher(), 3), [0, 1, 2]);
    let saved = position(&server, &["save", "step 3", "--job", "train"]);
    assert_ended(&saved, 0, &["step 3", "saved", "0: 3 of pass 0"]);
    assert_eq!(splits(&server.dispatcher(), 2), [3, 4]);
    server.kill();
    server.start_again();
    let dispatcher = server.dispatcher();
    assert_ended(&position(&server, &["restore", "step 3", "--job=train"]), 0, &["restored"]);
    let refused = dispatcher.heartbeat(reader).unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    dispatcher.iteration(job, 0).unwrap();
    assert_eq!(splits(&dispatcher, 2), [3, 4]);
    // A job of another name, which does not exist yet.
    assert_ended(&position(&server, &["restore", "step 3", "--job=again"]), 0, &[]);
    let listed = position(&server, &["list", "--format", "json"]);
    assert_ended(&listed, 0, &[]);
    let listed: Value = serde_json::from_str(&listed.log).unwrap();
    assert_eq!(listed[0]["name"], "step 3");
    assert_eq!(listed[0]["reading"][0]["sources"][0]["produced"], 3);
    assert_eq!(listed[0]["waiting"][0], "again");
    train(&dispatcher, "again", ShardingPolicy::Dynamic);
    assert_eq!(splits(&dispatcher, 1), [3]);
    assert_ended(&position(&server, &["list"]), 0, &["step 3", "train", "3 of pass 0"]);
    assert_ended(&position(&server, &["delete", "step 3"]), 0, &["deleted"]);
}

#[test]
fn what_cannot_be_done_is_said() {
    let server = Server::start(&Options::store("segment"));
    let missing = position(&server, &["save", "p", "--job=nobody"]);
    assert_ended(&missing, 1, &["no job named \"nobody\""]);
    train(&server.dispatcher(), "static", ShardingPolicy::Off);
    let stands = position(&server, &["save", "p", "--job=static"]);
    assert_ended(&stands, 1, &["static", "OFF", "DYNAMIC"]);
    assert_ended(&position(&server, &["restore", "p", "--job=x"]), 1, &["no position named \"p\""]);
    assert_ended(&position(&server, &["delete", "p"]), 1, &["no position named \"p\""]);
    let empty = position(&server, &["save", "", "--job=x"]);
    assert_ended(&empty, 2, &["<NAME> is \"\": it must be a name"]);
    assert_ended(&run(&["position", "list", "--server=127.0.0.1:1"]), 7, &["127.0.0.1:1"]);
    assert_ended(&run(&["position", "save", "--help"]), 0, &["not consumed yet", "--job"]);
}

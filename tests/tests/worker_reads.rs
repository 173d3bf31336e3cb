//! Real TensorFlow clients read datasets of Rondo's own from its own workers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::fs;
use std::path::Path;

use rondo_data::{Operation, Pipeline, Repeat};
use rondo_proto::tf::data::data_service_metadata::Compression;
use rondo_tests::datasets::register;
use rondo_tests::server::{Options, Server};
use rondo_tests::tensorflow;
use rondo_tests::tfrecord;
use rondo_tests::worker::Worker;

const WORKERS: usize = 2;
const ELEMENTS: i64 = 3000;

/// The integers, in many splits.
fn numbers() -> Pipeline {
    Pipeline { split_records: Some(250), ..Pipeline::range(0, ELEMENTS) }
}

#[test]
fn every_way_of_reading_works() {
    let Some(python) = tensorflow::python() else {
        return;
    };
    let server = Server::start(&Options::store("segment"));
    let dispatcher = server.dispatcher();
    let folder = tempfile::TempDir::new().unwrap();
    register(&dispatcher, "numbers", &numbers(), Compression::Off);
    register(&dispatcher, "snappy", &numbers(), Compression::Snappy);
    register(&dispatcher, "pairs", &numbers().batch(7, false), Compression::Off);
    let endless = numbers().then(Operation::Repeat(Repeat::Endless));
    register(&dispatcher, "endless", &endless, Compression::Off);
    register(&dispatcher, "damaged", &damaged(folder.path()), Compression::Off);
    let _workers = [1, 2].map(|_| Worker::start(&server.address(), &[]));
    let arguments = [
        format!("--dispatcher={}", server.address()),
        format!("--workers={WORKERS}"),
        format!("--elements={ELEMENTS}"),
    ];
    let log = tensorflow::run_to_success(python, "own_datasets.py", &arguments);
    println!("{log}");
}

/// Records of which the last one's bytes are not those that its checksum is of.
fn damaged(folder: &Path) -> Pipeline {
    let path = folder.join("damaged.tfrecord");
    let mut bytes = tfrecord::file(&[b"first".as_slice(), b"second", b"third"]);
    let last = bytes.len() - 5;
    bytes[last] ^= 1;
    fs::write(&path, bytes).unwrap();
    Pipeline::tfrecord([path.to_str().unwrap()])
}

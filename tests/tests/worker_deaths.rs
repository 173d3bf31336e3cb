//! Workers and the server end in mid-epoch: a worker in order, which loses nothing, or killed; the
//! epoch ends whatever happens, and no record comes twice.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::collections::BTreeSet;
use std::path::Path;

use rondo_data::Pipeline;
use rondo_proto::tf::data::data_service_metadata::Compression;
use rondo_tests::datasets::register;
use rondo_tests::server::{Options, Server};
use rondo_tests::tensorflow::{self, Reader};
use rondo_tests::worker::Worker;

const ELEMENTS: u64 = 4000;
const OF_SPLIT: u64 = 50;

/// A server, its workers, and a reader of the integers that is in the middle of them.
struct Epoch {
    server: Server,
    workers: Vec<Worker>,
    reader: Reader,
}

impl Epoch {
    fn start(python: &Path, workers: usize) -> Self {
        let options = Options::store("segment")
            .flag("--worker-timeout=2000ms")
            .flag("--job-gc-check-interval=200ms");
        let server = Server::start(&options);
        let end = ELEMENTS.try_into().unwrap();
        let numbers = Pipeline { split_records: Some(OF_SPLIT), ..Pipeline::range(0, end) };
        register(&server.dispatcher(), "numbers", &numbers, Compression::Off);
        // What is ready in a worker is what it loses when it is killed.
        let flags = ["--buffer-size=4096"];
        let workers = (0..workers).map(|_| Worker::start(&server.address(), &flags)).collect();
        let mut reader = Reader::of_dataset(python, &server.address(), "numbers", 1, "epoch");
        assert!(!reader.read_upto(500));
        Self { server, workers, reader }
    }

    /// Reads to the end: no element twice, and at most as many missing as `lost_max`.
    fn finish(mut self, lost_max: u64) {
        assert!(self.reader.read_upto(usize::MAX), "the epoch does not end");
        let read: BTreeSet<u64> = self.reader.elements.iter().copied().collect();
        assert_eq!(read.len(), self.reader.elements.len(), "an element came twice");
        let lost: Vec<u64> = (0..ELEMENTS).filter(|element| !read.contains(element)).collect();
        println!("lost: {lost:?}");
        assert!(lost.len() as u64 <= lost_max, "{} elements are lost: {lost:?}", lost.len());
    }
}

#[test]
fn a_worker_that_is_asked_to_stop_loses_nothing() {
    let Some(python) = tensorflow::python() else {
        return;
    };
    let mut epoch = Epoch::start(python, 2);
    epoch.workers[0].signal("TERM");
    let ended = epoch.workers[0].wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
    epoch.finish(0);
}

#[test]
fn a_worker_restarted_in_order_goes_on() {
    let Some(python) = tensorflow::python() else {
        return;
    };
    let mut epoch = Epoch::start(python, 1);
    epoch.workers[0].signal("TERM");
    assert_eq!(epoch.workers[0].wait().status.code(), Some(0));
    epoch.workers[0].start_again();
    epoch.finish(0);
}

#[test]
fn a_killed_worker_takes_no_more_than_its_splits_along() {
    let Some(python) = tensorflow::python() else {
        return;
    };
    let mut epoch = Epoch::start(python, 2);
    epoch.workers[0].kill();
    // Splits of the elements that were ready, and the one that was read.
    epoch.finish(4096 / 8 + OF_SPLIT);
}

#[test]
fn a_killed_server_loses_splits_on_their_way_at_most() {
    let Some(python) = tensorflow::python() else {
        return;
    };
    let mut epoch = Epoch::start(python, 2);
    epoch.server.kill();
    epoch.server.start_again();
    epoch.finish(2 * OF_SPLIT);
}

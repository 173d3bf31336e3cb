//! `kill -9` of a TensorFlow worker in mid-epoch: what is missing is said, and read again if that is
//! wished.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::collections::BTreeSet;

use rondo_proto::admin::IterationStatus;
use rondo_tests::host::Host;
use rondo_tests::server::{Options, Server};
use rondo_tests::tensorflow::{self, Reader, Worker};

const ELEMENTS: u64 = 1500;

/// What was read although one of two workers died, and what the server says of it.
fn epoch(flag: &str) -> Option<(Vec<u64>, IterationStatus)> {
    let python = tensorflow::python()?;
    let options = Options::store("segment").flag("--worker-timeout=500ms");
    let server = Server::start(&options.flag(flag));
    // Whoever asks for splits is known by its host.
    let hosts = [2, 3].map(|number| Host::start(number, &server.address()));
    let worker = |host: &Host| Worker::start(python, host.address(), 1);
    let mut workers: Vec<Worker> = hosts.iter().flat_map(worker).collect();
    let mut reader = Reader::start(python, &server.address(), ELEMENTS, 2, "epoch");
    assert!(!reader.read_upto(300));
    workers[0].kill();
    assert!(reader.read_upto(usize::MAX), "the epoch does not end");
    let status = server.dispatcher().status().unwrap().dispatcher.unwrap();
    let lost = |address: String| status.workers.iter().any(|w| w.lost && w.address == address);
    assert!(lost(workers[0].address()) && !lost(workers[1].address()));
    let iteration = status.iterations[0].clone();
    println!("{} read, {iteration:?}", reader.elements.len());
    Some((reader.elements, iteration))
}

#[test]
fn what_went_with_a_dead_worker_is_said() {
    let Some((elements, iteration)) = epoch("--reissue-lost-splits=false") else {
        return;
    };
    let read: BTreeSet<u64> = elements.iter().copied().collect();
    assert_eq!(read.len(), elements.len(), "an element came twice");
    let missing = ELEMENTS - read.len() as u64;
    assert!(missing > 0, "the worker died with nothing in it");
    // Each worker has a host of its own.
    assert_eq!(iteration.splits_in_doubt, 0);
    assert!(
        missing <= iteration.splits_lost && iteration.splits_lost < ELEMENTS,
        "{missing} are missing: {iteration:?}"
    );
}

#[test]
fn what_went_with_a_dead_worker_is_read_again() {
    let Some((elements, iteration)) = epoch("--reissue-lost-splits=true") else {
        return;
    };
    let read: BTreeSet<u64> = elements.iter().copied().collect();
    let missing: Vec<u64> = (0..ELEMENTS).filter(|n| !read.contains(n)).collect();
    assert!(missing.is_empty(), "{missing:?} were never read: {iteration:?}");
    let left = (iteration.splits_lost, iteration.splits_again, iteration.splits_in_doubt);
    assert_eq!(left, (0, 0, 0));
}

//! `kill -9` of a worker in mid-epoch: the epoch ends, with or without a worker in its place, no
//! element comes twice, and what is missing was inside the dead worker.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::collections::BTreeSet;

use rondo_tests::server::{Options, Server};
use rondo_tests::tensorflow::{self, Reader, Worker};

const ELEMENTS: u64 = 1500;
/// Elements a worker may have taken and not delivered: its buffers, not ours.
const INSIDE_A_WORKER_MAX: u64 = 64;

fn options() -> Options {
    Options::store("segment").flag("--worker-timeout=2000ms").flag("--job-gc-check-interval=200ms")
}

/// No element twice, and no more missing than `workers_dead` workers can hold.
fn check(elements: &[u64], workers_dead: u64) {
    let read: BTreeSet<u64> = elements.iter().copied().collect();
    assert_eq!(read.len(), elements.len(), "an element came twice");
    let lost: Vec<u64> = (0..ELEMENTS).filter(|element| !read.contains(element)).collect();
    println!("lost inside {workers_dead} dead workers: {lost:?}");
    let count = ELEMENTS - u64::try_from(read.len()).unwrap_or(u64::MAX);
    assert!(count <= workers_dead * INSIDE_A_WORKER_MAX, "{count} elements are lost: {lost:?}");
}

/// Whether the server counts the worker as lost.
fn is_lost(server: &Server, worker: &Worker) -> bool {
    let picture = server.dispatcher().status().unwrap().dispatcher.unwrap();
    picture.workers.iter().any(|found| found.address == worker.address() && found.lost)
}

#[test]
fn the_epoch_ends_without_the_dead_worker() {
    let Some(python) = tensorflow::python() else {
        return;
    };
    let server = Server::start(&options());
    let mut workers = Worker::start(python, &server.address(), 3);
    let mut reader = Reader::start(python, &server.address(), ELEMENTS, 2, "epoch");
    assert!(!reader.read_upto(300));
    workers[0].kill();
    assert!(reader.read_upto(usize::MAX), "the epoch does not end");
    assert!(is_lost(&server, &workers[0]) && !is_lost(&server, &workers[1]));
    check(&reader.elements, 1);
}

#[test]
fn a_worker_restarted_at_its_address_goes_on() {
    let Some(python) = tensorflow::python() else {
        return;
    };
    let server = Server::start(&options());
    let mut workers = Worker::start(python, &server.address(), 2);
    let mut reader = Reader::start(python, &server.address(), ELEMENTS, 2, "epoch");
    assert!(!reader.read_upto(300));
    workers[0].kill();
    workers[0].start_again(python);
    assert!(reader.read_upto(usize::MAX), "the epoch does not end");
    check(&reader.elements, 1);
}

#[test]
fn a_late_worker_joins_the_epoch() {
    let Some(python) = tensorflow::python() else {
        return;
    };
    let server = Server::start(&options());
    let mut workers = Worker::start(python, &server.address(), 1);
    let mut reader = Reader::start(python, &server.address(), ELEMENTS, 2, "epoch");
    assert!(!reader.read_upto(100));
    workers.extend(Worker::start(python, &server.address(), 1));
    workers[0].kill();
    assert!(reader.read_upto(usize::MAX), "the epoch does not end");
    check(&reader.elements, 1);
}

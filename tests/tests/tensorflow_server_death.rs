//! `kill -9` of the server in mid-epoch: readers and workers go on after its restart, no element
//! comes twice, and each missing one was on its way to a worker at a kill.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::collections::BTreeSet;
use std::ops::Range;

use rondo_tests::server::{Options, Server};
use rondo_tests::tensorflow::{self, Reader, Worker};

const WORKERS: u64 = 3;
const ELEMENTS: u64 = 2400;
/// Elements read before each kill.
const KILLS_AT: [usize; 5] = [200, 650, 1100, 1500, 2100];

#[test]
fn every_element_is_accounted_for_on_segment() {
    account_for_every_element("segment");
}

#[test]
fn every_element_is_accounted_for_on_sled() {
    account_for_every_element("sled");
}

fn account_for_every_element(store: &'static str) {
    let Some(python) = tensorflow::python() else {
        return;
    };
    let mut server = Server::start(&Options::store(store));
    let _workers = Worker::start(python, &server.address(), WORKERS.try_into().unwrap());
    let mut reader = Reader::start(python, &server.address(), ELEMENTS, 3, "epoch");
    let mut in_doubt = Vec::new();
    for at in KILLS_AT {
        assert!(!reader.read_upto(at), "the epoch ended before the kill at element {at}");
        in_doubt.push(kill_and_restart(&mut server));
    }
    assert!(reader.read_upto(usize::MAX), "the epoch does not end");
    check(&reader.elements, &in_doubt);
    assert_eq!(handed_out(&server), ELEMENTS, "the journal lost count");
    assert_eq!(server.terminate().status.code(), Some(0));
}

/// Kills the server and starts it again; gives the splits that may have been on their way.
///
/// Splits are handed out in order, and a worker asks for one at a time. A split is journaled before
/// it is answered, and the answer may be lost with the connection: that loses at most one split a
/// worker, among the last that were handed out before the kill. The server's picture of itself may
/// count splits that are not durable yet, which are at most one a worker too; after the restart they
/// are handed out anew.
fn kill_and_restart(server: &mut Server) -> Range<u64> {
    let before = handed_out(server);
    server.kill();
    server.start_again();
    let after = handed_out(server);
    let told = before.saturating_sub(WORKERS);
    assert!(after >= told, "{before} splits were handed out, and after the restart only {after}");
    told.saturating_sub(WORKERS)..after
}

/// How many splits the one iteration has handed out.
fn handed_out(server: &Server) -> u64 {
    let status = server.dispatcher().status().unwrap().dispatcher.unwrap();
    let source = status.iterations[0].sources[0];
    assert_eq!(source.total, ELEMENTS);
    if source.repetition == 0 { source.produced } else { ELEMENTS }
}

fn check(elements: &[u64], in_doubt: &[Range<u64>]) {
    let read: BTreeSet<u64> = elements.iter().copied().collect();
    assert_eq!(read.len(), elements.len(), "an element came twice");
    let lost: Vec<u64> = (0..ELEMENTS).filter(|element| !read.contains(element)).collect();
    println!("lost with the connection: {lost:?}; on their way at the kills: {in_doubt:?}");
    for element in &lost {
        let told = in_doubt.iter().any(|range| range.contains(element));
        assert!(told, "element {element} is lost, and no kill explains it: {in_doubt:?}");
    }
    let explained = u64::try_from(in_doubt.len()).unwrap() * WORKERS;
    let count = u64::try_from(lost.len()).unwrap();
    assert!(count <= explained, "{count} elements are lost, {explained} calls were under way");
}

#[test]
fn the_account_finds_what_is_wrong() {
    let but =
        |missing: &[u64]| -> Vec<u64> { (0..ELEMENTS).filter(|e| !missing.contains(e)).collect() };
    let (near, wide) = (100..103, 90..110);
    check(&but(&[101]), std::slice::from_ref(&near));
    let wrong: [(Vec<u64>, &[Range<u64>]); 3] = [
        (but(&[5]), &[near]),
        (but(&[100, 101, 102, 103]), &[wide]),
        ((0..ELEMENTS).chain([7]).collect(), &[]),
    ];
    for (elements, in_doubt) in wrong {
        assert!(std::panic::catch_unwind(|| check(&elements, in_doubt)).is_err(), "{in_doubt:?}");
    }
}

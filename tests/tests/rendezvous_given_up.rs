//! A request for a tensor that is given up is gone, and only it: the tensor goes to the next.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use bytes::Bytes;
use rondo::rendezvous::Tensor;
use rondo_proto::convert::decode_received_tensor;
use rondo_tests::peer::{Call, Peer, unhex};
use rondo_tests::rendezvous::{Rondo, send};
use rondo_tests::samples::Sample;
use serde_json::json;

/// The tensor that a request gets.
fn tensor(peer: &Peer, call: Call) -> Tensor {
    let answer = peer.end(call).unwrap_or_else(|refused| panic!("{refused:?}"));
    let bytes = Bytes::from(unhex(answer.as_str().unwrap()));
    decode_received_tensor(&bytes, 1 << 20).unwrap().tensor
}

#[test]
fn of_two_that_wait_for_one_key() {
    let Some((rondo, peer)) = Rondo::beside_tensorflow() else {
        return;
    };
    let sample = Sample::bytes(9, 1);
    let step = rondo.step(1);
    let first = peer.begin(&rondo.asked(1, "edge"));
    rondo.until(|report| report.waiting == 1);
    let second = peer.begin(&rondo.asked(1, "edge"));
    rondo.until(|report| report.waiting == 2);
    peer.cancel(first);
    assert_eq!(peer.end(first).unwrap_err().code, "CANCELLED");
    rondo.until(|report| report.waiting == 1);
    send(&step, &rondo.key("edge"), sample.tensor.clone());
    assert_eq!(tensor(&peer, second), sample.tensor);
    rondo.assert_nothing_left(&peer, &[1]);
}

#[test]
fn one_that_took_too_long_leaves_its_step_alone() {
    let Some((rondo, peer)) = Rondo::beside_tensorflow() else {
        return;
    };
    let sample = Sample::bytes(9, 1);
    let step = rondo.step(1);
    let other = peer.begin(&rondo.asked(1, "other"));
    let mut hasty = rondo.asked(1, "edge");
    hasty["timeout_s"] = json!(0.3);
    assert_eq!(peer.call(&hasty).unwrap_err().code, "DEADLINE_EXCEEDED");
    rondo.until(|report| report.waiting == 1);
    // TensorFlow's own worker would end the step a second later.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    for edge in ["edge", "other"] {
        send(&step, &rondo.key(edge), sample.tensor.clone());
    }
    assert_eq!(tensor(&peer, other), sample.tensor);
    assert_eq!(tensor(&peer, peer.begin(&rondo.asked(1, "edge"))), sample.tensor);
    rondo.assert_nothing_left(&peer, &[1]);
}

#[test]
fn those_of_a_graph_that_is_given_up() {
    let Some((rondo, peer)) = Rondo::beside_tensorflow() else {
        return;
    };
    let sample = Sample::bytes(2000, 1);
    let step = rondo.step(1);
    let edges = ["a", "b", "c"];
    let receives = edges.map(|edge| rondo.received(edge, sample.dtype(), &format!("{edge}-back")));
    let run = peer.begin_run(&peer.register(&[], &receives), 1);
    rondo.until(|report| report.waiting == edges.len());
    peer.cancel(run);
    assert_eq!(peer.end(run).unwrap_err().code, "CANCELLED");
    rondo.until(|report| report.waiting == 0);
    for edge in edges {
        send(&step, &rondo.key(edge), sample.tensor.clone());
        assert_eq!(tensor(&peer, peer.begin(&rondo.asked(1, edge))), sample.tensor);
    }
    rondo.assert_nothing_left(&peer, &[1]);
}

//! Tensors on the wire: what TensorFlow writes is read here, and written again byte for byte.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use bytes::Bytes;
use rondo_core::element::Dtype;
use rondo_proto::convert::{dead_tensor, decode_received_tensor, encode_received_tensor};
use rondo_tests::peer::{Peer, Port, unhex};
use rondo_tests::samples::Sample;
use rondo_tests::tensorflow;
use serde_json::{Value, json};

const BYTES_MAX: u64 = 1 << 30;

/// The bytes with which TensorFlow answers.
fn answer(peer: &Peer, edge: &str, request: usize) -> Bytes {
    let command = json!({
        "do": "recv", "step": 1, "key": peer.key(edge), "request": request, "timeout_s": 60,
    });
    let answer = peer.call(&command).unwrap_or_else(|refused| panic!("{edge}: {refused:?}"));
    unhex(answer.as_str().unwrap()).into()
}

fn few() -> [Sample; 4] {
    let scalar = Sample::fixed(Dtype::Int64, &[], 3);
    [scalar, Sample::bytes(7, 7), Sample::bytes(2000, 1), Sample::strings(&[1], &[b"text"])]
}

/// Starts TensorFlow with nobody at the other address.
fn start(flags: &[&str]) -> Option<Peer> {
    let other = Port::keep().address();
    Some(Peer::start_at(tensorflow::python()?, Port::keep(), &other, flags))
}

/// Sends them all, and asks for each of them.
fn assert_same(peer: &Peer, samples: &[Sample], is_dead: bool, requires_ack: bool) {
    let edge = |number: usize| format!("edge-{number}-{is_dead}");
    let numbered = || samples.iter().enumerate();
    let sent = |(number, sample): (usize, &Sample)| match is_dead {
        true => sample.sent_dead(&edge(number)),
        false => sample.sent(&edge(number)),
    };
    let sends: Vec<Value> = numbered().map(sent).collect();
    peer.run(&peer.register(&sends, &[]), 1);
    for (number, sample) in numbered() {
        let bytes = answer(peer, &edge(number), 1 + 2 * number + usize::from(is_dead));
        let read = decode_received_tensor(&bytes, BYTES_MAX).unwrap();
        assert_eq!((read.is_dead, read.require_ack), (is_dead, requires_ack), "{sample:?}");
        assert!(read.send_start_micros > 0, "{sample:?}");
        let expected = if is_dead { dead_tensor() } else { sample.tensor.clone() };
        assert_eq!(read.tensor, expected, "{sample:?}");
        let written = encode_received_tensor(&read).unwrap().join();
        assert_eq!(written, bytes, "{sample:?}");
    }
}

#[test]
fn tensors_are_read_and_written_as_tensorflow_does() {
    let Some(peer) = start(&[]) else {
        return;
    };
    assert_same(&peer, &Sample::all(), false, false);
    assert_same(&peer, &few(), true, false);
}

#[test]
fn answers_that_are_to_be_acknowledged_say_so() {
    let Some(peer) = start(&["--caches"]) else {
        return;
    };
    assert_same(&peer, &few(), false, true);
    assert_same(&peer, &few(), true, true);
}

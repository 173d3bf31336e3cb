//! A thousand tensors at once, produced and asked for in any order: none is lost or mixed up.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use bytes::Bytes;
use rondo::rendezvous::Args;
use rondo_core::element::Dtype;
use rondo_proto::convert::decode_received_tensor;
use rondo_tests::peer::{Call, Peer, unhex};
use rondo_tests::random::{Random, seed};
use rondo_tests::rendezvous::{Rondo, parsed, send};
use rondo_tests::samples::Sample;
use serde_json::Value;

const COUNT: usize = 1000;

/// The tensor of an edge: no two are the same.
fn sample(number: usize) -> Sample {
    let length = i64::try_from(1 + number % 700).unwrap();
    let mut sample = Sample::fixed(Dtype::Int32, &[length], number);
    if number.is_multiple_of(10) {
        let text = format!("string {number}");
        sample = Sample::strings(&[1], &[text.as_bytes()]);
    }
    sample
}

fn shuffled(random: &mut Random) -> Vec<usize> {
    let mut all: Vec<usize> = (0..COUNT).collect();
    for at in (1..COUNT).rev() {
        all.swap(at, random.below(at as u64 + 1) as usize);
    }
    all
}

fn edge(number: usize) -> String {
    format!("edge-{number}")
}

fn assert_answered(peer: &Peer, call: Call, number: usize) {
    let answer = peer.end(call).unwrap_or_else(|refused| panic!("{number}: {refused:?}"));
    let bytes = Bytes::from(unhex(answer.as_str().unwrap()));
    let found = decode_received_tensor(&bytes, 1 << 20).unwrap().tensor;
    assert_eq!(found, sample(number).tensor, "{number}");
}

/// Some requests are given up before their tensor is there: it waits for the next request.
#[test]
fn asked_of_rondo_and_some_given_up() {
    const EARLY: usize = 400;
    const GIVEN_UP: usize = 200;
    let Some((rondo, peer)) = Rondo::beside_tensorflow() else {
        return;
    };
    let mut random = Random::new(seed());
    let step = rondo.step(1);
    let produced = shuffled(&mut random);
    let (early, late) = produced.split_at(EARLY);
    let produce = |numbers: &[usize]| {
        for &number in numbers {
            send(&step, &rondo.key(&edge(number)), sample(number).tensor);
        }
    };
    produce(early);
    let mut calls: Vec<Option<Call>> = vec![None; COUNT];
    for number in shuffled(&mut random) {
        calls[number] = Some(peer.begin(&rondo.asked(1, &edge(number))));
    }
    rondo.until(|report| report.waiting == COUNT - EARLY && report.held.tensors == 0);
    let (given_up, wanted) = late.split_at(GIVEN_UP);
    for &number in given_up {
        peer.cancel(calls[number].unwrap());
    }
    rondo.until(|report| report.waiting == COUNT - EARLY - GIVEN_UP);
    produce(given_up);
    produce(wanted);
    for &number in early.iter().chain(wanted) {
        assert_answered(&peer, calls[number].unwrap(), number);
    }
    let report = rondo.manager.report();
    assert_eq!((report.waiting, report.held.tensors), (0, GIVEN_UP), "{report:?}");
    for &number in given_up {
        assert_eq!(peer.end(calls[number].unwrap()).unwrap_err().code, "CANCELLED");
        assert_answered(&peer, peer.begin(&rondo.asked(1, &edge(number))), number);
    }
    rondo.assert_nothing_left(&peer, &[1]);
}

#[test]
fn asked_of_tensorflow() {
    let Some((rondo, peer)) = Rondo::beside_tensorflow() else {
        return;
    };
    let mut random = Random::new(seed());
    let step = rondo.step(1);
    // Of several graphs, so that some are produced while others are asked for.
    let produced = shuffled(&mut random);
    let graphs: Vec<String> = produced
        .chunks(COUNT / 10)
        .map(|numbers| {
            let sends: Vec<Value> =
                numbers.iter().map(|&number| sample(number).sent(&edge(number))).collect();
            peer.register(&sends, &[])
        })
        .collect();
    let asked = shuffled(&mut random);
    let mut receives = Vec::new();
    let mut runs = Vec::new();
    for (numbers, graph) in asked.chunks(COUNT / 10).zip(&graphs) {
        for &number in numbers {
            let key = parsed(&peer.key(&edge(number)));
            receives.push((number, step.recv_async(&key, Args::default())));
        }
        runs.push(peer.begin_run(graph, 1));
    }
    for (number, receive) in receives {
        let found = rondo.receive(receive).unwrap_or_else(|refused| panic!("{number}: {refused}"));
        assert_eq!(found.value.tensor, sample(number).tensor, "{number}");
    }
    for run in runs {
        peer.end(run).unwrap();
    }
    rondo.assert_nothing_left(&peer, &[1]);
}

/// TensorFlow waits for all of them at once, and sends each back as it comes.
#[test]
fn there_and_back() {
    let Some((rondo, peer)) = Rondo::beside_tensorflow() else {
        return;
    };
    let mut random = Random::new(seed());
    let step = rondo.step(1);
    let back = |number: usize| format!("back-{number}");
    let receives: Vec<Value> = (0..COUNT)
        .map(|number| rondo.received(&edge(number), sample(number).dtype(), &back(number)))
        .collect();
    let run = peer.begin_run(&peer.register(&[], &receives), 1);
    rondo.until(|report| report.waiting == COUNT);
    let receives: Vec<_> = shuffled(&mut random)
        .into_iter()
        .map(|number| {
            let key = parsed(&peer.key(&back(number)));
            (number, step.recv_async(&key, Args::default()))
        })
        .collect();
    for number in shuffled(&mut random) {
        send(&step, &rondo.key(&edge(number)), sample(number).tensor);
    }
    for (number, receive) in receives {
        let found = rondo.receive(receive).unwrap_or_else(|refused| panic!("{number}: {refused}"));
        assert_eq!(found.value.tensor, sample(number).tensor, "{number}");
    }
    peer.end(run).unwrap();
    rondo.assert_nothing_left(&peer, &[1]);
}

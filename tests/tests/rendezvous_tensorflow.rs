//! Tensors pass between a real TensorFlow worker and Rondo, both ways.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::time::Duration;

use rondo::rendezvous::{Args, Tensor};
use rondo_core::element::{Dtype, Shape};
use rondo_core::rendezvous::is_derived;
use rondo_core::status::{Code, Status};
use rondo_tests::rendezvous::{Rondo, parsed, send};
use rondo_tests::samples::Sample;
use serde_json::{Value, json};

fn edge(number: usize) -> String {
    format!("edge-{number}")
}

/// A `float` of the numbers 0, 1, 2, …, each with this function.
fn floats(count: usize, of: impl Fn(f32) -> f32) -> Tensor {
    let numbers = (0..u16::MAX).cycle().take(count).map(|number| of(f32::from(number)));
    let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
    Tensor::fixed(Dtype::Float, Shape::list(count as u64).unwrap(), bytes.into()).unwrap()
}

/// What is long is not printed.
fn assert_same(found: &Tensor, expected: &Tensor) {
    let told = (found.dtype(), found.shape(), found.size_bytes());
    assert_eq!(told, (expected.dtype(), expected.shape(), expected.size_bytes()));
    assert!(found == expected, "values of {told:?} differ");
}

#[test]
fn every_tensor_is_received_before_and_after_it_is_sent() {
    let Some((rondo, peer)) = Rondo::beside_tensorflow() else {
        return;
    };
    let mut samples = Sample::all();
    let large = [(1 << 20) + 3, 16 << 20, 64 << 20];
    samples.extend(large.map(|size| Sample::bytes(size, size)));
    let sends: Vec<Value> =
        samples.iter().enumerate().map(|(number, sample)| sample.sent(&edge(number))).collect();
    let graph = peer.register(&sends, &[]);
    let numbered = || samples.iter().enumerate();

    let step = rondo.step(1);
    let key = |number| parsed(&peer.key(&edge(number)));
    let early: Vec<_> =
        numbered().map(|(number, _)| step.recv_async(&key(number), Args::default())).collect();
    peer.run(&graph, 1);
    for (receive, sample) in early.into_iter().zip(&samples) {
        assert_same(&rondo.receive(receive).unwrap().value.tensor, &sample.tensor);
    }

    peer.run(&graph, 2);
    let step = rondo.step(2);
    for (number, sample) in numbered() {
        assert_same(&rondo.receive_from(&step, &peer, &edge(number)), &sample.tensor);
    }
    rondo.assert_nothing_left(&peer, &[1, 2]);
}

/// TensorFlow asks for tensors, squares them, and is asked for the squares, all at once.
#[test]
fn tensorflow_receives_computes_and_sends_back() {
    const COUNTS: [usize; 8] = [1, 3, 1000, 70_000, 2, 300_000, 64, 5];
    let Some((rondo, peer)) = Rondo::beside_tensorflow() else {
        return;
    };
    let receives: Vec<Value> = (0..COUNTS.len())
        .map(|number| {
            let (x, y) = (format!("x-{number}"), format!("y-{number}"));
            let mut received = rondo.received(&x, Dtype::Float.number(), &y);
            received["squared"] = true.into();
            received
        })
        .collect();
    let graph = peer.register(&[], &receives);
    for (id, is_early) in [(10, true), (11, false)] {
        let step = rondo.step(id);
        let send_all = || {
            for (number, count) in COUNTS.into_iter().enumerate() {
                send(&step, &rondo.key(&format!("x-{number}")), floats(count, |x| x));
            }
        };
        let keys = (0..COUNTS.len()).map(|number| parsed(&peer.key(&format!("y-{number}"))));
        let squares: Vec<_> = keys.map(|key| step.recv_async(&key, Args::default())).collect();
        if is_early {
            send_all();
        }
        let run = peer.begin_run(&graph, id);
        if !is_early {
            rondo.until(|report| report.waiting >= 2 * COUNTS.len());
            send_all();
        }
        for (square, count) in squares.into_iter().zip(COUNTS) {
            let found = rondo.receive(square).unwrap().value.tensor;
            assert_same(&found, &floats(count, |x| x * x));
        }
        peer.end(run).unwrap();
    }
    rondo.assert_nothing_left(&peer, &[10, 11]);
}

/// What TensorFlow receives here it has as it was: it comes back the same.
#[test]
fn every_tensor_goes_there_and_back() {
    let Some((rondo, peer)) = Rondo::beside_tensorflow() else {
        return;
    };
    let samples = Sample::all();
    let there = |(number, sample): (usize, &Sample)| {
        rondo.received(&format!("there-{number}"), sample.dtype(), &format!("back-{number}"))
    };
    let receives: Vec<Value> = samples.iter().enumerate().map(there).collect();
    let run = peer.begin_run(&peer.register(&[], &receives), 20);
    let step = rondo.step(20);
    for (number, sample) in samples.iter().enumerate() {
        send(&step, &rondo.key(&format!("there-{number}")), sample.tensor.clone());
    }
    for (number, sample) in samples.iter().enumerate() {
        let found = rondo.receive_from(&step, &peer, &format!("back-{number}"));
        assert_same(&found, &sample.tensor);
    }
    peer.end(run).unwrap();
    rondo.assert_nothing_left(&peer, &[20]);
}

/// A tensor of a branch that was not taken comes as such, and goes through TensorFlow as such.
#[test]
fn dead_tensors_are_told_both_ways() {
    let Some((rondo, peer)) = Rondo::beside_tensorflow() else {
        return;
    };
    let sample = Sample::bytes(5000, 1);
    let there = rondo.received("there", sample.dtype(), "back");
    let graph = peer.register(&[sample.sent_dead("dead"), sample.sent("alive")], &[there]);
    let step = rondo.step(30);
    let run = peer.begin_run(&graph, 30);
    step.send(&rondo.key("there"), Args::default(), sample.tensor.clone(), true).unwrap();
    for (edge, is_dead) in [("dead", true), ("alive", false), ("back", true)] {
        let key = parsed(&peer.key(edge));
        let delivery = rondo.receive(step.recv_async(&key, Args::default())).unwrap();
        assert_eq!(delivery.value.is_dead, is_dead, "{edge}");
        if !is_dead {
            assert_same(&delivery.value.tensor, &sample.tensor);
        }
    }
    peer.end(run).unwrap();
    rondo.assert_nothing_left(&peer, &[30]);
}

/// Several tensors under one key come in the order in which they were sent.
#[test]
fn one_key_keeps_its_order() {
    let Some((rondo, peer)) = Rondo::beside_tensorflow() else {
        return;
    };
    let step = rondo.step(40);
    for seed in 0..20 {
        let graph = peer.register(&[Sample::bytes(3, seed).sent("one")], &[]);
        peer.run(&graph, 40);
    }
    for seed in 0..20 {
        let expected = Sample::bytes(3, seed).tensor;
        assert_same(&rondo.receive_from(&step, &peer, "one"), &expected);
    }
    rondo.assert_nothing_left(&peer, &[40]);
}

/// A handle means nothing here, and that is said.
#[test]
fn a_resource_is_refused() {
    let Some((rondo, peer)) = Rondo::beside_tensorflow() else {
        return;
    };
    let handle = json!({"edge": "handle", "dtype": 20, "handle": true});
    peer.run(&peer.register(&[handle], &[]), 50);
    let key = parsed(&peer.key("handle"));
    let receive = rondo.step(50).recv_async(&key, Args::default());
    let refused = rondo.receive(receive).unwrap_err();
    assert_eq!(refused.code, Code::Unimplemented, "{refused}");
    assert!(refused.message.contains("resource"), "{refused}");
}

/// What TensorFlow waits for here ends with our status; what only follows from something else is known
/// to it as such.
#[test]
fn an_abort_here_reaches_tensorflow() {
    let Some((rondo, peer)) = Rondo::beside_tensorflow() else {
        return;
    };
    let wanted = rondo.received("never", Dtype::Float.number(), "back");
    let graph = peer.register(&[], &[wanted]);
    let cases = [(60, Code::DataLoss, "DATA_LOSS", false), (61, Code::Aborted, "ABORTED", true)];
    for (id, code, name, follows) in cases {
        let step = rondo.step(id);
        let run = peer.begin_run(&graph, id);
        let back = step.recv_async(&parsed(&peer.key("back")), Args::default());
        rondo.until(|report| report.waiting >= 2);
        step.start_abort(Status::new(code, "the input is broken"));
        let refused = peer.end(run).unwrap_err();
        assert_eq!(refused.code, name, "{refused:?}");
        assert!(refused.text.starts_with("the input is broken"), "{refused:?}");
        let mark = "type.googleapis.com/tensorflow.DerivedStatus";
        assert_eq!(refused.tells(mark), follows, "{refused:?}");
        assert_eq!(rondo.receive(back).unwrap_err().code, code);
    }
}

/// What waits for TensorFlow ends when the step is over there, and TensorFlow asks here no more.
#[test]
fn an_end_there_reaches_us() {
    let Some((rondo, peer)) = Rondo::beside_tensorflow() else {
        return;
    };
    let wanted = rondo.received("never", Dtype::Float.number(), "back");
    let run = peer.begin_run(&peer.register(&[], &[wanted]), 62);
    let back = rondo.step(62).recv_async(&parsed(&peer.key("back")), Args::default());
    rondo.until(|report| report.waiting >= 2);
    // Ours is on its way.
    std::thread::sleep(Duration::from_millis(300));
    peer.call(&json!({"do": "cleanup", "step": 62})).unwrap();
    let refused = rondo.receive(back).unwrap_err();
    assert_eq!(refused.code, Code::Aborted, "{refused}");
    assert!(refused.message.ends_with("Cleanup 62") && is_derived(&refused), "{refused}");
    assert_eq!(peer.end(run).unwrap_err().code, "ABORTED");
    rondo.until(|report| report.waiting == 0);
}

/// TensorFlow's own way, which no client can change: who gives up one tensor of a step ends the step a
/// second later. It is the tensors of others that are told so.
#[test]
fn who_gives_up_at_tensorflow_ends_the_step_there() {
    let Some((rondo, peer)) = Rondo::beside_tensorflow() else {
        return;
    };
    let step = rondo.step(70);
    let [one, other] = ["one", "other"].map(|edge| parsed(&peer.key(edge)));
    let kept = Sample::bytes(1, 1).sent("kept");
    peer.run(&peer.register(&[kept], &[]), 70);
    let receive = step.recv_async(&other, Args::default());
    let hasty = step.recv(&one, Args::default(), Some(Duration::from_millis(300)));
    assert_eq!(rondo.wait(hasty).unwrap_err().code, Code::DeadlineExceeded);
    let refused = rondo.receive(receive).unwrap_err();
    println!("the other is told: {refused}");
    assert_eq!(refused.code, Code::Aborted, "{refused}");
}

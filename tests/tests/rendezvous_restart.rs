//! A TensorFlow worker is killed in the middle of a step, and comes back as another one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::time::{Duration, Instant};

use rondo::rendezvous::Args;
use rondo_core::element::Dtype;
use rondo_core::status::Code;
use rondo_tests::peer::{Port, TASK_0, cpu};
use rondo_tests::rendezvous::{Rondo, parsed, send};
use rondo_tests::samples::Sample;

const RESTARTED: &str = "RecvTensor expects a different device incarnation: ";

#[test]
fn a_step_goes_on_with_the_new_incarnation() {
    let Some((rondo, mut peer)) = Rondo::beside_tensorflow() else {
        return;
    };
    let sample = Sample::bytes(100_000, 3);
    let wanted = rondo.received("wanted", Dtype::Float.number(), "back");
    let step = rondo.step(1);
    peer.run(&peer.register(&[sample.sent("first")], &[]), 1);
    assert_eq!(rondo.receive_from(&step, &peer, "first"), sample.tensor);
    peer.begin_run(&peer.register(&[], &[wanted]), 1);
    let before = parsed(&peer.key("second"));
    let receives = [(); 2].map(|()| step.recv_async(&before, Args::default()));
    // Two of ours, and TensorFlow's.
    rondo.until(|report| report.waiting == 3);
    std::thread::sleep(Duration::from_millis(200));
    peer.kill();
    let began = Instant::now();
    for receive in receives {
        let refused = rondo.receive(receive).unwrap_err();
        // It may have given the tensor out; to ask again would be to wait for ever.
        assert_eq!(refused.code, Code::Unavailable, "{refused}");
        assert!(refused.message.contains(TASK_0), "{refused}");
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    rondo.until(|report| report.waiting == 0);

    // Who asks while it is away waits for it, and hears that it is another one.
    let asked = step.recv_async(&before, Args::default());
    let old = peer.incarnation();
    peer.start_again();
    assert_ne!(peer.incarnation(), old);
    let refused = rondo.receive(asked).unwrap_err();
    assert_eq!(refused.code, Code::Aborted, "{refused}");
    assert!(refused.message.starts_with(RESTARTED), "{refused}");

    let devices = rondo.wait(rondo.manager.devices_of(TASK_0)).unwrap();
    let device = devices.iter().find(|device| device.name == cpu(TASK_0)).unwrap();
    assert_eq!(device.incarnation, peer.incarnation());
    peer.run(&peer.register(&[sample.sent("second")], &[]), 1);
    assert_eq!(rondo.receive_from(&step, &peer, "second"), sample.tensor);
    let there = rondo.received("there", sample.dtype(), "back");
    let run = peer.begin_run(&peer.register(&[], &[there]), 1);
    send(&step, &rondo.key("there"), sample.tensor.clone());
    assert_eq!(rondo.receive_from(&step, &peer, "back"), sample.tensor);
    peer.end(run).unwrap();
    rondo.assert_nothing_left(&peer, &[1]);
}

#[test]
fn a_worker_that_stays_away_is_told_of_in_time() {
    const PATIENCE: Duration = Duration::from_millis(700);
    let nobody = Port::keep();
    let rondo = Rondo::start(&nobody.address(), PATIENCE);
    let key = parsed(&rondo_tests::peer::key(TASK_0, 1, rondo_tests::peer::TASK_1, "edge"));
    let began = Instant::now();
    let refused = rondo.receive(rondo.step(1).recv_async(&key, Args::default())).unwrap_err();
    assert_eq!(refused.code, Code::Unavailable, "{refused}");
    assert!(refused.message.contains("--rendezvous-peer-patience"), "{refused}");
    assert!(began.elapsed() >= PATIENCE, "{:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

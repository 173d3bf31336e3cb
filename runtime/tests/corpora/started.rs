//! What must hold of a state that was read from the disk, whatever it is.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use rondo_core::control::{Durability, Effects, Input, Node, Part, Recovered, Recovery};
use rondo_core::dispatcher::Config;
use rondo_core::invariant;
use rondo_core::time::Time;
use rondo_proto::frame::{decode_part, encode_part};

/// Runs what waits for nobody but the model disk.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
    }
}

/// A node can start from the state; if the state keeps the invariants, it survives a snapshot.
///
/// Records and parts that no dispatcher wrote, with checksums all the same, may lead to one that
/// does not.
pub(crate) fn check_recovered(recovered: &Recovered, parts: Vec<Part>) {
    if invariant::check_state(&recovered.dispatcher).is_ok() {
        check_snapshot(recovered, parts);
    }
    let now = Time::from_millis(1_000_000);
    let config = Config::default();
    let mut node = Node::start(Durability::Journal, config, recovered.clone(), now);
    assert_eq!(node.recovered(), *recovered, "a start changes the state");
    node.step(now, Input::Tick, &mut Effects::new());
    let report = node.dispatcher().report(now);
    assert_eq!(report.tasks.len(), recovered.dispatcher.tasks().len());
}

fn check_snapshot(recovered: &Recovered, parts: Vec<Part>) {
    let mut restored = Recovery::new();
    for part in parts {
        let encoded = encode_part(&part);
        assert_eq!(decode_part(&encoded).as_ref(), Ok(&part), "a part is read differently");
        restored.restore(part).unwrap();
    }
    restored.restored_upto(recovered.applied);
    assert_eq!(restored.finish(), *recovered, "a snapshot changes the state");
}

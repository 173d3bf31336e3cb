//! Who and what the tests speak of.

use rondo_core::ids::{RequestId, StepId};
use rondo_core::rendezvous::{Asked, Config, FrameAndIter, Key, Session, Value};
use rondo_core::status::{Code, Status};

/// The worker whose rendezvous it is.
pub(crate) const HERE: &str = "/job:w/replica:0/task:1";
/// Another worker.
pub(crate) const THERE: &str = "/job:w/replica:0/task:0";
/// A worker whose name begins as that of [`HERE`] does.
pub(crate) const NEARLY_HERE: &str = "/job:w/replica:0/task:10";
/// The incarnation of the only device of [`HERE`].
pub(crate) const INCARNATION: u64 = 0x00c0_ffee_1234_5678;
pub(crate) const STEP: StepId = StepId::new(7);
pub(crate) const OTHER_STEP: StepId = StepId::new(-8);

/// A worker with one device, which every step is of.
pub(crate) fn config() -> Config {
    Config { session: Some(session(HERE)), ..bare() }
}

/// A worker with one device, whose steps must be initialised.
pub(crate) fn bare() -> Config {
    Config {
        devices: [("/device:CPU:0".to_owned(), INCARNATION)].into(),
        entropy: 17,
        ..Config::default()
    }
}

pub(crate) fn session(worker: &str) -> Session {
    Session { worker_name: worker.into() }
}

/// The key of a tensor that stays on this worker.
pub(crate) fn local(edge: &str) -> Key {
    between(HERE, HERE, edge)
}

/// The key of a tensor that goes to another worker.
pub(crate) fn outgoing(edge: &str) -> Key {
    between(HERE, THERE, edge)
}

/// The key of a tensor that comes from another worker.
pub(crate) fn incoming(edge: &str) -> Key {
    between(THERE, HERE, edge)
}

pub(crate) fn between(source: &str, destination: &str, edge: &str) -> Key {
    let cpu = |worker: &str| format!("{worker}/device:CPU:0");
    let (source, destination) = (cpu(source), cpu(destination));
    Key::create(&source, INCARNATION, &destination, edge, FrameAndIter::default()).unwrap()
}

/// A tensor of 10 bytes.
pub(crate) fn value(tensor: u32) -> Value<u32> {
    sized(tensor, 10)
}

pub(crate) fn sized(tensor: u32, bytes: u64) -> Value<u32> {
    Value { tensor, bytes, is_dead: false }
}

/// A request that is answered once.
pub(crate) fn asks(request: i64) -> Asked {
    Asked { request: RequestId::new(request), keeps: false }
}

/// A request that may come again.
pub(crate) fn keeps(request: i64) -> Asked {
    Asked { request: RequestId::new(request), keeps: true }
}

#[track_caller]
pub(crate) fn assert_status(status: &Status, code: Code, begins: &str) {
    assert!(status.code == code && status.message.starts_with(begins), "{status:?}");
}

/// Whether the text has all these in it.
#[track_caller]
pub(crate) fn assert_names(status: &Status, names: &[&str]) {
    for name in names {
        assert!(status.message.contains(name), "{name:?} is not in {:?}", status.message);
    }
}

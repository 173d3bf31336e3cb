//! Each invariant against a rendezvous in which only it was broken.

use alloc::vec::Vec;

use super::check;
use crate::ids::{CallId, RequestId, StepId};
use crate::rendezvous::calls::{Pending, Place};
use crate::rendezvous::room::Held;
use crate::rendezvous::step::{Answer, Deferred, Step};
use crate::rendezvous::table::Queue;
use crate::rendezvous::{
    Args, Asked, Config, FrameAndIter, Input, Key, Rendezvous, Session, Value,
};
use crate::status::{Code, Status};
use crate::time::{Duration, Time};

const NOW: Time = Time::from_millis(1_000_000);
const WORKER: &str = "/job:w/replica:0/task:1";
const CPU: &str = "/job:w/replica:0/task:1/device:CPU:0";
const THERE: &str = "/job:w/replica:0/task:0/device:CPU:0";
/// A step that is initialised, one that is not, and one that was aborted.
const OPEN: StepId = StepId::new(1);
const EARLY: StepId = StepId::new(2);
const OVER: StepId = StepId::new(3);
const PARKED: CallId = CallId::new(6);

type Planted = Rendezvous<u8>;

fn key(source: &str, edge: &str) -> Key {
    Key::create(source, 7, CPU, edge, FrameAndIter::default()).unwrap()
}

fn send(call: u64, step: StepId, edge: &str, waits: bool) -> Input<u8> {
    let (call, value) = (CallId::new(call), Value { tensor: 1, bytes: 60, is_dead: false });
    Input::Send { call, step, key: key(CPU, edge), args: Args::default(), value, waits }
}

fn recv(call: u64, step: StepId, source: &str, edge: &str) -> Input<u8> {
    let (call, timeout) = (CallId::new(call), Some(Duration::from_secs(9)));
    Input::Recv { call, step, key: key(source, edge), args: Args::default(), timeout }
}

fn request(call: u64, edge: &str, request: i64) -> Input<u8> {
    let asked = Some(Asked { request: RequestId::new(request), keeps: true });
    let (call, key) = (CallId::new(call), key(CPU, edge));
    Input::RecvLocal { call, step: OPEN, key, timeout: None, asked }
}

/// In one step a tensor is held, another one waits for room, receivers wait here and for another
/// worker, and requests are answered, awaited and followed.
fn rendezvous() -> Planted {
    let config = Config {
        devices: [("/device:CPU:0".into(), 7)].into(),
        steps_max: 3,
        step_bytes_max: 130,
        calls_max: 20,
        ..Config::default()
    };
    let mut rendezvous = Rendezvous::start(config).unwrap();
    let session = Session { worker_name: WORKER.into() };
    let status = Status::new(Code::Internal, "planted");
    let inputs = [
        Input::Initialize { call: CallId::new(1), step: OPEN, session },
        Input::Abort { step: OVER, status },
        send(2, EARLY, "a", false),
        recv(3, EARLY, CPU, "a"),
        send(4, OPEN, "held", false),
        send(5, OPEN, "kept", false),
        send(6, OPEN, "parked", true),
        recv(7, OPEN, CPU, "none"),
        recv(8, OPEN, THERE, "there"),
        request(9, "kept", 1),
        request(10, "none", 2),
        request(11, "none", 2),
    ];
    let mut out = Vec::new();
    inputs.into_iter().for_each(|input| rendezvous.step(NOW, input, &mut out));
    assert_eq!(check(&rendezvous), Ok(()));
    rendezvous
}

fn step(rendezvous: &mut Planted, id: StepId) -> &mut Step<u8> {
    rendezvous.steps.get_mut(&id).unwrap()
}

#[track_caller]
fn assert_violates(number: &str, plant: impl FnOnce(&mut Planted)) {
    let mut rendezvous = rendezvous();
    plant(&mut rendezvous);
    let violation = check(&rendezvous).unwrap_err();
    assert_eq!(violation.number, number, "{violation}");
}

#[test]
fn v1_sees_calls_in_no_place_in_two_and_without_an_alarm() {
    assert_violates("V1", |it| it.calls.end(CallId::new(7)));
    assert_violates("V1", |it| step(it, OPEN).contents.fetches.clear());
    assert_violates("V1", |it| {
        step(it, OPEN).contents.fetches.insert(CallId::new(7));
    });
    assert_violates("V1", |it| it.calls.dues.clear());
    assert_violates("V1", |it| {
        let place = Place::Deferred { number: 99 };
        it.calls.pending.insert(CallId::new(99), Pending { step: OPEN, place, due: None });
    });
}

#[test]
fn v2_sees_wrong_sums() {
    assert_violates("V2", |it| step(it, OPEN).held.bytes += 1);
    assert_violates("V2", |it| step(it, EARLY).held.take(60));
    assert_violates("V2", |it| it.room.held = Held::default());
}

#[test]
fn v3_sees_more_than_is_allowed() {
    assert_violates("V3", |it| it.config.steps_max = 2);
    assert_violates("V3", |it| it.config.calls_max = 5);
    assert_violates("V3", |it| {
        let mut out = Vec::new();
        it.step(NOW, Input::MarkRecvFinished { request: RequestId::new(1) }, &mut out);
        it.config.step_bytes_max = 70;
    });
    assert_violates("V3", |it| {
        let mut out = Vec::new();
        it.step(NOW, Input::MarkRecvFinished { request: RequestId::new(1) }, &mut out);
        it.config.tensors_max = 1;
    });
}

#[test]
fn v4_sees_senders_that_wait_in_vain() {
    assert_violates("V4", |it| it.room.parked.clear());
    assert_violates("V4", |it| step(it, OPEN).contents.parked.clear());
    assert_violates("V4", |it| {
        let number = step(it, OPEN).contents.parked.first().copied().unwrap();
        it.room.by_all.insert(number);
    });
    assert_violates("V4", |it| it.room.parked.values_mut().for_each(|it| it.call = CallId::new(0)));
    assert_violates("V4", |it| it.config.step_bytes_max = 1_000);
    let parked = rendezvous().room.parked.into_values().map(|it| it.call).collect::<Vec<_>>();
    assert_eq!(parked, [PARKED]);
}

#[test]
fn v5_sees_answers_that_nobody_finds_and_followers_of_none() {
    assert_violates("V5", |it| it.requests.kept.clear());
    assert_violates("V5", |it| {
        it.requests.kept.insert(RequestId::new(99), OPEN);
    });
    assert_violates("V5", |it| {
        let follower = CallId::new(11);
        it.calls.go_to(follower, Place::Deferred { number: 1 });
    });
}

#[test]
fn v6_sees_steps_that_are_more_than_they_can_be() {
    assert_violates("V6", |it| {
        let queue = step(it, OPEN).contents.table.queues.pop_last().unwrap();
        let status = Status::new(Code::Internal, "planted");
        step(it, OPEN).contents.table.queues.insert(queue.0, queue.1);
        step(it, OPEN).status = Some(status);
    });
    assert_violates("V6", |it| step(it, OPEN).home = None);
    assert_violates("V6", |it| {
        it.beginning.insert(OPEN);
    });
    assert_violates("V6", |it| {
        let home = step(it, OPEN).home.clone();
        step(it, EARLY).home = home;
    });
    assert_violates("V6", |it| it.expiries.clear());
    assert_violates("V6", |it| {
        it.expiries.insert((NOW, StepId::new(99)));
    });
}

/// The tests above plant in what is there: it is.
#[test]
fn all_that_may_be_in_a_step_is_in_it() {
    let mut rendezvous = rendezvous();
    let early = &step(&mut rendezvous, EARLY).contents.deferred;
    assert!(early.values().any(|it| matches!(it, Deferred::Send { .. })) && early.len() == 2);
    let contents = &step(&mut rendezvous, OPEN).contents;
    let is_waiting = |queue: &&Queue<u8>| matches!(queue, Queue::Waiting(_));
    assert_eq!(contents.table.queues.values().filter(is_waiting).count(), 1);
    assert_eq!((contents.table.queues.len(), contents.fetches.len()), (3, 1));
    let followers = contents.kept.values().map(|kept| match &kept.answer {
        Answer::Awaited { followers } => followers.len(),
        Answer::Given(_) => 100,
    });
    assert_eq!(followers.sum::<usize>(), 101);
    assert!(step(&mut rendezvous, OVER).contents.is_empty());
}

//! Requests of other workers that come twice: refused, or answered as the first time.

use rondo_core::rendezvous::{Config, Event};
use rondo_core::status::{Code, Status};

use crate::story::{
    OTHER_STEP, STEP, asks, assert_names, assert_status, bare, config, keeps, outgoing, sized,
    value,
};
use crate::world::World;

const TWICE: &str = "The same RecvTensor (GrpcWorker) request was received twice.";

fn world() -> World {
    World::new(config())
}

#[test]
fn the_same_request_twice_is_refused() {
    let mut world = world();
    world.send(STEP, &outgoing("a"), value(1));
    world.send(STEP, &outgoing("a"), value(2));
    let first = world.request(STEP, &outgoing("a"), asks(-5));
    let again = world.request(STEP, &outgoing("a"), asks(-5));
    assert_eq!(world.got(first), 1);
    assert_status(world.refused(again), Code::Aborted, TWICE);
    assert_names(world.refused(again), &["-5"]);
    let repeated =
        world.events.iter().filter(|it| matches!(it, Event::Repeated { is_answered: false, .. }));
    assert_eq!(repeated.count(), 1);
    // Nothing was lost by it.
    let other = world.request(STEP, &outgoing("a"), asks(6));
    assert_eq!(world.got(other), 2);
}

#[test]
fn a_request_without_an_id_may_come_as_often_as_it_likes() {
    let mut world = world();
    for tensor in 0..3 {
        world.send(STEP, &outgoing("a"), value(tensor));
        let receiver = world.request(STEP, &outgoing("a"), keeps(0));
        assert_eq!(world.got(receiver), tensor);
    }
    world.assert_empty();
}

#[test]
fn so_many_ids_are_remembered_and_no_more() {
    let mut world = world();
    let max = i64::try_from(world.machine.config().requests_max).unwrap();
    assert_eq!(max, 100_000);
    // Each is refused for its device, which is looked at later.
    let nowhere = crate::story::between("", "", "a");
    for request in 1..=max {
        world.machine.step(world.now, refused_later(&nowhere, request), &mut Vec::new());
    }
    for request in [1, 2, max] {
        let again = world.request(STEP, &outgoing("a"), asks(request));
        assert_status(world.refused(again), Code::Aborted, TWICE);
    }
    let next = world.request(STEP, &outgoing("a"), asks(max + 1));
    let first = world.request(STEP, &outgoing("a"), asks(1));
    assert!(world.is_waiting(next) && world.is_waiting(first), "the first one is forgotten");
    let third = world.request(STEP, &outgoing("a"), asks(3));
    assert_status(world.refused(third), Code::Aborted, TWICE);
}

fn refused_later(
    key: &rondo_core::rendezvous::Key,
    request: i64,
) -> rondo_core::rendezvous::Input<u32> {
    rondo_core::rendezvous::Input::RecvLocal {
        call: rondo_core::ids::CallId::new(u64::MAX),
        step: STEP,
        key: key.clone(),
        timeout: None,
        asked: Some(asks(request)),
    }
}

#[test]
fn what_is_kept_answers_again_until_it_is_said_to_have_come() {
    let mut world = world();
    world.send(STEP, &outgoing("a"), value(1));
    world.send(STEP, &outgoing("a"), value(2));
    for _ in 0..3 {
        let receiver = world.request(STEP, &outgoing("a"), keeps(5));
        assert_eq!(world.got(receiver), 1);
    }
    let report = world.machine.report();
    assert_eq!((report.held.tensors, report.held.bytes, report.kept), (2, 20, 1));
    world.finished(5);
    let report = world.machine.report();
    assert_eq!((report.held.tensors, report.held.bytes, report.kept), (1, 10, 0));
    let late = world.request(STEP, &outgoing("a"), keeps(5));
    assert_status(world.refused(late), Code::Aborted, TWICE);
    world.finished(5);
    world.finished(77);
    let other = world.request(STEP, &outgoing("a"), asks(6));
    assert_eq!(world.got(other), 2);
    world.assert_empty();
}

/// Clients that never say that they have their answers do not fill the memory.
#[test]
fn no_more_answers_are_kept_than_the_bounds_allow() {
    let mut world = World::new(Config { bytes_max: 25, ..config() });
    let receivers = [1, 2, 3].map(|request| world.request(STEP, &outgoing("a"), keeps(request)));
    for (tensor, receiver) in (0..).zip(receivers) {
        world.send(STEP, &outgoing("a"), value(tensor));
        assert_eq!(world.got(receiver), tensor, "those under way come over the bound");
    }
    let refused = world.request(STEP, &outgoing("a"), keeps(4));
    let status = world.refused(refused);
    assert_status(status, Code::ResourceExhausted, "answers of 30 bytes are kept");
    assert_names(status, &["25", "--rendezvous-size-max", "MarkRecvFinished"]);
    let repeated = world.request(STEP, &outgoing("a"), keeps(2));
    assert_eq!(world.got(repeated), 1, "what is kept is given out again");
    world.finished(1);
    let receiver = world.request(STEP, &outgoing("a"), keeps(4));
    world.send(STEP, &outgoing("a"), value(3));
    assert_eq!(world.got(receiver), 3);
    [2, 3, 4].into_iter().for_each(|request| world.finished(request));
    world.assert_empty();
}

#[test]
fn all_answers_are_kept_if_the_settings_say_so() {
    let mut world = World::new(Config { caches_responses: true, ..config() });
    world.send(STEP, &outgoing("a"), value(1));
    let calls = [0, 1].map(|_| world.request(STEP, &outgoing("a"), asks(5)));
    assert_eq!(calls.map(|call| world.got(call)), [1, 1]);
    world.finished(5);
    world.assert_empty();
}

#[test]
fn who_asks_again_while_the_first_waits_gets_what_it_gets() {
    let mut world = world();
    let calls = [0, 1, 2].map(|_| world.request(STEP, &outgoing("a"), keeps(5)));
    let other = world.request(STEP, &outgoing("a"), keeps(6));
    world.finished(5);
    assert!(calls.iter().all(|call| world.is_waiting(*call)), "nothing came yet");
    world.send(STEP, &outgoing("a"), value(1));
    assert_eq!(calls.map(|call| world.got(call)), [1, 1, 1]);
    world.send(STEP, &outgoing("a"), value(2));
    assert_eq!(world.got(other), 2);
    world.finished(5);
    world.finished(6);
    world.assert_empty();
}

/// Whoever lost its connection asks again on another one; then the first one is noticed to be gone.
#[test]
fn the_first_one_gives_up_and_another_takes_its_place() {
    let mut world = world();
    let first = world.request(STEP, &outgoing("a"), keeps(5));
    let behind = world.recv_local(STEP, &outgoing("a"));
    let others = [0, 1].map(|_| world.request(STEP, &outgoing("a"), keeps(5)));
    world.cancel(first);
    world.cancel(others[0]);
    assert!(world.is_waiting(others[1]));
    world.send(STEP, &outgoing("a"), value(1));
    assert_eq!(world.got(others[1]), 1, "it has the place of the first one");
    world.send(STEP, &outgoing("a"), value(2));
    assert_eq!(world.got(behind), 2);
    world.finished(5);
    world.assert_empty();
}

#[test]
fn when_all_gave_up_the_request_may_come_again() {
    let mut world = world();
    let calls = [0, 1].map(|_| world.request(STEP, &outgoing("a"), keeps(5)));
    calls.iter().for_each(|call| world.cancel(*call));
    world.assert_empty();
    world.send(STEP, &outgoing("a"), value(1));
    let receiver = world.request(STEP, &outgoing("a"), keeps(5));
    assert_eq!(world.got(receiver), 1);
}

#[test]
fn an_id_belongs_to_one_tensor() {
    let mut world = world();
    world.send(STEP, &outgoing("a"), value(1));
    let first = world.request(STEP, &outgoing("a"), keeps(5));
    for (step, edge) in [(STEP, "b"), (OTHER_STEP, "a")] {
        let other = world.request(step, &outgoing(edge), keeps(5));
        assert_status(world.refused(other), Code::InvalidArgument, "the request_id 5 of");
        assert_names(world.refused(other), &[outgoing(edge).text(), outgoing("a").text()]);
    }
    assert_eq!(world.got(first), 1);
}

#[test]
fn kept_answers_go_with_their_step() {
    for aborts in [true, false] {
        let mut world = world();
        world.send(STEP, &outgoing("a"), value(1));
        let given = world.request(STEP, &outgoing("a"), keeps(5));
        let calls = [0, 1].map(|_| world.request(STEP, &outgoing("b"), keeps(6)));
        match aborts {
            true => world.abort(STEP, Status::new(Code::Internal, "over")),
            false => world.cleanup(STEP),
        }
        for call in calls {
            assert_names(world.refused(call), &[if aborts { "over" } else { "Cleanup 7" }]);
        }
        assert_eq!(world.got(given), 1);
        world.assert_empty();
        let late = world.request(STEP, &outgoing("a"), keeps(5));
        let begins = if aborts { "The same RecvTensor" } else { TWICE };
        assert_status(world.refused(late), Code::Aborted, begins);
    }
}

/// A tensor that was held before it was given out takes the room that it took.
#[test]
fn what_is_kept_takes_room_once() {
    let mut world = World::new(Config { step_bytes_max: 20, ..config() });
    world.send(STEP, &outgoing("a"), value(1));
    let receiver = world.request(STEP, &outgoing("a"), keeps(5));
    assert_eq!((world.got(receiver), world.machine.report().held.bytes), (1, 10));
    let waits = world.send_waiting(STEP, &outgoing("b"), sized(2, 15));
    assert!(world.is_waiting(waits));
    world.finished(5);
    assert_eq!(world.sent(waits), &Ok(()));
}

/// The time of each call is its own, even of those that wait for what another one gets.
#[test]
fn who_follows_gives_up_in_its_own_time() {
    let mut world = world();
    let first = world.request(STEP, &outgoing("a"), keeps(5));
    let second = world.recv_local_with(STEP, &outgoing("a"), Some(50), Some(keeps(5)));
    world.wait(49);
    assert!(world.is_waiting(second));
    world.wait(1);
    assert_status(world.refused(second), Code::DeadlineExceeded, "no tensor came");
    assert_names(world.refused(second), &[outgoing("a").text()]);
    world.send(STEP, &outgoing("a"), value(1));
    assert_eq!(world.got(first), 1);
}

/// The step is not initialised, and too many calls wait: nothing was asked for.
#[test]
fn what_was_refused_for_want_of_places_may_come_again() {
    let mut world = World::new(Config { calls_max: 1, ..bare() });
    let waits = world.recv_local(STEP, &outgoing("a"));
    let refused = world.request(STEP, &outgoing("b"), keeps(5));
    assert_status(world.refused(refused), Code::ResourceExhausted, "1 calls wait already");
    world.cancel(waits);
    let again = world.request(STEP, &outgoing("b"), keeps(5));
    assert!(world.is_waiting(again));
}

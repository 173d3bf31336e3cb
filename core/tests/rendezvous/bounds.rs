//! How much is held: senders beyond it are refused, or wait for room.

use rondo_core::rendezvous::{Config, Event};
use rondo_core::status::{Code, Status};

use crate::story::{OTHER_STEP, STEP, assert_names, assert_status, config, local, sized, value};
use crate::world::World;

/// Bounds of a step: 100 bytes, 4 tensors; of all: 150 bytes, 5 tensors.
fn world() -> World {
    World::new(Config {
        step_bytes_max: 100,
        step_tensors_max: 4,
        bytes_max: 150,
        tensors_max: 5,
        ..config()
    })
}

#[test]
fn each_bound_is_named_with_the_sizes() {
    let mut world = world();
    world.send(STEP, &local("a"), sized(1, 60));
    let refused = world.send(STEP, &local("b"), sized(2, 41));
    let status = world.refused(refused);
    assert_status(status, Code::ResourceExhausted, "no room for a tensor of 41 bytes");
    assert_names(
        status,
        &["100 bytes (--rendezvous-step-size-max)", "1 tensors of 60 bytes", "step 7"],
    );
    assert_eq!(world.events, [Event::NoRoom { step: STEP, bytes: 41 }]);

    world.send(OTHER_STEP, &local("a"), sized(3, 80));
    let refused = world.send(STEP, &local("b"), sized(2, 40));
    assert_names(
        world.refused(refused),
        &["150 bytes", "(--rendezvous-size-max)", "2 tensors of 140 bytes"],
    );

    for _ in 0..3 {
        world.send(STEP, &local("b"), sized(4, 0));
    }
    let refused = world.send(STEP, &local("b"), sized(5, 0));
    assert_names(
        world.refused(refused),
        &["4 tensors (--rendezvous-step-tensors-max)", "4 tensors of 60 bytes"],
    );
    let refused = world.send(OTHER_STEP, &local("b"), sized(5, 0));
    assert_names(
        world.refused(refused),
        &["5 tensors", "(--rendezvous-tensors-max)", "5 tensors of 140 bytes"],
    );
    assert_eq!(world.machine.report().held.tensors, 5);
}

#[test]
fn bounds_are_reached_and_not_passed() {
    let mut world = world();
    let exactly = world.send(STEP, &local("a"), sized(1, 100));
    assert_eq!(world.sent(exactly), &Ok(()));
    let more = world.send(STEP, &local("a"), sized(2, 1));
    assert_eq!(world.refused(more).code, Code::ResourceExhausted);
    let receiver = world.recv(STEP, &local("a"));
    assert_eq!(world.got(receiver), 1);
    let again = world.send(STEP, &local("a"), sized(3, u64::MAX));
    assert_eq!(world.refused(again).code, Code::ResourceExhausted);
}

/// Bounds are on what is held; this is not.
#[test]
fn a_tensor_for_which_somebody_waits_needs_no_room() {
    let mut world = world();
    let receiver = world.recv(STEP, &local("a"));
    world.send(STEP, &local("a"), sized(1, 1_000_000));
    assert_eq!(world.got(receiver), 1);
    world.assert_empty();
}

#[test]
fn who_waits_is_given_room_in_order() {
    let mut world = world();
    let sizes = [60, 40, 50, 50, 30];
    let calls: Vec<_> = (0..)
        .zip(sizes)
        .map(|(nth, bytes)| world.send_waiting(STEP, &local("a"), sized(nth, bytes)))
        .collect();
    let waiting =
        |world: &World| calls.iter().map(|call| world.is_waiting(*call)).collect::<Vec<_>>();
    assert_eq!(waiting(&world), [false, false, true, true, true]);
    assert_eq!(world.machine.report().parked, 3);
    let mut got = Vec::new();
    for expected in [[true, true, true], [false, false, true], [false, false, false]] {
        if got.len() < 2 || got.len() == 2 {
            let receiver = world.recv(STEP, &local("a"));
            got.push(world.got(receiver));
        }
        match got.len() {
            1 => assert_eq!(waiting(&world)[2..], [false, true, true]),
            2 => assert_eq!(waiting(&world)[2..], [false, false, true]),
            _ => assert_eq!(waiting(&world)[2..], expected),
        }
    }
    got.extend([3, 4].map(|_| {
        let receiver = world.recv(STEP, &local("a"));
        world.got(receiver)
    }));
    assert_eq!(got, [0, 1, 2, 3, 4]);
    assert!(calls.iter().all(|call| world.sent(*call).is_ok()));
    world.assert_empty();
}

#[test]
fn who_waits_for_room_that_can_never_be_is_refused() {
    let mut world = world();
    let refused = world.send_waiting(STEP, &local("a"), sized(1, 101));
    assert_names(world.refused(refused), &["--rendezvous-step-size-max"]);
    let mut world = World::new(Config { bytes_max: 50, ..config() });
    let refused = world.send_waiting(STEP, &local("a"), sized(1, 51));
    assert_names(world.refused(refused), &["--rendezvous-size-max"]);
    let mut world = World::new(Config { step_bytes_max: 60, bytes_max: 50, ..config() });
    world.send(STEP, &local("a"), sized(1, 40));
    let refused = world.send_waiting(STEP, &local("a"), sized(1, 51));
    assert_eq!(world.refused(refused).code, Code::ResourceExhausted, "both bounds are in the way");
}

#[test]
fn who_gives_up_waiting_for_room_is_told_once_and_its_tensor_is_gone() {
    let mut world = world();
    world.send(STEP, &local("a"), sized(1, 60));
    let first = world.send_waiting(STEP, &local("a"), sized(2, 90));
    let second = world.send_waiting(STEP, &local("a"), sized(3, 50));
    world.cancel(first);
    assert_status(world.refused(first), Code::Cancelled, "the sender gave up");
    world.cancel(first);
    assert!(world.is_waiting(second), "it does not fit");
    let got = [0, 1].map(|_| {
        let receiver = world.recv(STEP, &local("a"));
        world.got(receiver)
    });
    assert_eq!((got, world.sent(second)), ([1, 3], &Ok(())));
    world.assert_empty();
}

/// The one in front was in the way of one that fits.
#[test]
fn who_gives_up_makes_way() {
    let mut world = world();
    world.send(STEP, &local("x"), sized(1, 30));
    world.send(STEP, &local("y"), sized(1, 30));
    let first = world.send_waiting(STEP, &local("a"), sized(2, 90));
    let second = world.send_waiting(STEP, &local("b"), sized(3, 60));
    world.recv(STEP, &local("x"));
    assert!(world.is_waiting(first) && world.is_waiting(second));
    world.cancel(first);
    assert_eq!(world.sent(second), &Ok(()));
}

#[test]
fn a_receiver_takes_a_tensor_for_which_there_is_no_room_yet() {
    let mut world = world();
    world.send(STEP, &local("a"), sized(1, 100));
    let sender = world.send_waiting(STEP, &local("b"), sized(2, 100));
    let receiver = world.recv(STEP, &local("b"));
    assert_eq!((world.got(receiver), world.sent(sender)), (2, &Ok(())));
    let report = world.machine.report();
    assert_eq!((report.held.bytes, report.parked, report.waiting), (100, 0, 0));
}

/// As when one gives up: nothing was held in its step.
#[test]
fn who_is_told_that_its_step_ended_makes_way() {
    let mut world = world();
    world.send(STEP, &local("x"), sized(1, 100));
    world.send(STEP, &local("y"), sized(1, 0));
    let third = rondo_core::ids::StepId::new(9);
    world.send(third, &local("x"), sized(1, 40));
    let first = world.send_waiting(OTHER_STEP, &local("a"), sized(2, 60));
    let second = world.send_waiting(third, &local("b"), sized(3, 20));
    world.recv(third, &local("x"));
    assert!(world.is_waiting(first) && world.is_waiting(second));
    world.cleanup(OTHER_STEP);
    assert_eq!(world.sent(second), &Ok(()));
}

/// As when one gives up: it was in the way of one that fits.
#[test]
fn who_is_taken_makes_way() {
    let mut world = world();
    world.send(STEP, &local("x"), sized(1, 30));
    world.send(STEP, &local("y"), sized(1, 30));
    let first = world.send_waiting(STEP, &local("a"), sized(2, 90));
    let second = world.send_waiting(STEP, &local("b"), sized(3, 60));
    world.recv(STEP, &local("x"));
    assert!(world.is_waiting(first) && world.is_waiting(second));
    let receiver = world.recv(STEP, &local("a"));
    assert_eq!((world.got(receiver), world.sent(second)), (2, &Ok(())));
}

#[test]
fn room_of_all_is_given_across_steps() {
    let mut world = world();
    world.send(STEP, &local("a"), sized(1, 90));
    world.send(OTHER_STEP, &local("a"), sized(2, 50));
    let first = world.send_waiting(OTHER_STEP, &local("b"), sized(3, 40));
    let second = world.send_waiting(STEP, &local("b"), sized(4, 5));
    assert!(world.is_waiting(first) && !world.is_waiting(second), "what fits need not wait");
    world.cleanup(STEP);
    assert_eq!(world.sent(first), &Ok(()));
}

/// One waits because of all steps, the other one because of its own: the room suffices for either.
#[test]
fn who_has_waited_longest_is_given_room_first() {
    let mut world = world();
    world.send(OTHER_STEP, &local("a"), sized(1, 70));
    world.send(STEP, &local("x"), sized(2, 40));
    world.send(STEP, &local("y"), sized(3, 40));
    let first = world.send_waiting(STEP, &local("a"), sized(4, 10));
    let second = world.send_waiting(STEP, &local("b"), sized(5, 40));
    world.recv(STEP, &local("x"));
    assert_eq!(world.sent(first), &Ok(()));
    assert!(world.is_waiting(second));
}

/// First all steps together leave no room, then its own step does not.
#[test]
fn who_waits_for_one_bound_may_then_wait_for_another() {
    let mut world = world();
    world.send(OTHER_STEP, &local("a"), sized(1, 90));
    world.send(STEP, &local("x"), sized(2, 55));
    let first = world.send_waiting(STEP, &local("a"), sized(3, 45));
    let second = world.send_waiting(STEP, &local("b"), sized(4, 40));
    let third = world.send_waiting(OTHER_STEP, &local("b"), sized(5, 10));
    assert!([first, second, third].iter().all(|call| world.is_waiting(*call)));
    world.recv(OTHER_STEP, &local("a"));
    assert_eq!(world.sent(first), &Ok(()));
    assert!(world.is_waiting(second), "its step has no room");
    assert_eq!(world.sent(third), &Ok(()), "and others do not wait for that");
    world.recv(STEP, &local("x"));
    assert_eq!(world.sent(second), &Ok(()));
}

#[test]
fn who_waits_for_room_is_told_when_the_step_ends() {
    for aborts in [true, false] {
        let mut world = world();
        world.send(STEP, &local("a"), sized(1, 100));
        let sender = world.send_waiting(STEP, &local("b"), value(2));
        match aborts {
            true => world.abort(STEP, Status::new(Code::Internal, "over")),
            false => world.cleanup(STEP),
        }
        assert_names(world.refused(sender), &[if aborts { "over" } else { "Cleanup 7" }]);
        world.assert_empty();
    }
}

#[test]
fn no_more_calls_wait_than_are_allowed() {
    let mut world = World::new(Config { calls_max: 2, step_tensors_max: 1, ..config() });
    let calls = [world.recv(STEP, &local("a")), world.recv(STEP, &crate::story::incoming("a"))];
    let all = |world: &mut World| {
        world.send(STEP, &local("full"), value(1));
        [
            world.recv(STEP, &local("b")),
            world.recv_local(STEP, &local("b")),
            world.recv(STEP, &crate::story::incoming("b")),
            world.send_waiting(STEP, &local("c"), value(2)),
        ]
    };
    for call in all(&mut world) {
        assert_status(world.refused(call), Code::ResourceExhausted, "2 calls wait already");
        assert_names(world.refused(call), &["--rendezvous-calls-max"]);
    }
    assert!(calls.iter().all(|call| world.is_waiting(*call)));
    // What needs not wait is done all the same.
    let receiver = world.recv(STEP, &local("full"));
    assert_eq!(world.got(receiver), 1);
    world.cancel(calls[0]);
    let next = world.recv(STEP, &local("b"));
    assert!(world.is_waiting(next));
}

//! Receivers that wait for so long and no longer, and steps with which nothing happens.

use rondo_core::rendezvous::{Config, Event};
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::story::{
    OTHER_STEP, STEP, assert_names, assert_status, config, incoming, local, outgoing, value,
};
use crate::world::World;

fn world() -> World {
    World::new(config())
}

#[test]
fn a_receiver_whose_time_is_over_is_taken_away_and_no_other() {
    let mut world = world();
    let before = world.recv(STEP, &local("a"));
    let receiver = world.recv_within(STEP, &local("a"), 50);
    let behind = world.recv_within(STEP, &local("a"), 51);
    world.wait(49);
    assert!(world.is_waiting(receiver));
    world.wait(1);
    assert_status(world.refused(receiver), Code::DeadlineExceeded, "no tensor came for");
    assert_names(world.refused(receiver), &[local("a").text()]);
    assert!(world.is_waiting(before) && world.is_waiting(behind));
    world.send(STEP, &local("a"), value(1));
    world.send(STEP, &local("a"), value(2));
    assert_eq!((world.got(before), world.got(behind)), (1, 2));
    world.wait(100);
    world.assert_empty();
}

#[test]
fn a_tensor_in_time_ends_the_waiting() {
    let mut world = world();
    let receiver = world.recv_within(STEP, &local("a"), 50);
    world.wait(49);
    world.send(STEP, &local("a"), value(1));
    world.wait(100);
    assert_eq!(world.got(receiver), 1);
}

#[test]
fn no_time_at_all_takes_what_is_there() {
    let mut world = world();
    world.send(STEP, &local("a"), value(1));
    let calls = [0, 1].map(|_| world.recv_within(STEP, &local("a"), 0));
    assert_eq!(world.got(calls[0]), 1);
    world.settle();
    assert_eq!(world.refused(calls[1]).code, Code::DeadlineExceeded);
}

#[test]
fn those_who_ask_for_other_workers_have_their_time_too() {
    let mut world = world();
    let receiver = world.recv_local_with(STEP, &outgoing("a"), Some(50), None);
    world.wait(50);
    assert_eq!(world.refused(receiver).code, Code::DeadlineExceeded);
    world.send(STEP, &outgoing("a"), value(1));
    assert_eq!(world.machine.report().held.tensors, 1, "the tensor is there for others");
}

#[test]
fn what_is_fetched_is_withdrawn_when_the_time_is_over() {
    let mut world = world();
    let receiver = world.recv_within(STEP, &incoming("a"), 50);
    world.wait(50);
    assert_status(world.refused(receiver), Code::DeadlineExceeded, "no tensor came for");
    assert_eq!(world.withdrawn, [receiver]);
    world.fetched(receiver, value(1));
    world.assert_empty();
}

#[test]
fn a_step_with_which_nothing_happens_is_given_up() {
    let mut world = World::new(Config { step_expiry: Some(Duration::from_secs(10)), ..config() });
    world.send(STEP, &local("a"), value(1));
    let receiver = world.recv(STEP, &local("b"));
    world.wait(9_999);
    assert!(world.is_waiting(receiver));
    world.wait(1);
    assert_status(world.refused(receiver), Code::Aborted, "step 7 is given up");
    assert_names(world.refused(receiver), &["10000 ms", "--rendezvous-step-expiry"]);
    let given_up = Event::StepExpired { step: STEP, tensors: 1, bytes: 10, waiting: 1 };
    assert!(world.events.contains(&given_up), "{:?}", world.events);
    assert_eq!((world.machine.report().steps, world.machine.deadline()), (0, None));
    world.assert_empty();
}

#[test]
fn whatever_is_asked_of_a_step_keeps_it() {
    let mut world = World::new(Config { step_expiry: Some(Duration::from_secs(10)), ..config() });
    let receiver = world.recv(STEP, &local("a"));
    world.wait(8_000);
    world.send(STEP, &local("b"), value(1));
    world.wait(8_000);
    let other = world.recv(STEP, &incoming("c"));
    world.wait(8_000);
    world.fetched(other, value(1));
    world.wait(9_999);
    assert!(world.is_waiting(receiver));
    world.wait(1);
    assert_eq!(world.refused(receiver).code, Code::Aborted);
}

#[test]
fn steps_are_kept_for_ever_if_the_settings_say_so() {
    let mut world = World::new(Config { step_expiry: None, ..config() });
    let receiver = world.recv(STEP, &local("a"));
    assert_eq!(world.machine.deadline(), None);
    world.wait(1_000_000_000);
    assert!(world.is_waiting(receiver));
}

/// Nothing of a step is left behind that was cleaned up: there may be many a second.
#[test]
fn nobody_looks_at_steps_that_are_over() {
    let mut world = world();
    for _ in 0..3 {
        world.send(STEP, &local("a"), value(1));
        world.find(OTHER_STEP).unwrap();
        world.cleanup(STEP);
        world.cleanup(OTHER_STEP);
        assert_eq!(world.machine.deadline(), None);
    }
}

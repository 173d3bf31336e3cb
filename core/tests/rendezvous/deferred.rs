//! What is asked of a step before it is initialised: it is kept, and carried out then.

use rondo_core::rendezvous::{Config, Value};
use rondo_core::status::{Code, Status};

use crate::story::{
    HERE, NEARLY_HERE, STEP, THERE, assert_names, assert_status, bare, incoming, keeps, local,
    outgoing, sized, value,
};
use crate::world::World;

fn world() -> World {
    World::new(bare())
}

#[test]
fn a_request_that_comes_before_its_step_begins_is_answered() {
    let mut world = world();
    let receiver = world.recv_local(STEP, &outgoing("a"));
    world.find(STEP).unwrap();
    assert!(world.is_waiting(receiver));
    world.initialize(STEP, HERE).unwrap();
    assert!(world.is_waiting(receiver), "nothing was sent");
    world.send(STEP, &outgoing("a"), value(1));
    assert_eq!(world.got(receiver), 1);
    world.assert_empty();
}

#[test]
fn senders_never_wait_and_what_they_sent_comes_in_its_order() {
    let mut world = world();
    let early = world.recv(STEP, &local("a"));
    for tensor in 1..4 {
        let sender = world.send(STEP, &local("a"), value(tensor));
        assert_eq!(world.sent(sender), &Ok(()));
    }
    let late = [world.recv(STEP, &local("a")), world.recv_local(STEP, &local("a"))];
    assert!(world.is_waiting(early) && world.is_waiting(late[0]) && world.is_waiting(late[1]));
    assert_eq!(world.machine.report().held.tensors, 3);
    world.initialize(STEP, HERE).unwrap();
    assert_eq!([early, late[0], late[1]].map(|call| world.got(call)), [1, 2, 3]);
    world.assert_empty();
}

#[test]
fn a_receiver_of_another_workers_tensor_asks_it_then() {
    let mut world = world();
    let receiver = world.recv(STEP, &incoming("a"));
    assert!(world.fetches.is_empty());
    world.initialize(STEP, HERE).unwrap();
    assert_eq!((world.fetches[0].call, world.fetches[0].worker.as_str()), (receiver, THERE));
    world.fetched(receiver, value(1));
    assert_eq!(world.got(receiver), 1);
}

#[test]
fn devices_of_others_are_noticed_then() {
    let mut world = world();
    let wants = world.recv(STEP, &outgoing("a"));
    let asks = world.recv_local(STEP, &incoming("a"));
    world.initialize(STEP, HERE).unwrap();
    assert_status(world.refused(wants), Code::InvalidArgument, "Invalid rendezvous key (dst)");
    assert_status(world.refused(asks), Code::InvalidArgument, "Invalid rendezvous key (src)");
    world.assert_empty();
}

/// Its sender was told that all is well, so the step is told that it is not.
#[test]
fn a_tensor_of_another_workers_device_ends_the_step() {
    let mut world = world();
    let before = world.recv(STEP, &local("a"));
    let sender = world.send(STEP, &incoming("x"), value(1));
    world.send(STEP, &local("b"), value(2));
    let behind = world.recv(STEP, &local("b"));
    assert_eq!(world.sent(sender), &Ok(()));
    world.initialize(STEP, HERE).unwrap();
    world.settle();
    for receiver in [before, behind] {
        assert_status(
            world.refused(receiver),
            Code::InvalidArgument,
            "Invalid rendezvous key (src)",
        );
    }
    let late = world.send(STEP, &local("a"), value(3));
    assert_status(world.refused(late), Code::InvalidArgument, "Invalid rendezvous key (src)");
    world.assert_empty();
}

#[test]
fn the_same_worker_twice_is_one_and_another_one_is_refused() {
    let mut world = world();
    world.initialize(STEP, HERE).unwrap();
    assert_eq!(world.initialize(STEP, HERE), Ok(()));
    let refused = world.initialize(STEP, NEARLY_HERE).unwrap_err();
    assert_status(&refused, Code::Internal, "Double init!");
    assert_names(&refused, &[HERE, NEARLY_HERE]);
    world.send(STEP, &local("a"), value(1));
    let receiver = world.recv(STEP, &local("a"));
    assert_eq!(world.got(receiver), 1);
}

/// Three who wait and one who was told that its tensor is taken on.
fn all_of_them(world: &mut World) -> [rondo_core::ids::CallId; 3] {
    world.send(STEP, &local("b"), value(1));
    let sender = world.send_waiting(STEP, &local("b"), sized(2, 95));
    let calls = [world.recv(STEP, &local("a")), world.recv_local(STEP, &local("a")), sender];
    assert!(calls.iter().all(|call| world.is_waiting(*call)));
    calls
}

#[test]
fn nobody_is_left_hanging_when_the_step_ends_first() {
    let bounded = || World::new(Config { step_bytes_max: 100, ..bare() });
    let mut world = bounded();
    let calls = all_of_them(&mut world);
    world.cleanup(STEP);
    calls.iter().for_each(|call| assert_status(world.refused(*call), Code::Aborted, "Cleanup 7"));
    world.assert_empty();

    let mut world = bounded();
    let calls = all_of_them(&mut world);
    world.abort(STEP, Status::new(Code::Internal, "broken"));
    calls.iter().for_each(|call| assert_eq!(world.refused(*call).message, "broken"));
    world.assert_empty();
    assert_eq!(world.initialize(STEP, HERE).unwrap_err().message, "broken");

    let mut world = bounded();
    let calls = all_of_them(&mut world);
    world.wait(3_600_000);
    for call in calls {
        assert_status(world.refused(call), Code::Aborted, "step 7 is given up");
        assert_names(world.refused(call), &["3600000 ms", "--rendezvous-step-expiry"]);
    }
    world.assert_empty();
    assert_eq!(world.machine.report().steps, 0);
}

#[test]
fn who_gives_up_before_is_told_and_nothing_happens_to_the_others() {
    let mut world = world();
    let receivers = [0, 1, 2].map(|_| world.recv(STEP, &local("a")));
    let late = world.recv_with(STEP, &local("a"), Default::default(), Some(50));
    world.cancel(receivers[1]);
    world.wait(100);
    assert_eq!(world.refused(receivers[1]).code, Code::Cancelled);
    assert_eq!(world.refused(late).code, Code::DeadlineExceeded);
    world.send(STEP, &local("a"), value(1));
    world.send(STEP, &local("a"), Value { is_dead: true, ..value(2) });
    world.initialize(STEP, HERE).unwrap();
    assert_eq!((world.got(receivers[0]), world.got(receivers[2])), (1, 2));
    world.assert_empty();
}

/// The time that a receiver waits begins when it asks, not when its step does.
#[test]
fn a_receivers_time_goes_on_when_its_step_is_initialised() {
    let mut world = world();
    let receiver = world.recv_within(STEP, &local("a"), 100);
    world.wait(60);
    world.initialize(STEP, HERE).unwrap();
    world.wait(39);
    assert!(world.is_waiting(receiver));
    world.wait(1);
    assert_eq!(world.refused(receiver).code, Code::DeadlineExceeded);
}

#[test]
fn bounds_hold_before_too() {
    let mut world = World::new(Config { step_bytes_max: 25, calls_max: 1, ..bare() });
    world.send(STEP, &local("a"), value(1));
    world.send(STEP, &local("a"), value(2));
    let refused = world.send(STEP, &local("a"), value(3));
    assert_eq!(world.refused(refused).code, Code::ResourceExhausted);
    assert_names(world.refused(refused), &["--rendezvous-step-size-max", "25 bytes", "20 bytes"]);
    let waits = world.send_waiting(STEP, &local("a"), value(4));
    let refused = world.send_waiting(STEP, &local("a"), value(5));
    assert_names(world.refused(refused), &["--rendezvous-calls-max"]);
    let refused = world.recv(STEP, &local("a"));
    assert_names(world.refused(refused), &["--rendezvous-calls-max"]);
    world.initialize(STEP, HERE).unwrap();
    let got = [0, 1, 2].map(|_| {
        let receiver = world.recv(STEP, &local("a"));
        world.got(receiver)
    });
    assert_eq!((got, world.sent(waits)), ([1, 2, 4], &Ok(())));
    world.assert_empty();
}

/// Another worker lost its way and asks again, before the step is initialised.
#[test]
fn all_who_made_one_request_before_are_answered() {
    let mut world = world();
    let calls = [0, 1, 2].map(|_| world.request(STEP, &outgoing("a"), keeps(5)));
    world.send(STEP, &outgoing("a"), value(1));
    world.cancel(calls[0]);
    world.initialize(STEP, HERE).unwrap();
    assert_eq!((world.got(calls[1]), world.got(calls[2])), (1, 1));
    world.finished(5);
    world.assert_empty();
}

/// What is asked again when the tensor is not there at the time of the beginning.
#[test]
fn all_who_made_one_request_before_wait_on_together() {
    let mut world = world();
    let calls = [0, 1].map(|_| world.request(STEP, &outgoing("a"), keeps(5)));
    world.initialize(STEP, HERE).unwrap();
    assert!(calls.iter().all(|call| world.is_waiting(*call)));
    world.send(STEP, &outgoing("a"), value(1));
    assert_eq!(calls.map(|call| world.got(call)), [1, 1]);
}

/// Room that a tensor took that is none of this worker goes to a sender that waits for some.
#[test]
fn room_of_a_refused_tensor_is_given_to_who_waits() {
    let mut world = World::new(Config { bytes_max: 10, ..bare() });
    world.send(STEP, &incoming("x"), value(1));
    let other = rondo_core::ids::StepId::new(8);
    world.initialize(other, HERE).unwrap();
    let sender = world.send_waiting(other, &local("a"), value(2));
    assert!(world.is_waiting(sender));
    world.initialize(STEP, HERE).unwrap();
    world.settle();
    assert_eq!(world.sent(sender), &Ok(()));
}

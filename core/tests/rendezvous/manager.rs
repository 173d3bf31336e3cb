//! Many steps: how they begin, and how they are cleaned up.

use rondo_core::rendezvous::{Config, Input, Rendezvous};
use rondo_core::status::{Code, Status};

use crate::story::{
    HERE, OTHER_STEP, STEP, assert_names, assert_status, bare, config, local, outgoing, session,
    value,
};
use crate::world::World;

#[test]
fn what_is_sent_here_is_received_in_the_place_of_another_worker() {
    let mut world = World::new(config());
    world.send(STEP, &outgoing("a"), value(1));
    let early = world.recv_local(STEP, &outgoing("b"));
    let late = world.recv_local(STEP, &outgoing("a"));
    world.send(STEP, &outgoing("b"), value(2));
    assert_eq!((world.got(late), world.got(early)), (1, 2));
    world.assert_empty();
}

#[test]
fn an_abort_reaches_those_who_ask_for_another_worker() {
    let mut world = World::new(config());
    let receiver = world.recv_local(STEP, &outgoing("a"));
    world.abort(STEP, Status::new(Code::Internal, "broken"));
    assert_eq!(world.refused(receiver), &Status::new(Code::Internal, "broken"));
    let late = world.recv_local(STEP, &outgoing("a"));
    assert_eq!(world.refused(late).message, "broken");
}

#[test]
fn a_request_that_is_given_up_takes_no_tensor_and_ends_no_step() {
    let mut world = World::new(config());
    let receiver = world.recv_local(STEP, &outgoing("a"));
    world.cancel(receiver);
    assert_eq!(world.refused(receiver).code, Code::Cancelled);
    world.send(STEP, &outgoing("a"), value(1));
    let next = world.recv_local(STEP, &outgoing("a"));
    world.cancel(next);
    assert_eq!(world.got(next), 1);
    world.assert_empty();
}

#[test]
fn to_find_a_step_begins_it_once() {
    let mut world = World::new(bare());
    assert_eq!(world.find(STEP), Ok(()));
    let receiver = world.recv_local(STEP, &outgoing("a"));
    assert_eq!((world.find(STEP), world.machine.report().steps), (Ok(()), 1));
    assert!(world.is_waiting(receiver));
    let step = world.machine.each_step().next().unwrap();
    assert_eq!((step.step, step.is_initialized, step.waiting), (STEP, false, 1));
}

#[test]
fn a_step_that_is_cleaned_up_tells_all_who_wait_and_holds_nothing() {
    let mut world = World::new(config());
    let receivers = [world.recv(STEP, &local("a")), world.recv_local(STEP, &outgoing("b"))];
    world.send(STEP, &local("c"), value(1));
    let elsewhere = world.recv(OTHER_STEP, &local("a"));
    world.cleanup(STEP);
    for receiver in receivers {
        assert_status(world.refused(receiver), Code::Aborted, "Cleanup 7");
    }
    assert_eq!((world.machine.report().steps, world.machine.report().held.bytes), (1, 0));
    assert!(world.is_waiting(elsewhere));
    world.cleanup(STEP);
    world.cleanup(OTHER_STEP);
    world.assert_empty();
}

#[test]
fn a_step_may_begin_again_under_the_number_of_one_that_was_cleaned_up() {
    let mut world = World::new(config());
    world.send(STEP, &local("a"), value(1));
    world.abort(STEP, Status::new(Code::Internal, "broken"));
    world.cleanup(STEP);
    let receiver = world.recv(STEP, &local("a"));
    assert!(world.is_waiting(receiver), "what was sent before is gone");
    world.send(STEP, &local("a"), value(2));
    assert_eq!(world.got(receiver), 2);
}

#[test]
fn a_worker_that_ends_tells_all() {
    let mut world = World::new(config());
    let receivers = [world.recv(STEP, &local("a")), world.recv(OTHER_STEP, &local("b"))];
    world.send(STEP, &local("c"), value(1));
    world.step(Input::CleanupAll);
    for receiver in receivers {
        assert_eq!(world.refused(receiver), &Status::new(Code::Aborted, "Shutdown"));
    }
    assert_eq!(world.machine.report().steps, 0);
    world.assert_empty();
}

#[test]
fn no_more_steps_than_are_allowed() {
    let mut world = World::new(Config { steps_max: 1, ..config() });
    world.send(STEP, &local("a"), value(1));
    let refused = world.find(OTHER_STEP).unwrap_err();
    assert_status(&refused, Code::ResourceExhausted, "step -8 cannot begin");
    assert_names(&refused, &["1 steps", "--rendezvous-steps-max"]);
    let calls =
        [world.send(OTHER_STEP, &local("a"), value(2)), world.recv(OTHER_STEP, &local("a"))];
    calls.iter().for_each(|call| assert_eq!(world.refused(*call), &refused));
    world.cleanup(STEP);
    assert_eq!(world.find(OTHER_STEP), Ok(()));
}

#[test]
fn a_worker_has_a_workers_name() {
    for name in [
        "",
        "/",
        "/job:w",
        "/job:w/replica:0/task:*",
        "w:1",
        "/job:w/replica:0/task:1/device:CPU:0",
    ] {
        let config = Config { session: Some(session(name)), ..bare() };
        let refused = Rendezvous::<u32>::start(config).unwrap_err();
        assert_eq!(refused.code, Code::InvalidArgument, "{name}");
        assert_names(&refused, &[&format!("{name:?}"), "/job:NAME/replica:N/task:N"]);
        let mut world = World::new(bare());
        assert_eq!(world.initialize(STEP, name), Err(refused));
    }
    assert!(Rendezvous::<u32>::start(Config { session: Some(session(HERE)), ..bare() }).is_ok());
}

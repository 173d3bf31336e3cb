//! Steps in which very many wait: they are told a few at a time.

use rondo_core::ids::{CallId, StepId};
use rondo_core::limits::RENDEZVOUS_ITEMS_PER_STEP_MAX;
use rondo_core::rendezvous::{Args, Config, Failure, Input, check};
use rondo_core::status::{Code, Status};

use crate::story::{HERE, STEP, bare, config, incoming, keeps, local, outgoing, sized, value};
use crate::world::World;

const MANY: usize = 1000;

/// Steps until all is done, and how many were told at most in one.
fn settle_in_slices(world: &mut World, input: Input<u32>) -> usize {
    let mut most = 0;
    let mut next = Some(input);
    while let Some(input) = next {
        let before = world.answered.len();
        world.step(input);
        most = most.max(world.answered.len() - before);
        let is_due = world.machine.deadline().is_some_and(|at| at <= world.now);
        next = is_due.then_some(Input::Tick);
    }
    most
}

#[test]
fn a_step_that_ends_tells_some_at_a_time() {
    for input in [
        Input::Cleanup { step: STEP },
        Input::CleanupAll,
        Input::Abort { step: STEP, status: Status::new(Code::Internal, "over") },
    ] {
        let mut world = World::new(config());
        for nth in 0..MANY {
            world.recv(STEP, &local(&format!("{}", nth % 300)));
            world.recv(STEP, &incoming("a"));
            world.send(STEP, &local("sent"), value(1));
            world.request(STEP, &outgoing("kept"), keeps(1 + i64::try_from(nth / 10).unwrap()));
        }
        let most = settle_in_slices(&mut world, input);
        assert!(most <= RENDEZVOUS_ITEMS_PER_STEP_MAX + 10, "{most} at once");
        world.assert_empty();
    }
}

#[test]
fn a_step_that_is_not_initialised_ends_in_slices_too() {
    let mut world = World::new(Config { step_bytes_max: 100, ..bare() });
    for _ in 0..MANY {
        world.recv(STEP, &local("a"));
        world.send_waiting(STEP, &local("b"), value(1));
    }
    let most = settle_in_slices(&mut world, Input::Cleanup { step: STEP });
    assert!(most <= RENDEZVOUS_ITEMS_PER_STEP_MAX, "{most} at once");
    world.assert_empty();
}

/// Whatever comes meanwhile comes behind what was there before.
#[test]
fn a_step_begins_in_slices_and_in_order() {
    for many in [1, RENDEZVOUS_ITEMS_PER_STEP_MAX, MANY] {
        let mut world = World::new(bare());
        for tensor in 0..many {
            world.send(STEP, &local("a"), value(u32::try_from(tensor).unwrap()));
        }
        world.initialize(STEP, HERE).unwrap();
        check(&world.machine).unwrap();
        let first = world.recv(STEP, &local("a"));
        let last = world.send(STEP, &local("a"), value(77_777));
        world.settle();
        assert_eq!((world.got(first), world.sent(last)), (0, &Ok(())));
        let rest = (1..many).chain([77_777]);
        for tensor in rest {
            let receiver = world.recv(STEP, &local("a"));
            assert_eq!(world.got(receiver) as usize, tensor, "of {many}");
        }
        world.assert_empty();
    }
}

#[test]
fn two_steps_that_begin_at_once() {
    let mut world = World::new(bare());
    let steps = [STEP, StepId::new(8)];
    for _ in 0..MANY {
        world.recv(STEP, &local("a"));
    }
    let call = world.recv(steps[1], &local("a"));
    for step in steps {
        world.initialize(step, HERE).unwrap();
    }
    // The only one of the second step gives up while there is more to do in the first one.
    world.cancel(call);
    check(&world.machine).unwrap();
    world.settle();
    assert_eq!(world.machine.report().waiting, MANY);
}

/// Those of a step that ended are told that it did, whatever happens to them meanwhile.
#[test]
fn who_is_about_to_be_told_is_told_once() {
    let mut world = World::new(config());
    let mut calls = Vec::new();
    calls.extend((0..MANY).map(|_| world.recv_within(STEP, &incoming("a"), 50)));
    for nth in 0..MANY {
        calls.push(world.recv_within(STEP, &local(&format!("{}", nth % 300)), 50));
    }
    calls.extend((0..200).map(|_| world.request(STEP, &outgoing("kept"), keeps(5))));
    world.step(Input::Cleanup { step: STEP });
    let waiting: Vec<CallId> =
        calls.iter().copied().filter(|call| world.is_waiting(*call)).collect();
    assert!(waiting.len() > MANY);
    // The step begins anew under its number.
    let anew = world.recv(STEP, &local("1"));
    world.now = world.now.after(rondo_core::time::Duration::from_millis(60));
    world.step(Input::Tick);
    check(&world.machine).unwrap();
    world.cancel(waiting[0]);
    world.fetched(waiting[1], value(1));
    world.not_fetched(waiting[2], Failure::Away(Status::new(Code::Unavailable, "away")));
    world.settle();
    for call in waiting {
        assert_eq!(world.refused(call), &Status::new(Code::Aborted, "Cleanup 7"));
    }
    assert!(world.is_waiting(anew));
    let again = world.request(STEP, &outgoing("kept"), keeps(5));
    assert!(world.refused(again).message.contains("received twice"));
}

/// Room that the end of a step makes is not given to senders of the same step.
#[test]
fn senders_of_a_step_that_ended_are_not_told_that_there_is_room() {
    for aborts in [true, false] {
        let mut world = World::new(Config { bytes_max: 10_000, ..config() });
        for nth in 0..MANY {
            world.send(STEP, &local(&format!("held {nth}")), sized(1, 10));
        }
        let senders: Vec<CallId> = (0..MANY)
            .map(|nth| world.send_waiting(STEP, &local(&format!("waits {nth}")), sized(2, 10)))
            .collect();
        let other = world.send_waiting(StepId::new(8), &local("a"), value(3));
        let status = Status::new(Code::Internal, "over");
        world.step(match aborts {
            true => Input::Abort { step: STEP, status },
            false => Input::Cleanup { step: STEP },
        });
        world.settle();
        senders.iter().for_each(|call| drop(world.refused(*call).clone()));
        assert_eq!(world.sent(other), &Ok(()));
        assert_eq!(world.machine.report().held.tensors, 1);
    }
}

#[test]
fn very_many_whose_time_is_over() {
    let mut world = World::new(config());
    for _ in 0..MANY {
        let args = Args::default();
        world.recv_with(STEP, &local("a"), args, Some(50));
    }
    world.wait(60);
    world.assert_empty();
}

/// A client that asks again and again before it is answered.
#[test]
fn so_many_follow_one_request_and_no_more() {
    let mut world = World::new(config());
    let calls: Vec<CallId> = (0..RENDEZVOUS_ITEMS_PER_STEP_MAX + 2)
        .map(|_| world.request(STEP, &outgoing("a"), keeps(5)))
        .collect();
    let (last, others) = calls.split_last().unwrap();
    assert!(world.refused(*last).message.contains("received twice"));
    world.send(STEP, &outgoing("a"), value(1));
    others.iter().for_each(|call| assert_eq!(world.got(*call), 1));
}

/// A step that is initialised knows what is not of its worker, even while there is more to do.
#[test]
fn a_tensor_of_another_worker_is_refused_while_a_step_begins() {
    let mut world = World::new(bare());
    for _ in 0..MANY {
        world.recv(STEP, &local("a"));
    }
    world.initialize(STEP, HERE).unwrap();
    let sender = world.send(STEP, &incoming("a"), value(1));
    assert_eq!(world.refused(sender).code, Code::InvalidArgument);
    world.settle();
    assert_eq!(world.machine.report().waiting, MANY);
}

//! One step: tensors and receivers meet under their key, in order, and each receiver is told once.

use rondo_core::rendezvous::{Args, Value, is_derived};
use rondo_core::status::{Code, Status};

use crate::story::{OTHER_STEP, STEP, assert_status, config, local, value};
use crate::world::World;

fn world() -> World {
    World::new(config())
}

#[test]
fn sent_then_received() {
    let mut world = world();
    let sender = world.send(STEP, &local("a"), value(1));
    assert_eq!(world.sent(sender), &Ok(()));
    let held = world.machine.report().held;
    assert_eq!((held.tensors, held.bytes), (1, 10));
    let receiver = world.recv(STEP, &local("a"));
    assert_eq!(world.got(receiver), 1);
    world.assert_empty();
}

#[test]
fn received_then_sent() {
    let mut world = world();
    let receiver = world.recv(STEP, &local("a"));
    assert!(world.is_waiting(receiver));
    let sender = world.send(STEP, &local("a"), value(1));
    assert_eq!((world.got(receiver), world.sent(sender)), (1, &Ok(())));
    world.assert_empty();
}

#[test]
fn ping_pong() {
    let mut world = world();
    for turn in 0..100 {
        let pong = world.recv(STEP, &local("pong"));
        let ping = world.recv(STEP, &local("ping"));
        world.send(STEP, &local("ping"), value(turn));
        let seen = world.got(ping);
        world.send(STEP, &local("pong"), value(seen + 1000));
        assert_eq!(world.got(pong), turn + 1000);
    }
    world.assert_empty();
}

#[test]
fn steps_and_keys_are_apart() {
    let mut world = world();
    let receiver = world.recv(STEP, &local("a"));
    world.send(OTHER_STEP, &local("a"), value(1));
    world.send(STEP, &local("b"), value(2));
    assert!(world.is_waiting(receiver));
    let others = [world.recv(OTHER_STEP, &local("a")), world.recv(STEP, &local("b"))];
    assert_eq!(others.map(|call| world.got(call)), [1, 2]);
}

#[test]
fn who_gives_up_first_is_told_and_takes_no_tensor_along() {
    let mut world = world();
    let receiver = world.recv(STEP, &local("a"));
    world.cancel(receiver);
    let status = world.refused(receiver).clone();
    assert_eq!(status, Status::new(Code::Cancelled, "[_Derived_]RecvAsync is cancelled."));
    assert!(is_derived(&status));
    world.send(STEP, &local("a"), value(1));
    let next = world.recv(STEP, &local("a"));
    assert_eq!(world.got(next), 1);
    world.assert_empty();
}

#[test]
fn who_gives_up_with_the_tensor_in_hand_keeps_it() {
    let mut world = world();
    let receiver = world.recv(STEP, &local("a"));
    world.send(STEP, &local("a"), value(1));
    world.cancel(receiver);
    assert_eq!(world.got(receiver), 1);
    world.assert_empty();
}

#[test]
fn the_last_one_that_gives_up_leaves_nothing_behind() {
    let mut world = world();
    let receivers = [0, 1, 2].map(|_| world.recv(STEP, &local("a")));
    receivers.iter().for_each(|receiver| world.cancel(*receiver));
    world.cancel(receivers[0]);
    world.assert_empty();
    assert_eq!(world.machine.each_step().map(|step| step.waiting).sum::<usize>(), 0);
}

#[test]
fn of_four_two_give_up_and_the_others_are_served_in_order() {
    for given_up in [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]] {
        let mut world = world();
        let receivers = [0, 1, 2, 3].map(|_| world.recv(STEP, &local("a")));
        given_up.iter().for_each(|nth| world.cancel(receivers[*nth]));
        world.send(STEP, &local("a"), value(10));
        world.send(STEP, &local("a"), value(11));
        let stayed = (0..4).filter(|nth| !given_up.contains(nth));
        let got: Vec<u32> = stayed.map(|nth| world.got(receivers[nth])).collect();
        assert_eq!(got, [10, 11], "{given_up:?} gave up");
        world.assert_empty();
    }
}

#[test]
fn a_hundred_keys_in_any_order() {
    let mut world = world();
    let key = |nth: u32| local(&format!("edge {nth}"));
    // 37 and 100 have no divisor in common: each number comes once.
    let receivers: Vec<_> = (0..100_u32)
        .map(|nth| {
            let (sent, wanted) = (nth * 37 % 100, nth * 63 % 100);
            world.send(STEP, &key(sent), value(sent));
            (wanted, world.recv(STEP, &key(wanted)))
        })
        .collect();
    for (wanted, receiver) in receivers {
        assert_eq!(world.got(receiver), wanted);
    }
    world.assert_empty();
}

#[test]
fn a_hundred_values_under_one_key_come_in_their_order() {
    let mut world = world();
    for first in [true, false] {
        let mut receivers = Vec::new();
        if first {
            receivers.extend((0..100).map(|_| world.recv(STEP, &local("a"))));
        }
        for tensor in 0..100 {
            world.send(STEP, &local("a"), value(tensor));
        }
        if !first {
            receivers.extend((0..100).map(|_| world.recv(STEP, &local("a"))));
        }
        let got: Vec<u32> = receivers.iter().map(|call| world.got(*call)).collect();
        assert!(got.iter().copied().eq(0..100), "{got:?}");
    }
    world.assert_empty();
}

#[test]
fn an_abort_reaches_who_waits_and_drops_what_was_sent() {
    let mut world = world();
    let receivers = [world.recv(STEP, &local("a")), world.recv(STEP, &local("b"))];
    world.send(STEP, &local("c"), value(1));
    let elsewhere = world.recv(OTHER_STEP, &local("a"));
    world.abort(STEP, Status::new(Code::Internal, "broken"));
    for receiver in receivers {
        assert_eq!(world.refused(receiver), &Status::new(Code::Internal, "broken"));
    }
    assert!(world.is_waiting(elsewhere));
    assert_eq!(world.machine.report().held.tensors, 0);
}

#[test]
fn after_an_abort_everybody_is_told_at_once_and_the_first_reason_stays() {
    let mut world = world();
    world.abort(STEP, Status::new(Code::Internal, "first"));
    world.abort(STEP, Status::new(Code::Internal, "second"));
    let calls = [
        world.send(STEP, &local("a"), value(1)),
        world.recv(STEP, &local("a")),
        world.recv_local(STEP, &local("a")),
    ];
    for call in calls {
        assert_eq!(world.refused(call).message, "first");
    }
    world.assert_empty();
}

/// Of several errors of a step those that only follow from others are not shown.
#[test]
fn an_abort_that_follows_from_another_one_says_so() {
    for (code, follows) in [(Code::Cancelled, true), (Code::Aborted, true), (Code::Internal, false)]
    {
        let mut world = world();
        let receiver = world.recv(STEP, &local("a"));
        world.abort(STEP, Status::new(code, "over"));
        let status = world.refused(receiver);
        assert_eq!((is_derived(status), status.code), (follows, code));
        let begins = if follows { "[_Derived_]over" } else { "over" };
        assert_status(status, code, begins);
    }
}

#[test]
fn both_sides_say_where_their_memory_is() {
    let sent = Args { device_context: 3, on_host: true, ..Args::default() };
    let wanted =
        Args { device_context: 4, gpu_compatible: true, nic_compatible: true, on_host: false };
    for first in [true, false] {
        let mut world = world();
        let before = first.then(|| world.recv_with(STEP, &local("a"), wanted, None));
        world.send_with(STEP, &local("a"), value(1), sent, false);
        let receiver = before.unwrap_or_else(|| world.recv_with(STEP, &local("a"), wanted, None));
        let delivery = world.delivery(receiver);
        assert_eq!((delivery.sent, delivery.received), (sent, wanted));
    }
}

/// Of another worker's memory nothing is known here.
#[test]
fn who_asks_for_another_worker_says_nothing_of_memory() {
    let mut world = world();
    let sent = Args { device_context: 3, ..Args::default() };
    world.send_with(STEP, &local("a"), value(1), sent, false);
    let receiver = world.recv_local(STEP, &local("a"));
    let delivery = world.delivery(receiver);
    assert_eq!((delivery.sent, delivery.received), (sent, Args::default()));
}

#[test]
fn dead_tensors_are_handed_over_as_such() {
    let mut world = world();
    let dead = |tensor| Value { is_dead: true, ..value(tensor) };
    let early = world.recv(STEP, &local("a"));
    world.send(STEP, &local("a"), dead(1));
    world.send(STEP, &local("a"), value(2));
    world.send(STEP, &local("a"), dead(3));
    let late = [world.recv(STEP, &local("a")), world.recv(STEP, &local("a"))];
    let is_dead = [early, late[0], late[1]].map(|call| world.delivery(call).value.is_dead);
    assert_eq!(is_dead, [true, false, true]);
}

//! Whose devices a key names, and in which run of them.

use rondo_core::ids::StepId;
use rondo_core::rendezvous::{FrameAndIter, Key};
use rondo_core::status::Code;

use crate::story::{
    HERE, INCARNATION, NEARLY_HERE, STEP, THERE, asks, assert_names, assert_status, bare, between,
    config, incoming, keeps, local, outgoing, value,
};
use crate::world::World;

fn world() -> World {
    World::new(config())
}

fn key(source: &str, incarnation: u64, destination: &str) -> Key {
    Key::create(source, incarnation, destination, "edge", FrameAndIter::default()).unwrap()
}

#[test]
fn who_sends_sends_from_here() {
    let mut world = world();
    for source in
        [THERE, NEARLY_HERE, "/job:w/replica:1/task:1", "/job:v/replica:0/task:1", "/task:1"]
    {
        let key = between(source, HERE, "a");
        let sender = world.send(STEP, &key, value(1));
        assert_status(world.refused(sender), Code::InvalidArgument, "Invalid rendezvous key (src)");
        assert_names(world.refused(sender), &[key.text(), HERE]);
    }
    world.assert_empty();
}

#[test]
fn who_receives_receives_here() {
    let mut world = world();
    for destination in [THERE, NEARLY_HERE, "/replica:0/task:1"] {
        let receiver = world.recv(STEP, &between(HERE, destination, "a"));
        assert_status(
            world.refused(receiver),
            Code::InvalidArgument,
            "Invalid rendezvous key (dst)",
        );
    }
    world.assert_empty();
}

#[test]
fn who_asks_in_the_place_of_others_asks_for_tensors_of_here() {
    let mut world = world();
    for source in [THERE, NEARLY_HERE] {
        let receiver = world.recv_local(STEP, &between(source, HERE, "a"));
        assert_status(
            world.refused(receiver),
            Code::InvalidArgument,
            "Invalid rendezvous key (src)",
        );
        let receiver = world.request(STEP, &between(source, HERE, "a"), asks(0));
        assert_status(
            world.refused(receiver),
            Code::InvalidArgument,
            "Invalid rendezvous key (src)",
        );
    }
    world.assert_empty();
}

/// A device without any component is one of this process.
#[test]
fn a_device_of_which_nothing_is_said_is_here() {
    let mut world = world();
    for nothing in ["", "/"] {
        let key = key(nothing, 0, nothing);
        world.send(STEP, &key, value(1));
        let receiver = world.recv(STEP, &key);
        assert_eq!(world.got(receiver), 1);
    }
    assert!(world.fetches.is_empty());
    world.assert_empty();
}

#[test]
fn components_may_stand_in_any_order() {
    let mut world = world();
    let key = key("/cpu:0/task:1/job:w/replica:0", INCARNATION, "/replica:0/job:w/task:1/GPU:3");
    let receiver = world.recv(STEP, &key);
    world.send(STEP, &key, value(1));
    assert_eq!(world.got(receiver), 1);
}

#[test]
fn a_source_that_names_no_worker_is_asked_nowhere() {
    let mut world = world();
    let receiver =
        world.recv(STEP, &key("/job:w/device:CPU:0", 1, &format!("{HERE}/device:CPU:0")));
    assert_status(
        world.refused(receiver),
        Code::Internal,
        "No worker known as \"/job:w/device:CPU:0\"",
    );
    assert!(world.fetches.is_empty());
}

#[test]
fn tensors_of_others_are_fetched_from_them() {
    let mut world = world();
    let receivers =
        [incoming("a"), between(NEARLY_HERE, HERE, "a")].map(|key| world.recv(STEP, &key));
    let asked: Vec<_> = world.fetches.iter().map(|it| (it.call, it.worker.as_str())).collect();
    assert_eq!(asked, [(receivers[0], THERE), (receivers[1], NEARLY_HERE)]);
}

#[test]
fn a_device_that_is_not_there() {
    let mut world = world();
    let here = |device: &str| key(&format!("{HERE}/{device}"), INCARNATION, THERE);
    let receiver = world.request(STEP, &here("device:GPU:7"), asks(1));
    assert_status(world.refused(receiver), Code::InvalidArgument, "/device:GPU:7 unknown device.");
    assert_names(world.refused(receiver), &["/device:CPU:0"]);
    for (request, device) in [(2, "device:CPU"), (3, "device:CPU:*")] {
        let receiver = world.request(STEP, &here(device), asks(request));
        assert_status(
            world.refused(receiver),
            Code::InvalidArgument,
            &format!("\"{HERE}/{device}"),
        );
        assert_names(world.refused(receiver), &["unknown device"]);
    }
    // The short form names the same one.
    world.send(STEP, &here("cpu:0"), value(1));
    let receiver = world.request(STEP, &here("cpu:0"), asks(4));
    assert_eq!(world.got(receiver), 1);
    world.assert_empty();
}

#[test]
fn a_device_of_an_earlier_run() {
    let mut world = world();
    let key = key(&format!("{HERE}/device:CPU:0"), 7890, THERE);
    let receiver = world.request(STEP, &key, asks(1));
    let begins = format!(
        "RecvTensor expects a different device incarnation: 7890 vs. {INCARNATION}. Your worker job"
    );
    assert_status(world.refused(receiver), Code::Aborted, &begins);
    assert_names(world.refused(receiver), &["was probably restarted", HERE]);
    // Whoever is here knows which run it is.
    let receiver = world.recv_local(STEP, &key);
    assert!(world.is_waiting(receiver));
}

/// Whoever learnt the incarnations anew may ask under the same id, if the answer was to be kept.
#[test]
fn what_was_refused_for_its_device_was_not_asked_for() {
    let mut world = world();
    let before = key(&format!("{HERE}/device:CPU:0"), 7890, THERE);
    let refused = world.request(STEP, &before, keeps(1));
    assert_eq!(world.refused(refused).code, Code::Aborted);
    world.send(STEP, &outgoing("a"), value(1));
    let receiver = world.request(STEP, &outgoing("a"), keeps(1));
    assert_eq!(world.got(receiver), 1);
}

#[test]
fn a_step_without_a_worker_knows_its_devices_all_the_same() {
    let mut world = World::new(bare());
    let key = key(&format!("{HERE}/device:GPU:7"), INCARNATION, THERE);
    let receiver = world.request(STEP, &key, asks(1));
    assert_status(world.refused(receiver), Code::InvalidArgument, "/device:GPU:7 unknown device.");
    let steps: Vec<StepId> = world.machine.each_step().map(|step| step.step).collect();
    assert_eq!(steps, [], "what is refused begins no step");
    let receiver = world.request(STEP, &local("a"), asks(2));
    assert!(world.is_waiting(receiver));
}

//! Tensors of other workers: asked for under one id until they come, or nobody wants them any more.

use std::collections::BTreeSet;

use rondo_core::rendezvous::{Config, Event, Failure, Input};
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;

use crate::story::{STEP, THERE, assert_names, assert_status, config, incoming, sized, value};
use crate::world::World;

fn world() -> World {
    World::new(config())
}

fn away(text: &str) -> Failure {
    Failure::Away(Status::new(Code::Unavailable, text))
}

#[test]
fn a_tensor_is_asked_for_once_and_given_to_who_wants_it() {
    let mut world = world();
    let args = rondo_core::rendezvous::Args { device_context: 9, ..Default::default() };
    let receiver = world.recv_with(STEP, &incoming("a"), args, None);
    let fetch = world.fetches[0].clone();
    assert_eq!((fetch.call, fetch.worker.as_str(), fetch.key), (receiver, THERE, incoming("a")));
    world.fetched(receiver, sized(1, 1 << 40));
    assert_eq!((world.got(receiver), world.delivery(receiver).received), (1, args));
    world.fetched(receiver, value(2));
    world.assert_empty();
}

#[test]
fn ids_differ_and_are_never_nothing() {
    let mut world = world();
    for _ in 0..200 {
        world.recv(STEP, &incoming("a"));
    }
    let ids: BTreeSet<i64> = world.fetches.iter().map(|fetch| fetch.request.get()).collect();
    assert!(ids.len() == 200 && !ids.contains(&0));
    let mut other = World::new(Config { entropy: 18, ..config() });
    other.recv(STEP, &incoming("a"));
    assert!(!ids.contains(&other.fetches[0].request.get()));
}

#[test]
fn what_the_other_worker_says_is_handed_on() {
    let mut world = world();
    let receiver = world.recv(STEP, &incoming("a"));
    let status = Status::new(Code::Aborted, "RecvTensor expects a different device incarnation");
    world.not_fetched(receiver, Failure::Refused(status.clone()));
    assert_eq!(world.refused(receiver), &status);
    world.assert_empty();
}

#[test]
fn a_worker_that_is_away_is_asked_again_under_the_same_id_until_it_is_there() {
    let mut world = world();
    let receiver = world.recv(STEP, &incoming("a"));
    for _ in 0..4 {
        world.not_fetched(receiver, away("connection refused"));
        let asked = world.fetches.len();
        world.wait(1_600);
        assert_eq!(
            world.fetches.len(),
            asked + 1,
            "asked once more, and not again before it answers"
        );
    }
    let ids: BTreeSet<i64> = world.fetches.iter().map(|fetch| fetch.request.get()).collect();
    assert_eq!(ids.len(), 1);
    let again = world.events.iter().filter(|it| matches!(it, Event::FetchedAgain { .. }));
    assert_eq!(again.count(), 4);
    world.fetched(receiver, value(1));
    assert_eq!(world.got(receiver), 1);
}

/// Answers at once that it is away, until its patience is at an end.
#[test]
fn pauses_grow_and_patience_ends() {
    let mut world = world();
    let receiver = world.recv(STEP, &incoming("a"));
    let begun = world.now;
    while world.is_waiting(receiver) {
        world.not_fetched(receiver, away("connection refused"));
        if let Some(at) = world.machine.deadline().filter(|_| world.is_waiting(receiver)) {
            world.wait(at.since(world.now).as_millis());
        }
    }
    let times: Vec<u64> = world.fetches.iter().map(|it| it.at.since(begun).as_millis()).collect();
    assert_eq!(times[..8], [0, 50, 150, 350, 750, 1_550, 3_150, 4_750]);
    let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert_eq!((longest, times.last()), (Some(1_600), Some(&30_000)));
    let status = world.refused(receiver);
    assert_status(status, Code::Unavailable, &format!("{THERE} cannot be reached"));
    assert_names(status, &["30000 ms", "--rendezvous-peer-patience", "connection refused"]);
    world.assert_empty();
}

/// Its connection was refused once at the beginning; then it was there for ten minutes.
#[test]
fn patience_begins_anew_with_a_worker_that_was_there_meanwhile() {
    let mut world = world();
    let receiver = world.recv(STEP, &incoming("a"));
    world.not_fetched(receiver, away("connection refused"));
    world.wait(600_000);
    world.not_fetched(receiver, away("connection reset"));
    assert!(world.is_waiting(receiver));
    world.wait(50);
    assert_eq!(world.fetches.len(), 3);
    world.fetched(receiver, value(1));
    assert_eq!(world.got(receiver), 1);
}

#[test]
fn who_has_no_patience_is_told_at_once() {
    let mut world = World::new(Config { patience: Duration::ZERO, ..config() });
    let receiver = world.recv(STEP, &incoming("a"));
    world.not_fetched(receiver, away("connection refused"));
    assert_eq!(world.refused(receiver).code, Code::Unavailable);
}

#[test]
fn a_tensor_that_may_be_lost_is_not_asked_for_again() {
    let mut world = world();
    let receiver = world.recv(STEP, &incoming("a"));
    world.not_fetched(receiver, Failure::Lost(Status::new(Code::Unavailable, "connection reset")));
    let status = world.refused(receiver);
    assert_status(status, Code::Unavailable, &format!("the connection to {THERE} broke"));
    assert_names(status, &[incoming("a").text(), "connection reset"]);
    world.wait(60_000);
    assert_eq!(world.fetches.len(), 1);
}

#[test]
fn who_gives_up_withdraws_its_request() {
    for is_away in [false, true] {
        let mut world = world();
        let receivers = [0, 1].map(|_| world.recv(STEP, &incoming("a")));
        if is_away {
            world.not_fetched(receivers[0], away("connection refused"));
        }
        world.cancel(receivers[0]);
        assert_eq!(world.refused(receivers[0]).code, Code::Cancelled);
        assert_eq!(world.withdrawn, [receivers[0]]);
        world.fetched(receivers[0], value(1));
        world.wait(5_000);
        assert_eq!(world.fetches.len(), 2, "nothing more is asked for");
        assert!(world.is_waiting(receivers[1]));
    }
}

#[test]
fn all_is_withdrawn_when_the_step_ends() {
    let ends: [fn(&mut World); 3] = [
        |world| world.abort(STEP, Status::new(Code::Internal, "over")),
        |world| world.cleanup(STEP),
        |world| world.step(Input::CleanupAll),
    ];
    for (end, begins) in ends.iter().zip(["over", "Cleanup 7", "Shutdown"]) {
        let mut world = world();
        let receivers = [0, 1].map(|_| world.recv(STEP, &incoming("a")));
        end(&mut world);
        for receiver in receivers {
            assert!(world.refused(receiver).message.starts_with(begins));
            world.fetched(receiver, value(1));
            world.not_fetched(receiver, away("too late"));
        }
        assert_eq!(world.withdrawn, receivers);
        world.assert_empty();
    }
}

/// Where the abort came between, nothing is asked for any more.
#[test]
fn after_an_abort_nothing_is_asked_for() {
    let mut world = world();
    let receiver = world.recv(STEP, &incoming("a"));
    world.not_fetched(receiver, away("connection refused"));
    world.abort(STEP, Status::new(Code::Internal, "over"));
    let late = world.recv(STEP, &incoming("a"));
    assert_eq!(world.refused(late).message, "over");
    world.wait(5_000);
    assert_eq!(world.fetches.len(), 1);
}

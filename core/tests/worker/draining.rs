//! Stopping in order.

use rondo_core::ids::TaskId;
use rondo_core::status::Code;
use rondo_core::worker::{Answer, Ask, Effect, From, Input, Part, TaskDef, Then};

use crate::world::{World, ask, task};

fn drained(left_behind: u64) -> Vec<Effect> {
    vec![Effect::Drained { left_behind }]
}

#[test]
fn an_idle_worker_stops_at_once() {
    let mut world = World::with_tasks([task(5, Part::Whole)]);
    world.step(Input::Drain);
    assert_eq!(world.told, drained(0));
    let call = world.get(ask(5));
    assert_eq!(world.code_of(call), Code::Cancelled);
    assert_eq!(world.worker.deadline(), None);
}

#[test]
fn what_was_taken_is_handed_out_and_no_more_is_taken() {
    let mut world = World::with_tasks([task(5, Part::Splits)]);
    world.splits = [40, 41].into();
    let first = world.get(ask(5));
    world.dispatch();
    world.made([0, 1], Then::More);
    world.step(Input::Drain);
    assert_eq!(world.told, []);
    world.made([2], Then::End);
    assert_eq!(world.wanted[0].1, From::Rest, "no other split");
    world.made([3], Then::End);
    assert_eq!(world.element_of(first), 0);
    world.left(first);
    for number in 1..4 {
        assert_eq!(world.told, []);
        let call = world.get(ask(5));
        assert_eq!(world.element_of(call), number);
        world.left(call);
    }
    assert_eq!(world.told, drained(0));
    assert_eq!(world.splits, [41], "which is another worker's to read");
    let call = world.get(ask(5));
    assert_eq!(world.code_of(call), Code::Cancelled);
    assert_eq!(world.completed, [], "the iteration goes on");
}

/// No other worker has splits left: the dispatcher learns that the task is over, as from others.
#[test]
fn a_worker_that_stops_after_the_last_split_says_that_its_task_is_over() {
    let mut world = World::with_tasks([task(5, Part::Splits)]);
    world.splits = [40].into();
    let first = world.get(ask(5));
    world.dispatch();
    world.made([0], Then::End);
    world.dispatch();
    assert_eq!(world.wanted[0].1, From::Rest, "there are no more splits");
    world.step(Input::Drain);
    world.made([1], Then::End);
    assert_eq!(world.element_of(first), 0);
    world.left(first);
    let second = world.get(ask(5));
    assert_eq!(world.element_of(second), 1);
    world.left(second);
    world.dispatch();
    assert_eq!(world.completed, [TaskId::new(5)]);
    assert_eq!(world.told, drained(0));
}

#[test]
fn an_element_that_comes_back_is_still_owed() {
    let mut world = World::with_tasks([task(5, Part::Splits)]);
    world.splits = [40].into();
    let first = world.get(ask(5));
    world.dispatch();
    world.step(Input::Drain);
    world.made([0], Then::End);
    world.made([], Then::End);
    assert_eq!(world.element_of(first), 0);
    assert_eq!(world.told, []);
    world.cancel(first);
    assert_eq!(world.told, []);
    let again = world.get(ask(5));
    assert_eq!(world.element_of(again), 0);
    world.left(again);
    assert_eq!(world.told, drained(0));
}

#[test]
fn nobody_is_waited_for_for_ever() {
    let mut world = World::with_tasks([task(5, Part::Splits), task(6, Part::Whole)]);
    world.splits = [40].into();
    let (first, waiting) = (world.get(ask(5)), world.get(ask(6)));
    world.dispatch();
    assert_eq!(world.wanted.len(), 2);
    let at = world.wanted.iter().position(|(_, from, _)| *from == From::Split(40)).unwrap();
    world.wanted.swap(0, at);
    world.made([0, 1, 2], Then::More);
    assert_eq!(world.element_of(first), 0);
    world.left(first);
    world.step(Input::Drain);
    world.sleep(19_999);
    assert_eq!(world.told, []);
    world.sent.clear();
    world.sleep(1);
    assert_eq!(world.told, drained(2));
    assert_eq!(world.code_of(waiting), Code::Cancelled);
    // What comes late is nobody's.
    while !world.wanted.is_empty() && world.worker.buffered_bytes() < 100 {
        world.made([9], Then::More);
    }
    assert!(world.answers.is_empty());
}

#[test]
fn the_last_completions_are_sent() {
    let mut world = World::with_tasks([task(5, Part::Whole)]);
    let call = world.get(ask(5));
    world.dispatch();
    world.made([0], Then::End);
    world.left(call);
    world.step(Input::Drain);
    assert_eq!(world.told, [], "the dispatcher does not know yet");
    world.dispatch();
    assert_eq!(world.completed, [TaskId::new(5)]);
    assert_eq!(world.told, drained(0));
}

#[test]
fn consumers_in_rounds_and_readers_of_splits_are_sent_away() {
    let rounds = TaskDef { consumers: Some(2), ..task(5, Part::Whole) };
    let mut world = World::with_tasks([rounds, task(6, Part::Splits)]);
    let call = world.get(rondo_core::worker::ElementAsk { round: Some((0, 0)), ..ask(5) });
    let other = world.get(ask(6));
    world.splits = [1].into();
    world.dispatch();
    world.step(Input::Drain);
    assert_eq!(world.code_of(call), Code::Cancelled);
    let reader = world.call(Ask::Dataset { task: TaskId::new(6) });
    assert_eq!(world.code_of(reader), Code::Unavailable, "another worker may read it");
    assert_eq!(world.answers.remove(&other), None::<Result<Answer, _>>);
}

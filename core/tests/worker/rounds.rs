//! Coordinated reads: stories, and a model over every order of asking.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rondo_core::ids::{IterationId, TaskId};
use rondo_core::status::Code;
use rondo_core::worker::{Answer, ElementAsk, Input, Part, TaskDef, Then};

use crate::world::{World, ask, element, number, task};

fn world(consumers: i64) -> World {
    World::with_tasks([TaskDef { consumers: Some(consumers), ..task(5, Part::Whole) }])
}

fn at(consumer: i64, round: i64) -> ElementAsk {
    ElementAsk { round: Some((consumer, round)), ..ask(5) }
}

fn skipping(consumer: i64, round: i64) -> ElementAsk {
    ElementAsk { allow_skip: true, ..at(consumer, round) }
}

#[test]
fn a_round_begins_when_all_have_asked_and_may_be_repeated() {
    let mut world = world(2);
    let first = world.get(at(1, 0));
    world.dispatch();
    world.made(0..8, Then::More);
    world.sleep(1_000);
    assert!(world.answers.is_empty(), "alone for ever");
    let second = world.get(at(0, 0));
    assert_eq!((world.element_of(first), world.element_of(second)), (1, 0));
    let again = world.get(at(1, 0));
    assert_eq!(world.element_of(again), 1);
    world.cancel(again);
    // Rounds may jump.
    let next = [world.get(at(0, 5)), world.get(at(1, 5))];
    assert_eq!(next.map(|call| world.element_of(call)), [2, 3]);
    let late = world.get(at(0, 4));
    assert_eq!(world.code_of(late), Code::FailedPrecondition);
}

#[test]
fn a_round_is_skipped_for_all_when_its_group_is_late() {
    let mut world = world(2);
    let calls = [world.get(skipping(0, 0)), world.get(skipping(1, 0))];
    world.dispatch();
    world.made([0], Then::More);
    world.sleep(99);
    assert!(world.answers.is_empty());
    world.sleep(1);
    assert!(calls.iter().all(|call| world.answers.remove(call) == Some(Ok(Answer::Skip))));
    world.made([1], Then::More);
    let next = [world.get(skipping(0, 1)), world.get(skipping(1, 1))];
    assert_eq!(next.map(|call| world.element_of(call)), [0, 1], "nothing is lost");
}

#[test]
fn without_leave_to_skip_a_round_waits() {
    let mut world = world(2);
    let calls = [world.get(skipping(0, 0)), world.get(at(1, 0))];
    world.dispatch();
    world.sleep(10_000);
    assert!(world.answers.is_empty());
    world.made([0, 1], Then::More);
    assert_eq!(calls.map(|call| world.element_of(call)), [0, 1]);
}

#[test]
fn after_a_restart_in_mid_round_a_partial_round_brings_all_together() {
    let mut world = world(2);
    let (behind, ahead) = (world.get(at(0, 7)), world.get(at(1, 8)));
    world.dispatch();
    world.made(0..4, Then::More);
    assert_eq!(world.element_of(behind), 0);
    assert!(world.answers.is_empty());
    let met = world.get(at(0, 8));
    assert_eq!((world.element_of(met), world.element_of(ahead)), (2, 3));
}

#[test]
fn a_partial_round_that_was_skipped_before_is_skipped_again() {
    let mut world = world(2);
    let behind = world.get(at(0, 7));
    let ahead = world.get(ElementAsk { skipped_previous_round: true, ..at(1, 8) });
    world.dispatch();
    world.made(0..4, Then::More);
    assert_eq!(world.answers.remove(&behind), Some(Ok(Answer::Skip)));
    let met = world.get(at(0, 8));
    assert_eq!((world.element_of(met), world.element_of(ahead)), (0, 1));
}

#[test]
fn rounds_need_data_without_an_end() {
    let mut world = world(2);
    let calls = [world.get(at(0, 0)), world.get(at(1, 0))];
    world.dispatch();
    world.made([0, 1, 2], Then::End);
    assert_eq!(calls.map(|call| world.element_of(call)), [0, 1]);
    let again = world.get(at(0, 0));
    assert_eq!(world.element_of(again), 0);
    for _ in 0..2 {
        let next = world.get(at(0, 1));
        assert_eq!(world.code_of(next), Code::FailedPrecondition);
    }
    assert_eq!(world.completed, []);
    // One that says so is not opened at all.
    let finite =
        TaskDef { consumers: Some(2), iteration: IterationId::new(8), ..task(6, Part::Whole) };
    world.add([finite]);
    let call = world.get(ElementAsk { task: TaskId::new(6), ..at(0, 0) });
    while let Some((rpc, _)) = world.sent.first().cloned() {
        world.answer(rpc, Ok(rondo_core::worker::Reply::Compression(false)));
    }
    let (run, ..) = world.opening.remove(0);
    world.step(Input::Opened { run, result: Ok(3) });
    assert_eq!(world.code_of(call), Code::FailedPrecondition);
}

#[test]
fn consumers_must_be_some_of_those_there_are() {
    let mut world = world(2);
    for wrong in [ask(5), at(2, 0), at(-1, 0), at(0, -1)] {
        let call = world.get(wrong);
        assert_eq!(world.code_of(call), Code::FailedPrecondition);
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// This consumer asks for its round, or again for the one before.
    Ask {
        consumer: usize,
        again: bool,
    },
    /// Its call is taken back, or broken when its element was on its way.
    Cancel(usize),
    Make(u64),
    Sleep(u64),
}

fn op(consumers: usize) -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..consumers, prop::bool::weighted(0.2))
            .prop_map(|(consumer, again)| Op::Ask { consumer, again }),
        2 => (0..consumers).prop_map(Op::Cancel),
        3 => (0..5_u64).prop_map(Op::Make),
        1 => (0..150_u64).prop_map(Op::Sleep),
    ]
}

/// Consumers that read rounds, and what was agreed in each.
struct Reading {
    world: World,
    made: u64,
    /// The round each consumer is in, and its call.
    rounds: Vec<i64>,
    calls: Vec<Option<(u64, i64)>>,
    /// What came of each round: the first element of its group, or a skip.
    outcomes: BTreeMap<i64, Option<u64>>,
    /// Which rounds each consumer has ever asked for.
    asked: Vec<i64>,
}

impl Reading {
    fn new(consumers: usize) -> Self {
        let mut world = world(consumers.try_into().unwrap());
        let rounds = vec![0; consumers];
        // One asks and goes, so that the data is open.
        let call = world.get(skipping(0, 0));
        world.cancel(call);
        world.dispatch();
        let (calls, asked) = (vec![None; consumers], vec![-1; consumers]);
        Self { world, made: 0, rounds, calls, outcomes: BTreeMap::new(), asked }
    }

    fn act(&mut self, op: &Op) {
        match *op {
            Op::Ask { consumer, again } => self.ask(consumer, again),
            Op::Cancel(consumer) => {
                if let Some((call, _)) = self.calls[consumer].take() {
                    self.world.cancel(call);
                }
            }
            Op::Make(count) => {
                if let Some((run, ..)) = self.world.wanted.pop() {
                    let made = (self.made..self.made + count).map(|n| element(n, 0)).collect();
                    self.made += count;
                    self.world.step(Input::Produced { run, elements: made, then: Then::More });
                }
            }
            Op::Sleep(span_ms) => self.world.sleep(span_ms),
        }
        self.collect();
    }

    fn ask(&mut self, consumer: usize, again: bool) {
        if self.calls[consumer].is_some() {
            return;
        }
        let others_agreed = self.outcomes.last_key_value().map_or(-1, |(round, _)| *round);
        let mut round = self.rounds[consumer];
        // What was had before may be asked for again as long as the next round has not begun.
        if again && round > 0 && others_agreed < round {
            round -= 1;
        }
        self.asked[consumer] = self.asked[consumer].max(round);
        let call = self.world.get(skipping(consumer.try_into().unwrap(), round));
        self.calls[consumer] = Some((call, round));
    }

    fn collect(&mut self) {
        let consumers = self.rounds.len() as u64;
        for (call, outcome) in std::mem::take(&mut self.world.answers) {
            let consumer = self.calls.iter().position(|it| it.is_some_and(|(own, _)| own == call));
            let consumer = consumer.expect("an answer to somebody who waits");
            let (_, round) = self.calls[consumer].take().unwrap();
            let group = match outcome {
                Ok(Answer::Element(bytes)) => {
                    let number = number(&bytes);
                    assert_eq!(number % consumers, consumer as u64, "its own element of the group");
                    Some(number - consumer as u64)
                }
                Ok(Answer::Skip) => None,
                other => panic!("round {round} of consumer {consumer}: {other:?}"),
            };
            let agreed = self.asked.iter().all(|asked| *asked >= round);
            assert!(agreed, "round {round} began before all had asked for it");
            let known = *self.outcomes.entry(round).or_insert(group);
            assert_eq!(known, group, "round {round} is the same for all");
            self.rounds[consumer] = self.rounds[consumer].max(round + 1);
        }
        let groups: Vec<u64> = self.outcomes.values().flatten().copied().collect();
        let right: Vec<u64> = (0..groups.len() as u64).map(|group| group * consumers).collect();
        assert_eq!(groups, right, "group after group, none lost");
    }
}

proptest! {
    #[test]
    fn each_consumer_gets_its_element_of_each_round(
        (consumers, ops) in (1..4_usize).prop_flat_map(|consumers| {
            (Just(consumers), prop::collection::vec(op(consumers), 0..200))
        }),
    ) {
        let mut reading = Reading::new(consumers);
        ops.iter().for_each(|op| reading.act(op));
        // And it goes on whatever was.
        let before = reading.outcomes.len();
        for _ in 0..4 {
            for consumer in 0..consumers {
                reading.act(&Op::Cancel(consumer));
            }
            let round = reading.rounds.iter().copied().max().unwrap_or(0);
            reading.rounds.fill(round);
            for consumer in 0..consumers {
                reading.act(&Op::Ask { consumer, again: false });
            }
            reading.act(&Op::Make(4));
            reading.act(&Op::Sleep(150));
        }
        prop_assert!(reading.outcomes.len() >= before + 4);
    }
}

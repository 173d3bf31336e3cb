//! Elements for whoever comes first: stories, and a model over every order of events.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rondo_core::ids::{CallId, ConnectionId, TaskId};
use rondo_core::invariant::check_worker;
use rondo_core::status::{Code, Status};
use rondo_core::worker::{Answer, Ask, Effect, ElementAsk, Input, Part, Request, TaskDef, Then};

use crate::world::{World, ask, element, soft, task};

fn skipping(id: i64) -> ElementAsk {
    ElementAsk { allow_skip: true, ..ask(id) }
}

#[test]
fn an_element_that_has_not_left_is_the_next() {
    let mut world = World::with_tasks([task(5, Part::Whole)]);
    let calls = [1, 2, 3].map(|_| world.get(ask(5)));
    world.dispatch();
    world.made([0, 1, 2, 3], Then::More);
    assert_eq!(calls.map(|call| world.element_of(call)), [0, 1, 2], "in the order of asking");
    world.cancel(calls[1]);
    world.cancel(calls[0]);
    let again = [1, 2, 3].map(|_| world.get(ask(5)));
    assert_eq!(again.map(|call| world.element_of(call)), [0, 1, 3]);
}

#[test]
fn the_dispatcher_hears_of_the_end_before_consumers_do() {
    let mut world = World::with_tasks([task(5, Part::Whole)]);
    let first = world.get(ask(5));
    world.dispatch();
    world.made([0], Then::End);
    let second = world.get(ask(5));
    assert!(world.sent.is_empty(), "the element has not left");
    world.left(first);
    assert_eq!(world.sent[0].1, Request::Update { completed: vec![TaskId::new(5)] });
    assert_eq!(world.answers.get(&second), None);
    world.dispatch();
    assert_eq!(world.answers.remove(&second), Some(Ok(Answer::End)));
    let third = world.get(ask(5));
    assert_eq!(world.answers.remove(&third), Some(Ok(Answer::End)), "every time");
}

#[test]
fn a_heartbeat_follows_the_end_at_once() {
    let mut world = World::with_tasks([task(5, Part::Whole)]);
    world.get(ask(5));
    world.dispatch();
    world.made([], Then::End);
    let (rpc, _) = world.sent[0].clone();
    world.answer(rpc, Ok(rondo_core::worker::Reply::Done));
    assert!(matches!(world.sent[..], [(_, Request::Heartbeat { .. })]), "{:?}", world.sent);
}

#[test]
fn completions_are_told_until_they_are_heard() {
    let mut world = World::with_tasks([task(5, Part::Whole), task(6, Part::Whole)]);
    let calls = [5, 6].map(|id| world.get(ask(id)));
    world.dispatch();
    world.made([], Then::End);
    world.refuse(&soft());
    world.made([], Then::End);
    // Whoever knows the end asks no more: if this worker died now, the next one at its place would
    // come to no end that the dispatcher could hear of, and the iteration would never be over.
    assert!(world.answers.is_empty(), "{:?}", world.answers);
    world.sleep(1_000);
    let both = vec![TaskId::new(5), TaskId::new(6)];
    assert_eq!(world.sent[0].1, Request::Update { completed: both });
    // It knows one of them not: then it hears of them one by one.
    world.refuse(&Status::new(Code::NotFound, "no task 5"));
    assert_eq!(world.sent[0].1, Request::Update { completed: vec![TaskId::new(5)] });
    world.refuse(&Status::new(Code::NotFound, "no task 5"));
    world.dispatch();
    assert_eq!(world.completed, [TaskId::new(6)]);
    world.sleep(100_000);
    assert_eq!(world.sent.iter().filter(|it| matches!(it.1, Request::Update { .. })).count(), 0);
    assert!(calls.iter().all(|call| world.answers.remove(call) == Some(Ok(Answer::End))));
}

#[test]
fn a_skip_comes_after_a_while_and_never_from_the_only_task() {
    let mut world = World::with_tasks([task(5, Part::Whole)]);
    let alone = world.get(skipping(5));
    world.dispatch();
    world.sleep(4_000);
    assert_eq!(world.answers.get(&alone), None);
    world.add([task(6, Part::Whole)]);
    let call = world.get(skipping(5));
    let patient = world.get(ask(5));
    world.sleep(4);
    assert_eq!(world.answers.get(&call), None);
    world.sleep(1);
    assert_eq!(world.answers.remove(&call), Some(Ok(Answer::Skip)));
    world.sleep(100);
    assert!(world.answers.is_empty(), "{patient} waits");
}

#[test]
fn so_many_calls_wait_and_one_more_is_to_come_again() {
    let mut world = World::with_tasks([task(5, Part::Whole)]);
    let mut asked = 0;
    // How many of 70,000 calls of a connection wait, and why the next is refused. Without a look at the
    // invariants after each: they look at all calls.
    let mut waiting = |world: &mut World, client: u64| {
        let mut out = Vec::new();
        for taken in 0..70_000 {
            asked += 1;
            let (call, client) = (CallId::new(asked), ConnectionId::new(client));
            let ask = Ask::Element(ask(5));
            world.worker.step(world.now, Input::Asked { call, client, ask }, &mut out);
            if let Some(Effect::Answer { result, .. }) = out.pop() {
                return (taken, result.unwrap_err());
            }
        }
        panic!("a connection has all calls");
    };
    let (first, status) = waiting(&mut world, 1);
    assert_eq!(first, 32_768, "a connection may have as many as it leaves free");
    assert_eq!(status.code, Code::Unavailable, "clients come again after it");
    for part in ["65536 calls may wait", "--calls-max", "32768 of these are free", "has 32768"] {
        assert!(status.message.contains(part), "{status}");
    }
    let others = [2, 3, 4, 5].map(|client| waiting(&mut world, client).0);
    assert_eq!(others, [16_384, 8192, 4096, 2048]);
    // A call that ends makes room.
    let call = CallId::new(1);
    world.worker.step(world.now, Input::Cancel { call }, &mut Vec::new());
    assert_eq!(waiting(&mut world, 5).0, 1);
    assert_eq!(check_worker(&world.worker), Ok(()));
}

/// Readers of splits count among those that wait, each for its own connection. A connection has some calls in
/// any case.
#[test]
fn others_cannot_keep_a_connection_from_its_elements() {
    let mut world = World::registered_with(|config| config.calls_max = 20);
    // The dispatcher has not told the dataset yet: readers of splits wait for that too.
    world.call(Ask::Process(TaskDef { definition: None, ..task(5, Part::Whole) }));
    let mut asked = 100;
    let mut waiting = |world: &mut World, client: u64, is_reader: bool| {
        for taken in 0..100 {
            asked += 1;
            let (call, client) = (CallId::new(asked), ConnectionId::new(client));
            let ask = match is_reader {
                true => Ask::Dataset { task: TaskId::new(5) },
                false => Ask::Element(ask(5)),
            };
            world.step(Input::Asked { call, client, ask });
            if let Some(answer) = world.answers.remove(&asked) {
                assert!(answer.unwrap_err().message.contains("20 calls may wait"));
                return taken;
            }
        }
        panic!("a connection has all calls");
    };
    assert_eq!(waiting(&mut world, 1, true), 10);
    assert_eq!(waiting(&mut world, 2, false), 8);
    for client in 3..10 {
        let is_reader = client % 2 == 0;
        assert_eq!(waiting(&mut world, client, is_reader), 8, "connection {client}");
        assert_eq!(waiting(&mut world, client, !is_reader), 0, "connection {client}");
    }
}

#[test]
fn a_trainer_has_a_short_name() {
    let mut world = World::with_tasks([task(5, Part::Whole)]);
    for (bytes, is_refused) in [(4096, false), (4097, true)] {
        let call = world.get(ElementAsk { trainer: "t".repeat(bytes), ..ask(5) });
        let told = world.answers.remove(&call).map(|answer| answer.unwrap_err());
        assert_eq!(told.is_some(), is_refused);
        let names = |told: Status| told.message.contains("4097 bytes; at most 4096");
        assert!(told.is_none_or(names));
    }
}

#[derive(Clone, Debug)]
enum Op {
    Ask {
        allow_skip: bool,
    },
    /// Of the calls under way, this one.
    Cancel(usize),
    Left(usize),
    Make(u8),
    Dispatch,
    Away,
    Sleep(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => any::<bool>().prop_map(|allow_skip| Op::Ask { allow_skip }),
        3 => any::<usize>().prop_map(Op::Cancel),
        4 => any::<usize>().prop_map(Op::Left),
        4 => (0..5_u8).prop_map(Op::Make),
        3 => Just(Op::Dispatch),
        1 => Just(Op::Away),
        2 => (0..2_000_u64).prop_map(Op::Sleep),
    ]
}

/// A reading of `splits` splits, three elements each, and what consumers have.
struct Reading {
    world: World,
    made: u64,
    in_split: u64,
    waiting: Vec<u64>,
    leaving: Vec<(u64, u64)>,
    delivered: BTreeSet<u64>,
    /// How many elements came back, with callers that were gone, since the buffer was last within its bound.
    came_back: u64,
}

const IN_SPLIT: u64 = 3;
/// Bytes of an element, and of those that may wait.
const ELEMENT: u64 = 8;
const BUFFER: u64 = 8 * ELEMENT;

impl Reading {
    fn new(splits: i64) -> Self {
        let mut world = World::registered_with(|config| config.buffer_bytes = BUFFER);
        // Another task, so that this one is not alone and skips.
        world.add([task(5, Part::Splits), task(6, Part::Whole)]);
        world.splits = (0..splits).collect();
        Self {
            world,
            made: 0,
            in_split: 0,
            waiting: Vec::new(),
            leaving: Vec::new(),
            delivered: BTreeSet::new(),
            came_back: 0,
        }
    }

    fn act(&mut self, op: &Op) {
        match *op {
            Op::Ask { allow_skip } => {
                let call = self.world.get(ElementAsk { allow_skip, ..ask(5) });
                self.waiting.push(call);
            }
            Op::Cancel(at) => {
                let count = self.waiting.len() + self.leaving.len();
                if count > 0 {
                    let at = at % count;
                    let call = if at < self.waiting.len() {
                        self.waiting.remove(at)
                    } else {
                        // Who waits takes it at once.
                        self.came_back += u64::from(self.waiting.is_empty());
                        self.leaving.remove(at - self.waiting.len()).0
                    };
                    self.world.cancel(call);
                }
            }
            Op::Left(at) if !self.leaving.is_empty() => {
                let (call, number) = self.leaving.remove(at % self.leaving.len());
                assert!(self.delivered.insert(number), "{number} came twice");
                self.world.left(call);
            }
            Op::Left(_) => {}
            Op::Make(count) => self.make(count.into()),
            Op::Dispatch => self.world.dispatch(),
            Op::Away => {
                // A split that is handed out when its answer is lost is lost: not so here.
                self.world.refuse(&soft());
            }
            Op::Sleep(span_ms) => self.world.sleep(span_ms),
        }
        self.collect();
    }

    fn make(&mut self, count: u64) {
        use rondo_core::worker::From;
        let Some((run, from, room)) = self.world.wanted.first().copied() else { return };
        self.world.wanted.remove(0);
        let (elements, then) = match from {
            From::Split(_) => {
                let count = count.min(IN_SPLIT - self.in_split).min((room / 8).max(1));
                let made: Vec<_> = (self.made..self.made + count).map(|n| element(n, 0)).collect();
                self.made += count;
                self.in_split = (self.in_split + count) % (IN_SPLIT + 1);
                let is_over = self.in_split == IN_SPLIT;
                self.in_split %= IN_SPLIT;
                (made, if is_over { Then::End } else { Then::More })
            }
            From::Rest => (Vec::new(), Then::End),
            From::Stream => panic!("the other task is not read"),
        };
        self.world.step(Input::Produced { run, elements, then });
    }

    /// Takes the answers there are.
    fn collect(&mut self) {
        for (call, outcome) in std::mem::take(&mut self.world.answers) {
            self.waiting.retain(|waiting| *waiting != call);
            match outcome {
                Ok(Answer::Element(bytes)) => {
                    self.leaving.push((call, crate::world::number(&bytes)));
                }
                Ok(Answer::Skip) => {}
                Ok(Answer::End) => {
                    assert!(self.leaving.is_empty(), "the end came before the last element");
                    assert_eq!(self.delivered.len() as u64, self.made);
                    assert!(self.world.splits.is_empty());
                }
                other => panic!("{call}: {other:?}"),
            }
        }
        self.check_buffer();
    }

    /// The buffer takes in what is made at once, and each element that comes back.
    fn check_buffer(&mut self) {
        let buffered = self.world.worker.buffered_bytes();
        if buffered <= BUFFER {
            self.came_back = 0;
        }
        let bound = BUFFER + ELEMENT * (IN_SPLIT + self.came_back);
        assert!(buffered <= bound, "{buffered} bytes wait, {} elements came back", self.came_back);
    }

    /// Reads to the end.
    fn finish(mut self, splits: u64) {
        for _ in 0..1_000 {
            for op in [Op::Ask { allow_skip: false }, Op::Dispatch, Op::Make(4), Op::Left(0)] {
                self.act(&op);
            }
            self.act(&Op::Sleep(500));
            if self.world.completed == [TaskId::new(5)] {
                break;
            }
        }
        while !self.leaving.is_empty() {
            self.act(&Op::Left(0));
        }
        let all: BTreeSet<u64> = (0..splits * IN_SPLIT).collect();
        assert_eq!(self.delivered, all);
        assert_eq!(self.world.completed, [TaskId::new(5)], "once");
    }
}

proptest! {
    #[test]
    fn every_element_comes_to_exactly_one_consumer(
        splits in 0..8_u8,
        ops in prop::collection::vec(op(), 0..200),
    ) {
        let mut reading = Reading::new(splits.into());
        ops.iter().for_each(|op| reading.act(op));
        reading.finish(splits.into());
    }
}

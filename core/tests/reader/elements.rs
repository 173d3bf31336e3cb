//! Reading by element without coordination, against workers that hand each element to whoever asks
//! first: what a worker gives is delivered once and in its task's order, nothing is lost but what a
//! worker gave to an answer that was lost, and the end comes when the dispatcher knows of all ends.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rondo_core::ids::{ClientId, JobId, TaskId};
use rondo_core::reader::{
    Answer, ByElement, Config, Fetched, HeartbeatAnswer, Request, RpcId, Stall, Task, Way,
};
use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};

use crate::consumer::{Consumer, element};

/// A worker's task.
struct Share {
    next: i64,
    end: i64,
    is_up: bool,
    /// The dispatcher knows that it is through.
    is_done: bool,
}

struct World {
    now: Time,
    tasks: BTreeMap<TaskId, Share>,
    readers: Vec<Consumer>,
    lost: Vec<i64>,
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    Want(usize, u64),
    Ask(usize, usize),
    /// A worker answers, has nothing ready, cannot be reached, or its answer is lost.
    Fetch(usize, usize, u8),
    Break(usize),
    Mend(usize),
    Wait(u64),
}

fn config(requests_per_task: usize, buffer: usize) -> Config {
    let way = ByElement { requests_per_task, ..ByElement::default() };
    let mut config = Config::of(Way::ByElement(way));
    config.buffer_deliveries_max = buffer;
    config
}

fn unavailable() -> Status {
    Status::new(Code::Unavailable, "Task 4000 not found")
}

impl World {
    fn new(readers: usize, ends: &[i64], config: &Config) -> Self {
        let share = |(index, end): (usize, &i64)| {
            let id = TaskId::new(4000 + i64::try_from(index).unwrap());
            (id, Share { next: 0, end: *end, is_up: true, is_done: false })
        };
        let tasks = ends.iter().enumerate().map(share).collect();
        let readers = (0..readers).map(|_| Consumer::new(config.clone())).collect();
        Self { now: Time::from_millis(1), tasks, readers, lost: Vec::new() }
    }

    fn is_finished(&self) -> bool {
        self.tasks.values().all(|share| share.is_done)
    }

    fn dispatch(&self, request: &Request) -> Answer {
        match request {
            Request::CreateJob => Answer::Job(JobId::new(1)),
            Request::CreateIteration { .. } => Answer::Client(ClientId::new(2)),
            Request::Heartbeat { .. } => {
                let task = |id: &TaskId| {
                    let worker = format!("w{id}").into();
                    Task { id: *id, worker, servers: Vec::new(), starting_round: 0 }
                };
                let tasks = self.tasks.keys().map(task).collect();
                let is_finished = self.is_finished();
                Answer::Heartbeat(HeartbeatAnswer { tasks, is_finished, block_round: None })
            }
            Request::Release { .. } => Answer::Released,
            other => panic!("{other:?} when reading by element"),
        }
    }

    fn ask(&mut self, nth: usize, which: usize) {
        let reader = &mut self.readers[nth];
        if let Some(index) = which.checked_rem(reader.asks.len()) {
            let (rpc, request) = reader.asks.remove(index);
            let answer = self.dispatch(&request);
            self.readers[nth].answer(self.now, rpc, Ok(answer));
        }
    }

    fn fetch(&mut self, nth: usize, which: usize, how: u8) {
        let reader = &mut self.readers[nth];
        let Some(index) = which.checked_rem(reader.fetches.len()) else {
            return;
        };
        let (rpc, fetch) = reader.fetches.remove(index);
        let share = self.tasks.get_mut(&fetch.task).unwrap();
        let result = match how {
            _ if !share.is_up => Err(unavailable()),
            0 => Err(unavailable()),
            1 => Ok(Fetched::Skip),
            _ if share.next < share.end => {
                let number = fetch.task.get() * 1000 + share.next;
                share.next += 1;
                if how == 2 {
                    self.lost.push(number);
                    Err(unavailable())
                } else {
                    Ok(Fetched::Element(element(number)))
                }
            }
            _ => {
                share.is_done = true;
                Ok(Fetched::End)
            }
        };
        self.readers[nth].answer(self.now, rpc, result.map(Answer::Element));
    }

    fn happen(&mut self, happening: Happening) {
        let (readers, tasks) = (self.readers.len(), self.tasks.len());
        match happening {
            Happening::Want(nth, more) => self.readers[nth % readers].want(self.now, more),
            Happening::Ask(nth, which) => self.ask(nth % readers, which),
            Happening::Fetch(nth, which, how) => self.fetch(nth % readers, which, how),
            Happening::Break(nth) => self.share(nth % tasks).is_up = false,
            Happening::Mend(nth) => self.share(nth % tasks).is_up = true,
            Happening::Wait(millis) => self.wait(millis),
        }
    }

    fn share(&mut self, index: usize) -> &mut Share {
        self.tasks.values_mut().nth(index).unwrap()
    }

    fn wait(&mut self, millis: u64) {
        for reader in &mut self.readers {
            reader.wait(self.now, millis);
        }
        self.now = self.now.after(Duration::from_millis(millis));
    }

    fn settle(&mut self) {
        self.tasks.values_mut().for_each(|share| share.is_up = true);
        for _ in 0..400 {
            for nth in 0..self.readers.len() {
                self.readers[nth].want(self.now, 1);
                self.ask(nth, 0);
                self.fetch(nth, 0, 9);
            }
            self.wait(100);
        }
        let ended: Vec<_> = self.readers.iter().map(|reader| reader.ended.clone()).collect();
        assert!(ended.iter().all(|ended| *ended == Some(Ok(()))), "{ended:?}");
        self.check();
    }

    fn check(&self) {
        let mut all: Vec<i64> = self.lost.clone();
        for reader in &self.readers {
            all.extend(&reader.elements);
        }
        all.sort_unstable();
        let given = |(id, share): (&TaskId, &Share)| {
            let id = id.get();
            (0..share.end).map(move |number| id * 1000 + number)
        };
        let given: Vec<i64> = self.tasks.iter().flat_map(given).collect();
        assert_eq!(all, given);
    }
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0..2_usize, 1..4_u64).prop_map(|(nth, more)| Happening::Want(nth, more)),
        6 => (0..2_usize, any::<usize>()).prop_map(|(nth, which)| Happening::Ask(nth, which)),
        12 => (0..2_usize, any::<usize>(), 0..9_u8)
            .prop_map(|(nth, which, how)| Happening::Fetch(nth, which, how)),
        1 => (0..4_usize).prop_map(Happening::Break),
        2 => (0..4_usize).prop_map(Happening::Mend),
        4 => prop_oneof![Just(1), Just(30), Just(1100)].prop_map(Happening::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_no_element_comes_twice(
        readers in 1..3_usize,
        ends in prop::collection::vec(0..9_i64, 1..4),
        per_task in 1..3_usize,
        buffer in 1..5_usize,
        history in prop::collection::vec(happening(), 0..150),
    ) {
        let mut world = World::new(readers, &ends, &config(per_task, buffer));
        for happening in history {
            world.happen(happening);
            for reader in &world.readers {
                let buffered = reader.reader.report(world.now).buffered;
                prop_assert!(buffered + reader.fetches.len() <= buffer, "{buffered}");
            }
        }
        world.settle();
        for reader in world.readers.iter().filter(|_| per_task == 1) {
            for task in world.tasks.keys() {
                let of: Vec<_> =
                    reader.elements.iter().filter(|it| **it / 1000 == task.get()).collect();
                prop_assert!(of.is_sorted(), "{of:?}");
            }
        }
    }
}

fn begun(config: &Config, ends: &[i64]) -> World {
    let mut world = World::new(1, ends, config);
    world.wait(0);
    (0..3).for_each(|_| world.ask(0, 0));
    world
}

#[test]
fn one_request_is_under_way_to_each_task() {
    let world = begun(&config(1, 64), &[5, 5, 5]);
    let tasks: std::collections::BTreeSet<TaskId> =
        world.readers[0].fetches.iter().map(|(_, fetch)| fetch.task).collect();
    assert_eq!((tasks.len(), world.readers[0].fetches.len()), (3, 3));
    assert!(world.readers[0].fetches.iter().all(|(_, fetch)| !fetch.allow_skip));
    let world = begun(&config(2, 64), &[5, 5, 5]);
    assert_eq!(world.readers[0].fetches.len(), 6);
}

#[test]
fn nobody_may_block_when_there_are_more_tasks_than_requests() {
    let world = begun(&config(1, 2), &[5, 5, 5]);
    assert_eq!(world.readers[0].fetches.len(), 2);
    assert!(world.readers[0].fetches.iter().all(|(_, fetch)| fetch.allow_skip));
}

#[test]
fn near_the_end_the_dispatcher_is_asked_more_often() {
    let mut world = begun(&config(1, 4), &[1]);
    world.readers[0].want(world.now, 5);
    world.fetch(0, 0, 9);
    world.fetch(0, 0, 9);
    assert_eq!(world.readers[0].elements, [4_000_000]);
    world.wait(30);
    assert_eq!(world.readers[0].asks.len(), 1, "a heartbeat, long before its second is over");
    world.ask(0, 0);
    assert_eq!(world.readers[0].ended, Some(Ok(())));
}

fn refuse(world: &mut World, status: Status) -> RpcId {
    let (rpc, _) = world.readers[0].fetches.remove(0);
    world.readers[0].answer(world.now, rpc, Err(status));
    rpc
}

#[test]
fn an_element_that_cannot_be_made_ends_the_reader_or_is_counted() {
    let status = Status::new(Code::InvalidArgument, "x.png, byte 3: no image");
    let mut world = begun(&config(1, 4), &[5]);
    refuse(&mut world, status.clone());
    let ended = world.readers[0].ended.clone().unwrap().unwrap_err();
    assert_eq!(ended.code, Code::InvalidArgument);
    assert!(ended.message.contains("w4000") && ended.message.contains("byte 3"), "{ended}");

    let way = ByElement { continues_on_error: true, ..ByElement::default() };
    let mut world = begun(&Config::of(Way::ByElement(way)), &[5]);
    refuse(&mut world, status);
    assert_eq!(world.readers[0].ended, None);
    let report = world.readers[0].reader.report(world.now);
    assert_eq!((report.counts.skipped, report.skipped.len()), (1, 1));
    assert_eq!(world.readers[0].fetches.len(), 1, "the next one");
}

#[test]
fn it_says_that_there_are_no_workers() {
    let mut world = begun(&config(1, 4), &[]);
    world.readers[0].want(world.now, 1);
    // Nothing there is finished either.
    let stall = world.readers[0].reader.report(world.now).stall;
    assert_eq!(stall, None, "an iteration of no tasks is finished in this world");
    let mut config = config(1, 4);
    config.worker_patience = Duration::from_secs(1);
    let mut world = begun(&config, &[5]);
    world.readers[0].want(world.now, 1);
    for _ in 0..40 {
        if !world.readers[0].fetches.is_empty() {
            refuse(&mut world, unavailable());
        }
        world.wait(100);
    }
    let stall = world.readers[0].reader.report(world.now).stall;
    assert!(matches!(stall, Some(Stall::Workers { .. })), "{stall:?}");
}

/// A task that is gone under one call is not forgotten while another is under way: it would be asked
/// more often at once than may be, and its end not be known, once the dispatcher names it again.
#[test]
fn a_task_that_comes_back_has_the_calls_it_had() {
    let mut world = begun(&config(2, 8), &[9, 9]);
    let id = TaskId::new(4000);
    let asked = |world: &World| {
        let fetches = world.readers[0].fetches.iter();
        fetches.filter(|(_, fetch)| fetch.task == id).count()
    };
    let beat = |world: &mut World| {
        world.wait(1000);
        while !world.readers[0].asks.is_empty() {
            world.ask(0, 0);
        }
    };
    assert_eq!(asked(&world), 2);
    let gone = world.tasks.remove(&id).unwrap();
    beat(&mut world);
    let reader = &mut world.readers[0];
    let at = reader.fetches.iter().position(|(_, fetch)| fetch.task == id).unwrap();
    let (rpc, _) = reader.fetches.remove(at);
    reader.answer(world.now, rpc, Err(unavailable()));
    world.tasks.insert(id, gone);
    beat(&mut world);
    assert_eq!(asked(&world), 2, "one is there still, and one more");
}

/// A reader that has one call under way to each of two tasks, and wants more.
fn under_way() -> World {
    let mut world = begun(&config(1, 4), &[5, 5]);
    world.readers[0].want(world.now, 9);
    world
}

fn lose_second_task(world: &mut World) {
    world.tasks.remove(&TaskId::new(4001));
    for _ in 0..60 {
        world.wait(20);
        world.ask(0, 0);
    }
}

/// A worker says "ask again" for a task that the dispatcher no longer lists.
#[test]
fn a_skip_of_an_unlisted_task_wakes_nobody_again() {
    let mut world = under_way();
    lose_second_task(&mut world);
    let fetches = &mut world.readers[0].fetches;
    let which = fetches.iter().position(|(_, it)| it.task == TaskId::new(4001)).unwrap();
    let (rpc, _) = fetches.remove(which);
    world.readers[0].answer(world.now, rpc, Ok(Answer::Element(Fetched::Skip)));
    let now = world.now.after(Duration::from_millis(5));
    world.readers[0].step(now, rondo_core::reader::Input::Tick);
    let next = world.readers[0].reader.deadline();
    assert!(next.is_none_or(|at| at > now), "it asks to be woken at {next:?}, it is {now:?}");
}

/// A worker's host dies without a word, and the dispatcher gives the worker up.
#[test]
fn a_call_to_a_worker_that_is_gone_does_not_keep_the_end_away() {
    let mut world = under_way();
    lose_second_task(&mut world);
    let mut ended_at = None;
    let finished_at = world.now;
    for _ in 0..300 {
        let fetches = &world.readers[0].fetches;
        if let Some(which) = fetches.iter().position(|(_, it)| it.task == TaskId::new(4000)) {
            world.fetch(0, which, 9);
        }
        world.wait(100);
        world.ask(0, 0);
        if world.readers[0].ended.is_some() && ended_at.is_none() {
            ended_at = Some(world.now.since(finished_at));
        }
    }
    assert_eq!(world.readers[0].ended, Some(Ok(())));
    assert_eq!(world.readers[0].elements.len(), 5);
    // The worker may be one that only the dispatcher cannot reach.
    let patience = Duration::from_secs(9)..=Duration::from_secs(11);
    assert!(ended_at.is_some_and(|took| patience.contains(&took)), "{ended_at:?}");
    assert!(world.readers[0].fetches.is_empty(), "the call is withdrawn");
}

/// Before the end, a call to a worker that only the dispatcher cannot reach may still bring an
/// element.
#[test]
fn a_call_to_an_unlisted_task_still_delivers_before_the_end() {
    let mut world = under_way();
    lose_second_task(&mut world);
    world.wait(60_000);
    let fetches = &mut world.readers[0].fetches;
    let which = fetches.iter().position(|(_, it)| it.task == TaskId::new(4001)).unwrap();
    let (rpc, _) = fetches.remove(which);
    let element = Fetched::Element(element(4_001_000));
    world.readers[0].answer(world.now, rpc, Ok(Answer::Element(element)));
    assert_eq!(world.readers[0].elements, [4_001_000]);
}

/// Answers what a reader asks of a dispatcher that lists these tasks.
fn list(reader: &mut Consumer, now: Time, tasks: &[i64]) {
    while !reader.asks.is_empty() {
        let (rpc, request) = reader.asks.remove(0);
        let task = |id: &i64| Task {
            id: TaskId::new(*id),
            worker: format!("w{id}").into(),
            servers: Vec::new(),
            starting_round: 0,
        };
        let answer = match request {
            Request::CreateJob => Answer::Job(JobId::new(1)),
            Request::CreateIteration { .. } => Answer::Client(ClientId::new(2)),
            Request::Heartbeat { .. } => Answer::Heartbeat(HeartbeatAnswer {
                tasks: tasks.iter().map(task).collect(),
                is_finished: false,
                block_round: None,
            }),
            other => panic!("{other:?}"),
        };
        reader.answer(now, rpc, Ok(answer));
    }
}

/// Workers that hang: the dispatcher gives them up, and their calls stay open.
#[test]
fn calls_to_workers_that_were_given_up_leave_room_for_others() {
    for (workers, requests, is_full) in [(16, 4, true), (64, 1, true), (63, 1, false)] {
        let mut reader = Consumer::new(config(requests, 64));
        let mut now = Time::from_millis(1);
        reader.wait(now, 0);
        let hung: Vec<i64> = (4000..4000 + workers).collect();
        list(&mut reader, now, &hung);
        reader.want(now, 1_000_000);
        assert_eq!(reader.fetches.len(), usize::try_from(workers).unwrap() * requests);
        let asks_it = |reader: &Consumer| {
            reader.fetches.iter().any(|(_, fetch)| fetch.task == TaskId::new(9000))
        };
        let mut seconds = 0;
        while !asks_it(&reader) && seconds < 60 {
            seconds += 1;
            now = now.after(Duration::from_secs(1));
            reader.wait(now, 0);
            list(&mut reader, now, &[9000]);
        }
        let most = if is_full { 12 } else { 1 };
        assert!(seconds <= most, "{workers} workers, {requests} calls: {seconds} s");
    }
}

/// The dispatcher has given its worker up, which says nevertheless what is wrong.
#[test]
fn an_error_of_a_task_that_left_the_list_ends_the_reader() {
    let mut reader = Consumer::new(config(1, 64));
    let mut now = Time::from_millis(1);
    reader.wait(now, 0);
    list(&mut reader, now, &[4000]);
    reader.want(now, 10);
    let (rpc, _) = reader.fetches.remove(0);
    for _ in 0..2 {
        now = now.after(Duration::from_secs(1));
        reader.wait(now, 0);
        list(&mut reader, now, &[9000]);
    }
    reader.answer(now, rpc, Err(Status::new(Code::InvalidArgument, "a bad record")));
    let ended = reader.ended.expect("it ends").expect_err("an error");
    assert_eq!(ended.code, Code::InvalidArgument);
    assert!(ended.message.contains("a bad record"), "{ended:?}");
}

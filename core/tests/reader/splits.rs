//! One reader by split, step by step.

mod in_front;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rondo_core::ids::{CallId, TaskId};
use rondo_core::reader::{
    Answer, BySplit, Config, Input, Records, Request, RpcId, SplitProgress, Stall, Way,
};
use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};

use crate::actor::Actor;
use crate::server::Server;

const TASKS: [(&str, i64); 2] = [("a", 4000), ("b", 4001)];

/// A reader with a dispatcher that answers at once, and workers played by the test.
struct Story {
    actor: Actor,
    server: Server,
    now: Time,
}

fn records(first: u64, count: u64, is_last: bool) -> Records {
    let records = Bytes::from(vec![7; usize::try_from(count).unwrap() * 10]);
    Records { first, count, records, is_last, skipped: Vec::new() }
}

fn unavailable() -> Status {
    Status::new(Code::Unavailable, "connection refused")
}

impl Story {
    fn of(splits: usize, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::of(Way::BySplit(BySplit::default()));
        change(&mut config);
        let mut server = Server::new(splits);
        server.tasks.extend(TASKS.map(|(name, id)| (name.to_owned(), TaskId::new(id))));
        let mut story = Self { actor: Actor::new(config, 0), server, now: Time::from_millis(5) };
        story.tick();
        story
    }

    fn begun(splits: usize) -> Self {
        let mut story = Self::of(splits, |_| {});
        story.answer_all();
        story
    }

    fn tick(&mut self) {
        self.actor.step(self.now, Input::Tick);
    }

    fn answer_all(&mut self) {
        while !self.actor.asks.is_empty() {
            let (rpc, request) = self.actor.asks.remove(0);
            let result = self.server.take(&request);
            self.answer(rpc, result);
        }
    }

    fn answer(&mut self, rpc: RpcId, result: Result<Answer, Status>) {
        if !matches!(result, Ok(Answer::Records(_))) {
            self.actor.streams.remove(&rpc);
        } else if let Some(stream) = self.actor.streams.get_mut(&rpc) {
            stream.asked = false;
        }
        self.actor.step(self.now, Input::Answered { rpc, result, entropy: 3 });
    }

    /// The stream of the split at a place.
    fn stream(&self, place: u64) -> RpcId {
        let value = crate::server::value_of(place);
        let mut streams = self.actor.streams.iter();
        let found = streams.find(|(_, stream)| stream.read.split == value);
        *found.unwrap_or_else(|| panic!("{place} is not read: {:?}", self.actor.streams)).0
    }

    fn bring(&mut self, place: u64, records: Records) {
        self.answer(self.stream(place), Ok(Answer::Records(records)));
    }

    fn wait(&mut self, millis: u64) {
        self.now = self.now.after(Duration::from_millis(millis));
        self.tick();
    }

    fn want(&mut self, deliveries: u64) {
        self.actor.want(self.now, deliveries);
    }

    fn ended(&self) -> &Status {
        self.actor.ended.as_ref().expect("it ended").as_ref().expect_err("it failed")
    }

    fn stall(&self) -> Option<Stall> {
        self.actor.reader.report(self.now).stall
    }

    fn places(&self) -> Vec<(u64, u64, u64)> {
        let delivered = self.actor.delivered.iter();
        delivered.map(|batch| (batch.place, batch.first, batch.count)).collect()
    }
}

/// A reader that has handed on the first five records of the first of so many splits, and may hand on more.
fn handed(splits: usize) -> Story {
    let mut story = Story::begun(splits);
    story.want(9);
    story.bring(0, records(0, 5, false));
    story
}

#[test]
fn it_holds_splits_and_reads_them_of_all_workers() {
    let story = Story::begun(3);
    let streams: Vec<_> = story.actor.streams.values().map(|it| (&*it.address, &it.read)).collect();
    assert_eq!(streams.len(), 3);
    let of = |address: &str| streams.iter().filter(|(at, _)| *at == address).count();
    assert_eq!((of("a/r"), of("b/r")), (2, 1), "{streams:?}");
}

#[test]
fn splits_are_delivered_in_the_order_of_their_places() {
    let mut story = Story::begun(2);
    story.want(9);
    story.bring(1, records(0, 4, true));
    assert_eq!(story.places(), []);
    story.bring(0, records(0, 2, false));
    story.bring(0, records(2, 1, true));
    assert_eq!(story.places(), [(0, 0, 2), (0, 2, 1), (1, 0, 4)]);
}

#[test]
fn a_broken_stream_goes_on_elsewhere_at_the_first_record_that_is_missing() {
    let mut story = Story::begun(1);
    story.bring(0, records(0, 5, false));
    let broken = story.stream(0);
    let address = story.actor.streams[&broken].address.clone();
    story.answer(broken, Err(unavailable()));
    assert!(story.actor.streams.is_empty(), "not at once");
    story.wait(2);
    let again = &story.actor.streams[&story.stream(0)];
    assert_ne!(again.address, address);
    assert_eq!(again.read.skip, 5);
    let retries = story.actor.reader.report(story.now).counts.retries;
    assert_eq!(retries, 1);
}

#[test]
fn what_comes_twice_is_dropped() {
    let mut story = handed(1);
    story.bring(0, records(2, 3, false));
    story.bring(0, records(3, 4, true));
    assert_eq!(story.places(), [(0, 0, 5), (0, 5, 2)]);
    assert_eq!(story.actor.delivered[1].passed, 2);
    assert_eq!(story.actor.reader.report(story.now).counts.duplicates, 5);
}

#[test]
fn a_worker_that_leaves_records_out_is_named() {
    let mut story = Story::begun(1);
    story.bring(0, records(0, 5, false));
    story.bring(0, records(6, 1, true));
    let status = story.ended();
    assert_eq!(status.code, Code::DataLoss);
    for named in ["worker a", "split -3", "place 0", "records 6 to 7", "record 5 is next"] {
        assert!(status.message.contains(named), "{named}: {status}");
    }
}

#[test]
fn a_split_that_ends_before_what_came_before_is_refused() {
    let mut story = Story::begun(1);
    story.bring(0, records(0, 5, false));
    story.bring(0, records(0, 3, true));
    assert_eq!(story.ended().code, Code::DataLoss);
}

#[test]
fn an_error_in_the_data_ends_the_reader() {
    let mut story = Story::begun(1);
    let status = Status::new(Code::DataLoss, "x.parquet, byte 17: checksum");
    story.answer(story.stream(0), Err(status));
    let status = story.ended();
    assert_eq!(status.code, Code::DataLoss);
    assert!(status.message.contains("x.parquet, byte 17: checksum"), "{status}");
    // It leaves, so that others learn of it sooner.
    assert!(matches!(story.actor.asks[..], [(_, Request::Release { .. })]));
}

#[test]
fn what_was_consumed_is_acknowledged_now_and_then() {
    let mut story = handed(8);
    story.wait(150);
    story.actor.consume(story.now, 1);
    assert_eq!(story.actor.asks, []);
    story.wait(100);
    let progress = SplitProgress { place: 0, records: 5, is_finished: false };
    assert!(matches!(&story.actor.asks[..],
        [(_, Request::HoldSplits { progress: told, .. })] if told[..] == [progress]));
    story.answer_all();
    story.wait(400);
    let is_hold = |(_, request): &(RpcId, Request)| matches!(request, Request::HoldSplits { .. });
    assert!(!story.actor.asks.iter().any(is_hold), "once: {:?}", story.actor.asks);
}

#[test]
fn a_flush_waits_for_the_dispatcher() {
    let mut story = handed(1);
    story.actor.consume(story.now, 1);
    story.actor.step(story.now, Input::Flush { call: CallId::new(8) });
    let (rpc, request) = story.actor.asks.remove(0);
    assert!(matches!(request, Request::HoldSplits { .. }));
    story.answer(rpc, Err(unavailable()));
    assert_eq!(story.actor.flushed, []);
    assert!(matches!(story.stall(), Some(Stall::Dispatcher { .. })));
    story.wait(1000);
    story.answer_all();
    assert_eq!(story.actor.flushed, [(8, Ok(()))]);
    assert_eq!(story.server.splits[0].records, 5);
}

#[test]
fn the_end_comes_when_everybody_has_read() {
    let mut story = Story::begun(1);
    story.want(9);
    story.bring(0, records(0, 5, true));
    assert_eq!(story.actor.ended, None);
    story.actor.consume(story.now, 1);
    story.answer_all();
    assert_eq!(story.actor.ended, Some(Ok(())));
    story.actor.step(story.now, Input::Flush { call: CallId::new(4) });
    assert_eq!(story.actor.flushed, [(4, Ok(()))], "all is known already");
    story.answer_all();
    assert!(story.actor.reader.is_over());
    assert!(story.server.clients.is_empty(), "it is released");
    assert_eq!(story.actor.reader.deadline(), None);
}

#[test]
fn what_waits_to_be_consumed_does_not_keep_others_from_coming() {
    let mut story = Story::begun(9);
    story.want(99);
    for place in 0..8 {
        story.bring(place, records(0, 1, true));
        story.answer_all();
        assert_eq!(story.actor.drained, 0);
    }
    story.bring(8, records(0, 1, true));
    story.answer_all();
    assert_eq!((story.actor.delivered.len(), story.actor.drained), (9, 1));
    assert_eq!(story.stall(), Some(Stall::Unconsumed { records: 9 }));
    story.actor.consume(story.now, 9);
    story.answer_all();
    assert_eq!(story.actor.ended, Some(Ok(())));
}

/// The split of a reader that is gone comes to this one, which has not consumed anything yet.
#[test]
fn an_application_is_told_again_when_it_has_all_of_what_came_later() {
    let mut story = Story::begun(1);
    story.want(9);
    story.bring(0, records(0, 1, true));
    story.answer_all();
    assert_eq!(story.actor.drained, 1);
    story.server.splits.push(crate::server::Split::default());
    story.wait(1000);
    story.answer_all();
    assert_eq!(story.actor.drained, 1, "more is to come");
    story.bring(1, records(0, 1, true));
    story.answer_all();
    assert_eq!((story.actor.delivered.len(), story.actor.drained), (2, 2));
}

#[test]
fn closing_acknowledges_and_releases() {
    let mut story = Story::begun(2);
    story.want(1);
    story.bring(0, records(0, 5, false));
    story.actor.consume(story.now, 1);
    story.actor.step(story.now, Input::Close);
    assert!(story.actor.streams.is_empty(), "nothing is read any more");
    story.answer_all();
    assert!(story.actor.reader.is_over());
    let split = &story.server.splits[0];
    assert_eq!((split.records, split.holder), (5, None));
}

#[test]
fn a_dispatcher_that_is_away_does_not_keep_a_reader_from_leaving() {
    let mut story = Story::begun(2);
    story.want(1);
    story.bring(0, records(0, 5, false));
    story.actor.consume(story.now, 1);
    story.actor.step(story.now, Input::Close);
    for _ in 0..2 {
        let due = story.actor.reader.deadline().expect("it waits");
        story.now = due;
        story.tick();
    }
    assert!(story.actor.reader.is_over());
}

#[test]
fn a_reader_that_is_given_up_says_what_it_had_acknowledged() {
    let mut story = handed(2);
    story.actor.consume(story.now, 1);
    story.wait(300);
    story.answer_all();
    let client = story.actor.clients[0];
    story.server.forget(client);
    story.wait(1000);
    story.answer_all();
    let status = story.ended();
    assert_eq!(status.code, Code::NotFound);
    for named in ["given this reader up", "0 up to record 5", "1 up to record 0"] {
        assert!(status.message.contains(named), "{named}: {status}");
    }
    assert!(story.actor.reader.is_over(), "nobody is told: nobody knows it");
}

#[test]
fn it_says_why_it_stalls() {
    let mut story = Story::of(1, |config| config.buffer_deliveries_max = 2);
    story.server.tasks.clear();
    story.answer_all();
    story.want(1);
    assert_eq!(story.stall(), Some(Stall::NoWorkers { unsuited: 0 }));
    story.server.tasks.insert("a".into(), TaskId::new(4000));
    story.wait(1000);
    story.answer_all();
    assert_eq!(story.stall(), None);
    for first in 0..3 {
        story.bring(0, records(first, 1, false));
    }
    assert_eq!(story.stall(), Some(Stall::Application));
    assert!(!story.actor.streams[&story.stream(0)].asked, "no more is asked for");
    story.want(9);
    story.bring(0, records(3, 1, true));
    assert_eq!(story.stall(), Some(Stall::Unconsumed { records: 4 }));
    story.actor.consume(story.now, 4);
    story.server.splits.push(crate::server::Split::default());
    story.server.splits[1].holder = Some(rondo_core::ids::ClientId::new(1));
    story.answer_all();
    assert_eq!(story.stall(), Some(Stall::NoSplits));
    story.server.is_with_workers = true;
    story.wait(5000);
    story.answer_all();
    let stall = story.stall().unwrap();
    assert_eq!(stall, Stall::WithWorkers);
    assert!(stall.sentence().starts_with("workers took what is left"), "{}", stall.sentence());
}

#[test]
fn workers_out_of_reach_are_told_of_after_a_while() {
    let mut story = Story::of(1, |config| config.worker_patience = Duration::from_secs(5));
    story.answer_all();
    for _ in 0..60 {
        if !story.actor.streams.is_empty() {
            story.answer(story.stream(0), Err(unavailable()));
        }
        if story.now < Time::from_millis(4000) {
            assert_eq!(story.stall(), None);
        }
        story.wait(100);
        story.answer_all();
    }
    assert!(matches!(story.stall(), Some(Stall::Workers { .. })), "{:?}", story.stall());
    assert_eq!(story.actor.ended, None, "it waits for them");
}

#[test]
fn streams_of_tasks_that_are_gone_are_read_elsewhere() {
    let mut story = Story::begun(2);
    story.server.tasks.remove("a");
    story.wait(1000);
    story.answer_all();
    let addresses: Vec<_> = story.actor.streams.values().map(|it| &*it.address).collect();
    assert_eq!(addresses, ["b/r", "b/r"]);
}

#[test]
fn a_split_that_the_dispatcher_takes_away_ends_the_reader() {
    let mut story = Story::begun(2);
    story.server.splits[0].holder = None;
    story.server.splits[0].is_finished = true;
    story.actor.step(story.now, Input::Flush { call: CallId::new(1) });
    story.answer_all();
    let status = story.ended();
    assert_eq!(status.code, Code::Aborted);
    assert!(status.message.contains("place 0"), "{status}");
}

#[test]
fn a_refused_job_ends_it_at_once() {
    let mut story = Story::of(1, |_| {});
    let (rpc, _) = story.actor.asks.remove(0);
    let status = Status::new(Code::InvalidArgument, "another dataset");
    story.answer(rpc, Err(status));
    assert!(story.ended().message.contains("another dataset"));
    assert!(story.actor.reader.is_over());
}

#[test]
fn a_dispatcher_that_restarts_is_waited_for() {
    let mut story = Story::of(1, |_| {});
    for _ in 0..20 {
        for (rpc, _) in std::mem::take(&mut story.actor.asks) {
            story.answer(rpc, Err(unavailable()));
        }
        story.wait(1000);
    }
    assert!(matches!(story.stall(), Some(Stall::Dispatcher { .. })));
    story.answer_all();
    assert_eq!(story.actor.streams.len(), 1);
}

/// A worker that finished a task of the iteration for consumers of elements has another one for
/// readers by split. The dispatcher lists both, and the worker has forgotten the first.
#[test]
fn the_task_that_can_still_give_is_asked() {
    for entropy in 0..4 {
        let mut server = Server::new(2);
        server.tasks.insert("a".to_owned(), TaskId::new(4000));
        let config = Config::of(Way::BySplit(BySplit::default()));
        let mut story =
            Story { actor: Actor::new(config, entropy), server, now: Time::from_millis(5) };
        story.tick();
        let (mut refused, mut served) = (0, 0);
        for _ in 0..20 {
            while !story.actor.asks.is_empty() {
                let (rpc, request) = story.actor.asks.remove(0);
                let mut result = story.server.take(&request);
                if let Ok(Answer::Heartbeat(heartbeat)) = &mut result {
                    let mut again = heartbeat.tasks[0].clone();
                    again.id = TaskId::new(4007);
                    heartbeat.tasks.push(again);
                }
                story.answer(rpc, result);
            }
            let streams: Vec<_> =
                story.actor.streams.iter().map(|(rpc, it)| (*rpc, it.read.task)).collect();
            for (rpc, task) in streams {
                if task == TaskId::new(4007) {
                    served += 1;
                } else {
                    let status = Status::new(Code::Unavailable, "Task 4000 not found");
                    story.answer(rpc, Err(status));
                    refused += 1;
                }
            }
            story.wait(100);
        }
        assert!(served > 0 && refused == 0, "{served} calls were served, {refused} refused");
    }
}

/// The newest task of a worker may be unknown to it, since the push is under way: then the reader
/// asks the other one, and so on.
#[test]
fn a_task_that_fails_is_not_asked_twice_in_a_row() {
    let mut story = Story::of(1, |_| {});
    story.server.tasks.remove("b");
    let mut asked = Vec::new();
    for _ in 0..40 {
        while !story.actor.asks.is_empty() {
            let (rpc, request) = story.actor.asks.remove(0);
            let mut result = story.server.take(&request);
            if let Ok(Answer::Heartbeat(heartbeat)) = &mut result {
                let mut again = heartbeat.tasks[0].clone();
                again.id = TaskId::new(4007);
                heartbeat.tasks.push(again);
            }
            story.answer(rpc, result);
        }
        let stream = story.actor.streams.iter().next().map(|(rpc, it)| (*rpc, it.read.task));
        if let Some((rpc, task)) = stream {
            asked.push(task.get());
            story.answer(rpc, Err(Status::new(Code::Unavailable, "Task not found")));
        }
        story.wait(100);
    }
    assert!(asked.len() > 3, "{asked:?}");
    assert!(asked.windows(2).all(|pair| pair[0] != pair[1]), "{asked:?}");
}

/// Tasks that were over before their workers were lost stay in the list.
#[test]
fn workers_that_are_gone_do_not_keep_a_reader_from_one_that_lives() {
    let mut story = Story::of(1, |_| {});
    let names = ["c", "d", "e", "f", "g", "h"].into_iter().zip(4002..);
    story.server.tasks.extend(names.map(|(name, id)| (name.to_owned(), TaskId::new(id))));
    story.answer_all();
    let asks_h = |story: &Story| story.actor.streams.values().any(|it| &*it.address == "h/r");
    for _ in 0..3000 {
        if asks_h(&story) {
            return;
        }
        if let Some(rpc) = story.actor.streams.keys().next().copied() {
            story.answer(rpc, Err(unavailable()));
        }
        story.wait(100);
        story.answer_all();
    }
    panic!("it never asks h: {:?}", story.actor.reader.report(story.now));
}

/// Consumers by element may have ended each task. The dispatcher makes another one for those who ask for
/// splits, also if they hold as many as they want.
#[test]
fn a_reader_that_no_worker_serves_asks_the_dispatcher() {
    let way = BySplit { hold: 1, ..BySplit::default() };
    let mut story = Story::of(2, |config| config.way = Way::BySplit(way));
    story.answer_all();
    let asks = |story: &mut Story, is_served: bool| {
        let mut asks = 0;
        for _ in 0..50 {
            if let Some(rpc) = story.actor.streams.keys().next().copied().filter(|_| !is_served) {
                story.answer(rpc, Err(Status::new(Code::Unavailable, "Task not found")));
            }
            let is_hold =
                |(_, asked): &&(RpcId, Request)| matches!(asked, Request::HoldSplits { .. });
            asks += story.actor.asks.iter().filter(is_hold).count();
            story.answer_all();
            story.wait(100);
        }
        asks
    };
    let unserved = asks(&mut story, false);
    assert!((2..=30).contains(&unserved), "{unserved} requests in 5 s");
    while story.actor.streams.is_empty() {
        story.wait(100);
    }
    story.bring(0, records(0, 1, false));
    story.answer_all();
    assert_eq!(asks(&mut story, true), 0, "it is served");
}

/// A proxy answers in the dispatcher's place, or the dispatcher has as many calls as it takes.
#[test]
fn a_reader_that_has_joined_outlives_errors_of_the_way() {
    for code in [Code::Unknown, Code::Internal, Code::ResourceExhausted] {
        let mut story = Story::begun(2);
        let mut refused = 0;
        for _ in 0..60 {
            while let Some((rpc, _)) = story.actor.asks.pop() {
                story.answer(rpc, Err(Status::new(code, "a proxy")));
                refused += 1;
            }
            story.wait(500);
        }
        assert!(refused > 5, "{code:?}: {refused}");
        assert!(!story.actor.reader.is_over(), "{code:?}");
        story.want(5);
        story.answer_all();
        story.bring(0, records(0, 5, true));
        assert!(!story.actor.reader.is_over(), "{code:?}");
    }
}

#[test]
fn a_refused_job_ends_a_reader() {
    for code in [Code::Internal, Code::Unimplemented] {
        let mut story = Story::of(2, |_| {});
        let (rpc, request) = story.actor.asks.remove(0);
        assert!(matches!(request, Request::CreateJob), "{request:?}");
        story.answer(rpc, Err(Status::new(code, "no dispatcher")));
        assert!(story.actor.reader.is_over(), "{code:?}");
    }
}

fn closing() -> Story {
    let mut story = Story::begun(2);
    story.want(5);
    story.bring(0, records(0, 5, false));
    story.actor.step(story.now, Input::Consumed { upto: vec![(0, 5)] });
    story.actor.asks.clear();
    story.actor.step(story.now, Input::Close);
    story
}

/// The dispatcher restarts while a reader closes: the reader says again what was consumed.
#[test]
fn last_words_are_repeated_while_the_dispatcher_is_away() {
    for code in [Code::Unavailable, Code::DeadlineExceeded, Code::Internal, Code::Unknown] {
        let mut story = closing();
        for turn in 0..60 {
            if !story.actor.asks.is_empty() && turn < 15 {
                let (rpc, _) = story.actor.asks.remove(0);
                story.answer(rpc, Err(Status::new(code, "it restarts")));
            }
            story.wait(100);
            if turn >= 15 {
                story.answer_all();
            }
        }
        assert!(story.actor.reader.is_over(), "{code:?}");
        assert_eq!(story.actor.reader.left(), Some(&Ok(())), "{code:?}");
        let split = &story.server.splits[0];
        assert_eq!((split.records, split.holder), (5, None), "{code:?}");
        assert!(story.server.clients.is_empty(), "{code:?}: it is released");
    }
}

#[test]
fn a_reader_says_that_its_last_words_were_not_heard() {
    let mut story = closing();
    assert_eq!(story.actor.reader.left(), None, "it leaves");
    let (mut asked, began) = (0, story.now);
    while !story.actor.reader.is_over() {
        while !story.actor.asks.is_empty() {
            let (rpc, _) = story.actor.asks.remove(0);
            asked += 1;
            story.answer(rpc, Err(unavailable()));
        }
        story.wait(10);
    }
    let took = story.now.since(began);
    assert!(took <= Duration::from_millis(4_100), "twice leave_patience: {took:?}");
    assert!((10..200).contains(&asked), "{asked} calls");
    let left = story.actor.reader.left().cloned().unwrap().unwrap_err();
    assert_eq!(left.code, Code::Unavailable);
    for named in ["not told what was consumed last", "connection refused"] {
        assert!(left.message.contains(named), "{named}: {left}");
    }
}

/// The dispatcher is back too late for the acknowledgement, and in time for the release.
#[test]
fn a_reader_whose_last_words_were_not_heard_still_says_that_it_leaves() {
    let mut story = closing();
    for _ in 0..25 {
        while let Some((rpc, _)) = story.actor.asks.pop() {
            story.answer(rpc, Err(unavailable()));
        }
        story.wait(100);
    }
    assert!(!story.actor.reader.is_over(), "it has leave_patience to say so");
    story.wait(200);
    story.answer_all();
    assert!(story.actor.reader.is_over());
    assert!(story.server.clients.is_empty(), "it is released");
    let left = story.actor.reader.left().cloned().unwrap().unwrap_err();
    assert!(left.message.contains("not told what was consumed last"), "{left}");
}

#[test]
fn a_reader_that_was_given_up_says_so_when_it_closes() {
    let mut story = closing();
    let (rpc, _) = story.actor.asks.remove(0);
    story.answer(rpc, Err(Status::new(Code::NotFound, "Unknown iteration client id")));
    assert!(story.actor.reader.is_over());
    let left = story.actor.reader.left().cloned().unwrap().unwrap_err();
    assert_eq!(left.code, Code::NotFound);
}

/// Nobody is there to whom it could still say what was consumed.
#[test]
fn a_reader_that_is_given_up_does_not_wait_to_say_what_was_consumed() {
    let mut story = handed(1);
    story.actor.consume(story.now, 1);
    story.actor.step(story.now, Input::Flush { call: CallId::new(8) });
    let (rpc, _) = story.actor.asks.remove(0);
    story.answer(rpc, Err(Status::new(Code::NotFound, "Unknown iteration client id")));
    assert!(story.actor.reader.is_over());
    assert!(matches!(story.actor.flushed[..], [(8, Err(_))]), "{:?}", story.actor.flushed);
    let left = story.actor.reader.left().cloned().unwrap().unwrap_err();
    assert_eq!(left.code, Code::NotFound);
}

/// The application consumes records while a request is under way, so that the request lacks them.
#[test]
fn a_flush_waits_for_what_was_consumed_before_it() {
    let mut story = handed(1);
    story.actor.consume(story.now, 1);
    story.actor.step(story.now, Input::Flush { call: CallId::new(8) });
    let (first, request) = story.actor.asks.remove(0);
    let result = story.server.take(&request);
    story.bring(0, records(5, 5, false));
    story.actor.consume(story.now, 1);
    story.actor.step(story.now, Input::Flush { call: CallId::new(9) });
    story.answer(first, result);
    assert_eq!(story.actor.flushed, [(8, Ok(()))], "the second five are not known yet");
    story.answer_all();
    assert_eq!(story.actor.flushed, [(8, Ok(())), (9, Ok(()))]);
    assert_eq!(story.server.splits[0].records, 10);
}

/// The dispatcher refuses the reader while its application is still busy with what it was handed.
#[test]
fn what_is_consumed_after_the_end_is_not_said_to_be_known() {
    let mut story = handed(1);
    story.actor.step(story.now, Input::Flush { call: CallId::new(8) });
    let (rpc, _) = story.actor.asks.remove(0);
    story.answer(rpc, Err(Status::new(Code::FailedPrecondition, "a position was restored")));
    let ended = story.actor.ended.clone().unwrap().unwrap_err();
    assert_eq!(ended.code, Code::FailedPrecondition);
    story.actor.flushed.clear();
    story.actor.step(story.now, Input::Flush { call: CallId::new(9) });
    assert_eq!(story.actor.flushed, [(9, Ok(()))], "nothing was consumed");
    story.actor.consume(story.now, 1);
    story.actor.step(story.now, Input::Flush { call: CallId::new(10) });
    let (call, result) = story.actor.flushed.pop().unwrap();
    assert_eq!((call, result.unwrap_err().code), (10, Code::Unavailable));
    story.answer_all();
    let left = story.actor.reader.left().cloned().unwrap().unwrap_err();
    assert!(left.message.contains("not told what was consumed last"), "{left}");
    assert_eq!(story.server.splits[0].records, 0);
}

#[test]
fn a_reader_that_is_closed_while_it_joins_leaves_no_client() {
    let mut story = Story::of(1, |_| {});
    let joins = |story: &Story| {
        let first = story.actor.asks.first();
        matches!(first, Some((_, Request::CreateIteration { .. })))
    };
    while !joins(&story) {
        let (rpc, request) = story.actor.asks.remove(0);
        let result = story.server.take(&request);
        story.answer(rpc, result);
    }
    story.actor.step(story.now, Input::Close);
    story.answer_all();
    assert!(story.actor.reader.is_over());
    assert!(story.server.clients.is_empty(), "{:?}", story.server.clients);
}

/// The application consumes, after a reader has failed, what was delivered before.
#[test]
fn a_reader_that_failed_says_that_the_last_deliveries_are_not_acknowledged() {
    let mut story = handed(2);
    story.answer(story.stream(1), Err(Status::new(Code::DataLoss, "checksum")));
    assert_eq!(story.ended().code, Code::DataLoss);
    story.actor.consume(story.now, 1);
    story.actor.step(story.now, Input::Flush { call: CallId::new(8) });
    story.answer_all();
    assert!(matches!(story.actor.flushed[..], [(8, Err(_))]), "{:?}", story.actor.flushed);
    assert!(story.actor.reader.left().unwrap().is_err());
    assert_eq!(story.server.splits[0].records, 0, "others read them again");
}

/// The application never gets to what it was handed before the reader failed.
#[test]
fn a_reader_that_failed_says_that_deliveries_were_left_unconsumed() {
    let mut story = handed(2);
    story.answer(story.stream(1), Err(Status::new(Code::DataLoss, "checksum")));
    story.answer_all();
    let left = story.actor.reader.left().cloned().unwrap().unwrap_err();
    assert!(left.message.contains("before all that it delivered was consumed"), "{left}");
}

/// The dispatcher gives a reader up while its release is under way, or the answer to it got lost.
#[test]
fn a_reader_of_which_the_dispatcher_knows_nothing_has_left() {
    let mut story = closing();
    let (rpc, request) = story.actor.asks.remove(0);
    let result = story.server.take(&request);
    story.answer(rpc, result);
    let (rpc, request) = story.actor.asks.remove(0);
    assert!(matches!(request, Request::Release { .. }), "{request:?}");
    story.answer(rpc, Err(Status::new(Code::NotFound, "Unknown iteration client id")));
    assert!(story.actor.reader.is_over());
    assert_eq!(story.actor.reader.left(), Some(&Ok(())));
}

/// All that was delivered is consumed and acknowledged; a batch that the application was never
/// handed waits.
#[test]
fn a_reader_that_failed_after_all_deliveries_were_consumed_says_so() {
    let mut story = Story::begun(2);
    story.want(1);
    story.bring(0, records(0, 5, false));
    story.bring(0, records(5, 5, false));
    assert_eq!(story.places(), [(0, 0, 5)]);
    story.actor.consume(story.now, 1);
    story.answer(story.stream(1), Err(Status::new(Code::DataLoss, "checksum")));
    assert_eq!(story.ended().code, Code::DataLoss);
    story.answer_all();
    assert_eq!(story.server.splits[0].records, 5, "the dispatcher knows all that was delivered");
    assert_eq!(story.actor.reader.left(), Some(&Ok(())));
}

/// The dispatcher has made a client, and its answer gets lost while the reader is being closed.
#[test]
fn a_reader_closed_while_it_joins_does_not_say_that_it_left_when_the_answer_is_lost() {
    let mut story = Story::of(1, |_| {});
    let (rpc, request) = story.actor.asks.remove(0);
    let result = story.server.take(&request);
    story.answer(rpc, result);
    let (rpc, request) = story.actor.asks.remove(0);
    assert!(matches!(request, Request::CreateIteration { .. }), "{request:?}");
    story.actor.step(story.now, Input::Close);
    let _lost = story.server.take(&request);
    story.answer(rpc, Err(unavailable()));
    story.answer_all();
    assert!(story.actor.reader.is_over());
    assert!(!story.server.clients.is_empty(), "the dispatcher has a client");
    let left = story.actor.reader.left();
    assert!(left.is_some_and(|left| left.is_err()), "it says {left:?}");
}

#[test]
fn a_reader_that_is_refused_while_it_is_being_closed_has_nothing_to_tell() {
    let mut story = Story::of(1, |_| {});
    let (rpc, request) = story.actor.asks.remove(0);
    let result = story.server.take(&request);
    story.answer(rpc, result);
    let (rpc, request) = story.actor.asks.remove(0);
    assert!(matches!(request, Request::CreateIteration { .. }), "{request:?}");
    story.actor.step(story.now, Input::Close);
    story.answer(rpc, Err(Status::new(Code::InvalidArgument, "no such job")));
    assert!(story.actor.reader.is_over());
    assert_eq!(story.actor.reader.left(), Some(&Ok(())), "there is no client");
}

/// A reader that was given records of two splits.
fn two_delivered() -> Story {
    let mut story = Story::begun(2);
    story.want(9);
    story.bring(0, records(0, 2, true));
    story.bring(1, records(0, 4, false));
    assert_eq!(story.places(), [(0, 0, 2), (1, 0, 4)]);
    story
}

/// A batch of the application that spans two splits is consumed at once.
#[test]
fn what_was_consumed_of_several_splits_at_once_is_acknowledged() {
    let mut story = two_delivered();
    story.actor.asks.clear();
    story.actor.step(story.now, Input::Consumed { upto: vec![(0, 2), (1, 3)] });
    story.actor.step(story.now, Input::Flush { call: CallId::new(1) });
    let told = story.actor.asks.iter().find_map(|(_, request)| match request {
        Request::HoldSplits { progress, .. } => Some(progress.iter()),
        _ => None,
    });
    let told = told.unwrap().map(|split| (split.place, split.records, split.is_finished));
    assert_eq!(told.collect::<Vec<_>>(), [(0, 2, true), (1, 3, false)]);
}

#[test]
fn records_of_any_split_that_are_consumed_too_late_end_in_an_error() {
    let mut story = two_delivered();
    story.actor.step(story.now, Input::Consumed { upto: vec![(0, 2)] });
    story.actor.step(story.now, Input::Close);
    story.actor.step(story.now, Input::Consumed { upto: vec![(0, 2), (1, 4)] });
    for _ in 0..60 {
        story.answer_all();
        story.wait(100);
    }
    assert!(story.actor.reader.is_over());
    assert!(story.actor.reader.left().unwrap().is_err());
}

#[test]
fn a_reader_that_holds_splits_and_knows_no_task_asks_the_dispatcher() {
    let way = BySplit { hold: 1, ..BySplit::default() };
    let mut story = Story::of(2, |config| config.way = Way::BySplit(way));
    story.server.tasks.clear();
    let mut asks = 0;
    for _ in 0..60 {
        let is_hold = |(_, asked): &&(RpcId, Request)| matches!(asked, Request::HoldSplits { .. });
        asks += story.actor.asks.iter().filter(is_hold).count();
        story.answer_all();
        story.wait(100);
    }
    assert!(asks > 2, "{asks}");
}

#[test]
fn the_report_names_the_client_and_counts_each_split_it_took_once() {
    let mut story = Story::begun(3);
    let report = story.actor.reader.report(story.now);
    assert_eq!(report.client, story.actor.reader.client());
    assert_eq!(report.splits_taken, 3);
    story.want(9);
    story.bring(0, records(0, 2, true));
    story.actor.consume(story.now, 1);
    for _ in 0..30 {
        story.answer_all();
        story.wait(100);
    }
    let report = story.actor.reader.report(story.now);
    assert_eq!((report.splits_taken, report.splits_held), (3, 2));
}

/// Two silent workers are back. One of them begins a split that has no end; the other is tried as well.
#[test]
fn a_trial_is_over_with_the_first_records() {
    let way = BySplit { hold: 1000, streams: 3, ..BySplit::default() };
    let mut story = Story::of(1000, |config| {
        config.way = Way::BySplit(way);
        config.buffer_deliveries_max = 100_000;
    });
    story.server.tasks.insert("c".into(), TaskId::new(4002));
    let mut opened = BTreeMap::new();
    let mut back = BTreeSet::new();
    for second in 0..500_u64 {
        story.answer_all();
        let streams: Vec<_> = story.actor.streams.clone().into_iter().collect();
        for (rpc, stream) in streams.into_iter().filter(|(_, stream)| stream.asked) {
            let since = *opened.entry(rpc).or_insert(second);
            let skip = stream.read.skip;
            if &*stream.address == "a/r" {
                story.answer(rpc, Ok(Answer::Records(records(skip, 1, true))));
            } else if second < 60 && second - since >= 20 {
                story.answer(rpc, Err(unavailable()));
            } else if second >= 60 && back.insert(stream.address) {
                story.answer(rpc, Ok(Answer::Records(records(skip, 1, false))));
            }
        }
        story.wait(1000);
    }
    assert_eq!(back.len(), 2, "{back:?}");
}

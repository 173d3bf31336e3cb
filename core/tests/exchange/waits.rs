//! Who waits for requests, for how long, and what is known of them afterwards.

use rondo_core::exchange::worker::{Complete, Input, Since};
use rondo_core::exchange::{Config, Handler, Leg, Offset, Passage, Refusal, ServerRank};
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;

use crate::bed::{WorkerBed, tensor};

fn late(after_ms: u64, missing: &[u32]) -> Refusal {
    Refusal::Late {
        handler: Handler::new(0),
        after: Duration::from_millis(after_ms),
        missing: missing.iter().copied().map(ServerRank::new).collect(),
    }
}

#[test]
fn who_waits_too_long_is_told_of_whom_answers_are_missing_and_can_wait_again() {
    let mut bed = WorkerBed::new(Config::default(), 2);
    bed.exchange(&[1], &[7, 8]).unwrap();
    let (call, _) = bed.wait(0, Some(100), Since::Call);
    bed.answer(0, 1, vec![tensor(7, 50)]);
    bed.pass(99);
    assert_eq!(bed.waited(call), None);
    bed.pass(1);
    assert_eq!(bed.waited(call), Some(Err(late(100, &[1]))));
    let status = Status::from(late(100, &[1]));
    assert_eq!(status.code, Code::DeadlineExceeded);
    let text = "handler 0 is not complete after 100 ms: no answer of servers 1";
    assert_eq!(status.message, text);
    let (call, _) = bed.wait(0, Some(100), Since::Call);
    bed.answer(1, 1, vec![tensor(8, 60)]);
    assert_eq!(bed.waited(call), Some(Ok(Complete::default())));
}

#[test]
fn a_time_may_count_from_when_the_request_was_made() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    bed.exchange(&[1], &[7]).unwrap();
    bed.pass(150);
    assert_eq!(bed.wait(0, Some(100), Since::Request).1, Some(Err(late(100, &[0]))));
    assert_eq!(bed.wait(0, Some(100), Since::Call).1, None);
}

#[test]
fn a_request_is_waited_for_once() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    bed.exchange(&[1], &[7]).unwrap();
    bed.answer(0, 1, vec![tensor(7, 50)]);
    assert_eq!(bed.wait(0, None, Since::Call).1, Some(Ok(Complete::default())));
    let (handler, next) = (Handler::new(0), Handler::new(2));
    let unknown = Refusal::UnknownHandler { handler, next };
    assert_eq!(bed.wait(0, None, Since::Call).1, Some(Err(unknown.clone())));
    assert!(Status::from(unknown).message.contains("unknown or already waited for"));
    let ahead = Refusal::UnknownHandler { handler: next, next };
    assert_eq!(bed.wait(2, None, Since::Call).1, Some(Err(ahead)));
}

#[test]
fn one_of_its_other_handlers_waits_for_all_of_it_and_leaves_it_to_be_waited_for() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    bed.exchange(&[1], &[7]).unwrap();
    let (call, _) = bed.wait(1, None, Since::Call);
    bed.pushed(0, 1);
    assert_eq!(bed.waited(call), None);
    bed.answer(0, 1, vec![tensor(7, 50)]);
    assert_eq!(bed.waited(call), Some(Ok(Complete::default())));
    assert_eq!(bed.wait(0, None, Since::Call).1, Some(Ok(Complete::default())));
}

#[test]
fn who_gives_up_is_told_nothing_and_the_request_stays() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    bed.exchange(&[1], &[7]).unwrap();
    let (call, _) = bed.wait(0, Some(100), Since::Call);
    bed.step(Input::Cancel { call });
    bed.pass(200);
    assert_eq!((bed.waited(call), bed.machine.report().calls), (None, 0));
    bed.answer(0, 1, vec![tensor(7, 50)]);
    assert_eq!(bed.wait(0, None, Since::Call).1, Some(Ok(Complete::default())));
}

#[test]
fn who_waits_for_a_request_that_is_given_up_is_told() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    bed.exchange(&[1], &[7]).unwrap();
    let (call, _) = bed.wait(0, None, Since::Call);
    let handler = Handler::new(0);
    bed.step(Input::Abandon { handler });
    assert_eq!(bed.waited(call), Some(Err(Refusal::Abandoned { handler })));
    assert_eq!(bed.machine.report().requests, 0);
}

#[test]
fn more_calls_than_may_wait_are_refused() {
    let mut bed = WorkerBed::new(Config { calls_max: 1, ..Config::default() }, 1);
    bed.exchange(&[1], &[7]).unwrap();
    assert_eq!(bed.wait(0, None, Since::Call).1, None);
    let refused = Some(Err(Refusal::TooManyCalls { max: 1 }));
    assert_eq!(bed.wait(0, None, Since::Call).1, refused);
}

#[test]
fn who_waits_when_the_worker_stops_is_told() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    bed.exchange(&[1], &[7]).unwrap();
    let (call, _) = bed.wait(0, None, Since::Call);
    bed.step(Input::Stop);
    assert_eq!(bed.waited(call), Some(Err(Refusal::Stopped)));
    assert_eq!(bed.exchange(&[1], &[7]), Err(Refusal::Stopped));
    assert_eq!(bed.machine.deadline(), None);
}

#[test]
fn stamps_are_those_of_the_push_and_of_the_pull_also_after_the_wait_until_too_many_follow() {
    let mut bed = WorkerBed::new(Config { traces_max: 1, ..Config::default() }, 1);
    bed.exchange(&[1], &[7]).unwrap();
    bed.pushed(0, 1);
    bed.answer(0, 1, vec![tensor(7, 50)]);
    let now = bed.now.as_nanos();
    let of =
        |bed: &WorkerBed, handler| bed.machine.trace(Handler::new(handler)).map(|it| *it.get());
    for _ in 0..2 {
        assert_eq!(of(&bed, 0), Ok([1, 2, 20, 21, 22, 23, now, now]));
        assert_eq!(of(&bed, 1), Ok([1, 2, 30, 31, 40, 41, now, now]));
        bed.wait(0, None, Since::Call);
    }
    assert!(of(&bed, 2).is_err());
    bed.exchange(&[1], &[7]).unwrap();
    bed.answer(0, 2, vec![tensor(7, 50)]);
    bed.wait(2, None, Since::Call);
    assert!(of(&bed, 0).is_err(), "one request is remembered");
    assert!(of(&bed, 3).is_ok());
}

#[test]
fn a_clock_is_known_as_well_as_the_best_answer_tells() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    assert_eq!(bed.machine.offset(ServerRank::new(0)), None);
    let ask = |bed: &mut WorkerBed, nth: u64, ways: u64| {
        bed.exchange(&[], &[7]).unwrap();
        // The server is a second ahead, and takes 5 ms.
        let now = bed.now.as_nanos();
        let (there, took) = (now + 1_000_000_000 + ways, 5_000_000);
        let stamps = [now, 0, there, there, there + took, there + took, 0, 0];
        bed.now = bed.now.after(Duration::from_nanos(2 * ways + took));
        let answer = rondo_core::exchange::message::Answer {
            number: crate::bed::number(nth),
            tensors: vec![tensor(7, 50)],
            stamps: rondo_core::exchange::Stamps::new(stamps),
        };
        bed.hear(0, rondo_core::exchange::message::ToWorker::Answer(answer));
    };
    ask(&mut bed, 1, 3_000);
    ask(&mut bed, 2, 9_000_000);
    let known = Offset { nanos: 1_000_000_000, error_nanos: 3_000 };
    assert_eq!(bed.machine.offset(ServerRank::new(0)), Some(known));
}

#[test]
fn every_way_to_a_server_and_back_is_kept_once_until_too_many_follow() {
    let mut bed = WorkerBed::new(Config { traces_max: 3, ..Config::default() }, 2);
    bed.exchange(&[1], &[7, 7]).unwrap();
    let all = |bed: &WorkerBed, after| {
        let passages = bed.machine.page(bed.now, after).passages;
        let brief = |it: &Passage| {
            (it.number, it.handler.get(), it.leg, it.server.get(), it.bytes, it.stamps.get()[2])
        };
        passages.iter().map(brief).collect::<Vec<_>>()
    };
    assert_eq!(all(&bed, 0), []);
    bed.pushed(1, 1);
    bed.pushed(1, 1);
    bed.answer(0, 1, vec![tensor(7, 50)]);
    bed.pushed(0, 1);
    bed.answer(1, 1, vec![tensor(7, 51)]);
    bed.answer(1, 1, vec![tensor(7, 51)]);
    let first = (1, 0, Leg::Push, 1, 8, 20);
    let (second, third) = ((2, 1, Leg::Pull, 0, 8, 30), (3, 1, Leg::Pull, 1, 8, 30));
    assert_eq!(all(&bed, 0), [first, second, third], "an answer says that the push has arrived");
    assert_eq!(all(&bed, 1), [second, third]);
    bed.exchange(&[2], &[]).unwrap();
    bed.answer(0, 2, vec![]);
    let fourth = (4, 2, Leg::Push, 0, 8, 30);
    assert_eq!(all(&bed, 0), [second, third, fourth], "three are kept");
    let page = bed.machine.page(bed.now, 0);
    assert_eq!((page.last, page.received, page.answered), (4, bed.now, bed.now));
    assert_eq!(bed.machine.page(bed.now, 9).passages, []);
}

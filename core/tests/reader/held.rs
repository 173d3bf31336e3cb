//! A worker answers while consumers vote to give its task up. The consumer withdraws its vote, and hands the
//! answer on only when it knows that the task stays: if all have agreed, the others go on without the task.

use rondo_core::ids::TaskId;
use rondo_core::reader::{Answer, Fetched, HeartbeatAnswer, Request, RpcId, Stall, Task};
use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};

use crate::consumer::{Consumer, element};
use crate::rounds::begun;

const TASK: TaskId = TaskId::new(4001);

/// One of two consumers, whose only task could not be reached twice: it votes, and asks the task again.
fn doubting() -> (Consumer, Time) {
    let mut world = begun(2, 1);
    let mut now = world.now;
    let mut consumer = world.consumers.swap_remove(0);
    consumer.want(now, 5);
    for _ in 0..2 {
        let (rpc, _) = consumer.fetches.remove(0);
        consumer.answer(now, rpc, Err(Status::new(Code::Unavailable, "gone")));
        while consumer.fetches.is_empty() {
            consumer.wait(now, 1);
            now = now.after(Duration::from_millis(1));
        }
    }
    (consumer, now)
}

/// When a vote surely has ended, after it was cast.
const VOTE_ENDS: Duration = Duration::from_secs(12);

/// A moment before.
const fn before(time: Time) -> Time {
    Time::from_millis(time.as_nanos() / 1_000_000 - 20)
}

/// One of two consumers, whose only task has answered while a vote on it waits, the present time, which is
/// that of the vote, and the vote.
fn holding() -> (Consumer, Time, RpcId) {
    let (mut consumer, now) = doubting();
    let vote = vote_of(&mut consumer, 0);
    assert_eq!(consumer.fetches.len(), 1, "the worker is asked again while the vote waits");
    let (rpc, fetch) = consumer.fetches.remove(0);
    assert_eq!(fetch.round, Some((0, 0)));
    consumer.answer(now, rpc, Ok(Answer::Element(Fetched::Element(element(7)))));
    assert_eq!(consumer.elements, [0; 0], "it is held");
    (consumer, now, vote)
}

/// Takes the vote that the consumer has cast, which names this round.
fn vote_of(consumer: &mut Consumer, round: i64) -> RpcId {
    let votes = |request: &Request| matches!(request, Request::RemoveTask { .. });
    let at = consumer.asks.iter().position(|(_, request)| votes(request)).expect("a vote");
    let (rpc, request) = consumer.asks.remove(at);
    assert_eq!(request, Request::RemoveTask { task: TASK, consumer: 0, round });
    rpc
}

/// Whether the consumer is about to send a heartbeat, and when.
fn heartbeat(consumer: &mut Consumer, now: &mut Time, until: Time) -> Option<RpcId> {
    loop {
        let beats = |request: &Request| matches!(request, Request::Heartbeat { .. });
        if let Some(at) = consumer.asks.iter().position(|(_, request)| beats(request)) {
            return Some(consumer.asks.remove(at).0);
        }
        if *now >= until {
            return None;
        }
        consumer.wait(*now, 10);
        *now = now.after(Duration::from_millis(10));
    }
}

/// The dispatcher answers a heartbeat, with the task on the list or without.
fn list(consumer: &mut Consumer, now: Time, rpc: RpcId, is_listed: bool) {
    let task = Task {
        id: TASK,
        worker: "w4001".into(),
        servers: vec![("grpc".into(), "g4001".into())],
        starting_round: 0,
    };
    let tasks = is_listed.then_some(task).into_iter().collect();
    let answer = HeartbeatAnswer { tasks, is_finished: false, block_round: None };
    consumer.answer(now, rpc, Ok(Answer::Heartbeat(answer)));
}

/// The dispatcher answers each heartbeat until then, with the task on the list or without.
fn heartbeats(consumer: &mut Consumer, now: &mut Time, until: Time, is_listed: bool) {
    while let Some(rpc) = heartbeat(consumer, now, until) {
        list(consumer, *now, rpc, is_listed);
    }
}

fn is_voting(consumer: &Consumer) -> bool {
    consumer.asks.iter().any(|(_, request)| matches!(request, Request::RemoveTask { .. }))
}

fn lost() -> Status {
    Status::new(Code::Unavailable, "the connection is broken")
}

/// A vote that still waits would agree to give up a worker that lives.
#[test]
fn the_vote_is_withdrawn() {
    let (mut consumer, now, vote) = holding();
    assert_eq!(consumer.withdrawn, [vote]);
    consumer.answer(now, vote, Ok(Answer::Removed(false)));
    assert_eq!(consumer.elements, [0; 0], "nobody listens to its answer any more");
}

/// The withdrawal may come late, and the vote counts until it surely has ended, however often the
/// dispatcher lists the task before. The second list after that says that consumers have not agreed: the
/// first may have been on its way before.
#[test]
fn it_is_handed_on_when_the_task_is_listed_after_the_vote_has_ended() {
    let (mut consumer, mut now, _) = holding();
    let ends = now.after(VOTE_ENDS);
    // An answer that takes a while, so that no heartbeat is due when the vote ends.
    let rpc = heartbeat(&mut consumer, &mut now, ends).expect("a heartbeat");
    now = now.after(Duration::from_millis(500));
    list(&mut consumer, now, rpc, true);
    heartbeats(&mut consumer, &mut now, before(ends), true);
    assert_eq!(consumer.elements, [0; 0], "too early");
    assert!(consumer.reader.deadline().is_some_and(|at| at <= ends), "it wakes for the list");
    let mut lists = 0;
    while consumer.elements.is_empty() {
        let soon = ends.after(Duration::from_secs(1));
        let rpc = heartbeat(&mut consumer, &mut now, soon).expect("the list is asked for soon");
        list(&mut consumer, now, rpc, true);
        lists += usize::from(now >= ends);
    }
    assert_eq!((&consumer.elements[..], lists), (&[7][..], 2));
    assert!(now <= ends.after(Duration::from_millis(200)), "all consumers wait for it");
    assert!(!is_voting(&consumer));
    assert_eq!(consumer.fetches.len(), 1, "the next round");
}

/// Nobody knows whether a vote whose answer was lost has removed the task, and whether it still waits. The
/// consumer votes no more, nor does it ask the worker again.
#[test]
fn it_is_held_until_the_list_says_how_a_lost_vote_has_ended() {
    for (lost_after, is_listed) in [(0, true), (0, false), (5, true), (5, false)] {
        let (mut consumer, mut now) = doubting();
        let (vote, ends) = (vote_of(&mut consumer, 0), now.after(VOTE_ENDS));
        let (rpc, _) = consumer.fetches.remove(0);
        now = now.after(Duration::from_secs(lost_after));
        consumer.answer(now, vote, Err(lost()));
        consumer.answer(now, rpc, Ok(Answer::Element(Fetched::Element(element(7)))));
        assert_eq!(consumer.elements, [0; 0]);
        assert_eq!(consumer.withdrawn, [], "there is none to withdraw");
        heartbeats(&mut consumer, &mut now, before(ends), true);
        assert_eq!((&consumer.elements[..], consumer.fetches.len()), (&[][..], 0));
        assert!(!is_voting(&consumer));
        heartbeats(&mut consumer, &mut now, ends.after(Duration::from_secs(2)), is_listed);
        assert_eq!(consumer.elements.len(), usize::from(is_listed));
    }
}

/// All have given the task up: it leaves the list.
#[test]
fn it_is_dropped_when_the_task_leaves_the_list() {
    for after in [0, 11, 13] {
        let (mut consumer, mut now, _) = holding();
        let at = now.after(Duration::from_secs(after));
        heartbeats(&mut consumer, &mut now, at, true);
        let rpc = heartbeat(&mut consumer, &mut now, at.after(Duration::from_secs(60)));
        list(&mut consumer, now, rpc.expect("a heartbeat"), false);
        heartbeats(&mut consumer, &mut now, at.after(Duration::from_secs(60)), true);
        let expected = if after == 13 { &[7][..] } else { &[] };
        assert_eq!(consumer.elements, expected, "after {after} s");
    }
}

/// The first list after the vote has ended was sent before.
#[test]
fn it_is_dropped_when_the_second_list_lacks_the_task() {
    let (mut consumer, mut now, _) = holding();
    let ends = now.after(VOTE_ENDS);
    heartbeats(&mut consumer, &mut now, before(ends), true);
    for is_listed in [true, false] {
        let rpc = heartbeat(&mut consumer, &mut now, ends.after(Duration::from_secs(2)));
        assert!(now >= ends, "both count");
        list(&mut consumer, now, rpc.expect("a heartbeat"), is_listed);
    }
    assert_eq!(consumer.elements, [0; 0]);
}

/// A vote that the dispatcher has answered leaves nothing in doubt.
#[test]
fn nothing_is_held_after_a_vote_that_was_answered() {
    let (mut consumer, now) = doubting();
    let first = vote_of(&mut consumer, 0);
    consumer.answer(now, first, Err(lost()));
    consumer.wait(now, 1000);
    let second = vote_of(&mut consumer, 0);
    consumer.answer(now, second, Ok(Answer::Removed(false)));
    let (rpc, _) = consumer.fetches.remove(0);
    consumer.answer(now, rpc, Ok(Answer::Element(Fetched::Element(element(7)))));
    assert_eq!(consumer.elements, [7]);
}

/// A call that waits for other consumers fails no more: the doubt passes, so that troubles of two consumers
/// that lie minutes apart do not end a task together.
#[test]
fn a_consumer_whose_call_waits_stops_to_vote() {
    let (mut consumer, mut now) = doubting();
    let began = now;
    for _ in 0..9 {
        let vote = vote_of(&mut consumer, 0);
        now = now.after(Duration::from_secs(10));
        consumer.answer(now, vote, Ok(Answer::Removed(false)));
        consumer.wait(now, 1000);
        now = now.after(Duration::from_secs(1));
        if !is_voting(&consumer) {
            assert!(now.since(began) > Duration::from_secs(60), "a silent host takes as long");
            assert_eq!(consumer.fetches.len(), 1, "the call still waits");
            return;
        }
    }
    panic!("it still votes after 99 s");
}

/// The worker may answer between two votes: that ends the doubt.
#[test]
fn nothing_is_held_between_two_votes() {
    let (mut consumer, now) = doubting();
    let vote = vote_of(&mut consumer, 0);
    consumer.answer(now, vote, Ok(Answer::Removed(false)));
    let (rpc, _) = consumer.fetches.remove(0);
    consumer.answer(now, rpc, Ok(Answer::Element(Fetched::Element(element(7)))));
    assert_eq!(consumer.elements, [7]);
    consumer.wait(now, 1000);
    assert!(!is_voting(&consumer));
}

/// TensorFlow's worker says so of a task that it has deleted.
fn deleted() -> Status {
    let text = "Got request for local task 4001 of worker w4001, which has been deleted.";
    Status::new(Code::FailedPrecondition, text)
}

/// One of two consumers, whose only task says that it was deleted while a vote on it waits, the present time,
/// and the vote.
fn refused() -> (Consumer, Time, RpcId) {
    let (mut consumer, now) = doubting();
    let vote = vote_of(&mut consumer, 0);
    let (rpc, _) = consumer.fetches.remove(0);
    consumer.answer(now, rpc, Err(deleted()));
    assert_eq!(consumer.ended, None, "the worker may have deleted what all have given up");
    (consumer, now, vote)
}

/// The worker heard first that all had agreed.
#[test]
fn an_error_of_a_task_that_all_give_up_ends_no_reader() {
    let (mut consumer, now, vote) = refused();
    assert_eq!(consumer.withdrawn, [], "the error says that the task is gone, as the vote does");
    consumer.answer(now, vote, Ok(Answer::Removed(true)));
    assert_eq!((consumer.ended, consumer.elements.len()), (None, 0));

    let (mut consumer, mut now, vote) = refused();
    consumer.answer(now, vote, Err(lost()));
    let until = now.after(Duration::from_secs(60));
    let rpc = heartbeat(&mut consumer, &mut now, until);
    list(&mut consumer, now, rpc.expect("a heartbeat"), false);
    assert_eq!((&consumer.ended, consumer.elements.len()), (&None, 0));
}

/// It is the worker's error then.
#[test]
fn an_error_of_a_task_that_stays_ends_the_reader() {
    let (mut consumer, now, vote) = refused();
    consumer.answer(now, vote, Ok(Answer::Removed(false)));
    let ended = consumer.ended.expect("it ends").expect_err("an error");
    assert_eq!(ended.code, Code::FailedPrecondition);
    assert!(ended.message.contains("which has been deleted"), "{ended:?}");

    let (mut consumer, mut now, vote) = refused();
    let ends = now.after(VOTE_ENDS);
    consumer.answer(now, vote, Err(lost()));
    heartbeats(&mut consumer, &mut now, before(ends), true);
    assert_eq!(consumer.ended, None);
    heartbeats(&mut consumer, &mut now, ends.after(Duration::from_secs(2)), true);
    assert!(
        matches!(&consumer.ended, Some(Err(status)) if status.code == Code::FailedPrecondition)
    );
}

/// The list lacks the task, and then its worker says so.
#[test]
fn an_error_of_a_task_that_left_the_list_ends_no_reader() {
    let (mut consumer, mut now) = doubting();
    let vote = vote_of(&mut consumer, 0);
    consumer.answer(now, vote, Ok(Answer::Removed(false)));
    let (rpc, _) = consumer.fetches.remove(0);
    let until = now.after(Duration::from_secs(60));
    let beat = heartbeat(&mut consumer, &mut now, until);
    list(&mut consumer, now, beat.expect("a heartbeat"), false);
    consumer.answer(now, rpc, Err(deleted()));
    assert_eq!((&consumer.ended, consumer.elements.len()), (&None, 0));
    heartbeats(&mut consumer, &mut now, until, true);
    assert_eq!(consumer.ended, None);
}

/// It has answered. The report says for what it waits.
#[test]
fn no_worker_is_blamed_while_its_answer_is_held() {
    let (mut consumer, mut now, _) = holding();
    let ends = now.after(VOTE_ENDS);
    heartbeats(&mut consumer, &mut now, before(ends), true);
    let stall = consumer.reader.report(now).stall;
    assert_eq!(stall, Some(Stall::Undecided { worker: "w4001".into() }));
    let sentence = stall.map(|stall| stall.sentence());
    assert!(sentence.is_some_and(|it| it.contains("w4001") && it.contains("given its task up")));
}

/// It names no worker as silent.
#[test]
fn the_report_of_a_held_answer_says_that_the_worker_has_answered() {
    let (consumer, now, _) = holding();
    let stall = consumer.reader.report(now).stall.expect("it waits");
    let sentence = stall.sentence();
    assert!(sentence.starts_with("worker w4001 has answered"), "{sentence}");
}

/// The first one of the list begins in a later round.
#[test]
fn a_held_answer_is_reported_beside_a_task_that_nobody_has_asked() {
    let (mut consumer, mut now, _) = holding();
    let until = now.after(VOTE_ENDS);
    let rpc = heartbeat(&mut consumer, &mut now, until).expect("a heartbeat");
    let task = |id, starting_round| Task {
        id: TaskId::new(id),
        worker: format!("w{id}").into(),
        servers: vec![("grpc".into(), format!("g{id}").into())],
        starting_round,
    };
    let tasks = vec![task(4000, 9), task(4001, 0)];
    let answer = HeartbeatAnswer { tasks, is_finished: false, block_round: None };
    consumer.answer(now, rpc, Ok(Answer::Heartbeat(answer)));
    assert_eq!(consumer.fetches.len(), 0, "neither is asked");
    let stall = consumer.reader.report(now).stall;
    assert_eq!(stall, Some(Stall::Undecided { worker: "w4001".into() }));
}

/// TensorFlow's dispatcher answers a vote after 10 s. A call that ends before leaves its outcome unknown.
#[test]
fn a_vote_is_awaited_for_longer_than_dispatchers_let_it_wait() {
    let (mut consumer, _) = doubting();
    let vote = vote_of(&mut consumer, 0);
    let (_, deadline) = consumer.deadlines.iter().find(|(rpc, _)| *rpc == vote).unwrap();
    assert!(*deadline > Duration::from_secs(10), "{deadline:?}");
}

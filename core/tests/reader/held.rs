//! A worker answers while consumers vote to give its task up. A consumer hands the answer on only when it
//! knows that the task stays: if all agree, the others go on without the task.

use rondo_core::ids::TaskId;
use rondo_core::reader::{Answer, Fetched, HeartbeatAnswer, Request, RpcId, Task};
use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};

use crate::consumer::{Consumer, element};
use crate::rounds::begun;

const TASK: TaskId = TaskId::new(4001);

/// One of two consumers, whose only task could not be reached twice.
fn doubting() -> (Consumer, Time) {
    let mut world = begun(2, 1);
    let mut now = world.now;
    let mut consumer = world.consumers.swap_remove(0);
    consumer.want(now, 5);
    for _ in 0..2 {
        let (rpc, _) = consumer.fetches.remove(0);
        consumer.answer(now, rpc, Err(Status::new(Code::Unavailable, "gone")));
        consumer.wait(now, 1000);
        now = now.after(Duration::from_secs(1));
    }
    (consumer, now)
}

/// One of two consumers, whose only task has answered while a vote on it waits, and the vote.
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

/// The dispatcher answers so many heartbeats, with the task on the list or without.
fn heartbeats(consumer: &mut Consumer, now: &mut Time, count: u32, is_listed: bool) {
    for _ in 0..count {
        consumer.wait(*now, 60_000);
        *now = now.after(Duration::from_secs(60));
        let beats = |request: &Request| matches!(request, Request::Heartbeat { .. });
        let at = consumer.asks.iter().position(|(_, request)| beats(request)).expect("a heartbeat");
        let (rpc, _) = consumer.asks.remove(at);
        let task = Task {
            id: TASK,
            worker: "w4001".into(),
            servers: vec![("grpc".into(), "g4001".into())],
            starting_round: 0,
        };
        let tasks = is_listed.then_some(task).into_iter().collect();
        let answer = HeartbeatAnswer { tasks, is_finished: false, block_round: None };
        consumer.answer(*now, rpc, Ok(Answer::Heartbeat(answer)));
    }
}

fn is_voting(consumer: &Consumer) -> bool {
    consumer.asks.iter().any(|(_, request)| matches!(request, Request::RemoveTask { .. }))
}

fn lost() -> Status {
    Status::new(Code::Unavailable, "the connection is broken")
}

#[test]
fn it_is_handed_on_when_consumers_have_not_agreed() {
    let (mut consumer, now, vote) = holding();
    consumer.answer(now, vote, Ok(Answer::Removed(false)));
    assert_eq!(consumer.elements, [7]);
    assert_eq!(consumer.fetches.len(), 1, "the next round");
}

#[test]
fn it_is_dropped_when_all_have_given_the_task_up() {
    let (mut consumer, now, vote) = holding();
    consumer.answer(now, vote, Ok(Answer::Removed(true)));
    assert_eq!(consumer.elements, [0; 0]);
    consumer.wait(now, 60_000);
    assert_eq!(consumer.fetches, []);
}

/// Nobody knows whether a vote whose answer was lost has removed the task. Two lists that still have it
/// say that it has not; the first may have been on its way before. The consumer votes no more, nor does it
/// ask the worker again: if all who hold an answer voted, they would give a living worker up.
#[test]
fn it_is_held_until_the_list_says_how_a_lost_vote_has_ended() {
    let (mut consumer, mut now, vote) = holding();
    consumer.answer(now, vote, Err(lost()));
    heartbeats(&mut consumer, &mut now, 1, true);
    assert_eq!((&consumer.elements[..], consumer.fetches.len()), (&[][..], 0));
    assert!(!is_voting(&consumer));
    heartbeats(&mut consumer, &mut now, 1, true);
    assert_eq!(consumer.elements, [7]);

    let (mut consumer, mut now, vote) = holding();
    consumer.answer(now, vote, Err(lost()));
    heartbeats(&mut consumer, &mut now, 1, false);
    heartbeats(&mut consumer, &mut now, 2, true);
    assert_eq!(consumer.elements, [0; 0], "all have given the task up");
}

/// The same for an answer that comes when the vote has been lost already.
#[test]
fn it_is_held_behind_a_lost_vote() {
    for is_listed in [true, false] {
        let (mut consumer, mut now) = doubting();
        let vote = vote_of(&mut consumer, 0);
        let (rpc, _) = consumer.fetches.remove(0);
        consumer.answer(now, vote, Err(lost()));
        consumer.answer(now, rpc, Ok(Answer::Element(Fetched::Element(element(7)))));
        assert_eq!(consumer.elements, [0; 0]);
        heartbeats(&mut consumer, &mut now, 2, is_listed);
        assert_eq!(consumer.elements.len(), usize::from(is_listed));
    }
}

/// A task that leaves the list during a vote may have ended well: the vote says whether it was given up.
#[test]
fn it_is_held_when_the_task_leaves_the_list_during_the_vote() {
    for removed in [true, false] {
        let (mut consumer, mut now, vote) = holding();
        heartbeats(&mut consumer, &mut now, 1, false);
        assert_eq!(consumer.elements, [0; 0]);
        consumer.answer(now, vote, Ok(Answer::Removed(removed)));
        assert_eq!(consumer.elements.len(), usize::from(!removed));
    }
}

/// A call that waits for other consumers fails no more: the doubt passes, so that troubles of two consumers
/// that lie minutes apart do not end a task together.
#[test]
fn a_consumer_whose_call_waits_stops_to_vote() {
    let (mut consumer, mut now) = doubting();
    for _ in 0..4 {
        let vote = vote_of(&mut consumer, 0);
        now = now.after(Duration::from_secs(10));
        consumer.answer(now, vote, Ok(Answer::Removed(false)));
        consumer.wait(now, 1000);
        now = now.after(Duration::from_secs(1));
        if !is_voting(&consumer) {
            assert_eq!(consumer.fetches.len(), 1, "the call still waits");
            return;
        }
    }
    panic!("it still votes after 44 s");
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

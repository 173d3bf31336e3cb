//! What a worker answers while consumers vote to give its task up: nobody hands it on before the vote
//! has ended, since the others go on without it if all agree.

use rondo_core::ids::TaskId;
use rondo_core::limits::ANY_ROUND;
use rondo_core::reader::{Answer, Fetched, HeartbeatAnswer, Request, RpcId};
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

fn heartbeat_without_tasks(consumer: &mut Consumer, now: Time) {
    consumer.wait(now, 60_000);
    let beats = |request: &Request| matches!(request, Request::Heartbeat { .. });
    let at = consumer.asks.iter().position(|(_, request)| beats(request)).expect("a heartbeat");
    let (rpc, _) = consumer.asks.remove(at);
    let answer = HeartbeatAnswer { tasks: Vec::new(), is_finished: false, block_round: None };
    consumer.answer(now, rpc, Ok(Answer::Heartbeat(answer)));
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

/// Nobody knows whether a vote whose answer was lost has removed the task. The consumer votes again, in
/// its own round, which the dispatcher answers in any case; and it does not ask the worker again.
#[test]
fn it_is_held_until_the_outcome_of_the_vote_is_known() {
    for removed in [true, false] {
        let (mut consumer, now, vote) = holding();
        consumer.answer(now, vote, Err(Status::new(Code::Unavailable, "the connection is broken")));
        consumer.wait(now, 1000);
        assert_eq!((&consumer.elements[..], consumer.fetches.len()), (&[][..], 0));
        let vote = vote_of(&mut consumer, 0);
        consumer.answer(now, vote, Ok(Answer::Removed(removed)));
        assert_eq!(consumer.elements.len(), usize::from(!removed));
    }
}

/// A consumer that names any round is told only that its vote ran out of time, over and over.
#[test]
fn its_consumer_votes_in_its_own_round() {
    let (mut consumer, now) = doubting();
    // Another consumer's round has ended the first vote.
    let vote = vote_of(&mut consumer, 0);
    consumer.answer(now, vote, Ok(Answer::Removed(false)));
    consumer.wait(now, 1000);
    let now = now.after(Duration::from_secs(1));
    let vote = vote_of(&mut consumer, ANY_ROUND);
    let (rpc, _) = consumer.fetches.remove(0);
    consumer.answer(now, rpc, Ok(Answer::Element(Fetched::Element(element(7)))));
    consumer.answer(now, vote, Err(Status::new(Code::Unavailable, "consumers are missing")));
    consumer.wait(now, 1000);
    let vote = vote_of(&mut consumer, 0);
    consumer.answer(now, vote, Ok(Answer::Removed(false)));
    assert_eq!(consumer.elements, [7]);
}

/// A task that the dispatcher no longer lists was given up, or has ended and its last element counts.
#[test]
fn it_is_held_when_the_task_leaves_the_list() {
    for removed in [true, false] {
        let (mut consumer, now, vote) = holding();
        heartbeat_without_tasks(&mut consumer, now);
        assert_eq!(consumer.elements, [0; 0]);
        consumer.answer(now, vote, Err(Status::new(Code::Unavailable, "the connection is broken")));
        consumer.wait(now, 1000);
        let vote = vote_of(&mut consumer, 0);
        consumer.answer(now, vote, Ok(Answer::Removed(removed)));
        assert_eq!(consumer.elements.len(), usize::from(!removed));
    }
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
    assert!(!consumer.asks.iter().any(|(_, it)| matches!(it, Request::RemoveTask { .. })));
}

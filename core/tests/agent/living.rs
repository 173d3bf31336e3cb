//! Heartbeats and errors of the job.

use rondo_core::agent::{Effect, Reply, Request, State};
use rondo_core::ids::ServiceIncarnation;
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;

use crate::story::{LIFE, Story, broken, refused, sent};

#[test]
fn heartbeats_go_out_twice_per_timeout() {
    let (mut story, _) = Story::running();
    let mut last = story.now;
    for _ in 0..5 {
        let effects = story.sleep();
        let (rpc, request, deadline) = sent(&effects).remove(0);
        let half = Duration::from_secs(50);
        assert_eq!((request, deadline), (Request::Heartbeat, Some(half)));
        assert_eq!(story.now.since(last), half);
        last = story.now;
        assert_eq!(story.wait(Duration::from_secs(1)), []);
        assert_eq!(story.answer(rpc, Ok(Reply::Life(LIFE))), []);
    }
    assert_eq!(story.agent.state(), State::Running);
}

#[test]
fn a_heartbeat_that_fails_is_fatal_a_second_later() {
    let (mut story, _) = Story::running();
    let effects = story.sleep();
    let status = refused(Code::Aborted);
    assert_eq!(story.answer(sent(&effects)[0].0, Err(status.clone())), []);
    assert_eq!(story.wait(Duration::from_millis(999)), []);
    let effects = story.wait(Duration::from_millis(1));
    assert!(effects.contains(&Effect::Failed { status }));
    assert_eq!(story.agent.state(), State::Error);
}

#[test]
fn a_heartbeat_that_is_lost_on_its_way_goes_out_again() {
    let (mut story, _) = Story::running();
    let effects = story.sleep();
    assert_eq!(story.answer(sent(&effects)[0].0, Err(broken())), []);
    let lost = story.now;
    let effects = story.sleep();
    assert_eq!(story.now.since(lost), Duration::from_millis(100));
    assert_eq!(sent(&effects)[0].1, Request::Heartbeat);
    story.answer(sent(&effects)[0].0, Ok(Reply::Life(LIFE)));
    assert_eq!(story.wait(Duration::from_secs(2)), []);
    assert_eq!(story.agent.state(), State::Running);
    let effects = story.sleep();
    assert_eq!(sent(&effects)[0].1, Request::Heartbeat, "the next one, in its time");
}

/// A server that stops cancels calls, and links break with more than one status.
#[test]
fn a_heartbeat_goes_out_again_whatever_its_connection_broke_with() {
    for code in [Code::Unavailable, Code::Unknown, Code::Cancelled, Code::DeadlineExceeded] {
        let (mut story, _) = Story::running();
        let effects = story.sleep();
        let lost = Status::new(code, "the connection has gone");
        assert_eq!(story.answer(sent(&effects)[0].0, Err(lost)), []);
        let effects = story.wait(Duration::from_millis(100));
        let (rpc, request, _) = sent(&effects).remove(0);
        assert_eq!(request, Request::Heartbeat, "{code:?}");
        story.answer(rpc, Ok(Reply::Life(LIFE)));
        assert_eq!(story.wait(Duration::from_secs(2)), []);
        assert_eq!(story.agent.state(), State::Running, "{code:?}");
    }
}

#[test]
fn heartbeats_that_are_lost_on_their_way_again_and_again_are_fatal_after_a_second() {
    let (mut story, _) = Story::running();
    let mut effects = story.sleep();
    let (first, mut sent_again) = (story.now, 0);
    while story.agent.state() == State::Running {
        for (rpc, _, _) in sent(&effects) {
            story.answer(rpc, Err(broken()));
            sent_again += 1;
        }
        assert!(sent_again < 100, "the grace of the first failure never ends");
        effects = story.sleep();
    }
    assert_eq!(story.now.since(first), Duration::from_secs(1));
    assert!(effects.contains(&Effect::Failed { status: broken() }), "{effects:?}");
    assert_eq!(sent_again, 10, "one each 100 ms");
}

#[test]
fn a_heartbeat_that_fails_while_everybody_leaves_is_not() {
    let (mut story, _) = Story::running();
    let effects = story.sleep();
    story.answer(sent(&effects)[0].0, Err(broken()));
    let (_, effects) = story.ask(rondo_core::agent::Ask::Shutdown);
    story.answer(sent(&effects)[0].0, Ok(Reply::Done));
    assert_eq!(story.wait(Duration::from_secs(2)), []);
    assert_eq!(story.agent.state(), State::Disconnected);
}

#[test]
fn another_life_of_the_server_is_fatal() {
    let (mut story, _) = Story::running();
    let effects = story.sleep();
    let other = Reply::Life(ServiceIncarnation::new(78));
    let effects = story.answer(sent(&effects)[0].0, Ok(other));
    assert!(effects.iter().any(|effect| matches!(effect,
        Effect::Failed { status } if status.code == Code::Aborted && status.message.contains("78"))));
}

#[test]
fn an_error_of_the_job_is_this_agents_too() {
    let (mut story, poll) = Story::running();
    let status = refused(Code::Unavailable);
    let effects = story.answer(poll, Err(status.clone()));
    assert_eq!(effects, [Effect::Failed { status }]);
    assert_eq!(story.agent.state(), State::Error);
}

#[test]
fn a_poll_that_is_cancelled_is_no_error() {
    let (mut story, poll) = Story::running();
    assert_eq!(story.answer(poll, Err(refused(Code::Cancelled))), []);
    assert_eq!(story.agent.state(), State::Running);
}

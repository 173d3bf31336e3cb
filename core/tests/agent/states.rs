//! UNINITIALIZED, DISCONNECTED, RUNNING, ERROR, and the ways between.

use rondo_core::agent::{Ask, Effect, Input, Reply, Request, State};
use rondo_core::ids::{Incarnation, TaskIndex};
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;

use crate::story::{LIFE, Story, broken, code_of, done, refused, sent};

#[test]
fn nothing_works_before_it_is_initialized() {
    let mut story = Story::new();
    assert!(!story.agent.is_initialized());
    for ask in [
        Ask::Connect,
        Ask::Shutdown,
        Ask::Call(Request::TryGet { key: "k".into() }),
        Ask::SetError { status: broken() },
    ] {
        let (_, effects) = story.ask(ask);
        assert_eq!(code_of(&effects), Some(Code::FailedPrecondition));
        assert_eq!(effects.len(), 1, "and nothing else happens");
    }
    assert_eq!(story.agent.state(), State::Uninitialized);
}

#[test]
fn it_goes_once_around() {
    let mut story = Story::initialized();
    assert_eq!(story.agent.state(), State::Disconnected);
    let (connect, effects) = story.ask(Ask::Connect);
    let (register, request, deadline) = sent(&effects).remove(0);
    assert_eq!((request, deadline), (Request::Register, Some(Duration::from_secs(305))));
    let (_, effects) = story.ask(Ask::Connect);
    assert_eq!(code_of(&effects), Some(Code::FailedPrecondition), "one at a time");
    let effects = story.answer(register, Ok(Reply::Life(LIFE)));
    assert_eq!(effects[0], done(connect, Ok(Reply::Life(LIFE))));
    assert_eq!((story.agent.state(), story.agent.life()), (State::Running, Some(LIFE)));
    let (_, effects) = story.ask(Ask::Reset);
    assert_eq!(code_of(&effects), Some(Code::FailedPrecondition), "it is in no error");

    let status = Status::new(Code::DataLoss, "a disk");
    let (_, effects) = story.ask(Ask::SetError { status: status.clone() });
    assert!(effects.contains(&Effect::Failed { status: status.clone() }));
    assert_eq!((story.agent.state(), story.agent.error()), (State::Error, Some(&status)));
    assert_eq!(story.agent.deadline(), None, "no heartbeats any more");
    let (_, effects) = story.ask(Ask::SetError { status: broken() });
    assert!(!effects.iter().any(|it| matches!(it, Effect::Failed { .. })), "told once");

    let (reset, effects) = story.ask(Ask::Reset);
    let rpc = sent(&effects)[0].0;
    assert_eq!(story.answer(rpc, Ok(Reply::Done)), [done(reset, Ok(Reply::Done))]);
    assert_eq!((story.agent.state(), story.agent.error()), (State::Disconnected, None));
    let (_, effects) = story.ask(Ask::Connect);
    assert_eq!(sent(&effects)[0].1, Request::Register);
}

#[test]
fn a_registration_is_tried_again_as_long_as_that_makes_sense() {
    let mut story = Story::initialized();
    let (connect, mut effects) = story.ask(Ask::Connect);
    let mut pauses = Vec::new();
    for status in [broken(), refused(Code::Aborted), refused(Code::Internal), broken(), broken()] {
        let rpc = sent(&effects)[0].0;
        assert_eq!(story.answer(rpc, Err(status)), []);
        let before = story.now;
        effects = story.sleep();
        pauses.push(story.now.since(before).as_millis());
    }
    assert_eq!(pauses, [500, 1000, 2000, 4000, 8000], "half of 1, 2, 4, 8, 16 s and some chance");
    let left = Duration::from_nanos(305_000_000_000 - 15_500_000_055);
    assert_eq!(sent(&effects)[0].2, Some(left), "the time goes on");
    let rpc = sent(&effects)[0].0;
    let status = refused(Code::InvalidArgument);
    let effects = story.answer(rpc, Err(status.clone()));
    assert_eq!(effects, [done(connect, Err(status.clone())), Effect::Failed { status }]);
    assert_eq!(story.agent.state(), State::Error);
}

#[test]
fn a_registration_ends_when_its_time_is_over() {
    let mut story = Story::initialized();
    let (_, mut effects) = story.ask(Ask::Connect);
    let began = story.now;
    let mut tries = 0;
    let last = loop {
        let rpc = sent(&effects)[0].0;
        let told = story.answer(rpc, Err(broken()));
        if !told.is_empty() {
            break told;
        }
        tries += 1;
        assert!(tries < 1_000, "it tries to register without end");
        effects = story.sleep();
    };
    assert_eq!(code_of(&last), Some(Code::Unavailable));
    let took = story.now.since(began);
    assert!(took > Duration::from_secs(280) && took <= Duration::from_secs(305), "{took:?}");
}

#[test]
fn an_own_error_is_told_to_the_job_too() {
    let (mut story, poll) = Story::running();
    let ask = Ask::ReportError { code: Code::Internal, message: "bad weights".into() };
    let (call, effects) = story.ask(ask);
    let status = Status::new(Code::Internal, "bad weights");
    assert_eq!(effects[..2], [Effect::Withdraw { rpc: poll }, Effect::Failed { status }]);
    let (rpc, request, _) = sent(&effects).remove(0);
    let message = "bad weights".into();
    assert_eq!(request, Request::ReportError { code: Code::Internal, message });
    assert_eq!(story.answer(rpc, Ok(Reply::Done)), [done(call, Ok(Reply::Done))]);
    assert_eq!(story.agent.state(), State::Error);
}

#[test]
fn who_leaves_waits_for_nothing_any_more() {
    let (mut story, poll) = Story::running();
    let (get, effects) = story.ask(Ask::Call(Request::Get { key: "never".into() }));
    let get_rpc = sent(&effects)[0].0;
    let (shutdown, effects) = story.ask(Ask::Shutdown);
    let (rpc, _, deadline) = sent(&effects).remove(0);
    assert_eq!(deadline, Some(Duration::from_secs(305)));
    let effects = story.answer(rpc, Ok(Reply::Done));
    for expected in [
        Effect::Withdraw { rpc: poll },
        Effect::Withdraw { rpc: get_rpc },
        done(shutdown, Ok(Reply::Done)),
    ] {
        assert!(effects.contains(&expected), "{expected:?} in {effects:?}");
    }
    assert!(effects.iter().any(|effect| matches!(effect,
        Effect::Done { call, result: Err(status) }
            if *call == get && status.code == Code::Cancelled)));
    assert_eq!((story.agent.state(), story.agent.deadline()), (State::Disconnected, None));
}

#[test]
fn keys_may_be_shared_in_any_state() {
    let (mut story, _) = Story::running();
    story.ask(Ask::SetError { status: broken() });
    let (call, effects) = story.ask(Ask::Call(Request::TryGet { key: "k".into() }));
    let rpc = sent(&effects)[0].0;
    let value = Reply::Value(bytes::Bytes::from_static(b"v"));
    assert_eq!(story.answer(rpc, Ok(value.clone())), [done(call, Ok(value))]);
    assert_eq!(story.answer(rpc, Ok(Reply::Done)), [], "an answer counts once");
}

#[test]
fn everybodys_devices_are_remembered() {
    let (mut story, _) = Story::running();
    let devices = bytes::Bytes::from_static(b"mine");
    let (call, effects) = story.ask(Ask::WaitForAllTasks { devices });
    let all = bytes::Bytes::from_static(b"all");
    let effects = story.answer(sent(&effects)[0].0, Ok(Reply::Devices(all.clone())));
    assert_eq!(effects, [done(call, Ok(Reply::Devices(all.clone())))]);
    assert_eq!(story.agent.cluster_devices(), Some(&all));
}

#[test]
fn what_is_given_up_is_taken_back() {
    let (mut story, _) = Story::running();
    let (call, effects) = story.ask(Ask::Call(Request::Get { key: "k".into() }));
    let rpc = sent(&effects)[0].0;
    assert_eq!(story.step(Input::Cancel { call }), [Effect::Withdraw { rpc }]);
    let mut story = Story::initialized();
    let (call, effects) = story.ask(Ask::Connect);
    let rpc = sent(&effects)[0].0;
    assert_eq!(story.step(Input::Cancel { call }), [Effect::Withdraw { rpc }]);
    let (_, effects) = story.ask(Ask::Connect);
    assert_eq!(sent(&effects).len(), 1, "it may try anew");
}

#[test]
fn it_stays_who_it_is_while_it_takes_part() {
    let (mut story, _) = Story::running();
    let other = rondo_core::agent::Config::of("other", TaskIndex::new(2), Incarnation::new(3));
    assert_eq!(story.step(Input::Initialize { config: other }), []);
    assert_eq!(story.agent.state(), State::Running);
}

/// Connects anew and returns what was sent to poll for errors.
fn connect(story: &mut Story) {
    let (_, effects) = story.ask(Ask::Connect);
    story.answer(sent(&effects)[0].0, Ok(Reply::Life(LIFE)));
    assert_eq!(story.agent.state(), State::Running);
}

#[test]
fn an_error_while_it_connects_outlives_the_late_answer() {
    let mut story = Story::initialized();
    let (connect, effects) = story.ask(Ask::Connect);
    let register = sent(&effects)[0].0;
    let status = Status::new(Code::DataLoss, "a disk");
    let (set, effects) = story.ask(Ask::SetError { status: status.clone() });
    let expected = [
        Effect::Withdraw { rpc: register },
        done(connect, Err(status.clone())),
        Effect::Failed { status: status.clone() },
        done(set, Ok(Reply::Done)),
    ];
    assert_eq!(effects, expected);
    assert_eq!(story.answer(register, Ok(Reply::Life(LIFE))), []);
    assert_eq!((story.agent.state(), story.agent.error()), (State::Error, Some(&status)));
    assert_eq!((story.agent.life(), story.agent.deadline()), (None, None));
}

#[test]
fn an_error_while_a_registration_pauses_ends_it_too() {
    let mut story = Story::initialized();
    let (_, effects) = story.ask(Ask::Connect);
    story.answer(sent(&effects)[0].0, Err(broken()));
    story.ask(Ask::SetError { status: broken() });
    assert_eq!(story.agent.deadline(), None);
    assert!(sent(&story.wait(Duration::from_secs(60))).is_empty());
}

#[test]
fn an_error_of_which_the_service_knows_nothing_can_be_reset() {
    let mut story = Story::initialized();
    story.ask(Ask::SetError { status: broken() });
    let (reset, effects) = story.ask(Ask::Reset);
    let refusal = refused(Code::FailedPrecondition);
    let effects = story.answer(sent(&effects)[0].0, Err(refusal));
    assert_eq!(effects, [done(reset, Ok(Reply::Done))]);
    assert_eq!((story.agent.state(), story.agent.error()), (State::Disconnected, None));
    connect(&mut story);
}

#[test]
fn a_reset_that_fails_leaves_the_error() {
    let (mut story, _) = Story::running();
    story.ask(Ask::SetError { status: broken() });
    let (reset, effects) = story.ask(Ask::Reset);
    let effects = story.answer(sent(&effects)[0].0, Err(broken()));
    assert_eq!(effects, [done(reset, Err(broken()))]);
    assert_eq!(story.agent.state(), State::Error);
}

#[test]
fn it_stays_who_it_is_while_it_connects() {
    let mut story = Story::initialized();
    let (_, effects) = story.ask(Ask::Connect);
    let other = rondo_core::agent::Config {
        register_timeout: Duration::ZERO,
        heartbeat_timeout: Duration::from_secs(1),
        ..rondo_core::agent::Config::of("other", TaskIndex::new(2), Incarnation::new(3))
    };
    story.step(Input::Initialize { config: other });
    story.answer(sent(&effects)[0].0, Err(broken()));
    assert!(story.agent.is_connecting());
    let effects = story.sleep();
    assert_eq!(sent(&effects)[0].1, Request::Register, "the time is that of the first config");
    story.answer(sent(&effects)[0].0, Ok(Reply::Life(LIFE)));
    let (_, request, period) = sent(&story.sleep()).remove(0);
    let own = (Request::Heartbeat, Some(Duration::from_secs(50)));
    assert_eq!((request, period), own, "it beats as who it registered as");
}

#[test]
fn it_leaves_once_and_a_late_answer_does_not_end_the_next_stay() {
    let (mut story, _) = Story::running();
    let (first, effects) = story.ask(Ask::Shutdown);
    let rpc = sent(&effects)[0].0;
    let (_, effects) = story.ask(Ask::Shutdown);
    assert_eq!(code_of(&effects), Some(Code::FailedPrecondition));
    assert!(sent(&effects).is_empty());
    story.ask(Ask::SetError { status: broken() });
    let (_, effects) = story.ask(Ask::Reset);
    let effects = story.answer(sent(&effects)[0].0, Ok(Reply::Done));
    assert!(effects.contains(&Effect::Withdraw { rpc }), "{effects:?}");
    assert!(effects.iter().any(|effect| matches!(effect,
        Effect::Done { call, result: Err(status) }
            if *call == first && status.code == Code::Cancelled)));
    connect(&mut story);
    assert_eq!(story.answer(rpc, Ok(Reply::Done)), []);
    assert_eq!(story.agent.state(), State::Running);
}

#[test]
fn a_reset_that_another_life_refuses_leaves_no_error() {
    let (mut story, _) = Story::running();
    story.ask(Ask::SetError { status: broken() });
    let (reset, effects) = story.ask(Ask::Reset);
    let other_life = Err(refused(Code::Aborted));
    assert_eq!(
        story.answer(sent(&effects)[0].0, other_life),
        [done(reset, Ok(Reply::Done))],
        "the task was in a life that is over: nothing is left to reset"
    );
    assert_eq!((story.agent.state(), story.agent.error()), (State::Disconnected, None));
}

#[test]
fn a_shutdown_ends_a_registration_under_way() {
    let mut story = Story::initialized();
    let (connect, effects) = story.ask(Ask::Connect);
    let register = sent(&effects)[0].0;
    let (shutdown, effects) = story.ask(Ask::Shutdown);
    assert!(effects.contains(&Effect::Withdraw { rpc: register }), "{effects:?}");
    assert!(effects.contains(&done(shutdown, Ok(Reply::Done))), "{effects:?}");
    assert!(effects.iter().any(|effect| matches!(effect,
        Effect::Done { call, result: Err(status) }
            if *call == connect && status.code == Code::Cancelled)));
    story.answer(register, Ok(Reply::Life(LIFE)));
    assert_eq!(story.agent.state(), State::Disconnected);
}

//! Instances of barriers, as the server counts them.

use rondo_core::agent::{Ask, Config, Effect, Input, Reply, Request, RpcId, State};
use rondo_core::ids::{CallId, Incarnation, ServiceIncarnation, TaskIndex};
use rondo_core::status::{Code, Detail, Status};
use rondo_core::time::Duration;

use crate::story::{LIFE, Story, broken, code_of, done, sent};

fn come(story: &mut Story) -> (CallId, RpcId, i64) {
    let ask = Ask::Barrier { id: "b".into(), timeout: Duration::from_secs(1), tasks: Vec::new() };
    let (call, effects) = story.ask(ask);
    match sent(&effects).remove(0) {
        (rpc, Request::Barrier { counter, .. }, None) => (call, rpc, counter),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_next_instance_comes_after_the_one_that_ended() {
    let (mut story, _) = Story::running();
    let (call, rpc, counter) = come(&mut story);
    assert_eq!(counter, 0);
    let passed = Reply::Barrier { counter: 0 };
    assert_eq!(story.answer(rpc, Ok(passed.clone())), [done(call, Ok(passed))]);
    let (_, rpc, counter) = come(&mut story);
    assert_eq!(counter, 1);
    let error = Status::new(Code::DeadlineExceeded, "Barrier timed out")
        .with([Detail::Barrier { id: "b".into(), counter: 4 }]);
    story.answer(rpc, Err(error));
    let (_, rpc, counter) = come(&mut story);
    assert_eq!(counter, 5, "the server knows best");
    story.answer(rpc, Err(broken()));
    assert_eq!(come(&mut story).2, 5, "it never came there");
}

#[test]
fn a_task_waits_at_a_barrier_once() {
    let (mut story, _) = Story::running();
    come(&mut story);
    let ask = Ask::Barrier { id: "b".into(), timeout: Duration::from_secs(1), tasks: Vec::new() };
    let (_, effects) = story.ask(ask);
    assert_eq!(code_of(&effects), Some(Code::FailedPrecondition));
    assert!(sent(&effects).is_empty());
}

#[test]
fn the_instance_that_goes_on_is_cancelled() {
    let (mut story, _) = Story::running();
    let (_, rpc, _) = come(&mut story);
    story.answer(rpc, Ok(Reply::Barrier { counter: 0 }));
    come(&mut story);
    let (_, effects) = story.ask(Ask::CancelBarrier { id: "b".into() });
    assert_eq!(sent(&effects)[0].1, Request::CancelBarrier { id: "b".into(), counter: 1 });
}

fn pass(story: &mut Story, counter: i64) {
    let (_, rpc, asked) = come(story);
    assert_eq!(asked, counter);
    story.answer(rpc, Ok(Reply::Barrier { counter }));
}

fn leave(story: &mut Story, way: Ask) {
    let (_, effects) = story.ask(way);
    story.answer(sent(&effects)[0].0, Ok(Reply::Done));
    assert_eq!(story.agent.state(), State::Disconnected);
}

fn connect(story: &mut Story, life: ServiceIncarnation) {
    let (_, effects) = story.ask(Ask::Connect);
    story.answer(sent(&effects)[0].0, Ok(Reply::Life(life)));
    assert_eq!(story.agent.state(), State::Running);
}

#[test]
fn in_the_same_life_a_task_that_returns_counts_on() {
    let (mut story, _) = Story::running();
    pass(&mut story, 0);
    leave(&mut story, Ask::Shutdown);
    connect(&mut story, LIFE);
    pass(&mut story, 1);
    story.ask(Ask::SetError { status: broken() });
    leave(&mut story, Ask::Reset);
    connect(&mut story, LIFE);
    pass(&mut story, 2);
}

#[test]
fn in_another_life_it_counts_from_the_beginning() {
    let (mut story, _) = Story::running();
    pass(&mut story, 0);
    leave(&mut story, Ask::Shutdown);
    connect(&mut story, ServiceIncarnation::new(78));
    pass(&mut story, 0);
}

#[test]
fn another_run_of_the_task_counts_from_the_beginning() {
    let (mut story, _) = Story::running();
    pass(&mut story, 0);
    leave(&mut story, Ask::Shutdown);
    let config = Config::of("job", TaskIndex::new(1), Incarnation::new(10));
    story.step(Input::Initialize { config });
    connect(&mut story, LIFE);
    pass(&mut story, 0);
}

#[test]
fn a_task_that_may_restart_counts_from_the_beginning_when_it_returns() {
    let mut story = Story::new();
    let config = Config::of("job", TaskIndex::new(1), Incarnation::new(9));
    story.step(Input::Initialize { config: Config { recoverable: true, ..config } });
    connect(&mut story, LIFE);
    pass(&mut story, 0);
    leave(&mut story, Ask::Shutdown);
    connect(&mut story, LIFE);
    let (_, rpc, counter) = come(&mut story);
    assert_eq!(counter, 0, "the service takes 0 for the next instance");
    story.answer(rpc, Ok(Reply::Barrier { counter: 1 }));
    pass(&mut story, 2);
}

#[test]
fn who_is_reset_waits_at_no_barrier_any_more() {
    let (mut story, _) = Story::running();
    let (call, rpc, _) = come(&mut story);
    story.ask(Ask::SetError { status: broken() });
    let (_, effects) = story.ask(Ask::Reset);
    let effects = story.answer(sent(&effects)[0].0, Ok(Reply::Done));
    assert!(effects.contains(&Effect::Withdraw { rpc }), "{effects:?}");
    assert!(effects.iter().any(|effect| matches!(effect,
        Effect::Done { call: done, result: Err(status) }
            if *done == call && status.code == Code::Cancelled)));
    connect(&mut story, LIFE);
    let (_, again, _) = come(&mut story);
    assert_eq!(story.answer(rpc, Ok(Reply::Barrier { counter: 7 })), [], "a late answer");
    story.answer(again, Ok(Reply::Barrier { counter: 1 }));
    assert_eq!(come(&mut story).2, 2);
}

#[test]
fn a_task_whose_call_at_a_barrier_was_cancelled_comes_again() {
    let (mut story, _) = Story::running();
    let (call, rpc, counter) = come(&mut story);
    assert!(story.step(Input::Cancel { call }).contains(&Effect::Withdraw { rpc }));
    let (_, again, same) = come(&mut story);
    assert_eq!(same, counter, "it never learnt that the instance had ended");
    story.answer(again, Ok(Reply::Barrier { counter }));
    assert_eq!(come(&mut story).2, counter + 1);
}

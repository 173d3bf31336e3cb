//! Instances of barriers, as the server counts them.

use rondo_core::agent::{Ask, Reply, Request, RpcId};
use rondo_core::ids::CallId;
use rondo_core::status::{Code, Detail, Status};
use rondo_core::time::Duration;

use crate::story::{Story, broken, code_of, done, sent};

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

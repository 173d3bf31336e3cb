//! Becoming known to the dispatcher, and staying so.

use rondo_core::ids::TaskId;
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;
use rondo_core::worker::{Answer, Ask, Effect, Event, Input, Part, Reply, Request};

use crate::world::{VERSION, World, ask, soft, task};

fn requests(world: &World) -> Vec<Request> {
    world.sent.iter().map(|(_, request)| request.clone()).collect()
}

#[test]
fn a_worker_registers_however_often_the_dispatcher_is_away() {
    let mut world = World::new(|_| {});
    world.step(Input::Start);
    for _ in 0..20 {
        assert_eq!(requests(&world), [Request::Version]);
        world.refuse(&soft());
        assert!(world.sent.is_empty(), "not at once");
        world.sleep(2_000);
    }
    let (rpc, _) = world.sent[0].clone();
    world.answer(rpc, Ok(Reply::Version(VERSION)));
    for _ in 0..20 {
        assert_eq!(requests(&world), [Request::Heartbeat { tasks: vec![] }]);
        world.refuse(&Status::new(Code::Aborted, "later"));
        world.sleep(2_000);
    }
    assert_eq!(world.told, []);
    world.dispatch();
    assert_eq!(world.told, [Effect::Registered]);
    let lost = |status| Event::DispatcherLost { status };
    let reached = |away_ms| Event::DispatcherReached { away: Duration::from_millis(away_ms) };
    let later = Status::new(Code::Aborted, "later");
    assert_eq!(world.observed, [lost(soft()), reached(40_000), lost(later), reached(40_000)]);
}

/// A worker whose dispatcher was away said nothing of it, however long that was.
#[test]
fn a_dispatcher_that_goes_is_told_of_once_and_once_when_it_is_back() {
    let mut world = World::registered();
    for _ in 0..3 {
        world.sleep(5_000);
        world.refuse(&soft());
    }
    assert_eq!(world.observed, [Event::DispatcherLost { status: soft() }]);
    world.sleep(5_000);
    world.dispatch();
    world.sleep(5_000);
    world.dispatch();
    let away = Duration::from_millis(15_000);
    assert_eq!(world.observed[1..], [Event::DispatcherReached { away }]);
}

#[test]
fn a_proxy_that_answers_in_the_dispatchers_place_does_not_end_the_start() {
    let mut world = World::new(|_| {});
    world.step(Input::Start);
    for code in [Code::Unknown, Code::Internal, Code::ResourceExhausted] {
        assert_eq!(requests(&world), [Request::Version]);
        world.refuse(&Status::new(code, "a proxy"));
        assert_eq!(world.told, [], "{code:?}");
        world.sleep(2_000);
    }
    let (rpc, _) = world.sent[0].clone();
    world.answer(rpc, Ok(Reply::Version(VERSION)));
    world.refuse(&Status::new(Code::Internal, "a proxy"));
    world.sleep(2_000);
    world.dispatch();
    assert_eq!(world.told, [Effect::Registered]);
}

#[test]
fn another_version_ends_the_start() {
    let mut world = World::new(|_| {});
    world.step(Input::Start);
    let (rpc, _) = world.sent[0].clone();
    world.answer(rpc, Ok(Reply::Version(8)));
    let [Effect::Failed { status }] = &world.told[..] else { panic!("{:?}", world.told) };
    assert_eq!(status.code, Code::FailedPrecondition);
    assert!(status.message.contains('8') && status.message.contains('9'), "{status}");
    assert_eq!(world.worker.deadline(), None);
    let call = world.get(ask(1));
    assert_eq!(world.code_of(call), Code::Cancelled);
}

#[test]
fn a_refused_worker_does_not_start() {
    let mut world = World::new(|_| {});
    world.step(Input::Start);
    let (rpc, _) = world.sent[0].clone();
    world.answer(rpc, Ok(Reply::Version(VERSION)));
    world.refuse(&Status::new(Code::FailedPrecondition, "not configured"));
    let [Effect::Failed { status }] = &world.told[..] else { panic!("{:?}", world.told) };
    assert_eq!(status.message, "not configured");
}

#[test]
fn nobody_is_served_before() {
    let mut world = World::new(|_| {});
    world.step(Input::Start);
    let call = world.get(ask(1));
    assert_eq!(world.code_of(call), Code::Unavailable);
    let call = world.call(Ask::Dataset { task: TaskId::new(1) });
    assert_eq!(world.code_of(call), Code::Unavailable);
    // But tasks may come.
    let call = world.call(Ask::Process(task(1, Part::Whole)));
    assert_eq!(world.answers.remove(&call), Some(Ok(Answer::Done)));
}

#[test]
fn heartbeats_name_all_tasks_and_go_on_whatever_happens() {
    let mut world = World::with_tasks([task(3, Part::Whole), task(1, Part::Splits)]);
    let tasks = vec![TaskId::new(1), TaskId::new(3)];
    world.sleep(4_999);
    assert_eq!(requests(&world), []);
    world.sleep(1);
    assert_eq!(requests(&world), [Request::Heartbeat { tasks: tasks.clone() }]);
    world.refuse(&Status::new(Code::Internal, "broken"));
    world.sleep(1_000);
    assert_eq!(requests(&world), [Request::Heartbeat { tasks: tasks.clone() }]);
    // One at a time, however long it takes.
    world.sleep(60_000);
    assert_eq!(requests(&world), [Request::Heartbeat { tasks }]);
    world.dispatch();
    world.sleep(5_000);
    assert_eq!(world.sent.len(), 1);
}

//! Namespaces and their lives.

use rondo_core::coordination::{
    Call, Caller, Dialect, Event, Method, NamespaceConfig, Reply, Request,
};
use rondo_core::ids::{Incarnation, ServiceIncarnation};
use rondo_core::status::{Code, Detail};

use crate::driver::{Driver, seconds, settings};
use crate::world::*;

#[test]
fn a_job_begins_anew_after_all_have_left() {
    let mut driver = Driver::of(2);
    let life = driver.register_all(2);
    driver.tell(insert("k", "old")).unwrap();
    let leaving = [0, 1].map(|index| driver.start_call(shutdown(index)));
    assert!(leaving.into_iter().all(|call| driver.take(call) == Some(Ok(Reply::ShutDown))));
    assert_eq!(driver.value("k"), Some("old".into()), "keys can be read until the next job");
    let next = driver.register_as(2, 1_000);
    assert_ne!(life, next);
    driver.tell(insert("k", "new")).unwrap();
    let calls = [0, 1].map(|index| driver.start_call(barrier("b", 0, index, NO_TASKS)));
    assert_eq!(calls.map(|call| driver.take(call)), [passed(0), passed(0)]);
}

#[test]
fn one_who_left_comes_back_to_the_others() {
    let mut driver = Driver::recoverable(2);
    let life = driver.register_all(2);
    driver.tell(insert("k", "v")).unwrap();
    assert_eq!(driver.tell(shutdown(0)), Ok(Reply::ShutDown));
    assert_eq!(driver.tell(register(0, 9)), Ok(Reply::Registered(life)));
    assert!(driver.value("k").is_some());
}

/// A call of the old job that comes late begins no new one.
#[test]
fn a_late_registration_begins_no_life() {
    let mut driver = Driver::of(1);
    let life = driver.register_all(1);
    driver.tell(shutdown(0)).unwrap();
    assert_eq!(driver.tell(register(0, first(0))), Ok(Reply::Registered(life)));
}

#[test]
fn a_job_that_died_is_followed_by_the_next_once_all_are_dead() {
    let mut driver = Driver::of(2);
    let life = driver.register_all(2);
    let _ = driver.start_call(poll(0));
    // All processes are started again before anybody's silence was noticed.
    driver.refused(register(0, 1_000), Code::Aborted);
    driver.refused(register(1, 1_001), Code::Aborted);
    let calls = [0, 1].map(|index| driver.start_call(register(index, 1_000 + index as u64)));
    for call in calls {
        let Some(Ok(Reply::Registered(next))) = driver.take(call) else { panic!() };
        assert_ne!(next, life);
    }
    let polls = driver.start_call(poll(0));
    assert!(driver.is_waiting(polls), "no error of the old job is left");
}

#[test]
fn calls_of_the_old_life_end_with_it() {
    let mut driver = Driver::of(2);
    let old = driver.register_all(2);
    let waits = [
        driver.start_call(get("k")),
        driver.start_call(poll(0)),
        driver.start_call(barrier("b", 0, 0, NO_TASKS)),
        driver.start_call(watch("k", Some(0))),
        driver.start_call(alive(0, &[0, 1])),
    ];
    let Ok(Reply::LifeBegun(life)) = driver.tell(Method::ResetNamespace) else { panic!() };
    assert_ne!(life, old);
    for call in waits {
        let status = refusal_of(driver.take(call));
        assert_eq!(status.code, Code::Aborted);
        assert!(status.details.contains(&Detail::ServiceMismatch { incarnation: life }));
    }
    driver.refused(beat(0, 77), Code::InvalidArgument);
    let status = driver.ask(in_life(old, try_get("k"))).unwrap_err();
    assert_eq!(status.code, Code::Internal);
}

/// In dialect T beats say nothing of the life they are meant for.
#[test]
fn a_process_of_the_old_life_cannot_harm_the_new() {
    let mut driver = Driver::of(2);
    let old = driver.register_all(2);
    driver.tell(Method::ResetNamespace).unwrap();
    driver.register_as(2, 1_000);
    let polls = driver.start_call(poll(1));
    driver.refused(beat(0, first(0)), Code::Aborted);
    let caller = Caller { dialect: Dialect::T, life: Some(old), ..Caller::default() };
    let status = driver.ask(call(caller, overwrite("k", "v"))).unwrap_err();
    assert_eq!(status.code, Code::Aborted);
    assert!(driver.is_waiting(polls));
    assert!(driver.tell(beat(0, first(0) + 1_000)).is_ok());
    assert_eq!(driver.value("k"), None);
}

#[test]
fn a_life_survives_a_restart() {
    let mut driver = Driver::of(2);
    let life = driver.register_all(2);
    driver.tell(insert("k", "v")).unwrap();
    driver.restart();
    assert_eq!(driver.tell(beat(1, first(1))), Ok(Reply::Heartbeat(life)));
    assert_eq!(driver.tell(register(1, first(1))), Ok(Reply::Registered(life)));
    assert!(driver.ask(in_life(life, try_get("k"))).is_ok());
}

#[test]
fn each_namespace_has_its_own_heartbeat_timeout() {
    for (here, there) in [(1, 60), (60, 1)] {
        let of = |timeout| NamespaceConfig { heartbeat_timeout: seconds(timeout), ..settings(1) };
        let other = NamespaceConfig { name: "other".into(), ..of(there) };
        let mut driver = Driver::serving(vec![of(here), other]);
        driver.register_all(1);
        driver.ask(elsewhere(register(0, 5))).unwrap();
        (0..10).for_each(|_| driver.advance(seconds(1)));
        let found = [driver.tell(beat(0, first(0))), driver.ask(elsewhere(beat(0, 5)))];
        assert_eq!(found.map(|answer| answer.is_ok()), [here > 10, there > 10], "{here}, {there}");
    }
}

#[test]
fn namespaces_know_nothing_of_each_other() {
    let other = NamespaceConfig { name: "other".into(), ..settings(1) };
    let mut driver = Driver::serving(vec![settings(1), other]);
    let life = driver.register_all(1);
    let Ok(Reply::Registered(other)) = driver.ask(elsewhere(register(0, 5))) else { panic!() };
    assert_ne!(life, other);
    let waits = driver.send(elsewhere(get("k")));
    driver.tell(insert("k", "v")).unwrap();
    assert!(driver.is_waiting(waits));
    driver.refused(register(0, 6), Code::Aborted);
    assert!(driver.ask(elsewhere(beat(0, 5))).is_ok());
    let caller = Caller::default();
    let nowhere = Call { namespace: "nowhere".into(), caller, method: try_get("k") };
    let status = driver.ask(Request::Call(Box::new(nowhere))).unwrap_err();
    assert_eq!(status.code, Code::NotFound);
}

#[test]
fn a_life_that_nobody_joined_ends_when_the_server_serves_another_number_of_tasks() {
    let mut driver = Driver::of(1);
    driver.tell(insert("k", "v")).unwrap();
    driver.restart_with(settings(2));
    let first = driver.start_call(register(0, 1));
    assert!(driver.is_waiting(first));
    assert!(driver.tell(register(1, 1)).is_ok());
    assert!(driver.take(first).is_some_and(|end| end.is_ok()));
}

/// The tasks that registered wait in vain for a job of the former size.
#[test]
fn a_life_that_is_not_complete_ends_when_the_server_serves_another_number_of_tasks() {
    for (before, after) in [(2, 4), (4, 2)] {
        let mut driver = Driver::of(before);
        let waiting = driver.start_call(register(0, 1));
        assert!(driver.is_waiting(waiting));
        driver.restart_with(settings(after));
        let tasks: Vec<_> = (0..i32::try_from(after).unwrap()).collect();
        let calls: Vec<_> =
            tasks.iter().map(|task| driver.start_call(register(*task, 2))).collect();
        for call in calls {
            assert!(driver.take(call).is_some_and(|end| end.is_ok()), "{before}, then {after}");
        }
    }
}

#[test]
fn a_complete_life_keeps_its_size_when_the_server_serves_another_number_of_tasks() {
    let mut driver = Driver::of(1);
    driver.tell(register(0, 1)).unwrap();
    driver.restart_with(settings(2));
    assert!(driver.tell(register(0, 1)).is_ok());
    assert_eq!(driver.tell(register(1, 1)).unwrap_err().code, Code::Aborted);
}

/// A task registers and says how many tasks its job has.
fn says(index: i32, incarnation: u64, tasks: Option<u32>) -> Method {
    let incarnation = Incarnation::new(incarnation);
    Method::RegisterTask { task: task(index), incarnation, recoverable: false, tasks }
}

#[test]
fn a_process_that_is_replaced_does_not_complete_a_job_whose_size_its_successor_says() {
    let mut driver = Driver::with(NamespaceConfig { tasks: None, ..settings(1) });
    let former = driver.start_call(says(0, 1, None));
    assert!(driver.tell(says(0, 2, Some(1))).is_ok());
    text_of(driver.take(former), Code::AlreadyExists);
    assert!(driver.tell(beat(0, 2)).is_ok());
}

#[test]
fn a_size_that_is_said_is_the_size() {
    let learnt = NamespaceConfig { tasks: None, ..settings(1) };
    let mut driver = Driver::with(learnt);
    let says = |index, tasks| says(index, 1, tasks);
    let waits = driver.start_call(says(0, None));
    driver.refused(barrier("b", 0, 0, NO_TASKS), Code::FailedPrecondition);
    driver.refused(says(5, Some(3)), Code::InvalidArgument);
    let high = driver.start_call(says(2, None));
    driver.refused(says(1, Some(2)), Code::InvalidArgument);
    driver.cancel(high);
    let other = driver.start_call(says(2, Some(3)));
    assert!(driver.is_waiting(waits) && driver.is_waiting(other));
    driver.refused(says(1, Some(4)), Code::InvalidArgument);
    driver.refused(says(3, None), Code::Aborted);
    assert!(driver.tell(says(1, None)).is_ok());
    assert!(driver.take(waits).unwrap().is_ok() && driver.take(other).unwrap().is_ok());
}

#[test]
fn a_size_that_nobody_says_is_counted_when_nobody_new_comes() {
    let learnt = NamespaceConfig { tasks: None, settle: seconds(5), ..settings(1) };
    let mut driver = Driver::with(learnt);
    let first = driver.start_call(register(0, 1));
    driver.advance(seconds(4));
    let third = driver.start_call(register(2, 1));
    driver.advance(seconds(6));
    assert!(driver.is_waiting(first), "task 1 is missing in between");
    let second = driver.start_call(register(1, 1));
    driver.advance(seconds(4));
    assert!(driver.is_waiting(first));
    driver.advance(seconds(1));
    for call in [first, second, third] {
        assert!(driver.take(call).unwrap().is_ok());
    }
    let learnt = |event: &Event| matches!(event, Event::SizeLearnt { tasks: 3, .. });
    assert!(driver.events.iter().any(learnt));
}

#[test]
fn a_life_is_never_0_nor_the_one_before() {
    let mut driver = Driver::of(1);
    let mut before = ServiceIncarnation::new(0);
    for _ in 0..3 {
        let Ok(Reply::LifeBegun(life)) = driver.tell_with_entropy(Method::ResetNamespace, 0) else {
            panic!()
        };
        assert!(life.get() != 0 && life != before);
        before = life;
    }
}

//! Barriers: lists, counters, timeouts, fan-out.

use rondo_core::coordination::{Method, NamespaceConfig, Reply};
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::driver::{Driver, seconds, settings};
use crate::world::*;

#[test]
fn a_barrier_of_some_needs_no_others() {
    let mut driver = Driver::of(4);
    driver.register_all(4);
    let waits = driver.start_call(barrier("b", 0, 3, &[3, 1]));
    let peer = driver.start_call(barrier("b", 0, 1, &[1, 3]));
    assert_eq!([driver.take(waits), driver.take(peer)], [passed(0), passed(0)]);
}

#[test]
fn the_first_instances_participants_stay() {
    let mut driver = Driver::of(3);
    driver.register_all(3);
    let calls = [0, 1].map(|index| driver.start_call(barrier("b", 0, index, &[0, 1])));
    assert_eq!(calls.map(|call| driver.take(call)), [passed(0), passed(0)]);
    driver.refused(barrier("b", 1, 0, NO_TASKS), Code::InvalidArgument);
    driver.refused(barrier("b", 2, 2, &[0, 1]), Code::InvalidArgument);
    let calls = [0, 1].map(|index| driver.start_call(barrier("b", 3, index, &[0, 1])));
    assert_eq!(calls.map(|call| driver.take(call)), [passed(3), passed(3)]);
}

#[test]
fn a_wrong_list_fails_the_instance_for_all() {
    let wrong: [&[i32]; 5] = [NO_TASKS, &[0], &[0, 1, 2], &[1, 2], &[0, 9]];
    for list in wrong {
        let mut driver = Driver::of(4);
        driver.register_all(4);
        let waits = driver.start_call(barrier("b", 0, 0, &[0, 1]));
        let status = driver.refused(barrier("b", 0, 1, list), Code::InvalidArgument);
        assert_eq!(refusal_of(driver.take(waits)), status, "{list:?}");
        assert_eq!(counter_of(&status), Some(0));
    }
}

#[test]
fn a_list_with_a_stranger_or_a_repetition_makes_no_barrier() {
    for list in [&[0, 9][..], &[0, 1, 1], &[1, 2]] {
        let mut driver = Driver::of(3);
        driver.register_all(3);
        driver.refused(barrier("b", 0, 0, list), Code::InvalidArgument);
        driver.refused(barrier("b", 0, 1, &[0, 1]), Code::InvalidArgument);
        let calls = [0, 1].map(|index| driver.start_call(barrier("b", 1, index, &[0, 1])));
        assert_eq!(calls.map(|call| driver.take(call)), [passed(1), passed(1)]);
    }
}

/// Numbers alone do not say which tasks are meant.
#[test]
fn a_list_of_another_jobs_tasks_is_not_the_settled_one() {
    let mut driver = Driver::of(3);
    driver.register_all(3);
    let waits = driver.start_call(barrier("b", 0, 0, &[0, 1]));
    let tasks = [0, 1].map(|index| task_of("another", index)).to_vec();
    let of_another =
        Method::Barrier { id: "b".into(), counter: 0, timeout_ms: 5_000, tasks, source: task(1) };
    let status = driver.refused(of_another, Code::InvalidArgument);
    assert!(status.message.contains("another"), "{status}");
    assert_eq!(refusal_of(driver.take(waits)), status);
}

#[test]
fn the_same_task_again_ends_its_older_call_alone() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let older = driver.start_call(barrier("b", 0, 0, NO_TASKS));
    let newer = driver.start_call(barrier("b", 0, 0, NO_TASKS));
    let status = refusal_of(driver.take(older));
    assert_eq!((status.code, status.details.len()), (Code::Cancelled, 0));
    assert!(driver.is_waiting(newer));
    let peer = driver.start_call(barrier("b", 0, 1, NO_TASKS));
    assert_eq!([driver.take(newer), driver.take(peer)], [passed(0), passed(0)]);
}

#[test]
fn a_passed_instance_is_told_again() {
    let mut driver = Driver::of(1);
    driver.register_all(1);
    assert_eq!(driver.tell(barrier("b", 0, 0, NO_TASKS)), Ok(Reply::BarrierPassed { counter: 0 }));
    assert_eq!(driver.tell(barrier("b", 0, 0, NO_TASKS)), Ok(Reply::BarrierPassed { counter: 0 }));
    assert_eq!(driver.tell(barrier("b", 1, 0, NO_TASKS)), Ok(Reply::BarrierPassed { counter: 1 }));
    let status = driver.refused(barrier("b", 0, 0, NO_TASKS), Code::Internal);
    assert_eq!(counter_of(&status), Some(1));
}

#[test]
fn the_first_arrivals_timeout_counts() {
    let mut driver = Driver::of(3);
    driver.register_all(3);
    let first = driver.start_call(barrier_for("b", 0, 0, NO_TASKS, 2_000));
    let second = driver.start_call(barrier_for("b", 0, 1, NO_TASKS, 60_000));
    driver.advance(seconds(2));
    let text = text_of(driver.take(first), Code::DeadlineExceeded);
    assert_eq!(text_of(driver.take(second), Code::DeadlineExceeded), text);
    assert!(text.contains("2 of 3 tasks came within 2.0 s; the first was task 0."), "{text}");
    assert!(text.contains("Missing: 2."), "{text}");
    assert!(text.contains("task 2: last heard 2.0 s ago, last registered"), "{text}");
}

#[test]
fn no_time_ends_at_the_next_tick() {
    for timeout_ms in [0, -5, i64::MIN] {
        let mut driver = Driver::of(2);
        driver.register_all(2);
        let waits = driver.start_call(barrier_for("b", 0, 0, NO_TASKS, timeout_ms));
        assert!(driver.is_waiting(waits));
        driver.advance(Duration::ZERO);
        text_of(driver.take(waits), Code::DeadlineExceeded);
    }
}

#[test]
fn the_longest_timeout_is_for_ever() {
    let never = Duration::from_nanos(u64::MAX);
    let mut driver = Driver::with(NamespaceConfig { heartbeat_timeout: never, ..settings(2) });
    driver.register_all(2);
    let waits = driver.start_call(barrier_for("b", 0, 0, NO_TASKS, i64::MAX));
    driver.advance(seconds(1_000_000));
    assert!(driver.is_waiting(waits));
}

#[test]
fn who_leaves_fails_the_barriers_it_belongs_to() {
    let mut driver = Driver::of(3);
    driver.register_all(3);
    let concerned = driver.start_call(barrier("all", 0, 0, NO_TASKS));
    let other = driver.start_call(barrier("some", 0, 0, &[0, 1]));
    driver.tell(Method::ResetTask { task: task(2) }).unwrap();
    let text = text_of(driver.take(concerned), Code::Internal);
    assert!(text.contains("task disconnected"), "{text}");
    assert!(driver.is_waiting(other));
}

#[test]
fn nobody_need_wait_for_a_task_in_error() {
    let mut driver = Driver::of(3);
    driver.register_all(3);
    let report = Method::ReportErrorToService { task: task(2), code: 3, message: "bad".into() };
    let _ = driver.start_call(poll(0));
    driver.tell(report).unwrap();
    let status = driver.refused(barrier("all", 0, 0, NO_TASKS), Code::Internal);
    assert!(status.message.contains("task 2 is set to ERROR: INVALID_ARGUMENT: bad"), "{status}");
    let fine = [0, 1].map(|index| driver.start_call(barrier("some", 0, index, &[0, 1])));
    assert_eq!(fine.map(|call| driver.take(call)), [passed(0), passed(0)]);
}

#[test]
fn a_recoverable_task_that_restarts_comes_to_the_next_instance() {
    let mut driver = Driver::recoverable(2);
    driver.register_all(2);
    for counter in 0..3 {
        let calls = [0, 1].map(|index| driver.start_call(barrier("b", counter, index, NO_TASKS)));
        assert_eq!(calls.map(|call| driver.take(call)), [passed(counter), passed(counter)]);
    }
    driver.tell(register(1, 7)).unwrap();
    let restarted = driver.start_call(barrier("b", 0, 1, NO_TASKS));
    let peer = driver.start_call(barrier("b", 3, 0, NO_TASKS));
    assert_eq!([driver.take(restarted), driver.take(peer)], [passed(3), passed(3)]);
}

#[test]
fn a_restarted_task_has_not_come_yet() {
    let mut driver = Driver::recoverable(2);
    driver.register_all(2);
    let dead = driver.start_call(barrier("b", 0, 1, NO_TASKS));
    driver.tell(register(1, 7)).unwrap();
    text_of(driver.take(dead), Code::Cancelled);
    let peer = driver.start_call(barrier("b", 0, 0, NO_TASKS));
    assert!(driver.is_waiting(peer), "its former self's coming does not count");
    let back = driver.start_call(barrier("b", 0, 1, NO_TASKS));
    assert_eq!([driver.take(peer), driver.take(back)], [passed(0), passed(0)]);
}

/// Many answers take several steps, each at the same moment.
#[test]
fn a_large_barrier_is_answered_in_slices() {
    let tasks: i32 = 1_000;
    let mut driver = Driver::of(1);
    driver.register_all(1);
    let mut driver = Driver::of(u32::try_from(tasks).unwrap());
    let calls: Vec<_> =
        (0..tasks).map(|index| driver.start_call(register(index, first(index)))).collect();
    let answered = calls.iter().filter(|call| !driver.is_waiting(**call)).count();
    assert!(answered < 300, "{answered} in one step");
    driver.advance(Duration::ZERO);
    assert!(calls.into_iter().all(|call| driver.take(call).unwrap().is_ok()));
}

#[test]
fn a_call_that_is_cancelled_while_its_answer_waits_is_not_answered() {
    let tasks: i32 = 600;
    let mut driver = Driver::of(u32::try_from(tasks).unwrap());
    let calls: Vec<_> =
        (0..tasks).map(|index| driver.start_call(register(index, first(index)))).collect();
    let last = *calls.iter().rev().find(|call| driver.is_waiting(**call)).unwrap();
    driver.cancel(last);
    driver.advance(Duration::ZERO);
    assert_eq!(driver.take(last), None);
    assert_eq!(driver.take_all().len(), calls.len() - 1);
}

/// The number of tasks may become known while they wait.
#[test]
fn a_list_of_all_stays_one_when_their_number_is_learnt() {
    let unknown = NamespaceConfig { tasks: None, settle: seconds(1), ..settings(2) };
    let mut driver = Driver::with(unknown);
    let registers = [0, 1].map(|index| driver.start_call(register(index, first(index))));
    let early = driver.start_call(barrier("b", 0, 0, &[0, 1]));
    driver.advance(seconds(2));
    assert!(registers.into_iter().all(|call| driver.take(call).is_some_and(|end| end.is_ok())));
    let late = driver.start_call(barrier("b", 0, 1, &[1, 0]));
    assert_eq!([driver.take(early), driver.take(late)], [passed(0), passed(0)]);
}

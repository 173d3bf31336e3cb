//! Errors: who is in error, and who is told.

use rondo_core::coordination::{Method, Reply};
use rondo_core::ids::Incarnation;
use rondo_core::status::Code;

use crate::driver::{Driver, seconds};
use crate::world::*;

fn report(index: i32, code: i32) -> Method {
    Method::ReportErrorToService { task: task(index), code, message: "went wrong".into() }
}

#[test]
fn without_polls_all_are_in_error() {
    let mut driver = Driver::of(3);
    driver.register_all(3);
    let waits = driver.start_call(barrier("b", 0, 1, &[0, 1]));
    driver.tell(report(2, 9)).unwrap();
    text_of(driver.take(waits), Code::Internal);
    for index in 0..3 {
        driver.refused(beat(index, first(index)), Code::Aborted);
    }
}

#[test]
fn an_error_sticks_for_whoever_polls_later() {
    let mut driver = Driver::of(3);
    driver.register_all(3);
    let early = driver.start_call(poll(1));
    driver.tell(report(2, 9)).unwrap();
    let text = text_of(driver.take(early), Code::FailedPrecondition);
    assert_eq!(driver.refused(poll(0), Code::FailedPrecondition).message, text);
    driver.restart();
    assert_eq!(driver.refused(poll(0), Code::FailedPrecondition).message, text);
    driver.refused(register(1, 999), Code::Aborted);
    assert_eq!(driver.refused(poll(0), Code::FailedPrecondition).message, text, "the first stays");
}

/// Found by the fuzz target of requests.
#[test]
fn an_error_reported_without_a_message_names_who_reported_it() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let polls = driver.start_call(poll(0));
    let silent = Method::ReportErrorToService { task: task(1), code: 9, message: "".into() };
    driver.tell(silent).unwrap();
    let text = text_of(driver.take(polls), Code::FailedPrecondition);
    assert!(text.contains("task 1 reported no more than that"), "{text}");
}

#[test]
fn only_tasks_that_are_there_poll_and_report() {
    let mut driver = Driver::of(2);
    driver.refused(poll(0), Code::FailedPrecondition);
    driver.refused(report(0, 3), Code::FailedPrecondition);
    driver.refused(poll(2), Code::InvalidArgument);
    driver.refused(beat(0, 1), Code::InvalidArgument);
    driver.refused(shutdown(0), Code::Internal);
    driver.refused(Method::ResetTask { task: task(0) }, Code::FailedPrecondition);
    driver.refused(Method::ReportErrorToTask, Code::Internal);
    driver.register_all(2);
    for code in [0, 17, -1] {
        driver.refused(report(0, code), Code::InvalidArgument);
    }
    assert!(driver.tell(beat(0, first(0))).is_ok());
}

#[test]
fn a_recoverable_job_spreads_nothing() {
    let mut driver = Driver::recoverable(2);
    driver.register_all(2);
    let polls = driver.start_call(poll(0));
    driver.tell(report(1, 13)).unwrap();
    assert!(driver.is_waiting(polls));
    assert!(driver.tell(beat(0, first(0))).is_ok());
    driver.refused(register(1, 5), Code::Aborted);
    driver.refused(register(1, first(1)), Code::Aborted);
}

#[test]
fn many_silent_tasks_are_named_as_ranges() {
    let tasks: i32 = 12;
    let mut driver = Driver::of(12);
    driver.register_all(tasks);
    let polls = driver.start_call(poll(5));
    driver.advance_beating(11, &[5, 6]);
    let text = text_of(driver.take(polls), Code::Unavailable);
    assert!(text.contains("\n0-4,7-11\n"), "{text}");
    assert!(text.contains("task 0: last heard 10.0 s ago, last registered 10.0 s ago"), "{text}");
}

#[test]
fn a_failed_shutdown_of_a_task_in_error_reaches_all() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let polls = driver.start_call(poll(1));
    let leaves = driver.start_call(shutdown(1));
    driver.tell(report(0, 13)).unwrap();
    let text = text_of(driver.take(leaves), Code::Internal);
    assert!(text.starts_with("Shutdown barrier has failed."), "{text}");
    assert_eq!(text_of(driver.take(polls), Code::Internal), text);
    driver.refused(shutdown(0), Code::Internal);
}

#[test]
fn whoever_is_in_error_cannot_leave_in_order() {
    let mut driver = Driver::of(1);
    driver.register_all(1);
    let _ = driver.start_call(poll(0));
    driver.tell(report(0, 13)).unwrap();
    let status = driver.refused(shutdown(0), Code::Internal);
    assert!(status.message.starts_with("Shutdown barrier has failed."), "{status}");
}

#[test]
fn without_a_shutdown_timeout_each_leaves_alone() {
    let settings = rondo_core::coordination::NamespaceConfig {
        shutdown_timeout: seconds(0),
        ..crate::driver::settings(2)
    };
    let mut driver = Driver::with(settings);
    driver.register_all(2);
    let polls = driver.start_call(poll(0));
    assert_eq!(driver.tell(shutdown(0)), Ok(Reply::ShutDown));
    text_of(driver.take(polls), Code::Cancelled);
    assert!(driver.tell(beat(1, first(1))).is_ok());
}

#[test]
fn who_asks_for_the_living_is_one_of_them() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let status = driver.refused(alive(0, &[1]), Code::InvalidArgument);
    assert_eq!(status.details, []);
    driver.refused(alive(5, &[5]), Code::InvalidArgument);
    let waits = driver.start_call(alive(0, &[0, 1, 44]));
    assert!(driver.is_waiting(waits));
    driver.cancel(waits);
    let second = driver.start_call(alive(1, &[44, 1, 0]));
    assert!(driver.is_waiting(second), "who asked and went away has not asked");
    let first_again = driver.start_call(alive(0, &[0, 1, 44]));
    assert!(driver.take(first_again).unwrap().is_ok() && driver.take(second).unwrap().is_ok());
}

/// One of them may come back, the other may not.
#[test]
fn the_loss_of_two_tasks_reaches_all_unless_both_may_come_back() {
    let comes = |index, recoverable| Method::RegisterTask {
        task: task(index),
        incarnation: Incarnation::new(first(index)),
        recoverable,
        tasks: None,
    };
    for (of_two, of_three) in [(true, true), (true, false), (false, true)] {
        let mut driver = Driver::of(3);
        let calls = [comes(0, false), comes(1, of_two), comes(2, of_three)];
        let calls = calls.map(|method| driver.start_call(method));
        for call in calls {
            driver.take(call).unwrap().unwrap();
        }
        let polls = driver.start_call(poll(0));
        driver.advance_beating(11, &[0]);
        let is_told = !driver.is_waiting(polls);
        assert_eq!(is_told, !(of_two && of_three), "task 1 {of_two}, task 2 {of_three}");
    }
}

#[test]
fn who_gave_up_asking_who_is_alive_is_waited_for_again() {
    const ALL: &[i32] = &[0, 1, 2];
    let mut driver = Driver::recoverable(3);
    driver.register_all(3);
    let given_up = driver.start_call(alive(0, ALL));
    let second = driver.start_call(alive(1, ALL));
    driver.cancel(given_up);
    let others = [second, driver.start_call(alive(2, ALL))];
    assert!(others.iter().all(|call| driver.is_waiting(*call)), "task 0 is connected");
    assert!(driver.tell(alive(0, ALL)).is_ok());
    assert!(others.into_iter().all(|call| driver.take(call).is_some_and(|end| end.is_ok())));
}

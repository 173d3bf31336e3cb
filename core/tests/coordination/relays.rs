//! Through a relay every request takes effect once, however often it comes.

use rondo_core::coordination::{Method, Reply};
use rondo_core::status::Code;

use crate::driver::Driver;
use crate::world::*;

#[test]
fn an_effect_happens_once() {
    let mut driver = Driver::of(1);
    for round in 0..3 {
        let answers = [
            driver.ask(relayed(1, 0, insert("k", "v"))),
            driver.ask(relayed(2, 0, increment("n", 5))),
            driver.ask(relayed(3, 0, delete("k"))),
        ];
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        assert_eq!(driver.value("n"), Some("5".into()), "in round {round}");
        assert_eq!(driver.value("k"), None);
        driver.restart();
    }
}

#[test]
fn the_repeated_answer_is_the_first_one() {
    let mut driver = Driver::of(1);
    let first = driver.ask(relayed(1, 0, increment("n", 5)));
    driver.tell(increment("n", 100)).unwrap();
    assert_eq!(driver.ask(relayed(1, 0, increment("n", 5))), first);
}

#[test]
fn acknowledged_results_are_dropped() {
    let mut driver = Driver::of(1);
    for sequence in 1..=10 {
        driver.ask(relayed(sequence, sequence - 1, increment("n", 1))).unwrap();
    }
    let namespaces = driver.node.coordination().state().namespaces();
    let relay = namespaces.values().next().unwrap().relays().values().next().unwrap();
    assert_eq!((relay.acknowledged, relay.results.len()), (9, 1));
    let status = driver.ask(relayed(9, 9, increment("n", 1))).unwrap_err();
    assert_eq!(status.code, Code::FailedPrecondition);
    let status = driver.ask(relayed(10, 9, delete("n"))).unwrap_err();
    assert_eq!(status.code, Code::InvalidArgument, "the number was another request's");
    assert_eq!(driver.value("n"), Some("10".into()));
}

#[test]
fn a_refusal_that_changed_nothing_is_decided_anew() {
    let mut driver = Driver::of(1);
    driver.tell(insert("k", "v")).unwrap();
    assert_eq!(driver.ask(relayed(1, 0, insert("k", "w"))).unwrap_err().code, Code::AlreadyExists);
    driver.tell(delete("k")).unwrap();
    assert!(driver.ask(relayed(1, 0, insert("k", "w"))).is_ok());
}

#[test]
fn a_barrier_is_waited_at_again_after_a_crash() {
    let mut driver = Driver::recoverable(2);
    driver.register_all(2);
    driver.send(relayed(1, 0, barrier("b", 0, 0, NO_TASKS)));
    driver.restart();
    let again = driver.send(relayed(1, 0, barrier("b", 0, 0, NO_TASKS)));
    assert!(driver.is_waiting(again));
    driver.tell(register(1, first(1))).unwrap();
    let peer = driver.start_call(barrier("b", 0, 1, NO_TASKS));
    assert_eq!([driver.take(again), driver.take(peer)], [passed(0), passed(0)]);
    // In a recoverable job counter 0 would mean the next instance.
    assert_eq!(Some(driver.ask(relayed(1, 0, barrier("b", 0, 0, NO_TASKS)))), passed(0));
    let next = [0, 1].map(|index| driver.start_call(barrier("b", 1, index, NO_TASKS)));
    assert_eq!(next.map(|call| driver.take(call)), [passed(1), passed(1)]);
    driver.restart();
    assert_eq!(Some(driver.ask(relayed(1, 0, barrier("b", 0, 0, NO_TASKS)))), passed(0));
}

#[test]
fn a_failed_barrier_is_told_again() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let waits = driver.send(relayed(1, 0, barrier("b", 0, 0, NO_TASKS)));
    driver.tell(cancel_barrier("b", 0)).unwrap();
    let first = driver.take(waits).unwrap();
    driver.restart();
    assert_eq!(driver.ask(relayed(1, 0, barrier("b", 0, 0, NO_TASKS))), first);
}

#[test]
fn leaving_is_told_again() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let relayed_one = driver.send(relayed(1, 0, shutdown(0)));
    let other = driver.start_call(shutdown(1));
    assert_eq!(driver.take(relayed_one), Some(Ok(Reply::ShutDown)));
    assert_eq!(driver.take(other), Some(Ok(Reply::ShutDown)));
    driver.restart();
    assert_eq!(driver.ask(relayed(1, 0, shutdown(0))), Ok(Reply::ShutDown));
    driver.refused(shutdown(1), Code::Internal);
}

#[test]
fn a_reset_and_a_report_are_told_again() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let _ = driver.start_call(poll(1));
    let report = Method::ReportErrorToService { task: task(0), code: 13, message: "x".into() };
    let reset = Method::ResetTask { task: task(0) };
    for _ in 0..2 {
        assert_eq!(driver.ask(relayed(1, 0, report.clone())), Ok(Reply::ErrorReported));
        assert_eq!(driver.ask(relayed(2, 0, reset.clone())), Ok(Reply::Reset));
    }
}

#[test]
fn two_lives_share_no_results() {
    let mut driver = Driver::of(1);
    driver.ask(relayed(1, 0, increment("n", 1))).unwrap();
    driver.tell(Method::ResetNamespace).unwrap();
    driver.ask(relayed(1, 0, increment("n", 1))).unwrap();
    assert_eq!(driver.value("n"), Some("1".into()));
}

/// Else a late call that comes again would fail the next instance as well.
#[test]
fn a_call_out_of_step_spoils_one_instance() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    for counter in 0..2 {
        let waits = driver.start_call(barrier("b", counter, 0, NO_TASKS));
        let late = driver.ask(relayed(1, 0, barrier("b", 7, 1, NO_TASKS))).unwrap_err();
        assert_eq!((late.code, counter_of(&late)), (Code::Internal, Some(0)));
        let spoilt = driver.take(waits);
        assert_eq!(spoilt.is_some(), counter == 0, "instance {counter}: {spoilt:?}");
        driver.restart();
    }
}

#[test]
fn leaving_after_a_failed_shutdown_is_told_again() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    driver.start_call(shutdown(0));
    driver.advance_beating(31, &[0, 1]);
    let first = driver.ask(relayed(1, 0, shutdown(1))).unwrap_err();
    driver.restart();
    assert_eq!(driver.ask(relayed(1, 0, shutdown(1))).unwrap_err(), first);
}

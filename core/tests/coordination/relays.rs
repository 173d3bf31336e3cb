//! Through a relay every request takes effect once, however often it comes.

use rondo_core::control::Record;
use rondo_core::coordination::{Method, Reply};
use rondo_core::status::Code;

use crate::driver::{Driver, replay};
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

/// The answer is lost with the relay's connection, and the other task has gone on.
#[test]
fn who_is_alive_is_told_again_to_one_whose_answer_was_lost() {
    let asks = |sequence| relayed(sequence, sequence - 1, alive(1, &[0, 1]));
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let call = driver.send(asks(1));
    let other = driver.start_call(alive(0, &[0, 1]));
    let told = driver.take(call).unwrap();
    let Ok(Reply::Alive(both)) = &told else { panic!("{told:?}") };
    assert_eq!((both.len(), driver.take(other)), (2, Some(told.clone())));
    assert_eq!(driver.ask(asks(1)), told, "else it would wait for one that has gone on");
    driver.restart();
    assert_eq!(driver.ask(asks(1)), told);
    let status = driver.ask(relayed(1, 0, insert("k", "v"))).unwrap_err();
    assert_eq!(status.code, Code::InvalidArgument, "the number was another request's");

    let next = driver.send(asks(2));
    assert!(driver.is_waiting(next), "another round waits for all again");
    driver.start_call(alive(0, &[0, 1]));
    assert_eq!(driver.take(next), Some(told));
    let relay = driver.namespace().relays().values().next().unwrap();
    assert_eq!((relay.acknowledged, relay.alive.len()), (1, 1), "what the relay has is dropped");
    driver.ask(asks(1)).unwrap_err();
}

/// A round ends also when a task is lost; whoever is told so through a relay is told the same again.
#[test]
fn a_round_that_ends_with_a_loss_is_told_again() {
    let mut driver = Driver::recoverable(3);
    driver.register_all(3);
    let asks = |index: i32| relayed(index as u64 + 1, 0, alive(index, &[0, 1, 2]));
    let calls = [0, 1].map(|index| driver.send(asks(index)));
    driver.advance_beating(11, &[0, 1]);
    let told = calls.map(|call| driver.take(call).unwrap());
    let Ok(Reply::Alive(left)) = &told[0] else { panic!("{told:?}") };
    assert_eq!((left.len(), &told[1]), (2, &told[0]));
    driver.tell(register(2, 9_001)).unwrap();
    assert_eq!([0, 1].map(|index| driver.ask(asks(index))), told);
    let records = driver.into_journal();
    (0..=records.len()).for_each(|at| drop(replay(&records, at)));
}

/// Nothing is written down for those that ask without a relay.
#[test]
fn who_is_alive_is_recorded_for_relays_only() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let first = driver.start_call(alive(0, &[0, 1]));
    driver.tell(alive(1, &[0, 1])).unwrap();
    assert!(driver.take(first).is_some());
    let alive = |record: &Record| format!("{record:?}").contains("AnswerAlive");
    assert!(!driver.into_journal().iter().any(alive));
}

/// A relay that has acknowledged a request while it waited asks it no more: a record of its answer would
/// change nothing.
#[test]
fn who_is_alive_is_not_recorded_for_a_relay_that_has_gone_on() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let waits = driver.send(relayed(1, 0, alive(1, &[0, 1])));
    driver.ask(relayed(2, 1, increment("n", 1))).unwrap();
    let last = driver.node.last();
    let told = driver.tell(alive(0, &[0, 1]));
    assert_eq!(driver.node.last(), last, "a record that changes nothing");
    assert_eq!(driver.take(waits), Some(told.clone()));
    assert!(matches!(&told, Ok(Reply::Alive(both)) if both.len() == 2), "{told:?}");
}

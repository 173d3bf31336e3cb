//! Registering and showing life.

use rondo_core::coordination::{NamespaceConfig, Reply};
use rondo_core::status::Code;

use crate::driver::{Driver, seconds, settings};
use crate::world::*;

#[test]
fn all_are_registered_at_once() {
    let mut driver = Driver::of(3);
    let first_two = [0, 1].map(|index| driver.start_call(register(index, first(index))));
    assert!(first_two.iter().all(|call| driver.is_waiting(*call)));
    driver.refused(beat(0, first(0)), Code::InvalidArgument);
    let life = match driver.tell(register(2, first(2))) {
        Ok(Reply::Registered(life)) => life,
        other => panic!("{other:?}"),
    };
    for call in first_two {
        assert_eq!(driver.take(call), Some(Ok(Reply::Registered(life))));
    }
}

#[test]
fn registering_again_is_a_sign_of_life() {
    let mut driver = Driver::of(1);
    let life = driver.register_all(1);
    for _ in 0..5 {
        driver.advance(seconds(9));
        assert_eq!(driver.tell(register(0, first(0))), Ok(Reply::Registered(life)));
    }
}

#[test]
fn a_process_that_restarts_while_it_registers_is_the_new_one() {
    let mut driver = Driver::of(2);
    let dead = driver.start_call(register(0, 1));
    let back = driver.start_call(register(0, 2));
    text_of(driver.take(dead), Code::AlreadyExists);
    let peer = driver.start_call(register(1, 1));
    assert!(driver.take(back).unwrap().is_ok() && driver.take(peer).unwrap().is_ok());
    assert!(driver.tell(beat(0, 2)).is_ok());
    let _ = driver.start_call(poll(1));
    driver.refused(beat(0, 1), Code::Aborted);
}

#[test]
fn a_caller_that_went_away_has_registered() {
    let mut driver = Driver::of(2);
    let gone = driver.start_call(register(0, 1));
    driver.cancel(gone);
    assert!(driver.tell(register(1, 1)).is_ok());
    assert!(driver.tell(beat(0, 1)).is_ok());
}

/// Silence counts exactly from the last beat.
#[test]
fn silence_is_exact() {
    let mut driver = Driver::recoverable(2);
    driver.register_all(2);
    driver.advance(seconds(5));
    driver.tell(beat(0, first(0))).unwrap();
    driver.advance(seconds(10));
    assert!(driver.tell(beat(1, first(1))).is_err(), "silent for 15 s");
    assert!(driver.tell(beat(0, first(0))).is_ok(), "silent for 10 s, not longer");
    driver.advance(seconds(10));
    driver.advance(rondo_core::time::Duration::from_nanos(1));
    driver.refused(beat(0, first(0)), Code::Aborted);
}

#[test]
fn a_beat_of_a_stale_incarnation_keeps_nobody_alive() {
    let mut driver = Driver::recoverable(2);
    driver.register_all(2);
    driver.tell(register(0, 9)).unwrap();
    for _ in 0..11 {
        driver.advance(seconds(1));
        let _ = driver.tell(beat(0, first(0)));
    }
    driver.refused(beat(0, 9), Code::Aborted);
}

/// All processes of a job were killed. A larger job starts before the service has given them up: its tasks
/// get an answer after which they register again.
#[test]
fn a_larger_job_registers_again_until_a_job_of_learnt_size_is_over() {
    let tasks_unsaid = NamespaceConfig { tasks: None, settle: seconds(2), ..settings(2) };
    let mut driver = Driver::with(tasks_unsaid);
    let calls = [0, 1].map(|index| driver.start_call(register(index, first(index))));
    driver.advance(seconds(3));
    for call in calls {
        driver.take(call).unwrap().unwrap();
    }
    let refused = |driver: &mut Driver, index| driver.ask(of(register(index, 900))).unwrap_err();
    let status = refused(&mut driver, 2);
    assert_eq!(status.code, Code::Aborted, "{status:?}");
    assert!(status.message.contains("none of the 2 tasks"), "{status:?}");
    assert_eq!(refused(&mut driver, 0).code, Code::Aborted);
    let larger = driver.start_call(register(2, 902));
    assert!(driver.is_waiting(larger), "the job of 2 is over, and one of another size begins");
}

#[test]
fn a_larger_job_registers_again_after_a_restart_with_more_tasks() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    driver.restart_with(settings(4));
    for index in [2, 3, 0, 1] {
        let call = driver.start_call(register(index, 900));
        let code = driver.take(call).map(|result| result.map_err(|status| status.code));
        assert!(!matches!(code, Some(Err(Code::InvalidArgument))), "task {index}: {code:?}");
    }
    let status = driver.ask(of(register(4, 900))).unwrap_err();
    assert_eq!(status.code, Code::InvalidArgument, "no job here has a task 4: {status:?}");
}

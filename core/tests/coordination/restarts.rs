//! Crashes, stalls and full disks: what was acknowledged stays, and nobody is blamed for silence
//! that could not be broken.

use rondo_core::coordination::{Event, NamespaceConfig, Reply};
use rondo_core::ids::TaskIndex;
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::driver::{Driver, seconds, settings};
use crate::world::*;

#[test]
fn nobody_is_blamed_for_the_time_of_an_outage() {
    let mut driver = Driver::of(2);
    let life = driver.register_all(2);
    driver.hold_up(seconds(3_600));
    driver.restart();
    driver.advance(seconds(10));
    for index in [0, 1] {
        assert_eq!(driver.tell(beat(index, first(index))), Ok(Reply::Heartbeat(life)));
    }
    let polls = driver.start_call(poll(0));
    driver.advance_beating(11, &[0]);
    text_of(driver.take(polls), Code::Unavailable);
}

/// JAX's kills the job after 8 s of standing still with a timeout of 10 s.
#[test]
fn nobody_is_blamed_for_the_services_own_stall() {
    for stall in [8, 11, 100] {
        let mut driver = Driver::of(2);
        driver.register_all(2);
        driver.advance_beating(4, &[0, 1]);
        driver.hold_up(seconds(stall));
        driver.tick();
        driver.advance(seconds(9));
        for index in [0, 1] {
            assert!(driver.tell(beat(index, first(index))).is_ok(), "after {stall} s");
        }
        let held_up = |event: &Event| matches!(event, Event::HeldUp { .. });
        assert!(driver.events.iter().any(held_up), "after {stall} s");
    }
}

#[test]
fn who_is_silent_after_a_stall_is_found() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let polls = driver.start_call(poll(0));
    driver.hold_up(seconds(50));
    driver.advance_beating(11, &[0]);
    text_of(driver.take(polls), Code::Unavailable);
}

/// A service that is held up again and again gives back that time, and no more: a dead task is found
/// after its timeout and the hold-ups, and one that beats is not blamed.
#[test]
fn a_dead_task_is_found_although_the_service_is_held_up_again_and_again() {
    for (awake, stall) in [(1_400, 3_600), (5_000, 3_600), (300, 9_000), (9_500, 2_000)] {
        let mut driver = Driver::recoverable(2);
        driver.register_all(2);
        let dead = TaskIndex::new(1);
        let mut spent = 0;
        while driver.namespace().tasks()[&dead].fault.is_none() {
            driver.advance(Duration::from_millis(100));
            spent += 100;
            if spent % awake == 0 {
                driver.hold_up(Duration::from_millis(stall));
                driver.tick();
            }
            if spent % awake == 0 || spent % 3_000 == 0 {
                driver.tell(beat(0, first(0))).unwrap();
            }
            assert!(spent <= 13_000, "awake for {awake} ms between stalls of {stall} ms");
        }
        assert!(spent >= 10_000, "found after {spent} ms in which it was awake");
        assert!(driver.tell(beat(0, first(0))).is_ok());
    }
}

/// However little patience was left before the stall.
#[test]
fn what_was_said_during_a_stall_is_heard_after_it() {
    let mut driver = Driver::of(1);
    driver.register_all(1);
    driver.advance(Duration::from_millis(9_990));
    driver.tick();
    driver.hold_up(seconds(4));
    driver.tick();
    driver.advance(Duration::from_millis(100));
    assert!(driver.tell(beat(0, first(0))).is_ok());
}

/// The last one may have come while the service stood still.
#[test]
fn a_barrier_waits_a_moment_longer_after_a_stall() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let waits = driver.start_call(barrier_for("b", 0, 0, NO_TASKS, 2_000));
    driver.hold_up(seconds(8));
    driver.tick();
    let peer = driver.start_call(barrier("b", 0, 1, NO_TASKS));
    assert_eq!([driver.take(waits), driver.take(peer)], [passed(0), passed(0)]);
    let waits = driver.start_call(barrier_for("b", 1, 0, NO_TASKS, 2_000));
    driver.hold_up(seconds(8));
    driver.advance(seconds(2));
    text_of(driver.take(waits), Code::DeadlineExceeded);
}

#[test]
fn who_came_to_a_barrier_before_a_crash_has_come() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let lost = driver.start_call(barrier("b", 0, 0, NO_TASKS));
    driver.sync();
    driver.restart();
    assert_eq!(driver.take(lost), None);
    assert_eq!(driver.tell(barrier("b", 0, 1, NO_TASKS)), Ok(Reply::BarrierPassed { counter: 0 }));
    assert_eq!(driver.tell(barrier("b", 0, 0, NO_TASKS)), Ok(Reply::BarrierPassed { counter: 0 }));
    driver.restart();
    assert_eq!(driver.tell(barrier("b", 0, 0, NO_TASKS)), Ok(Reply::BarrierPassed { counter: 0 }));
}

/// Nobody is answered before the last one has come, so nothing is to be durable before that.
#[test]
fn a_barrier_takes_one_sync() {
    let mut driver = Driver::of(3);
    driver.register_all(3);
    let before = driver.syncs_asked;
    let first = driver.start_call(barrier("b", 0, 0, NO_TASKS));
    let second = driver.start_call(barrier("b", 0, 1, NO_TASKS));
    assert_eq!(driver.syncs_asked, before);
    let last = driver.start_call(barrier("b", 0, 2, NO_TASKS));
    assert_eq!(driver.syncs_asked, before + 1);
    for call in [first, second, last] {
        assert_eq!(driver.take(call), passed(0));
    }
}

/// What else is written takes it along.
#[test]
fn who_came_to_a_barrier_is_durable_with_the_next_update() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    driver.start_call(barrier("b", 0, 0, NO_TASKS));
    driver.tell(insert("k", "v")).unwrap();
    driver.restart();
    assert_eq!(driver.tell(barrier("b", 0, 1, NO_TASKS)), Ok(Reply::BarrierPassed { counter: 0 }));
}

#[test]
fn an_open_barrier_ends_after_a_restart_too() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    driver.start_call(barrier_for("b", 0, 0, NO_TASKS, 4_000));
    driver.sync();
    driver.hold_up(seconds(60));
    driver.restart();
    let waits = driver.start_call(barrier("b", 0, 0, NO_TASKS));
    driver.advance(seconds(3));
    assert!(driver.is_waiting(waits), "there must be time to come back to it");
    driver.advance(seconds(1));
    text_of(driver.take(waits), Code::DeadlineExceeded);
}

#[test]
fn registering_goes_on_after_a_restart() {
    let mut driver = Driver::of(2);
    driver.start_call(register(0, 1));
    driver.restart();
    let again = driver.start_call(register(0, 1));
    let peer = driver.start_call(register(1, 1));
    assert!(driver.take(again).unwrap().is_ok() && driver.take(peer).unwrap().is_ok());
}

#[test]
fn what_was_not_durable_is_gone_and_was_not_acknowledged() {
    let mut driver = Driver::of(1);
    driver.register_all(1);
    driver.prompt = false;
    let call = driver.start_call(insert("k", "v"));
    let reads = driver.start_call(try_get("k"));
    assert!(driver.is_waiting(call) && driver.is_waiting(reads), "nobody sees what may be lost");
    let missing = driver.start_call(try_get("other"));
    assert!(driver.is_waiting(missing), "a miss rests on the newest change");
    assert!(driver.tell(beat(0, first(0))).is_ok(), "a beat waits for no disk");
    driver.restart();
    assert_eq!(driver.value("k"), None);
}

#[test]
fn reads_of_durable_keys_wait_for_nothing() {
    let mut driver = Driver::of(1);
    driver.tell(insert("k", "v")).unwrap();
    driver.prompt = false;
    let slow = driver.start_call(insert("other", "v"));
    assert!(driver.tell(try_get("k")).is_ok());
    driver.sync();
    assert!(driver.take(slow).unwrap().is_ok());
}

#[test]
fn a_full_journal_refuses_changes_and_blames_nobody() {
    let mut driver = Driver::of(2);
    let life = driver.register_all(2);
    let waits = driver.start_call(barrier_for("b", 0, 0, NO_TASKS, 2_000));
    driver.full = true;
    driver.refused(insert("k", "v"), Code::Unavailable);
    driver.refused(insert("l", "v"), Code::Unavailable);
    driver.refused(barrier("c", 0, 0, NO_TASKS), Code::Unavailable);
    driver.advance(seconds(30));
    assert!(driver.is_waiting(waits), "what cannot be written down cannot be told");
    assert_eq!(driver.tell(beat(0, first(0))), Ok(Reply::Heartbeat(life)));
    driver.make_room();
    driver.tell(beat(1, first(1))).unwrap();
    driver.advance(seconds(2));
    text_of(driver.take(waits), Code::DeadlineExceeded);
    assert!(driver.tell(beat(1, first(1))).is_ok());
}

/// A key that is taken, by the caller's own first try; and a barrier that the caller's coming ends.
#[test]
fn a_refusal_that_rests_on_what_a_full_journal_keeps_says_so() {
    let keeps = "the server keeps updates that this answer may rest on";
    let other_tasks = barrier("b", 0, 1, &[1]);
    for kept in [vec![insert("k", "v"), insert("k", "v")], vec![other_tasks]] {
        let mut driver = Driver::of(2);
        driver.register_all(2);
        driver.start_call(barrier("b", 0, 0, NO_TASKS));
        driver.full = true;
        for method in kept {
            let status = driver.refused(method, Code::Unavailable);
            assert!(status.message.contains(keeps), "{status}");
        }
        let status = driver.refused(insert("l", "v"), Code::Unavailable);
        assert!(!status.message.contains(keeps), "{status}");
        driver.make_room();
        assert!(driver.tell(try_get("l")).is_err(), "what was refused is not made");
    }
}

#[test]
fn a_process_that_a_full_journal_refuses_takes_no_place_at_a_barrier() {
    let mut driver = Driver::recoverable(2);
    driver.register_all(2);
    let waits = driver.start_call(barrier("b", 0, 0, NO_TASKS));
    driver.full = true;
    driver.refused(insert("k", "v"), Code::Unavailable);
    driver.refused(register(0, 2_000), Code::Unavailable);
    driver.make_room();
    assert_eq!(Some(driver.tell(barrier("b", 0, 1, NO_TASKS))), passed(0));
    assert_eq!(driver.take(waits), passed(0), "the former process is there still");
}

#[test]
fn a_picture_says_who_is_missing() {
    let mut driver = Driver::of(4);
    driver.register_all(4);
    driver.start_call(barrier_for("step", 0, 0, NO_TASKS, 60_000));
    driver.advance_beating(2, &[0, 1, 2]);
    driver.start_call(barrier_for("step", 0, 2, NO_TASKS, 60_000));
    driver.start_call(get("topology/3"));
    driver.advance_beating(1, &[0, 1, 2]);
    let Ok(Reply::Report(report)) = driver.ask(rondo_core::coordination::Request::Report) else {
        panic!()
    };
    let namespace = &report.namespaces[0];
    let step = &namespace.waits[0];
    assert_eq!((&*step.kind, &*step.what), ("barrier", "step::0"));
    assert_eq!((&*step.came, &*step.missing), ("0,2", "1,3"));
    assert_eq!((step.waiting_ms, step.remaining_ms), (3_000, Some(57_000)));
    assert_eq!([step.waits[0].waiting_ms, step.waits[1].waiting_ms], [3_000, 1_000]);
    assert!(step.about_missing.contains("task 3: last heard 3.0 s ago"), "{step:?}");
    assert_eq!((&*namespace.waits[1].what, namespace.waits[1].calls), ("topology/3", 1));
    assert_eq!(namespace.tasks[3].silent_ms, Some(3_000));
    assert_eq!(namespace.heartbeat_timeout_ms, Some(10_000));
    assert_eq!((namespace.tasks_connected, namespace.waiting_calls), (4, 3));
    let did = |task: usize| {
        (namespace.tasks[task].last_did.as_deref(), namespace.tasks[task].last_did_ms)
    };
    assert_eq!(did(0), (Some("came to barrier step::0"), Some(3_000)));
    assert_eq!(did(2), (Some("came to barrier step::0"), Some(1_000)));
    assert_eq!(did(1), (Some("registered"), Some(3_000)), "heartbeats are not named");
}

/// A short stall is long where timeouts are short.
#[test]
fn nobody_is_blamed_for_a_short_stall_under_short_timeouts() {
    let half = Duration::from_millis(500);
    let mut driver = Driver::with(NamespaceConfig { heartbeat_timeout: half, ..settings(1) });
    driver.register_all(1);
    driver.advance(Duration::from_millis(250));
    driver.tell(beat(0, first(0))).unwrap();
    driver.hold_up(Duration::from_millis(600));
    driver.tick();
    assert!(driver.tell(beat(0, first(0))).is_ok());
}

//! A service that is held up again and again still notices what is over: only the time in which it was held
//! up is given back.

use rondo_core::coordination::NamespaceConfig;
use rondo_core::ids::TaskIndex;
use rondo_core::time::Duration;

use crate::driver::{Driver, seconds, settings};
use crate::world::*;

const CYCLES: u64 = 2_000;

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// How long the service was awake, in ms, until it gave up the silent task 1; `None` after too many cycles of
/// being awake and held up, in ms each. The first hold-up, of `noticed` s, is one that it cannot miss.
fn awake_until_given_up(
    mut driver: Driver,
    noticed: u64,
    (awake, held_up): (u64, u64),
) -> Option<u64> {
    driver.register_all(2);
    // After a hold-up the service asks to be woken often, and notices short hold-ups.
    driver.hold_up(seconds(noticed));
    driver.tick();
    for index in [0, 1] {
        driver.tell(beat(index, first(index))).unwrap();
    }
    (1..=CYCLES).find_map(|cycle| {
        driver.advance(ms(awake));
        driver.hold_up(ms(held_up));
        driver.tick();
        driver.tell(beat(0, first(0))).unwrap();
        let is_given_up = driver.namespace().tasks()[&TaskIndex::new(1)].fault.is_some();
        is_given_up.then_some(cycle * awake)
    })
}

fn of_two(timeout: u64) -> NamespaceConfig {
    NamespaceConfig { heartbeat_timeout: seconds(timeout), recoverable: true, ..settings(2) }
}

#[test]
fn a_silent_task_is_given_up_although_hold_ups_return() {
    let cases = [
        (10, 1_400, 3_600),
        (100, 5_100, 3_600),
        (100, 1_400, 3_700),
        (100, 1_000, 1_300),
        (300, 4_500, 1_700),
        (600, 9_000, 2_100),
    ];
    for (timeout, awake, held_up) in cases {
        let given_up =
            awake_until_given_up(Driver::with(of_two(timeout)), timeout / 2, (awake, held_up));
        let most = timeout * 1_000 * 11 / 10 + 2 * awake;
        assert!(
            given_up.is_some_and(|at| at >= timeout * 1_000 - awake && at <= most),
            "timeout {timeout} s, awake {awake} ms, held up {held_up} ms: {given_up:?}"
        );
    }
}

#[test]
fn a_silent_task_is_given_up_beside_a_namespace_with_a_short_timeout() {
    let quick = NamespaceConfig {
        heartbeat_timeout: seconds(1),
        tasks: Some(1),
        ..NamespaceConfig::named("quick")
    };
    for (awake, held_up) in [(1_300, 350), (1_500, 400), (2_000, 400)] {
        let driver = Driver::serving(vec![of_two(100), quick.clone()]);
        let given_up = awake_until_given_up(driver, 2, (awake, held_up));
        assert!(
            given_up.is_some_and(|at| (98_000..=114_000).contains(&at)),
            "awake {awake} ms, held up {held_up} ms: {given_up:?}"
        );
    }
}

#[test]
fn a_barrier_ends_although_hold_ups_return() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    driver.hold_up(seconds(5));
    driver.tick();
    let call = driver.start_call(barrier_for("b", 0, 0, NO_TASKS, 6_500));
    let ends = (1..=600).find(|_| {
        driver.advance(ms(900));
        driver.hold_up(ms(1_500));
        driver.tick();
        for index in [0, 1] {
            driver.tell(beat(index, first(index))).unwrap();
        }
        !driver.is_waiting(call)
    });
    assert!(ends.is_some_and(|cycle| cycle <= 8), "a barrier of 6.5 s ends in cycle {ends:?}");
}

/// The server hears the other tasks only some time after the hold-up.
#[test]
fn a_barrier_gets_the_time_back_that_it_had_before_a_hold_up() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let waits = driver.start_call(barrier_for("b", 0, 0, NO_TASKS, 3_000));
    driver.advance(seconds(2));
    driver.hold_up(seconds(5));
    driver.tick();
    driver.advance(ms(900));
    assert!(driver.is_waiting(waits), "a second was left when the hold-up began");
    assert_eq!(Some(driver.tell(barrier("b", 0, 1, NO_TASKS))), passed(0));
    assert_eq!(driver.take(waits), passed(0));
}

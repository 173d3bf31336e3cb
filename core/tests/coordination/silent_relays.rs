//! Relays that say nothing for long are forgotten; whoever may still ask again is not.

use rondo_core::coordination::{Caller, Event, Method, NamespaceConfig, Request, Stamp};
use rondo_core::ids::RelayId;
use rondo_core::limits::{RELAY_RESULTS_MAX, RELAYS_MAX};
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::driver::{Driver, seconds, settings};
use crate::world::*;

const SILENCE: Duration = Duration::from_secs(100);

/// Two tasks that need not beat, and relays that are remembered for 100 s.
fn remembering() -> Driver {
    Driver::with(NamespaceConfig {
        relay_silence: SILENCE,
        heartbeat_timeout: seconds(1000),
        register_timeout: seconds(1000),
        ..settings(2)
    })
}

fn through(relay: u64, sequence: u64, method: Method) -> Request {
    let stamp = Some(Stamp { relay: RelayId::new(relay), sequence, acknowledged: 0 });
    call(Caller { stamp, ..Caller::default() }, method)
}

fn long_barrier(task: i32) -> Method {
    barrier_for("b", 0, task, NO_TASKS, 1_000_000)
}

fn known(driver: &Driver) -> Vec<u64> {
    driver.namespace().relays().keys().map(|relay| relay.get()).collect()
}

fn forgotten(driver: &Driver) -> Vec<usize> {
    let count = |event: &Event| match event {
        Event::RelaysForgotten { count, .. } => Some(*count),
        _ => None,
    };
    driver.events.iter().filter_map(count).collect()
}

#[test]
fn a_silent_relay_is_forgotten_and_one_that_speaks_is_not() {
    let mut driver = remembering();
    driver.ask(through(1, 1, increment("n", 1))).unwrap();
    for turn in 1..=10 {
        driver.ask(through(2, turn, increment("m", 1))).unwrap();
        // What has happened already is asked again, and so somebody waits for it.
        driver.ask(through(3, 1, increment("n", 1))).unwrap();
        assert_eq!(known(&driver), [1, 2, 3], "in turn {turn}");
        driver.advance(seconds(9));
    }
    driver.advance(seconds(36));
    assert_eq!((known(&driver), forgotten(&driver)), (vec![2, 3], vec![1]));
    assert_eq!((driver.value("n"), driver.value("m")), (Some("2".into()), Some("10".into())));
    driver.restart();
    assert_eq!(known(&driver), [2, 3]);
    driver.advance(seconds(126));
    assert!(known(&driver).is_empty());
    driver.ask(through(1, 2, increment("n", 1))).unwrap();
    assert_eq!((driver.value("n"), known(&driver)), (Some("3".into()), vec![1]), "it is a new one");
}

#[test]
fn a_restart_is_a_sign_of_life_of_all() {
    let mut driver = remembering();
    let first = driver.ask(through(1, 1, increment("n", 1)));
    for _ in 0..5 {
        driver.advance(seconds(90));
        driver.restart();
    }
    assert_eq!(driver.ask(through(1, 1, increment("n", 1))), first);
}

#[test]
fn who_waits_at_a_barrier_is_not_silent() {
    let mut driver = remembering();
    driver.register_all(2);
    let waits = driver.send(through(1, 1, long_barrier(0)));
    driver.advance(seconds(400));
    let other = driver.start_call(long_barrier(1));
    assert_eq!([driver.take(waits), driver.take(other)], [passed(0), passed(0)]);
    driver.advance(seconds(50));
    assert_eq!(Some(driver.ask(through(1, 1, long_barrier(0)))), passed(0));
    driver.advance(seconds(150));
    assert!(known(&driver).is_empty());
}

#[test]
fn nobody_is_blamed_for_what_could_not_be_heard() {
    let mut driver = remembering();
    let first = driver.ask(through(1, 1, increment("n", 1)));
    driver.hold_up(seconds(5000));
    driver.tick();
    driver.advance(seconds(20));
    assert_eq!(driver.ask(through(1, 1, increment("n", 1))), first);
}

#[test]
fn nothing_is_forgotten_where_it_cannot_be_recorded() {
    let mut driver = remembering();
    driver.ask(through(1, 1, increment("n", 1))).unwrap();
    driver.full = true;
    driver.ask(through(2, 1, increment("n", 1))).unwrap_err();
    let before = known(&driver);
    driver.advance(seconds(200));
    assert_eq!((known(&driver), before.first()), (before.clone(), Some(&1)));
    driver.make_room();
    driver.advance(seconds(130));
    assert!(known(&driver).is_empty());
}

#[test]
fn those_that_come_find_room_when_others_have_been_silent() {
    let mut driver = remembering();
    let relays_max = RELAYS_MAX as u64;
    for relay in 1..=relays_max {
        driver.node_only(through(relay, 1, increment("k", 1)));
    }
    let full = driver.ask(through(relays_max + 1, 1, increment("k", 1))).unwrap_err();
    assert_eq!(full.code, Code::ResourceExhausted);
    assert!(full.message.contains("65536") && full.message.contains("relays"), "{}", full.message);
    driver.advance(seconds(90));
    // Those that are known find room all the time.
    driver.ask(through(1, 2, increment("k", 1))).unwrap();
    driver.advance(seconds(36));
    assert_eq!(known(&driver), [1]);
    assert_eq!(forgotten(&driver).iter().sum::<usize>(), RELAYS_MAX - 1);
    driver.ask(through(relays_max + 1, 1, increment("k", 1))).unwrap();
}

#[test]
fn a_relay_that_acknowledges_nothing_finds_no_room_for_results() {
    let mut driver = remembering();
    let most = RELAY_RESULTS_MAX as u64;
    for sequence in 1..=most {
        driver.node_only(through(1, sequence, increment("k", 1)));
    }
    let full = driver.ask(through(1, most + 1, increment("k", 1))).unwrap_err();
    assert_eq!(full.code, Code::ResourceExhausted);
    assert!(full.message.contains("16384") && full.message.contains("results"), "{full}");
    let stamp = Stamp { relay: RelayId::new(1), sequence: most + 1, acknowledged: 1 };
    let caller = Caller { stamp: Some(stamp), ..Caller::default() };
    assert!(driver.ask(call(caller, increment("k", 1))).is_ok(), "one is acknowledged");
}

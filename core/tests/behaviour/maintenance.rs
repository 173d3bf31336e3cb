//! What happens by the passing of time.

use rondo_core::control::Timer;
use rondo_core::dispatcher::{Config, Event, ShardingPolicy};
use rondo_core::ids::{ClientId, IterationId, JobId};
use rondo_core::limits::EXPIRIES_PER_STEP_MAX;
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::driver::{Driver, Journal};
use crate::world::{client, dataset, job};

const SECOND: Duration = Duration::from_secs(1);

/// Maintenance every second; a client is silent after 10, abandoned iterations go after 30.
fn quick() -> Config {
    Config {
        job_gc_check_interval: SECOND,
        job_gc_timeout: Some(Duration::from_secs(30)),
        client_timeout: Duration::from_secs(10),
        client_first_heartbeat_timeout: Duration::from_secs(60),
        ..Config::default()
    }
}

fn reading(config: Config, sharding: ShardingPolicy) -> (Driver, JobId, ClientId) {
    let mut driver = Driver::with(config);
    driver.worker("w:1", &[]);
    let (job, client) = driver.reading(sharding);
    (driver, job, client)
}

fn is_collected(driver: &Driver) -> bool {
    let iteration = driver.state().iterations().get(&IterationId::new(2000));
    iteration.is_some_and(|iteration| iteration.collected)
}

#[test]
fn a_client_silent_for_longer_than_the_timeout_is_released() {
    let (mut driver, _, id) = reading(quick(), ShardingPolicy::Off);
    driver.client(id);
    driver.advance(Duration::from_secs(10));
    assert!(driver.state().clients().contains_key(&id), "the timeout itself is not too long");
    driver.advance(SECOND);
    assert!(driver.events.contains(&Event::ClientExpired { client: id }));
    assert_eq!(driver.refused(client(id)).code, Code::NotFound);
}

#[test]
fn heartbeats_keep_a_client() {
    let (mut driver, _, id) = reading(quick(), ShardingPolicy::Off);
    for _ in 0..5 {
        driver.client(id);
        driver.advance(Duration::from_secs(9));
    }
    driver.client(id);
}

#[test]
fn a_client_that_never_heartbeats_is_released_after_a_longer_time() {
    let (mut driver, _, id) = reading(quick(), ShardingPolicy::Off);
    driver.advance(Duration::from_secs(60));
    assert!(driver.state().clients().contains_key(&id));
    driver.advance(SECOND);
    assert!(!driver.state().clients().contains_key(&id));
}

#[test]
fn a_restart_counts_as_a_sign_of_life() {
    let (mut driver, _, id) = reading(quick(), ShardingPolicy::Off);
    driver.client(id);
    driver.advance(Duration::from_secs(9));
    driver.restart();
    driver.advance(Duration::from_secs(10));
    assert!(driver.state().clients().contains_key(&id));
    driver.advance(SECOND);
    assert!(!driver.state().clients().contains_key(&id));
}

#[test]
fn an_iteration_is_collected_when_its_last_client_is_gone_long_enough() {
    let (mut driver, job, first) = reading(quick(), ShardingPolicy::Off);
    let second = driver.join(job, 0);
    driver.release(first);
    driver.advance(Duration::from_secs(40));
    driver.release(second);
    driver.advance(Duration::from_secs(29));
    assert!(!is_collected(&driver));
    driver.advance(SECOND);
    assert!(is_collected(&driver));
    let name = driver.state().jobs()[&job].name.clone();
    let event = Event::IterationCollected { job_name: name, repetition: 0 };
    assert!(driver.events.contains(&event));
}

#[test]
fn an_iteration_is_kept_while_it_has_a_client() {
    let (mut driver, job, first) = reading(quick(), ShardingPolicy::Off);
    driver.release(first);
    driver.advance(Duration::from_secs(20));
    let second = driver.join(job, 0);
    for _ in 0..20 {
        driver.client(second);
        driver.advance(Duration::from_secs(5));
    }
    assert!(!is_collected(&driver));
}

#[test]
fn a_collection_outlives_a_restart() {
    let (mut driver, _, id) = reading(quick(), ShardingPolicy::Off);
    driver.release(id);
    driver.advance(Duration::from_secs(31));
    driver.restart();
    assert!(is_collected(&driver));
}

#[test]
fn the_time_without_clients_counts_across_a_restart() {
    let (mut driver, _, id) = reading(quick(), ShardingPolicy::Off);
    driver.release(id);
    driver.advance(Duration::from_secs(29));
    driver.restart();
    driver.advance(SECOND);
    assert!(is_collected(&driver));
}

#[test]
fn a_finished_iteration_is_not_collected() {
    let (mut driver, _, id) = reading(quick(), ShardingPolicy::Off);
    driver.finish("w:1", rondo_core::ids::TaskId::new(4000));
    driver.release(id);
    driver.advance(Duration::from_secs(100));
    assert!(!driver.events.iter().any(|event| matches!(event, Event::IterationCollected { .. })));
}

#[test]
fn dynamic_iterations_are_collected_only_if_the_operator_says_so() {
    for gc_dynamic_sharding_jobs in [false, true] {
        let config = Config { gc_dynamic_sharding_jobs, ..quick() };
        let (mut driver, _, id) = reading(config, ShardingPolicy::Dynamic);
        driver.release(id);
        driver.advance(Duration::from_secs(31));
        assert_eq!(is_collected(&driver), gc_dynamic_sharding_jobs);
    }
}

#[test]
fn without_a_gc_timeout_there_is_no_maintenance_at_all() {
    let config = Config { job_gc_timeout: None, ..quick() };
    let (mut driver, _, id) = reading(config, ShardingPolicy::Off);
    driver.client(id);
    assert_eq!(driver.deadline_of(Timer::Maintenance), None);
    driver.advance(Duration::from_secs(100_000));
    driver.tick();
    assert!(driver.state().clients().contains_key(&id));
}

#[test]
fn maintenance_is_due_every_interval_and_early_ticks_do_nothing() {
    let (mut driver, ..) = reading(quick(), ShardingPolicy::Off);
    let due = driver.deadline_of(Timer::Maintenance).unwrap();
    assert_eq!(due, driver.now.after(SECOND));
    driver.tick();
    assert_eq!(driver.deadline_of(Timer::Maintenance), Some(due));
    driver.advance(SECOND);
    assert_eq!(driver.deadline_of(Timer::Maintenance), Some(due.after(SECOND)));
}

#[test]
fn a_mass_expiry_is_carried_out_in_slices() {
    let mut driver = Driver::with(quick());
    let dataset = driver.register(dataset(&[]));
    let job = driver.job(job(&dataset, ShardingPolicy::Off));
    let clients = EXPIRIES_PER_STEP_MAX + 3;
    for _ in 0..clients {
        driver.join(job, 0);
    }
    driver.advance(Duration::from_secs(60));
    driver.now = driver.now.after(SECOND);
    driver.tick();
    assert_eq!(driver.state().clients().len(), 3);
    assert_eq!(driver.deadline_of(Timer::Maintenance), Some(driver.now), "the rest is due now");
    driver.tick();
    assert_eq!(driver.state().clients().len(), 0);
    assert_eq!(driver.deadline_of(Timer::Maintenance), Some(driver.now.after(SECOND)));
}

#[test]
fn nothing_expires_while_the_journal_takes_no_records() {
    let (mut driver, job, id) = reading(quick(), ShardingPolicy::Off);
    driver.journal = Journal::Full;
    driver.send(rondo_core::dispatcher::Request::GetOrCreateIteration { job, repetition: 1 });
    driver.advance(Duration::from_secs(100));
    assert!(driver.state().clients().contains_key(&id));
    driver.make_room();
    driver.advance(Duration::from_secs(2));
    assert!(!driver.state().clients().contains_key(&id));
}

/// The process was stopped, or its machine paused: it heard nobody meanwhile.
#[track_caller]
fn hold_up(driver: &mut Driver, secs: u64) {
    driver.now = driver.now.after(Duration::from_secs(secs));
    driver.tick();
}

#[test]
fn a_server_that_was_held_up_gives_up_no_client_for_it() {
    let (mut driver, job, first) = reading(quick(), ShardingPolicy::Off);
    let never_heard = driver.join(job, 0);
    driver.client(first);
    driver.advance(Duration::from_secs(5));
    hold_up(&mut driver, 130);
    driver.advance(Duration::from_secs(4));
    assert!(driver.state().clients().contains_key(&first), "silent for 9 s as far as one knows");
    driver.client(first);
    driver.advance(Duration::from_secs(51));
    assert!(!driver.state().clients().contains_key(&first));
    assert!(driver.state().clients().contains_key(&never_heard), "60 s without the hold-up");
    driver.advance(SECOND);
    assert!(!driver.state().clients().contains_key(&never_heard));
}

/// With the defaults nothing is due for minutes, so the server asks to be woken to notice it.
#[test]
fn a_hold_up_is_noticed_when_nothing_else_is_due() {
    let (mut driver, _, id) = reading(Config::default(), ShardingPolicy::Off);
    driver.client(id);
    driver.advance(Duration::from_secs(200));
    driver.client(id);
    hold_up(&mut driver, 300);
    // The client finds its way back after the maintenance that is due 100 s later.
    driver.advance(Duration::from_secs(110));
    driver.client(id);
}

#[test]
fn hold_ups_excuse_no_client_for_longer_than_they_last() {
    let (mut driver, _, id) = reading(quick(), ShardingPolicy::Off);
    driver.client(id);
    for _ in 0..5 {
        driver.advance(Duration::from_secs(2));
        hold_up(&mut driver, 20);
        assert!(driver.state().clients().contains_key(&id));
    }
    driver.advance(SECOND);
    assert!(!driver.state().clients().contains_key(&id), "it was silent for 11 s in all");
}

#[test]
fn a_request_after_a_hold_up_excuses_the_other_clients() {
    let (mut driver, job, id) = reading(quick(), ShardingPolicy::Off);
    let other = driver.join(job, 0);
    driver.client(id);
    driver.client(other);
    driver.now = driver.now.after(Duration::from_secs(100));
    driver.client(other);
    driver.advance(Duration::from_secs(9));
    assert!(driver.state().clients().contains_key(&id));
}

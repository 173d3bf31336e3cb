//! A worker that falls silent holds up nobody but coordinated reads.

use rondo_core::control::Timer;
use rondo_core::dispatcher::{Config, Event, Request, ShardingPolicy, WorkerHeartbeat};
use rondo_core::ids::{ClientId, JobId, TaskId};
use rondo_core::status::Code;
use rondo_core::time::{Duration, Time};

use crate::driver::{Driver, Journal};
use crate::world::{dataset, job, listed, removal, rounds, started, worker};

const SECOND: Duration = Duration::from_secs(1);
const FIRST: TaskId = TaskId::new(4000);
const SECOND_TASK: TaskId = TaskId::new(4001);
const THIRD: TaskId = TaskId::new(4002);

fn quick() -> Config {
    Config {
        worker_timeout: Some(Duration::from_secs(5)),
        lost_worker_retention: None,
        ..Config::default()
    }
}

/// A worker whose heartbeats come every second, as far as one knows.
#[track_caller]
fn known_worker(driver: &mut Driver, address: &str) {
    for _ in 0..3 {
        driver.advance(SECOND);
        driver.worker(address, &[]);
    }
}

/// Two workers, a reader of both, and then the first worker alone is heard.
fn two_workers(sharding: ShardingPolicy) -> (Driver, JobId, ClientId) {
    let mut driver = Driver::with(quick());
    known_worker(&mut driver, "w:1");
    known_worker(&mut driver, "w:2");
    let (job, client) = driver.reading(sharding);
    (driver, job, client)
}

#[track_caller]
fn lose_second(driver: &mut Driver) {
    for _ in 0..6 {
        driver.advance(SECOND);
        driver.worker("w:1", &[]);
    }
    assert!(is_lost(driver, "w:2") && !is_lost(driver, "w:1"));
}

fn is_lost(driver: &Driver, address: &str) -> bool {
    let report = driver.node.dispatcher().report(driver.now);
    let worker = report.workers.iter().find(|w| w.address == address);
    worker.unwrap().lost
}

#[test]
fn clients_read_no_more_from_a_lost_worker() {
    for sharding in [ShardingPolicy::Off, ShardingPolicy::Dynamic] {
        let (mut driver, _, client) = two_workers(sharding);
        assert_eq!(listed(&driver.client(client)), [FIRST, SECOND_TASK]);
        lose_second(&mut driver);
        let seen = driver.client(client);
        assert_eq!(listed(&seen), [FIRST]);
        assert!(!seen.iteration_finished);
        assert!(!driver.state().tasks().contains_key(&SECOND_TASK));
    }
}

#[test]
fn an_epoch_ends_without_the_lost_worker() {
    let (mut driver, _, client) = two_workers(ShardingPolicy::Dynamic);
    lose_second(&mut driver);
    driver.finish("w:1", FIRST);
    assert!(driver.client(client).iteration_finished);
}

#[test]
fn an_epoch_that_waits_for_the_lost_worker_alone_ends_with_its_loss() {
    let (mut driver, _, client) = two_workers(ShardingPolicy::Dynamic);
    driver.finish("w:1", FIRST);
    assert!(!driver.client(client).iteration_finished);
    lose_second(&mut driver);
    assert!(driver.client(client).iteration_finished);
    assert_eq!(listed(&driver.client(client)), [FIRST]);
}

#[test]
fn an_epoch_without_workers_waits_for_one() {
    let (mut driver, _, client) = two_workers(ShardingPolicy::Dynamic);
    driver.advance(Duration::from_secs(60));
    assert!(is_lost(&driver, "w:1") && is_lost(&driver, "w:2"));
    let seen = driver.client(client);
    assert_eq!((listed(&seen), seen.iteration_finished), (vec![], false));
    assert_eq!(started(&driver.worker("w:3", &[])), [THIRD]);
    assert_eq!(listed(&driver.client(client)), [THIRD]);
}

#[test]
fn a_worker_that_is_back_gets_new_tasks_and_drops_the_old() {
    let (mut driver, job, client) = two_workers(ShardingPolicy::Dynamic);
    driver.join(job, 1);
    driver.finish("w:1", FIRST);
    lose_second(&mut driver);
    assert!(driver.client(client).iteration_finished);
    let old = [SECOND_TASK, TaskId::new(4003)];
    let reply = driver.worker("w:2", &old);
    assert_eq!(reply.tasks_to_delete, old);
    assert_eq!(started(&reply), [TaskId::new(4004)], "of the open iteration");
    assert!(!is_lost(&driver, "w:2"));
    let address = "w:2".into();
    assert!(driver.events.contains(&Event::WorkerReturned { address }));
    let again = driver.worker("w:2", &[TaskId::new(4004)]);
    assert!(again.new_tasks.is_empty() && again.tasks_to_delete.is_empty());
}

/// Else it would produce the whole dataset once more.
#[test]
fn a_worker_that_had_finished_its_task_gets_none_when_it_is_back() {
    let (mut driver, _, client) = two_workers(ShardingPolicy::Off);
    driver.finish("w:2", SECOND_TASK);
    lose_second(&mut driver);
    assert_eq!(listed(&driver.client(client)), [FIRST, SECOND_TASK]);
    assert!(driver.worker("w:2", &[]).new_tasks.is_empty());
}

#[test]
fn a_new_epoch_gives_a_lost_worker_nothing() {
    let (mut driver, job, _) = two_workers(ShardingPolicy::Dynamic);
    lose_second(&mut driver);
    let client = driver.join(job, 1);
    assert_eq!(listed(&driver.client(client)), [THIRD]);
    assert!(driver.pushes.iter().all(|task| task.task != TaskId::new(4003)));
    let reply = driver.worker("w:2", &[]);
    assert_eq!(reply.new_tasks.len(), 2, "it takes part again");
}

#[test]
fn a_loss_and_a_return_outlive_a_restart() {
    let (mut driver, _, client) = two_workers(ShardingPolicy::Dynamic);
    lose_second(&mut driver);
    driver.restart();
    assert!(is_lost(&driver, "w:2"));
    assert_eq!(listed(&driver.client(client)), [FIRST]);
    driver.worker("w:2", &[]);
    driver.restart();
    assert!(!is_lost(&driver, "w:2"));
    assert_eq!(listed(&driver.client(client)), [FIRST, THIRD]);
}

#[test]
fn consumers_of_a_coordinated_read_agree_on_a_loss_themselves() {
    let mut driver = Driver::with(quick());
    known_worker(&mut driver, "w:1");
    known_worker(&mut driver, "w:2");
    let (_, clients) = driver.reading_together(1);
    lose_second(&mut driver);
    let seen = driver.heartbeat(rounds(clients[0], Some(3), None));
    assert_eq!(listed(&seen), [FIRST, SECOND_TASK]);
    driver.ask(removal(SECOND_TASK, 0, 3)).unwrap();
    let seen = driver.heartbeat(rounds(clients[0], Some(4), None));
    assert_eq!((listed(&seen), seen.block_round), (vec![FIRST], None));
    assert_eq!(started(&driver.worker("w:2", &[])), [THIRD]);
    let seen = driver.heartbeat(rounds(clients[0], Some(4), None));
    assert_eq!(seen.block_round, Some(5), "the new task is negotiated");
}

#[test]
fn a_lost_worker_keeps_its_place_in_the_list_of_workers() {
    let (mut driver, ..) = two_workers(ShardingPolicy::Off);
    lose_second(&mut driver);
    let answer = driver.ask(Request::GetWorkers);
    let both = vec!["w:1".into(), "w:2".into()];
    assert_eq!(answer, Ok(rondo_core::dispatcher::Reply::Workers(both)));
}

/// The moment at which the only worker is lost, if nothing happens.
#[track_caller]
fn lost_at(driver: &mut Driver) -> Time {
    let event = |driver: &Driver| {
        let lost = |event: &&Event| matches!(event, Event::WorkerLost { .. });
        driver.events.iter().filter(lost).count()
    };
    let before = event(driver);
    loop {
        let at = driver.deadline_of(Timer::Silence).expect("a deadline");
        driver.advance(at.since(driver.now));
        if event(driver) > before {
            return driver.now;
        }
    }
}

fn just_after(time: Time, span: Duration) -> Time {
    time.after(span).after(Duration::from_nanos(1))
}

#[test]
fn a_worker_is_lost_exactly_when_the_timeout_is_over() {
    let mut driver = Driver::with(quick());
    known_worker(&mut driver, "w:1");
    let heard = driver.now;
    assert_eq!(lost_at(&mut driver), just_after(heard, Duration::from_secs(5)));
    assert_eq!(driver.deadline_of(Timer::Silence), None, "it is lost once");
}

#[test]
fn a_worker_gets_three_times_its_largest_recent_gap() {
    let mut driver = Driver::with(quick());
    driver.worker("w:1", &[]);
    driver.advance(Duration::from_secs(20));
    driver.worker("w:1", &[]);
    driver.advance(SECOND);
    driver.worker("w:1", &[]);
    let heard = driver.now;
    assert_eq!(lost_at(&mut driver), just_after(heard, Duration::from_secs(60)));
}

#[test]
fn a_large_gap_is_forgotten_in_time() {
    let mut driver = Driver::with(quick());
    driver.worker("w:1", &[]);
    driver.advance(Duration::from_secs(20));
    for _ in 0..17 {
        driver.worker("w:1", &[]);
        driver.advance(SECOND);
    }
    driver.worker("w:1", &[]);
    let heard = driver.now;
    assert_eq!(lost_at(&mut driver), just_after(heard, Duration::from_secs(5)));
}

/// TensorFlow's workers say something every 30 s unless they are told otherwise.
#[test]
fn an_unknown_rhythm_counts_as_that_of_an_untuned_worker() {
    let mut driver = Driver::with(quick());
    driver.worker("w:1", &[]);
    driver.advance(SECOND);
    driver.worker("w:1", &[]);
    let heard = driver.now;
    assert_eq!(lost_at(&mut driver), just_after(heard, Duration::from_secs(90)));
    known_worker(&mut driver, "w:1");
    driver.restart();
    let started = driver.now;
    assert_eq!(lost_at(&mut driver), just_after(started, Duration::from_secs(90)));
}

#[test]
fn a_new_process_at_the_address_has_a_rhythm_of_its_own() {
    let mut driver = Driver::with(quick());
    known_worker(&mut driver, "w:1");
    let reborn = worker("w:1", &[]);
    driver.worker_says(WorkerHeartbeat { uid: 2, ..reborn });
    let heard = driver.now;
    assert_eq!(lost_at(&mut driver), just_after(heard, Duration::from_secs(90)));
}

/// TensorFlow's tests run with heartbeats of 100 ms and a timeout of 200 ms on busy machines.
#[test]
fn a_short_hiccup_of_a_quick_worker_is_no_loss() {
    let mut driver = Driver::with(Config {
        worker_timeout: Some(Duration::from_millis(200)),
        ..Config::default()
    });
    for _ in 0..20 {
        driver.worker("w:1", &[]);
        driver.advance(Duration::from_millis(100));
    }
    driver.worker("w:1", &[]);
    let heard = driver.now;
    assert_eq!(lost_at(&mut driver), just_after(heard, Duration::from_secs(3)));
}

#[test]
fn without_a_timeout_no_worker_is_ever_lost() {
    let mut driver = Driver::with(Config { worker_timeout: None, ..Config::default() });
    known_worker(&mut driver, "w:1");
    assert_eq!(driver.deadline_of(Timer::Silence), None);
    driver.advance(Duration::from_secs(1_000_000));
    assert!(!is_lost(&driver, "w:1"));
}

/// A process that was stopped for a while has heard nobody meanwhile.
#[test]
fn whoever_looks_late_gives_everybody_another_chance() {
    let (mut driver, _, client) = two_workers(ShardingPolicy::Dynamic);
    driver.now = driver.now.after(Duration::from_secs(100));
    driver.tick();
    assert_eq!(listed(&driver.client(client)), [FIRST, SECOND_TASK]);
    driver.worker("w:1", &[FIRST]);
    let back = driver.now;
    driver.advance(Duration::from_secs(4));
    driver.worker("w:1", &[FIRST]);
    let heard = driver.now;
    assert_eq!(lost_at(&mut driver), just_after(back, Duration::from_secs(5)));
    assert_eq!(listed(&driver.client(client)), [FIRST]);
    let ends = just_after(heard, Duration::from_secs(12));
    assert_eq!(lost_at(&mut driver), ends, "the time in which nobody was heard is no interval");
}

/// An hour's outage says nothing of how often a worker speaks. It counts for the patience that was
/// had with it, so that whoever really speaks seldom is waited for after some losses.
#[test]
fn a_loss_makes_patience_three_times_as_long_at_most() {
    let mut driver = Driver::with(quick());
    known_worker(&mut driver, "w:1");
    for patience_secs in [15, 45, 135] {
        driver.advance(Duration::from_secs(3600));
        assert!(is_lost(&driver, "w:1"));
        driver.worker("w:1", &[]);
        driver.advance(SECOND);
        driver.worker("w:1", &[]);
        let heard = driver.now;
        let ends = just_after(heard, Duration::from_secs(patience_secs));
        assert_eq!(lost_at(&mut driver), ends);
    }
}

#[test]
fn nobody_is_lost_while_the_journal_takes_no_records() {
    let (mut driver, job, _) = two_workers(ShardingPolicy::Dynamic);
    driver.journal = Journal::Full;
    driver.send(Request::GetOrCreateIteration { job, repetition: 1 });
    driver.advance(Duration::from_secs(60));
    assert!(!is_lost(&driver, "w:2"));
    driver.make_room();
    driver.advance(Duration::from_secs(6));
    assert!(is_lost(&driver, "w:2"));
}

#[test]
fn a_mass_loss_is_carried_out_in_slices() {
    let mut driver = Driver::with(quick());
    let dataset = driver.register(dataset(&[]));
    let job = driver.job(job(&dataset, ShardingPolicy::Off));
    for n in 0..30 {
        driver.worker(&format!("w:{n}"), &[]);
    }
    for repetition in 0..30 {
        driver.join(job, repetition);
    }
    driver.advance(Duration::from_secs(90));
    driver.now = driver.now.after(Duration::from_nanos(1));
    driver.tick();
    let left = driver.state().tasks().len();
    assert!(left > 0 && left < 900, "{left}");
    assert!(driver.deadline_of(Timer::Silence).unwrap() <= driver.now);
    driver.advance(Duration::ZERO);
    assert_eq!(driver.state().tasks().len(), 0);
}

/// The journal takes nothing, and the worker says something new each second.
#[test]
fn a_heartbeat_that_cannot_be_recorded_is_a_sign_of_life() {
    let (mut driver, ..) = two_workers(ShardingPolicy::Off);
    driver.journal = Journal::Full;
    for number in 0..4 {
        driver.advance(SECOND);
        let tags = vec![format!("tag {number}")];
        let refused = driver
            .refused(Request::WorkerHeartbeat(WorkerHeartbeat { tags, ..worker("w:2", &[]) }));
        assert_eq!(refused.code, Code::Unavailable);
        driver.worker("w:1", &[]);
    }
    driver.make_room();
    driver.advance(Duration::from_secs(3));
    assert!(!is_lost(&driver, "w:2"), "heard three seconds ago");
}

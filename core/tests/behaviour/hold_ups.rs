//! A server that is held up, once or again and again: its process is stopped, or its machine paused.

use rondo_core::dispatcher::{
    Config, GetOrCreateJob, Group, HoldSplits, Reply, Request, ShardingPolicy, SplitSource,
};
use rondo_core::ids::{ClientId, JobId};
use rondo_core::time::Duration;

use crate::driver::Driver;
use crate::world::{dataset, job};

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// The server stands still, then looks what is due before it takes calls.
#[track_caller]
fn hold_up(driver: &mut Driver, span: Duration) {
    driver.now = driver.now.after(span);
    while driver.node.deadline().is_some_and(|(at, _)| at <= driver.now) {
        driver.tick();
    }
}

fn is_lost(driver: &Driver, address: &str) -> bool {
    let report = driver.node.dispatcher().report(driver.now);
    report.workers.iter().find(|w| w.address == address).unwrap().lost
}

/// For how long the server is awake and held up in turn until `found` says so; it looks after each
/// hold-up. None if it never does.
fn awake_until(
    driver: &mut Driver,
    (awake, stall): (u64, u64),
    mut found: impl FnMut(&mut Driver) -> bool,
) -> Option<u64> {
    (1..=2_000).map(|cycles| cycles * awake).find(|_| {
        driver.advance(ms(awake));
        hold_up(driver, ms(stall));
        found(driver)
    })
}

#[test]
fn a_dead_worker_is_lost_however_often_the_server_is_held_up() {
    let cases = [(8, 1_400, 3_600), (60, 4_000, 3_000), (60, 8_500, 3_000), (60, 6_400, 1_600)];
    for (timeout, awake, stall) in cases {
        let worker_timeout = Some(Duration::from_secs(timeout));
        let mut driver = Driver::with(Config { worker_timeout, ..Config::default() });
        for _ in 0..4 {
            driver.worker("w:1", &[]);
            driver.worker("w:2", &[]);
            driver.advance(ms(1_000));
        }
        driver.worker("w:2", &[]);
        let after = awake_until(&mut driver, (awake, stall), |driver| {
            driver.worker("w:1", &[]);
            is_lost(driver, "w:2")
        });
        // Up to a second before each hold-up is given back with it. A short one goes unnoticed.
        let least = if stall < 2_000 { 0 } else { timeout * 1_000 };
        let most = timeout * 1_000 * awake / (awake - 1_000) + awake;
        assert!(
            after.is_some_and(|it| (least..=most).contains(&it)),
            "{awake} ms awake, {stall} ms held up: lost after {after:?} ms awake, {least} to {most}"
        );
    }
}

fn hold(driver: &mut Driver, client: ClientId, count: usize) -> Vec<u64> {
    let request = HoldSplits { client, hold: count, progress: Vec::new(), group: Group::ALL };
    match driver.ask(Request::HoldSplits(request)) {
        Ok(Reply::SplitsHeld(held)) => held.splits.iter().map(|split| split.place).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_dead_readers_splits_come_to_others_however_often_the_server_is_held_up() {
    let cases = [(8, 1_400, 3_600), (30, 4_000, 3_000), (30, 3_000, 3_500), (30, 7_200, 2_000)];
    for (timeout, awake, stall) in cases {
        let mut driver = Driver::with(Config {
            reader_timeout: Duration::from_secs(timeout),
            worker_timeout: None,
            ..Config::default()
        });
        driver.worker("w:1", &[]);
        let dataset = driver.register(dataset(&[SplitSource::counting(4)]));
        let request =
            GetOrCreateJob { name: Some("train".into()), ..job(&dataset, ShardingPolicy::Dynamic) };
        let job = driver.job(request);
        let (dead, alive) = (driver.join(job, 0), driver.join(job, 0));
        driver.client(dead);
        driver.client(alive);
        assert_eq!(hold(&mut driver, dead, 2), [0, 1]);
        assert_eq!(hold(&mut driver, alive, 4), [2, 3]);
        let after = awake_until(&mut driver, (awake, stall), |driver| {
            driver.client(alive);
            hold(driver, alive, 4).len() == 4
        });
        let least = timeout * 1_000;
        let most = least * awake / (awake - 1_000) + 2 * awake;
        assert!(
            after.is_some_and(|it| (least..=most).contains(&it)),
            "{awake} ms awake, {stall} ms held up: given up after {after:?} ms awake, \
             {least} to {most}"
        );
    }
}

fn anonymous_job(driver: &mut Driver) -> JobId {
    driver.worker("w:1", &[]);
    let dataset = driver.register(dataset(&[SplitSource::counting(3)]));
    driver.job(job(&dataset, ShardingPolicy::Dynamic))
}

#[test]
fn a_job_that_a_client_is_about_to_join_is_there_after_a_hold_up() {
    for minutes in [5, 11, 20, 60, 600] {
        let mut driver = Driver::new();
        let job = anonymous_job(&mut driver);
        hold_up(&mut driver, Duration::from_secs(minutes * 60));
        driver.join(job, 0);
    }
}

#[test]
fn a_dataset_that_a_client_is_about_to_read_is_there_after_a_hold_up() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    let dataset = driver.register(dataset(&[SplitSource::counting(3)]));
    hold_up(&mut driver, Duration::from_secs(8 * 24 * 3600));
    driver.job(job(&dataset, ShardingPolicy::Dynamic));
}

/// Its readers were restarted together in the meantime.
#[test]
fn an_iteration_whose_readers_are_about_to_return_is_there_after_a_hold_up() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    let dataset = driver.register(dataset(&[]));
    let request =
        GetOrCreateJob { name: Some("train".into()), ..job(&dataset, ShardingPolicy::Off) };
    let job = driver.job(request);
    let client = driver.join(job, 0);
    let listed = driver.client(client).tasks;
    driver.release(client);
    hold_up(&mut driver, Duration::from_secs(11 * 60));
    let client = driver.join(job, 0);
    assert_eq!(driver.client(client).tasks, listed);
}

#[test]
fn hold_ups_keep_nothing_for_longer_than_they_last() {
    let mut driver = Driver::new();
    let job = anonymous_job(&mut driver);
    let after = awake_until(&mut driver, (30_000, 35_000), |driver| {
        !driver.state().jobs().contains_key(&job)
    });
    // Five minutes, a minute for the use, and maintenance is every ten.
    assert!(after.is_some_and(|it| (360_000..1_000_000).contains(&it)), "{after:?}");
}

/// A job that a client has read to its end and left.
fn read_and_left(driver: &mut Driver) -> JobId {
    driver.worker("w:1", &[]);
    let dataset = driver.register(dataset(&[]));
    let read = driver.job(job(&dataset, ShardingPolicy::Off));
    let client = driver.join(read, 0);
    let task = driver.client(client).tasks[0].task;
    driver.finish("w:1", task);
    driver.release(client);
    read
}

/// How long after its release a job was freed whose iteration was freed within a minute after a hold-up of
/// 30 s, each of them after 70 s; with another job, asked for just before the hold-up, or without.
fn freed_after(with_another: bool) -> Duration {
    let mut driver = Driver::with(Config {
        job_gc_timeout: Some(Duration::from_secs(70)),
        job_gc_check_interval: Duration::from_secs(1),
        ..Config::default()
    });
    let begun = driver.now;
    let read = read_and_left(&mut driver);
    driver.advance(Duration::from_secs(20));
    if with_another {
        let dataset = driver.state().jobs()[&read].dataset.clone();
        driver.job(job(&dataset, ShardingPolicy::Off));
    }
    hold_up(&mut driver, Duration::from_secs(30));
    while driver.state().jobs().contains_key(&read) {
        driver.advance(ms(1_000));
        assert!(driver.now < begun.after(Duration::from_secs(600)), "the job is never freed");
    }
    driver.now.since(begun)
}

#[test]
fn a_job_that_fell_idle_after_a_hold_up_is_freed_in_its_time() {
    for with_another in [false, true] {
        let after = freed_after(with_another).as_millis();
        assert!((170_000..173_000).contains(&after), "{after} ms, with another: {with_another}");
    }
}

/// A client that asked for a job has a minute to join it. A hold-up does not shorten that minute.
#[test]
fn a_hold_up_counts_for_a_job_asked_for_before_it_though_its_iteration_was_freed_later() {
    let mut driver = Driver::with(Config {
        job_gc_timeout: Some(Duration::from_secs(10)),
        job_gc_check_interval: Duration::from_secs(1),
        ..Config::default()
    });
    let read = read_and_left(&mut driver);
    hold_up(&mut driver, Duration::from_secs(30));
    driver.advance(Duration::from_secs(15));
    assert!(driver.state().iterations().is_empty() && driver.state().jobs().contains_key(&read));
    driver.advance(Duration::from_secs(54));
    assert!(driver.state().jobs().contains_key(&read), "60 s, 10 s and the hold-up");
    driver.advance(Duration::from_secs(3));
    assert!(!driver.state().jobs().contains_key(&read));
}

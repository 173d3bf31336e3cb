//! Reading by split: clients hold splits, acknowledge what they read, and leave the rest to others.

mod consumers;
mod departed;
mod hold_ups;
mod kept_tasks;
mod recalls;

use rondo_core::control::Timer;
use rondo_core::dispatcher::{
    Config, Event, GetOrCreateJob, Group, HeldSplit, HoldSplits, Reply, Request, ShardingPolicy,
    SplitProgress, SplitSource, SplitsHeld,
};
use rondo_core::ids::{ClientId, IterationId, JobId};
use rondo_core::limits::{SPLITS_AHEAD_MAX, SPLITS_PER_CLIENT_MAX};
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::driver::{Driver, Journal};
use crate::world::{dataset, job, split_for};

const WORKER: &str = "w0:1";

fn hold(client: ClientId, hold: usize, progress: &[(u64, u64, bool)]) -> Request {
    grouped(client, hold, progress, Group::ALL)
}

fn grouped(client: ClientId, hold: usize, progress: &[(u64, u64, bool)], group: Group) -> Request {
    let progress = progress.iter().map(|(place, records, finished)| SplitProgress {
        place: *place,
        records: *records,
        finished: *finished,
    });
    Request::HoldSplits(HoldSplits { client, hold, progress: progress.collect(), group })
}

impl Driver {
    #[track_caller]
    fn held(&mut self, request: Request) -> SplitsHeld {
        match self.ask(request) {
            Ok(Reply::SplitsHeld(held)) => held,
            other => panic!("{other:?}"),
        }
    }

    /// Places with acknowledged records.
    #[track_caller]
    fn places(&mut self, request: Request) -> Vec<(u64, u64)> {
        let held = self.held(request);
        held.splits.iter().map(|split| (split.place, split.records)).collect()
    }
}

/// Lost splits are handed out again.
fn reissuing() -> Config {
    let client_timeout = Duration::from_secs(120);
    Config { reissue_lost_splits: true, client_timeout, ..Config::default() }
}

/// A job over so many splits, with a worker and a client.
fn reading(splits: i64) -> (Driver, JobId, ClientId) {
    reading_with(Config::default(), splits)
}

fn reading_with(config: Config, splits: i64) -> (Driver, JobId, ClientId) {
    let mut driver = Driver::with(config);
    driver.serving_worker(WORKER, &[]);
    let dataset = driver.register(dataset(&[SplitSource::counting(splits)]));
    let name = Some("train".into());
    let request = GetOrCreateJob { name, ..job(&dataset, ShardingPolicy::Dynamic) };
    let job = driver.job(request);
    let client = driver.join(job, 0);
    (driver, job, client)
}

fn finished(places: std::ops::Range<u64>) -> Vec<(u64, u64, bool)> {
    places.map(|place| (place, 10, true)).collect()
}

#[test]
fn splits_are_held_in_order_until_they_are_read() {
    let (mut driver, job, client) = reading(4);
    assert_eq!(driver.places(hold(client, 2, &[])), [(0, 0), (1, 0)]);
    assert_eq!(driver.places(hold(client, 2, &[(1, 7, false)])), [(0, 0), (1, 7)]);
    assert_eq!(driver.places(hold(client, 2, &[(0, 9, true)])), [(1, 7), (2, 0)]);
    assert_eq!(driver.places(hold(client, 9, &[(1, 8, true)])), [(2, 0), (3, 0)]);
    let all = driver.held(hold(client, 9, &[(2, 1, true), (3, 0, true)]));
    assert_eq!(all, SplitsHeld { finished: true, ..SplitsHeld::default() });
    let is_loss = |event: &Event| matches!(event, Event::LaterPassesLost { .. });
    assert!(!driver.events.iter().any(is_loss), "{:?}", driver.events);
    let seen = driver.client(client);
    assert!(seen.iteration_finished);
    let task = seen.tasks[0].task;
    assert_eq!(driver.serving_worker(WORKER, &[task]).tasks_to_delete, [task]);
    let iteration = driver.iteration(job, 0);
    assert_eq!(driver.state().iterations()[&iteration].by_split.acknowledged, 9 + 8 + 1);
    assert!(driver.held(hold(client, 1, &[])).finished);
}

#[test]
fn the_value_of_a_split_goes_with_its_place() {
    let mut driver = Driver::new();
    let dataset = driver.register(dataset(&[SplitSource { start: 5, stop: 0, step: -2 }]));
    let job = driver.job(job(&dataset, ShardingPolicy::Dynamic));
    let client = driver.join(job, 0);
    let split = |place, split| HeldSplit { place, split, records: 0 };
    let held = driver.held(hold(client, 9, &[]));
    assert_eq!(held.splits, [split(0, 5), split(1, 3), split(2, 1)]);
}

#[test]
fn asking_again_changes_nothing_and_writes_nothing() {
    let (mut driver, _, client) = reading(4);
    let request = hold(client, 2, &[(0, 3, false), (1, 5, true)]);
    driver.places(hold(client, 2, &[]));
    let first = driver.places(request.clone());
    let written = driver.written_upto();
    assert_eq!(driver.places(request), first);
    assert_eq!(driver.places(hold(client, 1, &[(0, 2, false), (9, 1, true)])), first);
    assert_eq!(driver.written_upto(), written);
}

#[test]
fn an_empty_dataset_is_read_at_once() {
    let (mut driver, _, client) = reading(0);
    assert!(driver.held(hold(client, 1, &[])).finished);
}

#[test]
fn a_client_that_leaves_leaves_its_splits() {
    let (mut driver, job, client) = reading(4);
    let other = driver.join(job, 0);
    driver.places(hold(client, 2, &[]));
    driver.places(hold(client, 2, &[(0, 3, false)]));
    assert_eq!(driver.places(hold(other, 1, &[])), [(2, 0)]);
    driver.release(client);
    assert!(driver.events.contains(&Event::SplitsGivenUp { client, splits: 2 }));
    assert_eq!(driver.refused(hold(client, 2, &[])).code, Code::NotFound);
    assert_eq!(driver.places(hold(other, 3, &[])), [(0, 3), (1, 0), (2, 0)]);
}

#[test]
fn a_silent_reader_is_given_up_sooner_than_other_clients() {
    let (mut driver, job, silent) = reading(4);
    let idle = driver.join(job, 0);
    driver.client(idle);
    driver.places(hold(silent, 2, &[]));
    driver.places(hold(silent, 2, &[(1, 4, false)]));
    driver.advance(Duration::from_secs(20));
    driver.client(silent);
    driver.advance(Duration::from_secs(29));
    assert_eq!(driver.places(hold(silent, 2, &[])), [(0, 0), (1, 4)], "a heartbeat counts");
    assert!(driver.deadline_of(Timer::Silence).is_some());
    driver.advance(Duration::from_secs(31));
    assert_eq!(driver.refused(hold(silent, 2, &[])).code, Code::NotFound);
    assert!(driver.events.contains(&Event::ClientExpired { client: silent }));
    assert_eq!(driver.places(hold(idle, 2, &[])), [(0, 0), (1, 4)]);
    // Without splits it would not have been given up.
    assert!(driver.held(hold(idle, 0, &finished(0..2))).splits.is_empty());
    driver.advance(Duration::from_secs(90));
    assert_eq!(driver.places(hold(idle, 1, &[])), [(2, 0)]);
}

#[test]
fn nobody_is_given_up_for_what_the_dispatcher_slept_through() {
    let (mut driver, _, client) = reading(4);
    driver.places(hold(client, 1, &[]));
    driver.now = driver.now.after(Duration::from_secs(100));
    driver.tick();
    assert_eq!(driver.places(hold(client, 1, &[])), [(0, 0)]);
}

#[test]
fn a_restart_keeps_holders_and_what_they_acknowledged() {
    let (mut driver, job, client) = reading(6);
    let other = driver.join(job, 0);
    driver.places(hold(client, 2, &[]));
    driver.places(hold(other, 2, &[]));
    driver.places(hold(client, 2, &[(0, 8, true), (1, 3, false)]));
    driver.journal = Journal::Slow;
    let lost = driver.send(hold(client, 2, &[(1, 5, false)]));
    assert!(driver.take(lost).is_none(), "it is not durable");
    driver.restart();
    assert_eq!(driver.places(hold(other, 2, &[])), [(2, 0), (3, 0)]);
    assert_eq!(driver.places(hold(client, 3, &[])), [(1, 3), (4, 0), (5, 0)]);
    driver.advance(Duration::from_secs(31));
    assert_eq!(driver.refused(hold(client, 1, &[])).code, Code::NotFound, "given up after it, too");
}

#[test]
fn a_group_deals_places_out_by_remainder() {
    let (mut driver, job, zero) = reading(10);
    let one = driver.join(job, 0);
    let of = |index| Group { index, size: 2 };
    assert_eq!(driver.places(grouped(one, 2, &[], of(1))), [(1, 0), (3, 0)]);
    assert_eq!(driver.places(grouped(zero, 3, &[], of(0))), [(0, 0), (2, 0), (4, 0)]);
    driver.release(zero);
    let next = driver.join(job, 0);
    assert_eq!(driver.places(grouped(one, 3, &[], of(1))), [(1, 0), (3, 0), (5, 0)]);
    assert_eq!(driver.places(grouped(next, 4, &[], of(0)))[..3], [(0, 0), (2, 0), (4, 0)]);
}

#[test]
fn readers_agree_on_how_many_they_are() {
    let (mut driver, job, client) = reading(10);
    let other = driver.join(job, 0);
    let of = |size| Group { index: 0, size };
    driver.places(grouped(client, 1, &[], of(2)));
    assert_eq!(driver.refused(grouped(client, 1, &[], of(3))).code, Code::InvalidArgument);
    let status = driver.refused(grouped(other, 1, &[], of(3)));
    assert_eq!(status.code, Code::Unavailable, "the holder may be gone: {status}");
    driver.advance(Duration::from_secs(1));
    driver.client(client);
    for size in [1, 3] {
        let status = driver.refused(grouped(other, 1, &[], of(size)));
        assert_eq!(status.code, Code::InvalidArgument);
        assert!(status.message.contains(&format!("group_size is {size}")), "{}", status.message);
    }
    // Nobody holds anything: the next number counts.
    driver.release(client);
    assert_eq!(driver.places(grouped(other, 2, &[], of(3))), [(0, 0), (3, 0)]);
}

/// A job of another size may begin before the readers of the one that crashed are given up.
#[test]
fn a_group_that_begins_anew_with_another_size_waits_for_the_former_one() {
    let of = |index, size| Group { index, size };
    for restarts in [false, true] {
        let (mut driver, job, first) = reading(10);
        let second = driver.join(job, 0);
        driver.places(grouped(first, 2, &[], of(0, 2)));
        driver.places(grouped(second, 2, &[], of(1, 2)));
        driver.advance(Duration::from_secs(5));
        if restarts {
            driver.restart();
        }
        let next = driver.join(job, 0);
        for _ in 0..4 {
            let status = driver.refused(grouped(next, 3, &[], of(0, 1)));
            assert_eq!(status.code, Code::Unavailable, "{status}");
            driver.advance(Duration::from_secs(5));
        }
        for _ in 0..12 {
            driver.advance(Duration::from_secs(1));
        }
        assert_eq!(driver.places(grouped(next, 3, &[], of(0, 1))), [(0, 0), (1, 0), (2, 0)]);
    }
}

/// A restart of the server says nothing of a group's members; a call of one of them does.
#[test]
fn a_group_that_is_still_there_refuses_another_size_after_a_restart() {
    let (mut driver, job, client) = reading(10);
    let other = driver.join(job, 0);
    let of = |size| Group { index: 0, size };
    driver.places(grouped(client, 1, &[], of(2)));
    driver.restart();
    assert_eq!(driver.refused(grouped(other, 1, &[], of(3))).code, Code::Unavailable);
    driver.advance(Duration::from_secs(1));
    driver.places(grouped(client, 1, &[], of(2)));
    assert_eq!(driver.refused(grouped(other, 1, &[], of(3))).code, Code::InvalidArgument);
}

#[test]
fn nobody_runs_far_ahead_of_the_slowest() {
    let (mut driver, _, fast) = reading(1 << 40);
    let of = Group { index: 1, size: 2 };
    let mut last = 0;
    let mut progress = Vec::new();
    loop {
        let held = driver.held(grouped(fast, SPLITS_PER_CLIENT_MAX, &progress, of));
        let Some(split) = held.splits.last() else { break };
        last = split.place;
        progress = held.splits.iter().map(|split| (split.place, 1, true)).collect();
    }
    assert_eq!(last, SPLITS_AHEAD_MAX as u64 - 1);
}

#[test]
fn what_a_worker_took_is_the_workers() {
    let (mut driver, job, client) = reading(4);
    let iteration = driver.iteration(job, 0);
    assert_eq!(driver.split_for(WORKER, iteration), Some(0));
    driver.serving_worker("w1:1", &[]);
    assert_eq!(driver.places(hold(client, 2, &[])), [(1, 0), (2, 0)]);
    assert_eq!(driver.split_for(WORKER, iteration), Some(3));
    assert_eq!(driver.split_for(WORKER, iteration), None);
    let held = driver.held(hold(client, 2, &finished(1..3)));
    assert!(!held.finished, "the worker may still deliver");
    let tasks = driver.client(client).tasks;
    driver.finish(WORKER, tasks[0].task);
    assert!(!driver.client(client).iteration_finished, "nor has the other worker said anything");
    assert!(driver.held(hold(client, 2, &[])).finished, "but it took nothing");
    assert!(driver.client(client).iteration_finished);
}

#[test]
fn a_worker_reads_from_the_beginning_what_nobody_goes_on_with() {
    let (mut driver, job, client) = reading(4);
    let other = driver.join(job, 0);
    let iteration = driver.iteration(job, 0);
    driver.places(hold(other, 1, &[]));
    driver.places(hold(client, 2, &[]));
    driver.places(hold(client, 2, &[(1, 3, false)]));
    driver.release(client);
    assert_eq!(driver.split_for(WORKER, iteration), Some(2), "the one begun is the reader's");
    driver.release(other);
    let splits = [(); 3].map(|()| driver.split_for(WORKER, iteration));
    assert_eq!(splits, [Some(0), Some(1), Some(3)]);
}

#[test]
fn readers_go_on_with_what_lost_workers_had() {
    let config = Config { reissue_lost_splits: true, ..Config::default() };
    let (mut driver, job, client) = reading_with(config, 4);
    let iteration = driver.iteration(job, 0);
    driver.split_for(WORKER, iteration);
    driver.split_for(WORKER, iteration);
    for _ in 0..6 {
        driver.advance(Duration::from_secs(20));
        driver.client(client);
    }
    assert!(driver.state().worker_at(WORKER).unwrap().lost);
    let of = Group { index: 1, size: 2 };
    assert_eq!(driver.places(grouped(client, 2, &[], of)), [(1, 0), (3, 0)]);
    assert_eq!(driver.split_for(WORKER, iteration), None, "it reads for nobody");
}

/// A consumer of elements has left, for whom the worker has taken splits 0 and 1; a reader by split
/// has read the others, and waits.
fn left_to_a_worker(config: Config) -> (Driver, JobId, ClientId) {
    let (mut driver, job, consumer) = reading_with(config, 4);
    let iteration = driver.iteration(job, 0);
    driver.client(consumer);
    assert_eq!([(); 2].map(|()| driver.split_for(WORKER, iteration)), [Some(0), Some(1)]);
    driver.advance(Duration::from_secs(1));
    driver.release(consumer);
    let reader = driver.join(job, 0);
    driver.places(hold(reader, 9, &[]));
    let held = driver.held(hold(reader, 9, &finished(2..4)));
    assert_eq!(held, SplitsHeld { with_workers: true, ..SplitsHeld::default() });
    (driver, job, reader)
}

/// Lets time pass in which the server hears workers, and a client if there is one.
fn live_on(driver: &mut Driver, workers: &[&str], client: Option<ClientId>, secs: u64) {
    for _ in 0..secs {
        driver.advance(Duration::from_secs(1));
        for address in workers {
            let known = driver.state().worker_at(address).unwrap();
            let tasks: Vec<_> = known.tasks.iter().copied().collect();
            driver.serving_worker(address, &tasks);
        }
        if let Some(client) = client {
            driver.client(client);
        }
    }
}

/// The same with the one worker, and what the client holds then.
fn wait(driver: &mut Driver, client: ClientId, secs: u64) -> SplitsHeld {
    live_on(driver, &[WORKER], Some(client), secs);
    driver.held(hold(client, 9, &[]))
}

#[test]
fn readers_get_what_a_worker_took_for_a_consumer_that_left() {
    let (mut driver, _, reader) = left_to_a_worker(reissuing());
    let before = driver.client(reader).tasks[0].task;
    assert!(wait(&mut driver, reader, 118).with_workers, "a consumer may come");
    let held = wait(&mut driver, reader, 2);
    let places: Vec<_> = held.splits.iter().map(|split| (split.place, split.records)).collect();
    assert_eq!((places.as_slice(), held.with_workers), ([(0, 0), (1, 0)].as_slice(), false));
    let tasks = driver.client(reader).tasks;
    assert!(tasks.len() == 1 && tasks[0].task != before, "the worker drops what it has");
    assert_eq!(driver.serving_worker(WORKER, &[before]).tasks_to_delete, [before]);
    driver.restart();
    assert!(driver.held(hold(reader, 9, &finished(0..2))).finished);
}

#[test]
fn what_a_worker_took_is_the_workers_while_a_consumer_may_read_it() {
    let config = Config { reissue_lost_splits: true, ..Config::default() };
    let (mut driver, job, reader) = left_to_a_worker(config);
    let consumer = driver.join(job, 0);
    for _ in 0..4 {
        assert!(wait(&mut driver, reader, 100).with_workers);
        driver.client(consumer);
    }
    // Whether a client reads by element is not known before it speaks.
    driver.release(consumer);
    driver.restart();
    let task = driver.client(reader).tasks[0].task;
    driver.finish(WORKER, task);
    assert!(driver.held(hold(reader, 9, &[])).finished);
}

/// At most once: whether the consumer has read some of it is not known.
#[test]
fn what_a_worker_took_is_lost_only_where_reads_are_given_up() {
    let (mut driver, _, reader) = left_to_a_worker(Config::default());
    assert!(wait(&mut driver, reader, 3600).with_workers);
    let config = Config { gc_dynamic_sharding_jobs: true, ..Config::default() };
    let (mut driver, job, reader) = left_to_a_worker(config);
    assert!(wait(&mut driver, reader, 298).with_workers);
    assert!(wait(&mut driver, reader, 2).finished);
    let iteration = driver.iteration(job, 0);
    assert_eq!(driver.state().iterations()[&iteration].splits.lost, 2);
}

#[test]
fn a_task_is_made_when_the_last_reader_leaves_and_nobody_else_is_there() {
    let (mut driver, job, client) = reading(2);
    let iteration = driver.iteration(job, 0);
    driver.places(hold(client, 1, &[]));
    driver.split_for(WORKER, iteration);
    let task = driver.client(client).tasks[0].task;
    driver.finish(WORKER, task);
    driver.release(client);
    assert_eq!(driver.split_for(WORKER, iteration), Some(0));
}

#[test]
fn what_cannot_be_read_by_split_is_refused() {
    let mut driver = Driver::new();
    let two = driver.register(dataset(&[SplitSource::counting(3), SplitSource::counting(3)]));
    let one = driver.register(dataset(&[SplitSource::counting(3)]));
    let together = GetOrCreateJob { consumers: Some(1), ..job(&one, ShardingPolicy::Dynamic) };
    for request in [job(&two, ShardingPolicy::Dynamic), job(&one, ShardingPolicy::Off), together] {
        let job = driver.job(request);
        let client = driver.join(job, 0);
        assert_eq!(driver.refused(hold(client, 1, &[])).code, Code::FailedPrecondition);
    }
}

fn save(name: &str) -> Request {
    Request::SavePosition { name: name.into(), job: "train".into() }
}

fn restore(name: &str) -> Request {
    Request::RestorePosition { name: name.into(), job: "train".into(), wanted: None }
}

/// A position at which two readers hold splits, and one split waits.
fn saved() -> (Driver, JobId, ClientId) {
    let (mut driver, job, client) = reading(8);
    let other = driver.join(job, 0);
    let gone = driver.join(job, 0);
    driver.places(hold(gone, 1, &[]));
    driver.places(hold(client, 2, &[]));
    driver.places(hold(other, 1, &[]));
    driver.places(hold(gone, 1, &[(0, 2, false)]));
    driver.places(hold(client, 2, &[(1, 5, true), (2, 4, false)]));
    driver.release(gone);
    driver.ask(save("p")).unwrap();
    (driver, job, client)
}

#[test]
fn a_position_keeps_how_far_every_split_is() {
    let (mut driver, job, client) = saved();
    let Ok(Reply::Positions(positions)) = driver.ask(Request::ListPositions) else { panic!() };
    let splits = positions[0].reading[0].splits.iter();
    let splits: Vec<_> = splits.map(|split| (split.place, split.records)).collect();
    assert_eq!(splits, [(0, 2), (2, 4), (3, 0), (4, 0)]);
    driver.places(hold(client, 9, &[(2, 9, true)]));
    driver.restart();
    driver.ask(restore("p")).unwrap();
    assert_eq!(driver.refused(hold(client, 1, &[])).code, Code::FailedPrecondition);
    let again = driver.join(job, 0);
    let all = [(0, 2), (2, 4), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0)];
    assert_eq!(driver.places(hold(again, 9, &[])), all);
}

#[test]
fn workers_read_restored_splits_first_and_from_the_beginning() {
    let (mut driver, job, _) = saved();
    driver.ask(restore("p")).unwrap();
    driver.join(job, 0);
    let iteration: IterationId = driver.iteration(job, 0);
    let splits: Vec<i64> = std::iter::from_fn(|| driver.split_for(WORKER, iteration)).collect();
    assert_eq!(splits, [0, 2, 3, 4, 5, 6, 7]);
    assert_eq!(driver.ask(split_for(WORKER, iteration, 0, 0)), Ok(Reply::Split(None)));
}

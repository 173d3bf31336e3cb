//! What becomes of the splits that a lost worker had: they are counted, and handed out again if
//! that is wished.

use rondo_core::dispatcher::{
    Config, Event, IterationReport, Reply, ShardingPolicy, SplitSource, WorkerHeartbeat,
};
use rondo_core::ids::{ClientId, IterationId, TaskId};
use rondo_core::time::Duration;

use crate::driver::Driver;
use crate::world::{dataset, job, listed, split_for, started, worker};

const SECOND: Duration = Duration::from_secs(1);
const FIRST: TaskId = TaskId::new(4000);
const SECOND_TASK: TaskId = TaskId::new(4001);
const THIRD: TaskId = TaskId::new(4002);
const IT: IterationId = IterationId::new(2000);

/// Two workers and a reader of `0..count` under dynamic sharding.
fn reading(reissue_lost_splits: bool, count: i64) -> (Driver, ClientId) {
    let mut driver = Driver::with(Config {
        worker_timeout: Some(Duration::from_secs(5)),
        reissue_lost_splits,
        ..Config::default()
    });
    for _ in 0..3 {
        driver.advance(SECOND);
        driver.worker("w:1", &[]);
        driver.worker("w:2", &[]);
    }
    let dataset = driver.register(dataset(&[SplitSource::counting(count)]));
    let job = driver.job(job(&dataset, ShardingPolicy::Dynamic));
    let client = driver.join(job, 0);
    (driver, client)
}

fn take(driver: &mut Driver, asker: &str, count: usize) -> Vec<i64> {
    let splits = std::iter::from_fn(|| driver.split_for(asker, IT));
    splits.take(count).collect()
}

#[track_caller]
fn lose(driver: &mut Driver, address: &str, other: &str) {
    for _ in 0..6 {
        driver.advance(SECOND);
        driver.worker(other, &[]);
    }
    let report = driver.node.dispatcher().report(driver.now);
    let worker = report.workers.iter().find(|w| w.address == address);
    assert!(worker.unwrap().lost);
}

fn report(driver: &Driver) -> IterationReport {
    driver.node.dispatcher().report(driver.now).iterations[0].clone()
}

fn missing(driver: &Driver) -> (u64, u64, u64) {
    let report = report(driver);
    (report.splits_lost, report.splits_again, report.splits_in_doubt)
}

#[test]
fn splits_of_a_lost_worker_are_counted() {
    let (mut driver, _) = reading(false, 100);
    take(&mut driver, "w:1", 5);
    take(&mut driver, "w:2", 7);
    take(&mut driver, "w:1", 5);
    assert_eq!(missing(&driver), (0, 0, 0));
    lose(&mut driver, "w:2", "w:1");
    assert_eq!(missing(&driver), (7, 0, 0));
    let event =
        Event::SplitsLost { address: "w:2".into(), iteration: IT, lost: 7, again: 0, in_doubt: 0 };
    assert!(driver.events.contains(&event), "{:?}", driver.events);
    driver.restart();
    assert_eq!(missing(&driver), (7, 0, 0));
    assert_eq!(driver.split_for("w:1", IT), Some(17), "none comes again");
}

#[test]
fn splits_of_a_task_that_finished_are_not_missing() {
    let (mut driver, _) = reading(false, 100);
    take(&mut driver, "w:2", 7);
    driver.finish("w:2", SECOND_TASK);
    lose(&mut driver, "w:2", "w:1");
    assert_eq!(missing(&driver), (0, 0, 0));
}

#[test]
fn of_unknown_askers_as_many_may_be_missing_as_asked_meanwhile() {
    let (mut driver, _) = reading(false, 100);
    (0..3).for_each(|n| assert_eq!(driver.split(IT, 0, 0), Some(n)));
    take(&mut driver, "w:1", 5);
    driver.worker("w:3", &[]);
    (8..12).for_each(|n| assert_eq!(driver.split(IT, 0, 0), Some(n)));
    lose(&mut driver, "w:2", "w:1");
    assert_eq!(missing(&driver), (0, 0, 7));
    driver.split(IT, 0, 0);
    assert_eq!(missing(&driver), (0, 0, 7), "nobody is lost with that one");
    driver.restart();
    driver.advance(Duration::from_secs(100));
    assert_eq!(missing(&driver), (5, 0, 8), "all are lost now");
}

/// Such a worker went on taking splits for a task that nobody reads.
#[test]
fn a_worker_that_was_cut_off_adds_what_it_took_meanwhile() {
    let (mut driver, _) = reading(false, 100);
    lose(&mut driver, "w:2", "w:1");
    (0..4).for_each(|n| assert_eq!(driver.split(IT, 0, 0), Some(n)));
    assert_eq!(missing(&driver), (0, 0, 0));
    driver.worker("w:2", &[SECOND_TASK]);
    assert_eq!(missing(&driver), (0, 0, 4));
}

#[test]
fn a_worker_restarted_before_it_was_lost_has_lost_its_splits() {
    for reissue in [false, true] {
        let (mut driver, client) = reading(reissue, 100);
        take(&mut driver, "w:2", 3);
        let reborn = WorkerHeartbeat { uid: 2, ..worker("w:2", &[]) };
        assert_eq!(started(&driver.worker_says(reborn)), [SECOND_TASK]);
        let expected = if reissue { (0, 3, 0) } else { (3, 0, 0) };
        assert_eq!(missing(&driver), expected);
        let lost = |event: &&Event| matches!(event, Event::SplitsLost { lost: 3, .. });
        assert_eq!(driver.events.iter().filter(lost).count(), 1);
        assert_eq!(listed(&driver.client(client)), [FIRST, SECOND_TASK]);
        let next = if reissue { 0 } else { 3 };
        assert_eq!(driver.split_for("w:2", IT), Some(next));
    }
}

#[test]
fn a_lost_workers_splits_are_handed_out_again() {
    let (mut driver, _) = reading(true, 10);
    assert_eq!(take(&mut driver, "w:1", 1), [0]);
    assert_eq!(take(&mut driver, "w:2", 2), [1, 2]);
    assert_eq!(take(&mut driver, "w:1", 1), [3]);
    assert_eq!(take(&mut driver, "w:2", 1), [4]);
    lose(&mut driver, "w:2", "w:1");
    assert_eq!(missing(&driver), (0, 3, 0));
    assert_eq!(take(&mut driver, "w:1", 2), [1, 2]);
    driver.restart();
    assert_eq!(missing(&driver), (0, 1, 0));
    assert_eq!(take(&mut driver, "w:1", 99), [4, 5, 6, 7, 8, 9]);
    assert_eq!(missing(&driver), (0, 0, 0));
}

#[test]
fn splits_handed_out_again_can_be_lost_again() {
    let (mut driver, _) = reading(true, 10);
    take(&mut driver, "w:2", 3);
    lose(&mut driver, "w:2", "w:1");
    assert_eq!(take(&mut driver, "w:1", 2), [0, 1]);
    driver.worker("w:3", &[]);
    driver.advance(SECOND);
    driver.worker("w:3", &[]);
    driver.advance(SECOND);
    driver.worker("w:3", &[]);
    lose(&mut driver, "w:1", "w:3");
    assert_eq!(take(&mut driver, "w:3", 3), [0, 1, 2]);
}

/// The worker that finished was told the end before the other was lost.
#[test]
fn a_worker_that_had_finished_gets_a_task_to_read_the_rest() {
    let (mut driver, client) = reading(true, 10);
    take(&mut driver, "w:2", 3);
    assert_eq!(take(&mut driver, "w:1", 99).len(), 7);
    driver.finish("w:1", FIRST);
    lose(&mut driver, "w:2", "w:1");
    let seen = driver.client(client);
    assert_eq!(listed(&seen), [FIRST, THIRD]);
    assert!(!seen.iteration_finished, "three splits are missing");
    let pushed = driver.pushes.last().unwrap();
    assert_eq!((pushed.task, &*pushed.worker_address), (THIRD, "w:1"));
    assert_eq!(take(&mut driver, "w:1", 99), [0, 1, 2]);
    driver.finish("w:1", THIRD);
    assert!(driver.client(client).iteration_finished);
    assert_eq!(missing(&driver), (0, 0, 0));
}

#[test]
fn a_task_that_ends_early_is_followed_by_one_that_reads_the_rest() {
    let (mut driver, client) = reading(true, 10);
    take(&mut driver, "w:2", 3);
    assert_eq!(take(&mut driver, "w:1", 99).len(), 7);
    lose(&mut driver, "w:2", "w:1");
    driver.finish("w:1", FIRST);
    assert!(!driver.client(client).iteration_finished);
    assert_eq!(listed(&driver.client(client)), [FIRST, THIRD]);
}

#[test]
fn without_a_live_worker_the_rest_waits_for_one() {
    let (mut driver, client) = reading(true, 10);
    take(&mut driver, "w:2", 3);
    take(&mut driver, "w:1", 99);
    driver.finish("w:1", FIRST);
    driver.advance(Duration::from_secs(30));
    assert_eq!(missing(&driver), (0, 3, 0));
    assert!(!driver.client(client).iteration_finished);
    let reply = driver.worker("w:1", &[]);
    assert_eq!(started(&reply).len(), 1, "though it had finished once");
    assert_eq!(take(&mut driver, "w:1", 99), [0, 1, 2]);
}

/// A pipeline need not read to the end of every source: `take`, or the longer side of a zip.
#[test]
fn what_nobody_asks_for_again_is_given_up() {
    let (mut driver, client) = reading(true, 10);
    take(&mut driver, "w:2", 3);
    driver.finish("w:1", FIRST);
    lose(&mut driver, "w:2", "w:1");
    assert_eq!(missing(&driver), (0, 3, 0));
    driver.finish("w:1", THIRD);
    assert!(driver.client(client).iteration_finished);
    assert_eq!(missing(&driver), (3, 0, 0));
}

/// Its task is gone: whatever it takes, nobody reads.
#[test]
fn a_known_worker_without_a_task_gets_nothing_again() {
    let (mut driver, _) = reading(true, 10);
    take(&mut driver, "w:2", 3);
    lose(&mut driver, "w:2", "w:1");
    assert_eq!(driver.split_for("w:2", IT), Some(3));
    assert_eq!(driver.split_for("w:1", IT), Some(0));
    assert_eq!(driver.split(IT, 0, 0), Some(1), "of others one cannot know");
}

/// All tasks are over: a straggler that nobody reads must not take the rest away.
#[test]
fn nobody_gets_anything_again_while_no_task_is_left() {
    let (mut driver, client) = reading(true, 10);
    take(&mut driver, "w:2", 2);
    take(&mut driver, "w:1", 99);
    driver.finish("w:1", FIRST);
    driver.advance(Duration::from_secs(30));
    assert_eq!(driver.split(IT, 0, 0), None);
    assert_eq!(missing(&driver), (0, 2, 0));
    driver.worker("w:3", &[]);
    assert_eq!(take(&mut driver, "w:3", 99), [0, 1]);
    driver.finish("w:3", THIRD);
    assert!(driver.client(client).iteration_finished);
}

#[test]
fn passes_are_kept_apart() {
    let (mut driver, _) = reading(true, 3);
    take(&mut driver, "w:2", 2);
    assert_eq!(take(&mut driver, "w:1", 99), [2], "and the end");
    let answer = driver.ask(split_for("w:1", IT, 1, 0));
    assert_eq!(answer, Ok(Reply::Split(Some(0))), "of the next pass");
    lose(&mut driver, "w:2", "w:1");
    let answer = driver.ask(split_for("w:1", IT, 1, 0));
    assert_eq!(answer, Ok(Reply::Split(Some(1))));
    assert_eq!(take(&mut driver, "w:1", 99), [0, 1], "of the first pass");
}

/// Runs of splits that the durable state holds, of tasks and waiting to be handed out again, and the
/// splits in them.
fn runs(driver: &Driver) -> (usize, u64) {
    let of_tasks = driver.state().tasks().values().map(|task| &task.splits.remembered);
    let again = driver.state().iterations().values().map(|iteration| &iteration.splits.again);
    let sets = of_tasks.chain(again);
    sets.fold((0, 0), |(runs, splits), set| (runs + set.runs().count(), splits + set.count()))
}

#[test]
fn splits_cost_runs_and_are_freed_with_their_tasks() {
    let (mut driver, _) = reading(true, 2000);
    for _ in 0..5 {
        take(&mut driver, "w:1", 100);
        take(&mut driver, "w:2", 100);
    }
    assert_eq!(runs(&driver), (10, 1000));
    take(&mut driver, "w:2", 500);
    assert_eq!(runs(&driver), (10, 1500), "what goes on costs nothing");
    driver.restart();
    assert_eq!(runs(&driver), (10, 1500));
    driver.finish("w:2", SECOND_TASK);
    assert_eq!(runs(&driver), (5, 500));
    driver.finish("w:1", FIRST);
    assert_eq!(runs(&driver), (0, 0));
    driver.restart();
    assert_eq!(runs(&driver), (0, 0));
}

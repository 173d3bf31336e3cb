//! What becomes of the splits that a lost worker had: they are counted, and handed out again if
//! that is wished.

mod left_callers;

use rondo_core::dispatcher::{
    Config, Event, IterationReport, Reply, Request, ShardingPolicy, SplitSource, WorkerHeartbeat,
};
use rondo_core::ids::{CallId, ClientId, IterationId, TaskId};
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::driver::{Driver, Journal};
use crate::world::{dataset, job, listed, split, split_for, started, update, worker};

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
    assert_eq!(listed(&seen), [THIRD], "in place of the one that is finished");
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
    assert_eq!(listed(&driver.client(client)), [THIRD]);
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

/// Its task is gone: what it takes, no consumer reads. Its way to the dispatcher may be mended just
/// now, and its request for a split come before its heartbeat.
#[test]
fn a_known_worker_without_a_task_gets_nothing() {
    let (mut driver, _) = reading(true, 10);
    take(&mut driver, "w:2", 3);
    lose(&mut driver, "w:2", "w:1");
    let written = driver.written_upto();
    assert_eq!(driver.split_for("w:2", IT), None);
    let later_pass = driver.ask(split_for("w:2", IT, 1, 0));
    assert_eq!((later_pass, driver.written_upto()), (Ok(Reply::Split(None)), written));
    assert_eq!(driver.split_for("w:1", IT), Some(0));
    assert_eq!(driver.split(IT, 0, 0), Some(1), "of others one cannot know");
    assert_eq!(driver.split_for("w:9", IT), None, "who never registered has no task");
    driver.worker("w:2", &[SECOND_TASK]);
    assert_eq!(take(&mut driver, "w:2", 99), [2, 3, 4, 5, 6, 7, 8, 9], "it has a task again");
}

#[test]
fn a_worker_without_a_task_hears_so_when_that_is_durable() {
    let (mut driver, _) = reading(true, 10);
    driver.journal = Journal::Slow;
    lose(&mut driver, "w:2", "w:1");
    let call = driver.send(split_for("w:2", IT, 0, 0));
    assert_eq!(driver.take(call), None);
    driver.sync();
    assert_eq!(driver.take(call), Some(Ok(Reply::Split(None))));
}

/// Rondo's worker waits for a minute, then asks again.
#[test]
fn a_split_whose_caller_left_during_a_full_disk_is_handed_out_again() {
    for asker in [Some("w:1"), None] {
        let (mut driver, client) = reading(false, 3);
        let ask = |asker: Option<&str>| match asker {
            Some(asker) => split_for(asker, IT, 0, 0),
            None => split(IT, 0, 0),
        };
        driver.journal = Journal::Full;
        let call = driver.send(ask(asker));
        driver.cancel(call);
        driver.advance(SECOND);
        assert_eq!(driver.refused(ask(asker)).code, Code::Unavailable);
        driver.make_room();
        assert_eq!(driver.take(call), None, "its caller is gone");
        assert_eq!(take(&mut driver, "w:1", 99), [0, 1, 2]);
        driver.finish("w:1", FIRST);
        driver.finish("w:2", SECOND_TASK);
        assert!(driver.client(client).iteration_finished);
    }
}

#[test]
fn a_split_whose_caller_left_before_the_sync_outlives_a_restart() {
    let (mut driver, client) = reading(false, 3);
    driver.journal = Journal::Slow;
    let calls = [0, 1].map(|_| driver.send(split_for("w:2", IT, 0, 0)));
    driver.cancel(calls[0]);
    driver.sync();
    assert_eq!(driver.take(calls[0]), None);
    assert_eq!(driver.take(calls[1]), Some(Ok(Reply::Split(Some(1)))));
    driver.cancel(calls[1]);
    driver.journal = Journal::Prompt;
    driver.restart();
    assert_eq!(missing(&driver), (0, 1, 0));
    driver.finish("w:2", SECOND_TASK);
    driver.finish("w:1", FIRST);
    assert!(!driver.client(client).iteration_finished, "a split is missing");
    let task = driver.pushes.last().unwrap().task;
    assert_eq!(take(&mut driver, "w:1", 99), [0, 2]);
    driver.finish("w:1", task);
    assert!(driver.client(client).iteration_finished);
}

/// The split counts as lost with its task, not once more.
#[test]
fn a_split_that_was_lost_with_its_task_is_not_taken_back_too() {
    let (mut driver, _) = reading(false, 3);
    driver.journal = Journal::Slow;
    let call = driver.send(split_for("w:2", IT, 0, 0));
    lose(&mut driver, "w:2", "w:1");
    driver.cancel(call);
    driver.sync();
    assert_eq!((missing(&driver), driver.take(call)), ((1, 0, 0), None));
    driver.journal = Journal::Prompt;
    assert_eq!(take(&mut driver, "w:1", 99), [1, 2], "the dispatcher goes on");
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

/// Worker `w:2` as TensorFlow's open builds have it: every process says uid -1.
fn unnamed(tasks: &[TaskId]) -> WorkerHeartbeat {
    WorkerHeartbeat { uid: -1, ..worker("w:2", tasks) }
}

/// Such a worker that has named its task and taken four splits.
fn unnamed_with_splits(reissue: bool) -> Driver {
    let (mut driver, _) = reading(reissue, 10);
    driver.worker_says(unnamed(&[]));
    driver.worker_says(unnamed(&[SECOND_TASK]));
    assert_eq!(take(&mut driver, "w:2", 4), [0, 1, 2, 3]);
    driver
}

#[test]
fn a_worker_without_a_uid_that_names_its_task_no_more_is_another_process() {
    for reissue in [false, true] {
        let mut driver = unnamed_with_splits(reissue);
        driver.advance(SECOND);
        driver.worker_says(unnamed(&[SECOND_TASK]));
        assert_eq!(missing(&driver), (0, 0, 0));
        assert_eq!(started(&driver.worker_says(unnamed(&[]))), [SECOND_TASK]);
        let expected = if reissue { (0, 4, 0) } else { (4, 0, 0) };
        assert_eq!(missing(&driver), expected);
        driver.worker_says(unnamed(&[SECOND_TASK]));
        driver.worker_says(unnamed(&[SECOND_TASK]));
        assert_eq!(missing(&driver), expected, "it is reborn once");
        let next = if reissue { 0 } else { 4 };
        assert_eq!(driver.split_for("w:2", IT), Some(next));
    }
}

/// It was restarted once before it took a split.
#[test]
fn a_worker_without_a_uid_that_restarts_twice_is_another_process_each_time() {
    for reissue in [false, true] {
        let (mut driver, _) = reading(reissue, 10);
        for _ in 0..3 {
            assert_eq!(started(&driver.worker_says(unnamed(&[]))), [SECOND_TASK]);
            driver.worker_says(unnamed(&[SECOND_TASK]));
        }
        assert_eq!(take(&mut driver, "w:2", 4), [0, 1, 2, 3]);
        driver.worker_says(unnamed(&[]));
        let expected = if reissue { (0, 4, 0) } else { (4, 0, 0) };
        assert_eq!(missing(&driver), expected);
    }
}

/// The next process has taken a split, and sent a heartbeat before it knew the task.
#[test]
fn what_a_former_process_ran_is_not_asked_of_the_next_one() {
    let mut driver = unnamed_with_splits(false);
    driver.advance(SECOND);
    driver.worker_says(unnamed(&[SECOND_TASK]));
    driver.worker_says(unnamed(&[]));
    assert_eq!(missing(&driver), (4, 0, 0));
    assert_eq!(driver.split_for("w:2", IT), Some(4));
    driver.worker_says(unnamed(&[]));
    assert_eq!(missing(&driver), (4, 0, 0), "it is reborn once");
}

/// Its connections do not tell which worker of its host asks.
#[test]
fn unattributed_splits_of_a_worker_without_a_uid_are_in_doubt() {
    let (mut driver, _) = reading(true, 10);
    driver.worker_says(unnamed(&[]));
    driver.worker_says(unnamed(&[SECOND_TASK]));
    (0..3).for_each(|n| assert_eq!(driver.split(IT, 0, 0), Some(n)));
    driver.worker_says(unnamed(&[]));
    assert_eq!(missing(&driver), (0, 0, 3));
}

#[test]
fn a_heartbeat_sent_before_the_task_was_known_is_no_rebirth() {
    let (mut driver, _) = reading(true, 10);
    driver.worker_says(unnamed(&[]));
    // A push brings the task, and a heartbeat is under way meanwhile.
    take(&mut driver, "w:2", 4);
    driver.advance(SECOND);
    driver.worker_says(unnamed(&[]));
    assert_eq!(missing(&driver), (0, 0, 0));
    driver.advance(Duration::from_secs(5));
    driver.worker_says(unnamed(&[]));
    assert_eq!(missing(&driver), (0, 4, 0), "no heartbeat is under way for so long");
}

#[test]
fn a_late_heartbeat_that_names_another_task_is_no_rebirth() {
    let (mut driver, client) = reading(true, 10);
    let job = driver.state().jobs().keys().copied().next().unwrap();
    driver.worker_says(unnamed(&[SECOND_TASK]));
    take(&mut driver, "w:2", 4);
    driver.join(job, 1);
    let other = TaskId::new(4003);
    driver.worker_says(unnamed(&[SECOND_TASK, other]));
    driver.worker_says(unnamed(&[SECOND_TASK]));
    assert_eq!(missing(&driver), (0, 0, 0));
    driver.finish("w:2", SECOND_TASK);
    driver.worker_says(unnamed(&[other]));
    assert_eq!((missing(&driver), listed(&driver.client(client)).len()), ((0, 0, 0), 2));
}

#[test]
fn a_dispatcher_that_restarts_still_knows_which_worker_took_splits() {
    let mut driver = unnamed_with_splits(true);
    driver.restart();
    assert_eq!(started(&driver.worker_says(unnamed(&[]))), [SECOND_TASK]);
    assert_eq!(missing(&driver), (0, 4, 0));
}

#[test]
fn a_rebirth_that_cannot_be_recorded_is_noticed_later() {
    let mut driver = unnamed_with_splits(true);
    driver.journal = Journal::Full;
    driver.send(split_for("w:1", IT, 0, 0));
    let again = Request::WorkerHeartbeat(unnamed(&[]));
    assert_eq!(driver.refused(again).code, Code::Unavailable);
    driver.make_room();
    driver.worker_says(unnamed(&[]));
    assert_eq!(missing(&driver), (0, 4, 0));
}

/// Worker `w:2` whose uid names its process.
fn process(uid: i64, tasks: &[TaskId]) -> WorkerHeartbeat {
    WorkerHeartbeat { uid, ..worker("w:2", tasks) }
}

#[test]
fn a_late_heartbeat_of_a_former_process_changes_nothing() {
    let (mut driver, client) = reading(true, 20);
    take(&mut driver, "w:2", 2);
    driver.worker_says(process(2, &[]));
    assert_eq!(missing(&driver), (0, 2, 0));
    assert_eq!(take(&mut driver, "w:2", 3), [0, 1, 2]);
    let written = driver.written_upto();
    let gone = TaskId::new(3999);
    let late = driver.worker_says(process(1, &[SECOND_TASK, gone]));
    assert_eq!((late.tasks_to_delete, late.new_tasks.len()), (vec![gone], 0));
    assert_eq!((missing(&driver), driver.written_upto()), ((0, 0, 0), written));
    assert_eq!(driver.client(client).tasks[1].worker_uid, 2);
    let living = driver.worker_says(process(2, &[SECOND_TASK]));
    assert!(living.tasks_to_delete.is_empty() && living.new_tasks.is_empty());
    assert_eq!(missing(&driver), (0, 0, 0));
}

/// The newer one has the address while it lives, and the older one when it is gone.
#[test]
fn two_processes_at_one_address_do_not_take_turns() {
    let (mut driver, _) = reading(true, 20);
    driver.worker_says(process(2, &[]));
    let written = driver.written_upto();
    for _ in 0..30 {
        driver.advance(SECOND);
        driver.worker_says(process(1, &[SECOND_TASK]));
        driver.worker_says(process(1, &[SECOND_TASK]));
        driver.worker_says(process(2, &[SECOND_TASK]));
        driver.worker("w:1", &[FIRST]);
    }
    assert_eq!(driver.written_upto(), written);
    let uid = |driver: &Driver| driver.state().worker_at("w:2").unwrap().profile.uid;
    driver.worker_says(process(1, &[SECOND_TASK]));
    driver.worker_says(process(1, &[SECOND_TASK]));
    assert_eq!((driver.written_upto(), uid(&driver)), (written, 2));
    driver.worker_says(process(1, &[SECOND_TASK]));
    assert_eq!(uid(&driver), 1);
    let written = driver.written_upto();
    driver.worker_says(process(2, &[SECOND_TASK]));
    driver.worker_says(process(1, &[SECOND_TASK]));
    assert_eq!((driver.written_upto(), uid(&driver)), (written, 1), "nor do they when it is back");
}

/// Somebody says the address of a worker once, by mistake: the worker that lives there loses no task
/// and is not given up, though its heartbeats count for nothing at first.
#[test]
fn a_worker_outlives_one_heartbeat_of_another_process_at_its_address() {
    let (mut driver, _) = reading(false, 20);
    driver.worker_says(process(1, &[SECOND_TASK]));
    driver.worker_says(process(9, &[]));
    for _ in 0..3 {
        for _ in 0..40 {
            driver.advance(SECOND);
            driver.worker("w:1", &[FIRST]);
        }
        let reply = driver.worker_says(process(1, &[SECOND_TASK]));
        assert_eq!((reply.new_tasks.len(), reply.tasks_to_delete.len()), (0, 0));
    }
    let worker = driver.state().worker_at("w:2").unwrap();
    assert_eq!((worker.profile.uid, worker.lost, worker.tasks.len()), (1, false, 1));
}

/// Of two former processes neither speaks for the other.
#[test]
fn two_former_processes_do_not_count_together() {
    let (mut driver, _) = reading(false, 20);
    driver.worker_says(process(1, &[]));
    driver.worker_says(process(2, &[]));
    driver.worker_says(process(3, &[]));
    let written = driver.written_upto();
    for uid in [1, 2, 1, 2, 1, 2] {
        driver.worker_says(process(uid, &[SECOND_TASK]));
    }
    assert_eq!(driver.written_upto(), written);
}

/// A uid of -1 names no process, so it cannot be a former one's.
#[test]
fn a_process_without_a_uid_is_a_new_one_after_a_named_one() {
    let (mut driver, _) = reading(true, 20);
    driver.worker_says(unnamed(&[]));
    driver.worker_says(process(2, &[]));
    take(&mut driver, "w:2", 2);
    let reply = driver.worker_says(unnamed(&[]));
    assert_eq!((started(&reply), missing(&driver)), (vec![SECOND_TASK], (0, 2, 0)));
}

#[test]
fn an_update_about_a_task_that_went_with_its_worker_waits_for_the_loss() {
    let (mut driver, _) = reading(false, 4);
    take(&mut driver, "w:2", 2);
    driver.journal = Journal::Slow;
    lose(&mut driver, "w:2", "w:1");
    let call = driver.send(update("w:2", &[(SECOND_TASK, true)]));
    assert_eq!(driver.take(call), None, "a crash now would bring the task back");
    driver.sync();
    assert_eq!(driver.take(call), Some(Ok(Reply::WorkerUpdated)));
}

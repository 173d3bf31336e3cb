//! Named positions: saved, restored, and what becomes of those who read meanwhile.

use rondo_core::dispatcher::{
    Bounds, Config, GetOrCreateJob, Group, HoldSplits, PositionReport, Reply, Request,
    ShardingPolicy, SplitSource,
};
use rondo_core::ids::{DatasetId, JobId};
use rondo_core::limits::POSITIONS_MAX;
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;

use crate::driver::{Driver, Journal};
use crate::world::{client, dataset, job, listed};

const WORKER: &str = "w:1";

fn named(dataset: &DatasetId, name: &str) -> GetOrCreateJob {
    GetOrCreateJob { name: Some(name.into()), ..job(dataset, ShardingPolicy::Dynamic) }
}

fn save(name: &str, job: &str) -> Request {
    Request::SavePosition { name: name.into(), job: job.into() }
}

fn restore(name: &str, job: &str) -> Request {
    Request::RestorePosition { name: name.into(), job: job.into(), wanted: None }
}

/// A job named `train` over ten splits, and a worker.
fn training() -> (Driver, DatasetId, JobId) {
    let mut driver = Driver::with(Config { worker_timeout: None, ..Config::default() });
    driver.worker(WORKER, &[]);
    let dataset = driver.register(dataset(&[SplitSource::counting(10)]));
    let job = driver.job(named(&dataset, "train"));
    (driver, dataset, job)
}

fn report(driver: &mut Driver, request: Request) -> PositionReport {
    match driver.ask(request) {
        Ok(Reply::Position(report)) => report,
        other => panic!("{other:?}"),
    }
}

fn list(driver: &mut Driver) -> Vec<PositionReport> {
    match driver.ask(Request::ListPositions) {
        Ok(Reply::Positions(reports)) => reports,
        other => panic!("{other:?}"),
    }
}

/// The next splits of a repetition's source, in its first pass.
fn take(driver: &mut Driver, job: JobId, repetition: i64, count: usize) -> Vec<i64> {
    let iteration = driver.iteration(job, repetition);
    (0..count).filter_map(|_| driver.split(iteration, 0, 0)).collect()
}

/// What users of TensorFlow's dispatcher cannot do: the trainer goes back to its checkpoint, and the
/// service with it.
#[test]
fn a_restored_job_goes_on_where_it_was_saved() {
    let (mut driver, _, job) = training();
    driver.join(job, 0);
    assert_eq!(take(&mut driver, job, 0, 3), [0, 1, 2]);
    report(&mut driver, save("step 3", "train"));
    assert_eq!(take(&mut driver, job, 0, 4), [3, 4, 5, 6]);
    driver.restart();
    report(&mut driver, restore("step 3", "train"));
    driver.join(job, 0);
    assert_eq!(take(&mut driver, job, 0, 2), [3, 4]);
    // Once more, and after a crash in between.
    report(&mut driver, restore("step 3", "train"));
    driver.restart();
    driver.join(job, 0);
    assert_eq!(take(&mut driver, job, 0, 9), [3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn a_restoration_ends_the_iteration_under_its_readers() {
    let (mut driver, _, job) = training();
    let reader = driver.join(job, 0);
    let old = driver.iteration(job, 0);
    let task = driver.client(reader).tasks[0].task;
    take(&mut driver, job, 0, 2);
    report(&mut driver, save("p", "train"));
    report(&mut driver, restore("p", "train"));
    let Status { code, message, .. } = driver.refused(client(reader));
    assert_eq!(code, Code::FailedPrecondition);
    assert!(message.contains("a position was restored"), "{message}");
    assert_eq!(driver.split(old, 0, 0), None, "its workers are told the end");
    assert_eq!(driver.worker(WORKER, &[task]).tasks_to_delete, [task]);
    driver.release(reader);
    let again = driver.join(job, 0);
    assert_eq!(driver.client(again).tasks.len(), 1);
    assert_eq!(take(&mut driver, job, 0, 1), [2]);
    driver.advance(Duration::from_secs(1300));
    assert!(!driver.state().iterations().contains_key(&old), "it is freed like any other");
}

#[test]
fn a_position_knows_finished_repetitions_and_forgets_later_ones() {
    let (mut driver, _, job) = training();
    for repetition in [0, 1] {
        let reader = driver.join(job, repetition);
        for task in &*driver.client(reader).tasks {
            driver.finish(WORKER, task.task);
        }
        driver.release(reader);
    }
    driver.advance(Duration::from_secs(700));
    assert_eq!(driver.state().iterations().len(), 0, "freed, but remembered");
    driver.join(job, 2);
    take(&mut driver, job, 2, 4);
    let saved = report(&mut driver, save("epoch 2", "train"));
    assert_eq!((saved.finished, saved.reading[0].repetition), (vec!["0-1".to_owned()], 2));
    assert_eq!(saved.reading[0].sources[0].produced, 4);
    let later = driver.join(job, 3);
    for task in &*driver.client(later).tasks {
        driver.finish(WORKER, task.task);
    }
    report(&mut driver, restore("epoch 2", "train"));
    let of_finished = driver.join(job, 1);
    assert!(driver.client(of_finished).iteration_finished);
    driver.join(job, 2);
    assert_eq!(take(&mut driver, job, 2, 1), [4]);
    driver.join(job, 3);
    assert_eq!(take(&mut driver, job, 3, 1), [0], "after the position there was nothing yet");
}

#[test]
fn a_position_waits_for_a_job_that_does_not_exist_yet() {
    let (mut driver, dataset, job) = training();
    driver.join(job, 0);
    take(&mut driver, job, 0, 5);
    report(&mut driver, save("p", "train"));
    let armed = report(&mut driver, restore("p", "train again"));
    assert_eq!(armed.waiting, ["train again"]);
    driver.restart();
    let again = driver.job(named(&dataset, "train again"));
    driver.join(again, 0);
    assert_eq!(take(&mut driver, again, 0, 1), [5]);
    assert_eq!(list(&mut driver)[0].waiting, Vec::<String>::new());
    assert_eq!(take(&mut driver, job, 0, 1), [5], "the job saved goes on undisturbed");
}

#[test]
fn what_is_restored_and_not_begun_can_be_saved_again() {
    let (mut driver, _, job) = training();
    driver.join(job, 0);
    take(&mut driver, job, 0, 6);
    let first = report(&mut driver, save("first", "train"));
    report(&mut driver, restore("first", "train"));
    let second = report(&mut driver, save("second", "train"));
    assert_eq!(first.reading, second.reading);
}

#[test]
fn a_position_that_does_not_fit_is_refused_by_both_numbers() {
    let (mut driver, _, job) = training();
    driver.join(job, 0);
    report(&mut driver, save("p", "train"));
    let two = driver.register(dataset(&[SplitSource::counting(1), SplitSource::counting(2)]));
    driver.job(named(&two, "other"));
    let status = driver.refused(restore("p", "other"));
    assert_eq!(status.code, Code::FailedPrecondition);
    assert!(status.message.contains("with 1 sources"), "{status}");
    assert!(status.message.contains("has 2"), "{status}");
    // The job that comes later is refused when it would begin.
    report(&mut driver, restore("p", "later"));
    let later = driver.job(named(&two, "later"));
    let joins = Request::GetOrCreateIteration { job: later, repetition: 0 };
    let status = driver.refused(joins.clone());
    assert_eq!(status.code, Code::FailedPrecondition);
    assert!(status.message.contains("\"p\"") && status.message.contains("\"later\""), "{status}");
    let deleted = driver.ask(Request::DeletePosition { name: "p".into() });
    assert_eq!(deleted, Ok(Reply::PositionDeleted));
    assert!(driver.ask(joins).is_ok(), "without the position it begins at the beginning");
}

#[test]
fn a_shorter_dataset_is_at_its_end() {
    let (mut driver, _, job) = training();
    driver.join(job, 0);
    take(&mut driver, job, 0, 8);
    report(&mut driver, save("p", "train"));
    let shorter = driver.register(dataset(&[SplitSource::counting(5)]));
    report(&mut driver, restore("p", "short"));
    let short = driver.job(named(&shorter, "short"));
    driver.join(short, 0);
    assert_eq!(take(&mut driver, short, 0, 1), Vec::<i64>::new());
}

/// A split that waits in the position may be one that the shorter dataset does not have.
#[test]
fn a_shorter_dataset_restores_only_the_splits_that_it_has() {
    let (mut driver, _, job) = training();
    let reader = driver.join(job, 0);
    let hold = HoldSplits { client: reader, hold: 7, progress: Vec::new(), group: Group::ALL };
    driver.ask(Request::HoldSplits(hold)).unwrap();
    report(&mut driver, save("p", "train"));
    let shorter = driver.register(dataset(&[SplitSource::counting(5)]));
    report(&mut driver, restore("p", "short"));
    let short = driver.job(named(&shorter, "short"));
    driver.join(short, 0);
    assert_eq!(take(&mut driver, short, 0, 9), [0, 1, 2, 3, 4]);
}

#[test]
fn only_dynamic_jobs_that_exist_have_a_position() {
    let (mut driver, dataset, _) = training();
    let off = GetOrCreateJob { sharding: ShardingPolicy::Off, ..named(&dataset, "off") };
    driver.job(off);
    let status = driver.refused(save("p", "off"));
    assert_eq!(status.code, Code::FailedPrecondition);
    assert!(status.message.contains("OFF") && status.message.contains("DYNAMIC"), "{status}");
    assert_eq!(driver.refused(save("p", "nobody")).code, Code::NotFound);
    assert_eq!(driver.refused(restore("p", "train")).code, Code::NotFound);
    report(&mut driver, save("p", "train"));
    assert_eq!(driver.refused(restore("p", "off")).code, Code::FailedPrecondition);
    let delete = || Request::DeletePosition { name: "p".into() };
    assert!(driver.ask(delete()).is_ok());
    assert_eq!(driver.refused(delete()).code, Code::NotFound);
    assert_eq!(list(&mut driver), []);
}

#[test]
fn a_position_is_acknowledged_when_it_is_durable() {
    let (mut driver, _, job) = training();
    driver.join(job, 0);
    driver.journal = Journal::Slow;
    let call = driver.send(save("p", "train"));
    assert!(driver.take(call).is_none());
    driver.sync();
    assert!(driver.take(call).unwrap().is_ok());
    driver.restart();
    assert_eq!(list(&mut driver).len(), 1);
}

#[test]
fn there_are_so_many_positions_and_no_more() {
    let (mut driver, _, job) = training();
    driver.join(job, 0);
    for number in 0..POSITIONS_MAX {
        report(&mut driver, save(&format!("p{number}"), "train"));
    }
    let status = driver.refused(save("one more", "train"));
    assert_eq!(status.code, Code::ResourceExhausted);
    assert!(status.message.contains(&POSITIONS_MAX.to_string()), "{status}");
    report(&mut driver, save("p7", "train"));
}

#[test]
fn so_many_jobs_wait_at_positions_and_no_more() {
    let bounds = Bounds { positions: 2, ..Bounds::default() };
    let mut driver = Driver::with(Config { bounds, ..Config::default() });
    let dataset = driver.register(dataset(&[SplitSource::counting(10)]));
    driver.job(named(&dataset, "train"));
    report(&mut driver, save("p", "train"));
    report(&mut driver, restore("p", "one"));
    report(&mut driver, restore("p", "two"));
    let status = driver.refused(restore("p", "three"));
    assert_eq!(status.code, Code::ResourceExhausted);
    assert!(status.message.contains("jobs that wait at a position"), "{status}");
    report(&mut driver, restore("p", "two"));
    driver.job(named(&dataset, "one"));
    report(&mut driver, restore("p", "three"));
}

/// The dispatcher checks the job that a reader wants as it checks a job that is there.
#[test]
fn a_position_that_does_not_fit_what_a_reader_wants_is_refused_at_once() {
    let (mut driver, first, job) = training();
    driver.join(job, 0);
    report(&mut driver, save("p", "train"));
    let two = driver.register(dataset(&[SplitSource::counting(1), SplitSource::counting(2)]));
    let off = GetOrCreateJob { sharding: ShardingPolicy::Off, ..named(&first, "later") };
    for (wanted, text) in [(named(&two, "later"), "with 1 sources"), (off, "OFF")] {
        let (name, job, wanted) = ("p".into(), "later".into(), Some(Box::new(wanted)));
        let status = driver.refused(Request::RestorePosition { name, job, wanted });
        assert_eq!(status.code, Code::FailedPrecondition);
        assert!(status.message.contains(text), "{status}");
        assert!(driver.state().restorations().is_empty());
    }
}

#[test]
fn a_position_says_which_dataset_it_was_saved_of() {
    let (mut driver, dataset, _) = training();
    let saved = report(&mut driver, save("p", "train"));
    assert_eq!(saved.dataset.as_deref(), Some(dataset.as_str()));
    assert_eq!(list(&mut driver), [saved]);
}

/// Whatever waits for it: it could not begin at a position either.
#[test]
fn a_reader_of_a_static_job_is_told_that_no_worker_is_listed() {
    let (mut driver, dataset, job) = training();
    driver.join(job, 0);
    report(&mut driver, save("p", "train"));
    report(&mut driver, restore("p", "static"));
    let request = GetOrCreateJob { sharding: ShardingPolicy::File, ..named(&dataset, "static") };
    let job = driver.job(request);
    let status = driver.refused(Request::GetOrCreateIteration { job, repetition: 0 });
    assert_eq!(status.code, Code::NotFound, "{status}");
}

/// It continues the jobs that were read before the position was saved, whatever their ids were.
#[test]
fn a_new_job_that_begins_at_a_position_does_not_say_that_it_continues_none() {
    let (mut driver, dataset, job) = training();
    let client = driver.join(job, 0);
    let task = listed(&driver.client(client))[0];
    driver.finish(WORKER, task);
    driver.release(client);
    report(&mut driver, save("epoch 1", "train"));
    let first_id = |driver: &Driver| driver.state().job_named("train").unwrap().first_id;
    assert_eq!(first_id(&driver), Some(job));
    assert_eq!(driver.ask(Request::DeleteJob { name: "train".into() }), Ok(Reply::JobDeleted));
    report(&mut driver, restore("epoch 1", "train"));
    driver.job(named(&dataset, "train"));
    assert_eq!(first_id(&driver), None);
}

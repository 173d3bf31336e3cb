//! What operators delete, and what is left behind and freed by itself: abandoned iterations, lost
//! workers, and the names of freed jobs.

use rondo_core::dispatcher::{
    Config, RegisterDataset, Reply, Request, ShardingPolicy, SplitSource, WorkerHeartbeat,
};
use rondo_core::ids::{ClientId, DatasetId, JobId, TaskId};
use rondo_core::limits::FREED_AFTER_START;
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;

use crate::driver::{Driver, Journal};
use crate::world::{client, dataset, dataset_named, job, named, short, split, worker};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);
const WORKER: &str = "w:1";

/// Maintenance each minute; the rest as by default.
fn config() -> Config {
    Config { job_gc_check_interval: MINUTE, ..Config::default() }
}

/// A named job over three splits with one client, and a worker.
fn reading(config: Config, name: &str) -> (Driver, DatasetId, JobId, ClientId) {
    let mut driver = Driver::with(config);
    driver.worker(WORKER, &[]);
    let dataset = driver.register(dataset_named("data"));
    let job = driver.job(named(&dataset, name));
    let client = driver.join(job, 0);
    (driver, dataset, job, client)
}

fn delete_job(name: &str) -> Request {
    Request::DeleteJob { name: name.into() }
}

fn delete_dataset(id: &str) -> Request {
    Request::DeleteDataset { dataset: DatasetId::new(id) }
}

fn remove_worker(address: &str) -> Request {
    Request::RemoveWorker { address: address.into() }
}

/// Lets time pass in small steps, so that the machine was never held up.
fn pass(driver: &mut Driver, span: Duration, step: Duration) {
    let end = driver.now.after(span);
    while driver.now < end {
        driver.advance(step);
    }
}

fn join_refused(driver: &mut Driver, job: JobId) -> Status {
    driver.refused(Request::GetOrCreateIteration { job, repetition: 0 })
}

#[test]
fn a_reader_that_comes_back_to_a_freed_job_is_told_that_all_was_read() {
    let (mut driver, dataset, job, id) = reading(short(), "train");
    driver.finish(WORKER, TaskId::new(4000));
    driver.release(id);
    pass(&mut driver, Duration::from_secs(600), Duration::from_secs(10));
    assert!(driver.state().jobs().is_empty());
    driver.restart();
    let again = driver.job(named(&dataset, "train"));
    assert!(again > job);
    let late = driver.join(again, 0);
    let reply = driver.client(late);
    assert!(reply.iteration_finished && reply.tasks.is_empty());
}

/// Who kept the id of a job can tell whether a later job of the name continues it.
#[test]
fn a_job_says_which_job_it_continues_and_a_deleted_one_is_continued_by_none() {
    let (mut driver, dataset, first, id) = reading(short(), "train");
    let ids = |driver: &Driver| {
        let report = driver.node.dispatcher().report(driver.now);
        let there = report.jobs.iter().map(|job| (job.first_id, Some(job.id)));
        there.chain(report.freed_jobs.iter().map(|job| (job.first_id, job.id))).collect::<Vec<_>>()
    };
    let number = |job: JobId| Some(job.get());
    assert_eq!(ids(&driver), [(number(first), number(first))]);
    driver.finish(WORKER, TaskId::new(4000));
    driver.release(id);
    let mut last = first;
    for _ in 0..2 {
        pass(&mut driver, Duration::from_secs(600), Duration::from_secs(10));
        assert!(driver.state().jobs().is_empty());
        driver.restart();
        assert_eq!(ids(&driver), [(number(first), number(last))]);
        let again = driver.job(named(&dataset, "train"));
        assert!(again > last);
        last = again;
        assert_eq!(ids(&driver), [(number(first), number(last))]);
    }
    assert_eq!(driver.ask(delete_job("train")), Ok(Reply::JobDeleted));
    let anew = driver.job(named(&dataset, "train"));
    assert_eq!(ids(&driver), [(number(anew), number(anew))]);
}

#[test]
fn a_job_of_which_nothing_was_read_leaves_no_name_behind() {
    let mut driver = Driver::with(short());
    let dataset = driver.register(dataset_named("data"));
    driver.job(named(&dataset, "unread"));
    pass(&mut driver, Duration::from_secs(300), Duration::from_secs(10));
    assert!(driver.state().jobs().is_empty() && driver.state().retired().is_empty());
}

#[test]
fn an_abandoned_iteration_is_given_up_and_its_reader_is_told() {
    let (mut driver, dataset, job, id) = reading(short(), "train");
    let iteration = driver.state().clients()[&id].iteration;
    driver.ask(split(iteration, 0, 0)).unwrap();
    driver.release(id);
    pass(&mut driver, Duration::from_secs(290), Duration::from_secs(10));
    assert!(!driver.state().iterations()[&iteration].finished, "a reader may still come back");
    pass(&mut driver, Duration::from_secs(20), Duration::from_secs(10));
    assert!(driver.state().iterations()[&iteration].collected);
    let report = driver.node.dispatcher().report(driver.now);
    assert_eq!((&report.jobs[0].finished, &report.jobs[0].abandoned), (&vec![], &vec!["0".into()]));
    let refused = join_refused(&mut driver, job);
    assert_eq!(refused.code, Code::FailedPrecondition);
    assert!(refused.message.contains("repetition 0 of job \"train\" was abandoned"), "{refused:?}");
    // It stays so when the iteration, the job and the process are gone.
    pass(&mut driver, Duration::from_secs(900), Duration::from_secs(10));
    assert!(driver.state().iterations().is_empty() && driver.state().jobs().is_empty());
    driver.restart();
    let again = driver.job(named(&dataset, "train"));
    assert_eq!(join_refused(&mut driver, again).code, Code::FailedPrecondition);
    let next = Request::GetOrCreateIteration { job: again, repetition: 1 };
    assert!(driver.ask(next).is_ok(), "another repetition can be read");
}

#[test]
fn who_deletes_an_abandoned_job_reads_it_anew() {
    let (mut driver, dataset, _, id) = reading(short(), "train");
    driver.release(id);
    pass(&mut driver, Duration::from_secs(320), Duration::from_secs(10));
    assert_eq!(driver.ask(delete_job("train")), Ok(Reply::JobDeleted));
    driver.restart();
    let again = driver.job(named(&dataset, "train"));
    let reader = driver.join(again, 0);
    assert!(!driver.client(reader).iteration_finished);
    driver.release(reader);
}

#[test]
fn an_iteration_that_is_read_is_not_abandoned_however_long_it_takes() {
    let (mut driver, _, job, id) = reading(short(), "train");
    for _ in 0..60 {
        driver.client(id);
        driver.worker(WORKER, &[TaskId::new(4000)]);
        driver.advance(Duration::from_secs(10));
    }
    assert!(!driver.state().iteration_of(job, 0).unwrap().finished);
}

#[test]
fn a_position_restored_makes_an_abandoned_job_readable() {
    let (mut driver, _, job, id) = reading(short(), "train");
    let name = || "p".to_owned();
    driver.ask(Request::SavePosition { name: name(), job: "train".into() }).unwrap();
    driver.release(id);
    pass(&mut driver, Duration::from_secs(320), Duration::from_secs(10));
    assert_eq!(join_refused(&mut driver, job).code, Code::FailedPrecondition);
    driver
        .ask(Request::RestorePosition { name: name(), job: "train".into(), wanted: None })
        .unwrap();
    driver.join(job, 0);
}

#[test]
fn nothing_that_is_kept_for_long_is_freed_on_the_first_day_of_a_process() {
    let (mut driver, _, job, id) = reading(config(), "train");
    driver.release(id);
    // The wall clock is a month ahead when the server starts again.
    driver.now = driver.now.after(Duration::from_secs(30 * 24 * 3600));
    driver.restart();
    pass(&mut driver, Duration::from_secs(23 * 3600), Duration::from_secs(20));
    assert!(!driver.state().iteration_of(job, 0).unwrap().finished);
    assert_eq!((driver.state().jobs().len(), driver.state().datasets().len()), (1, 1));
    assert_eq!(FREED_AFTER_START, DAY);
    pass(&mut driver, Duration::from_secs(2 * 3600), Duration::from_secs(20));
    assert!(driver.state().iteration_of(job, 0).is_none_or(|iteration| iteration.collected));
}

#[test]
fn a_lost_worker_without_tasks_is_forgotten_and_may_come_back() {
    let mut driver = Driver::with(short());
    driver.worker(WORKER, &[]);
    let first = driver.state().worker_at(WORKER).unwrap().id;
    pass(&mut driver, Duration::from_secs(120), Duration::from_secs(10));
    assert!(driver.state().worker_at(WORKER).unwrap().lost);
    driver.restart();
    pass(&mut driver, Duration::from_secs(190), Duration::from_secs(10));
    assert!(driver.state().worker_at(WORKER).is_some(), "this process saw it lost for 190 s");
    pass(&mut driver, Duration::from_secs(20), Duration::from_secs(10));
    assert!(driver.state().worker_at(WORKER).is_none());
    assert_eq!(driver.ask(Request::GetWorkers), Ok(Reply::Workers(Vec::new())));
    driver.worker(WORKER, &[]);
    assert!(driver.state().worker_at(WORKER).unwrap().id > first);
}

#[test]
fn a_lost_worker_that_cannot_be_recorded_as_back_is_not_forgotten() {
    let mut driver = Driver::with(short());
    driver.worker(WORKER, &[]);
    pass(&mut driver, Duration::from_secs(120), Duration::from_secs(10));
    driver.sync();
    driver.journal = Journal::Full;
    // Something else finds the disk full.
    driver.send(Request::RegisterDataset(dataset_named("data")));
    for _ in 0..30 {
        let refused = driver.ask(Request::WorkerHeartbeat(worker(WORKER, &[])));
        assert_eq!(refused.unwrap_err().code, Code::Unavailable);
        driver.advance(Duration::from_secs(10));
    }
    let first = driver.state().worker_at(WORKER).unwrap().id;
    driver.make_room();
    driver.advance(Duration::from_secs(10));
    driver.journal = Journal::Prompt;
    driver.worker(WORKER, &[]);
    assert_eq!(driver.state().worker_at(WORKER).unwrap().id, first);
}

#[test]
fn a_lost_worker_with_tasks_is_kept_until_they_are_freed() {
    let (mut driver, _, _, id) = reading(short(), "train");
    driver.finish(WORKER, TaskId::new(4000));
    for _ in 0..100 {
        driver.client(id);
        driver.advance(Duration::from_secs(5));
    }
    let lost = driver.state().worker_at(WORKER).unwrap();
    assert!(lost.lost && driver.state().has_tasks(lost.id));
    let refused = driver.refused(remove_worker(WORKER));
    assert_eq!(refused.code, Code::FailedPrecondition);
    assert!(refused.message.contains("has tasks of job \"train\""), "{refused:?}");
    driver.release(id);
    pass(&mut driver, Duration::from_secs(400), Duration::from_secs(10));
    assert!(driver.state().worker_at(WORKER).is_none());
}

#[test]
fn a_month_of_new_pod_names_every_day_keeps_few_workers() {
    let mut driver = Driver::with(config());
    let mut most = 0;
    for day in 0..30 {
        for pod in 0..20 {
            driver.worker(&format!("pod-{day}-{pod}:1"), &[]);
        }
        pass(&mut driver, DAY, Duration::from_secs(29));
        most = most.max(driver.state().workers().len());
    }
    assert!(most <= 40, "{most} workers, of 20 at a time");
}

#[test]
fn a_worker_that_left_does_not_stop_static_sharding() {
    let listed = |addresses: &[&str]| Config {
        worker_addresses: addresses.iter().map(|it| (*it).into()).collect(),
        ..short()
    };
    let mut driver = Driver::with(listed(&["gone:1", "w:1"]));
    driver.worker("gone:1", &[]);
    driver.worker("w:1", &[]);
    driver.config = listed(&["w:1", "new:1"]);
    driver.restart();
    for _ in 0..12 {
        driver.worker("w:1", &[]);
        driver.worker("new:1", &[]);
        driver.advance(Duration::from_secs(10));
    }
    let dataset = driver.register(dataset(&[SplitSource::counting(3)]));
    let job = driver.job(job(&dataset, ShardingPolicy::Data));
    let reader = driver.join(job, 0);
    assert_eq!(driver.client(reader).tasks.len(), 2);
}

#[test]
fn a_place_in_the_list_is_free_when_its_worker_is_forgotten() {
    let config = Config { worker_addresses: vec!["h".into()], ..short() };
    let mut driver = Driver::with(config);
    driver.worker("h:700", &[]);
    pass(&mut driver, Duration::from_secs(120), Duration::from_secs(10));
    let other = || Request::WorkerHeartbeat(WorkerHeartbeat { ..worker("h:701", &[]) });
    assert_eq!(driver.refused(other()).code, Code::FailedPrecondition);
    assert_eq!(driver.ask(remove_worker("h:700")), Ok(Reply::WorkerRemoved));
    assert!(driver.ask(other()).is_ok());
}

#[test]
fn a_job_is_deleted_with_all_that_it_has_unless_somebody_reads_it() {
    let (mut driver, dataset, job, id) = reading(short(), "train");
    let refused = driver.refused(delete_job("train"));
    assert_eq!(refused.code, Code::FailedPrecondition);
    assert!(refused.message.contains("\"train\" is in use: 1 clients"), "{refused:?}");
    driver.release(id);
    assert_eq!(driver.ask(delete_job("train")), Ok(Reply::JobDeleted));
    let state = driver.state();
    assert!(state.jobs().is_empty() && state.iterations().is_empty() && state.tasks().is_empty());
    assert_eq!(join_refused(&mut driver, job).code, Code::NotFound);
    let told = driver.worker(WORKER, &[TaskId::new(4000)]);
    assert_eq!(told.tasks_to_delete, [TaskId::new(4000)]);
    let refused = driver.refused(delete_job("train"));
    assert_eq!((refused.code, refused.message.contains("\"train\"")), (Code::NotFound, true));
    let again = driver.job(named(&dataset, "train"));
    let reader = driver.join(again, 0);
    assert!(!driver.client(reader).iteration_finished);
}

#[test]
fn a_dataset_is_deleted_unless_a_job_has_it() {
    let (mut driver, _, _, id) = reading(short(), "train");
    let refused = driver.refused(delete_dataset("data"));
    assert_eq!(refused.code, Code::FailedPrecondition);
    assert!(refused.message.contains("job \"train\""), "{refused:?}");
    driver.release(id);
    driver.ask(delete_job("train")).unwrap();
    assert_eq!(driver.ask(delete_dataset("data")), Ok(Reply::DatasetDeleted));
    assert_eq!(driver.refused(delete_dataset("data")).code, Code::NotFound);
    // Another pipeline may have the id now.
    driver.register(dataset_named("data"));
}

#[test]
fn another_pipeline_of_rondos_own_under_the_same_id_is_refused() {
    let mut driver = Driver::with(short());
    let own = |splits| RegisterDataset {
        wished: Some(DatasetId::new("data")),
        own: true,
        ..dataset(&[SplitSource::counting(splits)])
    };
    driver.register(own(3));
    driver.register(own(3));
    let refused = driver.refused(Request::RegisterDataset(own(4)));
    assert_eq!(refused.code, Code::FailedPrecondition);
    assert!(refused.message.contains("dataset data"), "{refused:?}");
    // Graphs of TensorFlow's differ from process to process.
    driver.register(RegisterDataset { own: false, ..own(4) });
    driver.ask(delete_dataset("data")).unwrap();
    driver.register(own(4));
}

#[test]
fn the_blob_of_a_deleted_dataset_goes_with_the_last_that_has_it() {
    let mut driver = Driver::with(short());
    let large = |id: &str| {
        let mut request = dataset_named(id);
        request.definition.inline = None;
        request
    };
    driver.register(large("a"));
    driver.register(large("b"));
    let blobs = driver.blobs.len();
    driver.ask(delete_dataset("a")).unwrap();
    assert_eq!(driver.blobs.len(), blobs);
    driver.ask(delete_dataset("b")).unwrap();
    assert_eq!(driver.blobs.len() + 1, blobs);
}

#[test]
fn a_number_that_is_still_to_be_given_is_not_freed_by_a_deletion() {
    let mut driver = Driver::with(short());
    driver.register(dataset_named("1001"));
    let refused = driver.refused(delete_dataset("1001"));
    assert_eq!(refused.code, Code::FailedPrecondition);
    assert!(refused.message.contains("1001"), "{refused:?}");
}

#[test]
fn a_worker_that_is_heard_is_not_removed() {
    let mut driver = Driver::with(short());
    driver.worker(WORKER, &[]);
    let refused = driver.refused(remove_worker(WORKER));
    assert_eq!((refused.code, refused.message.contains(WORKER)), (Code::FailedPrecondition, true));
    let refused = driver.refused(remove_worker("elsewhere:1"));
    assert_eq!((refused.code, refused.message.contains("elsewhere:1")), (Code::NotFound, true));
    pass(&mut driver, Duration::from_secs(120), Duration::from_secs(10));
    assert_eq!(driver.ask(remove_worker(WORKER)), Ok(Reply::WorkerRemoved));
    assert_eq!(driver.refused(client(ClientId::new(1))).code, Code::NotFound);
}

#[test]
fn an_iteration_whose_workers_say_it_is_over_ends_with_the_last_split_that_is_held() {
    // Found by a history: nobody would ever have read what was left, nor ended it.
    use rondo_core::dispatcher::{Group, HoldSplits, SplitProgress};
    let (mut driver, _, _, id) = reading(short(), "train");
    let hold = |hold, progress| {
        Request::HoldSplits(HoldSplits { client: id, hold, progress, group: Group::ALL })
    };
    driver.ask(hold(1, Vec::new())).unwrap();
    driver.finish(WORKER, TaskId::new(4000));
    assert!(!driver.client(id).iteration_finished, "a split is held");
    let read = SplitProgress { place: 0, records: 1, finished: true };
    driver.ask(hold(0, vec![read])).unwrap();
    assert!(driver.client(id).iteration_finished);
}

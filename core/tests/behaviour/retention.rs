//! The dispatcher frees, forgets and gives up: that harms nobody who is still there, and nobody who comes
//! back.

use rondo_core::dispatcher::{
    Config, GetOrCreateJob, Group, HoldSplits, Reply, Request, ShardingPolicy, SplitProgress,
    SplitSource,
};
use rondo_core::ids::{ClientId, DatasetId, TaskId};
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::driver::Driver;
use crate::world::{dataset, dataset_named, job, named, short, split, started};

const MINUTE: Duration = Duration::from_secs(60);
/// Longer than every retention.
const LONG: Duration = Duration::from_secs(600);

fn listing(addresses: &[&str]) -> Config {
    Config { worker_addresses: addresses.iter().map(|it| (*it).into()).collect(), ..short() }
}

/// Lets time pass, in which only one worker and one client are heard.
fn pass(driver: &mut Driver, span: Duration, heard: Option<(&str, &[TaskId], ClientId)>) {
    let end = driver.now.after(span);
    while driver.now < end {
        if let Some((worker, tasks, client)) = heard {
            driver.worker(worker, tasks);
            driver.client(client);
        }
        driver.advance(Duration::from_secs(10));
    }
}

/// A job of one repetition, read to its end and freed, its name retired.
fn retired(driver: &mut Driver, save: Option<&str>) -> DatasetId {
    driver.worker("w:1", &[]);
    let dataset = driver.register(dataset_named("data"));
    let job = driver.job(named(&dataset, "train"));
    let client = driver.join(job, 0);
    driver.finish("w:1", TaskId::new(4000));
    if let Some(name) = save {
        driver.ask(Request::SavePosition { name: name.into(), job: "train".into() }).unwrap();
    }
    driver.release(client);
    pass(driver, LONG, None);
    assert!(driver.state().jobs().is_empty() && driver.state().retired().len() == 1);
    dataset
}

fn all_is_read(driver: &mut Driver, dataset: &DatasetId) -> bool {
    let job = driver.job(named(dataset, "train"));
    let client = driver.join(job, 0);
    driver.client(client).iteration_finished
}

#[test]
fn a_worker_that_was_forgotten_takes_no_splits() {
    for by_operator in [true, false] {
        let mut driver = Driver::with(short());
        driver.worker("w:1", &[]);
        driver.worker("v:1", &[]);
        let dataset = driver.register(dataset_named("data"));
        let job = driver.job(named(&dataset, "train"));
        let client = driver.join(job, 0);
        let iteration = driver.state().clients()[&client].iteration;
        let old = driver.worker("w:1", &[]).new_tasks[0].task;
        let task = driver.worker("v:1", &[]).new_tasks[0].task;
        let span = if by_operator { 2 } else { 7 };
        let span = Duration::from_secs(span * 60);
        pass(&mut driver, span, Some(("v:1", &[task], client)));
        if by_operator {
            assert!(driver.state().worker_at("w:1").unwrap().lost);
            let removed = driver.ask(Request::RemoveWorker { address: "w:1".into() });
            assert_eq!(removed, Ok(Reply::WorkerRemoved));
        }
        assert!(driver.state().worker_at("w:1").is_none());
        assert_eq!(driver.split_for("w:1", iteration), None);
        assert!(driver.split_for("v:1", iteration).is_some());
        assert_eq!(driver.worker("w:1", &[old]).tasks_to_delete, [old]);
    }
}

#[test]
fn who_is_forgotten_moves_nobody_in_the_list_of_workers() {
    let mut driver = Driver::with(listing(&["h", "h"]));
    driver.worker("h:5", &[]);
    driver.worker("h:4", &[]);
    let dataset = driver.register(dataset(&[SplitSource::counting(3)]));
    let job = driver.job(job(&dataset, ShardingPolicy::Data));
    let client = driver.join(job, 0);
    let first = driver.worker("h:4", &[]);
    let (task, index) = (first.new_tasks[0].task, first.new_tasks[0].worker_index);
    pass(&mut driver, LONG, Some(("h:4", &[task], client)));
    let refused = driver.refused(Request::RemoveWorker { address: "h:5".into() });
    assert_eq!(refused.code, Code::FailedPrecondition);
    assert!(refused.message.contains("h:4 of the same host would get another index"), "{refused}");
    driver.restart();
    let again = driver.worker("h:4", &[]);
    assert_eq!((again.new_tasks[0].task, again.new_tasks[0].worker_index), (task, index));
    let back = driver.worker("h:5", &[]);
    assert_ne!(back.new_tasks[0].worker_index, index);
}

#[test]
fn the_last_worker_of_a_host_is_forgotten_first() {
    let mut driver = Driver::with(listing(&["h", "h"]));
    driver.worker("h:5", &[]);
    driver.worker("h:4", &[]);
    pass(&mut driver, LONG, None);
    assert!(driver.state().workers().is_empty());
    driver.worker("h:9", &[]);
}

#[test]
fn a_worker_that_left_the_list_gets_no_task_that_it_cannot_be_told_of() {
    let mut driver = Driver::with(listing(&["c:1", "w:1"]));
    driver.worker("c:1", &[]);
    driver.worker("w:1", &[]);
    driver.config = listing(&["w:1"]);
    driver.restart();
    for _ in 0..12 {
        driver.worker("w:1", &[]);
        driver.advance(Duration::from_secs(10));
    }
    assert!(driver.state().worker_at("c:1").unwrap().lost);
    let dataset = driver.register(dataset(&[SplitSource::counting(3)]));
    let job = driver.job(job(&dataset, ShardingPolicy::Data));
    let client = driver.join(job, 0);
    assert_eq!(started(&driver.worker("c:1", &[])), []);
    let tasks = driver.client(client).tasks;
    assert_eq!(tasks.len(), 1);
    driver.finish("w:1", tasks[0].task);
    assert!(driver.client(client).iteration_finished);
}

#[test]
fn a_position_of_an_abandoned_job_knows_that_it_was_abandoned() {
    let mut driver = Driver::with(short());
    driver.worker("w:1", &[]);
    let dataset = driver.register(dataset_named("data"));
    let job = driver.job(named(&dataset, "train"));
    let save = |name: &str| Request::SavePosition { name: name.into(), job: "train".into() };
    let restore = |name: &str| Request::RestorePosition {
        name: name.into(),
        job: "train".into(),
        wanted: None,
    };
    let client = driver.join(job, 0);
    let iteration = driver.state().clients()[&client].iteration;
    driver.ask(split(iteration, 0, 0)).unwrap();
    driver.ask(save("before")).unwrap();
    driver.release(client);
    pass(&mut driver, Duration::from_secs(320), None);
    driver.ask(save("after")).unwrap();
    driver.ask(restore("after")).unwrap();
    let join = Request::GetOrCreateIteration { job, repetition: 0 };
    assert_eq!(driver.refused(join).code, Code::FailedPrecondition);
    // The position from before leads to where the job stood then.
    driver.ask(restore("before")).unwrap();
    let client = driver.join(job, 0);
    let iteration = driver.state().clients()[&client].iteration;
    assert_eq!(driver.ask(split(iteration, 0, 0)), Ok(Reply::Split(Some(1))));
}

#[test]
fn a_retired_job_that_was_set_back_stays_known_without_the_position() {
    let mut driver = Driver::with(short());
    let dataset = retired(&mut driver, Some("end"));
    driver
        .ask(Request::RestorePosition { name: "end".into(), job: "train".into(), wanted: None })
        .unwrap();
    driver.ask(Request::DeletePosition { name: "end".into() }).unwrap();
    assert!(all_is_read(&mut driver, &dataset));
}

#[test]
fn a_job_of_which_only_a_position_is_known_can_be_deleted() {
    let mut driver = Driver::with(short());
    let dataset = retired(&mut driver, Some("end"));
    // Another name, that of no job, begins at the position; and the job's own.
    for job in ["other", "train"] {
        driver
            .ask(Request::RestorePosition { name: "end".into(), job: job.into(), wanted: None })
            .unwrap();
        let deleted = driver.ask(Request::DeleteJob { name: job.into() });
        assert_eq!(deleted, Ok(Reply::JobDeleted), "{job}");
        assert!(driver.state().restorations().get(job).is_none());
    }
    assert!(!all_is_read(&mut driver, &dataset));
}

#[test]
fn a_reader_of_an_abandoned_iteration_is_told_how_far_it_came() {
    let mut driver = Driver::with(short());
    driver.worker("w:1", &[]);
    let dataset = driver.register(dataset_named("data"));
    let job = driver.job(named(&dataset, "train"));
    let client = driver.join(job, 0);
    let hold =
        |progress| Request::HoldSplits(HoldSplits { client, hold: 1, progress, group: Group::ALL });
    driver.ask(hold(Vec::new())).unwrap();
    driver.ask(hold(vec![SplitProgress { place: 0, records: 5, finished: false }])).unwrap();
    // It dies; others may have its split after 30 s.
    pass(&mut driver, MINUTE, None);
    let ended = Request::EndReader { client, job: "train".into() };
    let before = driver.ask(ended.clone());
    assert!(before.is_ok(), "{before:?}");
    pass(&mut driver, Duration::from_secs(320), None);
    let job = &driver.state().jobs()[&job];
    assert!(job.abandoned.contains(0));
    assert_eq!(driver.ask(ended), before);
}

#[test]
fn a_retired_job_comes_back_with_its_own_parameters_only() {
    let mut driver = Driver::with(short());
    let dataset = retired(&mut driver, None);
    let other = GetOrCreateJob { sharding: ShardingPolicy::Off, ..named(&dataset, "train") };
    let refused = driver.refused(Request::GetOrCreateJob(other));
    assert_eq!(refused.code, Code::InvalidArgument);
    assert!(
        refused.message.contains("Existing processing mode: <DYNAMIC>; got <OFF>"),
        "{refused}"
    );
    assert!(all_is_read(&mut driver, &dataset));
}

#[test]
fn a_worker_that_is_never_lost_is_not_said_to_be_alive() {
    let mut driver = Driver::with(Config { worker_timeout: None, ..short() });
    driver.worker("w:1", &[]);
    pass(&mut driver, LONG, None);
    let refused = driver.refused(Request::RemoveWorker { address: "w:1".into() });
    assert_eq!(refused.code, Code::FailedPrecondition);
    assert!(refused.message.contains("no worker counts as lost"), "{refused}");
}

#[test]
fn an_id_that_only_looks_like_a_number_to_come_is_deleted() {
    let mut driver = Driver::with(short());
    for id in ["+1005", "001005"] {
        let id = driver.register(dataset_named(id));
        assert_eq!(driver.ask(Request::DeleteDataset { dataset: id }), Ok(Reply::DatasetDeleted));
    }
    let id = driver.register(dataset_named("1005"));
    let refused = driver.refused(Request::DeleteDataset { dataset: id });
    assert_eq!(refused.code, Code::FailedPrecondition);
}

/// Nothing of it was read to its end, and yet there were passes before.
#[test]
fn a_job_that_begins_at_a_position_of_an_abandoned_one_does_not_say_that_it_continues_none() {
    let mut driver = Driver::with(short());
    driver.worker("w:1", &[]);
    let dataset = driver.register(dataset_named("data"));
    let job = driver.job(named(&dataset, "train"));
    let client = driver.join(job, 0);
    driver.release(client);
    pass(&mut driver, Duration::from_secs(320), None);
    driver.ask(Request::SavePosition { name: "p".into(), job: "train".into() }).unwrap();
    driver.ask(Request::DeleteJob { name: "train".into() }).unwrap();
    let restore = Request::RestorePosition { name: "p".into(), job: "train".into(), wanted: None };
    driver.ask(restore).unwrap();
    let again = driver.job(named(&dataset, "train"));
    let join = Request::GetOrCreateIteration { job: again, repetition: 0 };
    assert_eq!(driver.refused(join).code, Code::FailedPrecondition);
    assert_eq!(driver.state().job_named("train").unwrap().first_id, None);
}

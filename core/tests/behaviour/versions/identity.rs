//! A job and a position stand for one pipeline, whatever became of the id since.

use rondo_core::dispatcher::{GetOrCreateJob, RegisterDataset, Reply, Request, ShardingPolicy};
use rondo_core::ids::DatasetId;
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;

use super::{
    at, config, dataset_of, delete, job, own, read_to_the_end, replacing, to_read, version,
};
use crate::driver::{Driver, Journal};
use crate::world::short;

pub(super) fn same(dataset: &str, name: &str) -> GetOrCreateJob {
    GetOrCreateJob { same_dataset: true, ..job(dataset, name) }
}

/// A request of a reader that is to begin at the position `p`.
pub(super) fn begin(dataset: &str, name: &str) -> Request {
    let wanted = Some(Box::new(same(dataset, name)));
    Request::RestorePosition { name: "p".into(), job: name.into(), wanted }
}

pub(super) fn save(driver: &mut Driver, job: &str) {
    driver.ask(Request::SavePosition { name: "p".into(), job: job.into() }).unwrap();
}

pub(super) fn refuse(driver: &mut Driver, request: Request) -> Status {
    let written = driver.written_upto();
    let refused = driver.refused(request);
    assert_eq!(driver.written_upto(), written, "{refused}");
    assert_eq!(refused.code, Code::FailedPrecondition, "{refused}");
    refused
}

pub(super) fn begin_at(driver: &mut Driver, dataset: &str, job: &str) -> Result<String, Code> {
    let (dataset, job, position) = (DatasetId::new(dataset), Some(job.into()), Some("p".into()));
    match driver.ask(Request::GetVersionToRead { dataset, job, position }) {
        Ok(Reply::Dataset(id)) => Ok(id.to_string()),
        Ok(other) => panic!("{other:?}"),
        Err(status) => Err(status.code),
    }
}

/// The job `train`, which has read all of the dataset `data`, was freed, and its dataset deleted.
pub(super) fn without_its_dataset() -> Driver {
    let (mut driver, reader) = read_to_the_end(short());
    save(&mut driver, "train");
    driver.release(reader);
    driver.advance(Duration::from_secs(3600));
    assert!(driver.state().retired().get("train").is_some());
    driver.ask(delete("data")).unwrap();
    driver
}

#[test]
fn another_pipeline_under_the_id_of_a_freed_jobs_dataset_is_not_what_the_job_has_read() {
    let mut driver = without_its_dataset();
    driver.register(own(4));
    driver.restart();
    let refused = refuse(&mut driver, Request::GetOrCreateJob(same("data", "train")));
    assert_eq!(
        refused.message,
        "job \"train\" reads a former dataset data, with another pipeline than dataset data has now: \
         name another job"
    );
    assert_eq!(to_read(&mut driver, "data", Some("train")), Err(Code::FailedPrecondition));
    driver.ask(Request::DeleteJob { name: "train".into() }).unwrap();
    driver.job(same("data", "train"));
}

#[test]
fn the_pipeline_of_a_freed_job_is_the_same_under_another_id() {
    let mut driver = without_its_dataset();
    driver.register(at("weather", 3));
    assert_eq!(to_read(&mut driver, "weather", Some("train")), Ok("weather".into()));
    let train = driver.job(same("weather", "train"));
    let reader = driver.join(train, 0);
    assert!(driver.client(reader).iteration_finished, "it was read to the end before");
}

#[test]
fn a_job_that_is_there_is_shared_by_readers_of_one_pipeline_under_two_ids() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.register(at("weather", 3));
    let train = driver.job(same("data", "train"));
    assert_eq!(to_read(&mut driver, "weather", Some("train")), Ok("weather".into()));
    assert_eq!(driver.job(same("weather", "train")), train);
    assert_eq!(dataset_of(&driver, "train"), "data");
}

#[test]
fn a_reader_that_would_be_refused_restores_no_position() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    driver.register(own(3));
    driver.register(at("other", 4));
    let train = driver.job(same("data", "train"));
    let reader = driver.join(train, 0);
    save(&mut driver, "train");
    refuse(&mut driver, begin("other", "train"));
    let off = GetOrCreateJob { sharding: ShardingPolicy::Off, ..same("data", "train") };
    let wanted = Some(Box::new(off));
    let written = driver.written_upto();
    let name = || "p".to_owned();
    let request = Request::RestorePosition { name: name(), job: "train".into(), wanted };
    assert_eq!(driver.refused(request).code, Code::InvalidArgument);
    let none = Some(Box::new(same("none", "new")));
    let request = Request::RestorePosition { name: name(), job: "new".into(), wanted: none };
    assert_eq!(driver.refused(request).code, Code::NotFound);
    assert_eq!(driver.written_upto(), written);
    driver.client(reader);
    driver.ask(begin("data", "train")).unwrap();
    let ended = driver.refused(crate::world::client(reader));
    assert_eq!(ended.code, Code::FailedPrecondition, "{ended}");
}

#[test]
fn a_reader_begins_at_a_position_on_the_version_that_the_position_was_saved_of() {
    let (mut driver, _) = read_to_the_end(short());
    save(&mut driver, "train");
    driver.register(replacing(4));
    driver.restart();
    assert_eq!(begin_at(&mut driver, "data", "later"), Ok("data".into()));
    assert_eq!(to_read(&mut driver, "data", Some("later")), Ok(version(4)));
    let refused = refuse(&mut driver, begin(&version(4), "later"));
    let text = format!("position \"p\" was saved of dataset data, not {}", version(4));
    assert_eq!(refused.message, format!("{text}: name another position"));
    driver.ask(begin("data", "later")).unwrap();
    // The job waits there, and another reader of it names no position.
    assert_eq!(to_read(&mut driver, "data", Some("later")), Ok("data".into()));
    refuse(&mut driver, Request::GetOrCreateJob(same(&version(4), "later")));
    driver.job(same("data", "later"));
}

/// An operator may take a job to the position of another: it stays on its own version.
#[test]
fn an_operator_takes_a_job_to_a_position_of_another_version() {
    let (mut driver, _) = read_to_the_end(short());
    save(&mut driver, "train");
    driver.register(replacing(4));
    driver.job(same(&version(4), "new"));
    let name = || "p".to_owned();
    driver.ask(Request::RestorePosition { name: name(), job: "new".into(), wanted: None }).unwrap();
    assert_eq!(to_read(&mut driver, "data", Some("new")), Ok(version(4)));
    driver.job(same(&version(4), "new"));
}

#[test]
fn the_first_pipeline_that_comes_back_is_the_first_version() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.register(replacing(4));
    assert_eq!(driver.register(replacing(3)).as_str(), "data");
    driver.restart();
    assert_eq!(to_read(&mut driver, "data", None), Ok("data".into()));
    assert_eq!(driver.state().datasets().len(), 2);
    driver.ask(delete("data")).unwrap();
    assert_eq!(driver.state().datasets().len(), 0);
}

#[test]
fn the_first_version_is_kept_while_it_is_current_and_others_are_there() {
    let mut driver = Driver::with(config());
    driver.register(own(3));
    driver.register(replacing(4));
    driver.job(job(&version(4), "train"));
    driver.register(replacing(3));
    driver.advance(Duration::from_secs(3600));
    assert!(driver.state().datasets().contains_key(&DatasetId::new("data")));
    driver.ask(Request::DeleteJob { name: "train".into() }).unwrap();
    driver.advance(Duration::from_secs(3600));
    driver.advance(Duration::from_secs(3600));
    assert_eq!(driver.state().datasets().len(), 0);
    assert!(driver.register(own(5)).as_str() == "data", "the name is free");
}

/// A reader that was told of it may be about to ask for it.
#[test]
fn the_version_that_was_current_is_kept_for_a_while_after_it_is_replaced() {
    let mut driver = Driver::with(config());
    driver.register(own(3));
    driver.advance(Duration::from_secs(150));
    let asked = to_read(&mut driver, "data", None).unwrap();
    driver.register(RegisterDataset { replaces: true, ..own(4) });
    driver.advance(Duration::from_secs(60));
    driver.job(same(&asked, "train"));
}

#[test]
fn a_reader_of_a_dataset_that_is_not_there_is_refused_a_job_on_another_one() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.job(same("data", "train"));
    refuse(&mut driver, Request::GetOrCreateJob(same("none", "train")));
    let mut driver = without_its_dataset();
    refuse(&mut driver, Request::GetOrCreateJob(same("none", "train")));
    // Its own is not there either, which is another matter.
    let gone = driver.refused(Request::GetOrCreateJob(same("data", "train")));
    assert_eq!(gone.code, Code::NotFound, "{gone}");
}

#[test]
fn a_reader_that_differs_in_all_is_told_of_the_parameters() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.register(at("other", 4));
    driver.job(same("data", "train"));
    let off = GetOrCreateJob { sharding: ShardingPolicy::Off, ..same("other", "train") };
    let refused = driver.refused(Request::GetOrCreateJob(off));
    assert_eq!(refused.code, Code::InvalidArgument, "{refused}");
}

/// A definition may be registered with other elements.
#[test]
fn of_two_versions_with_one_definition_a_reader_is_told_that_of_its_job() {
    let mut driver = Driver::new();
    driver.register(own(3));
    let mut other = replacing(3);
    other.metadata.cardinality = 99;
    driver.register(other);
    driver.job(same("data", "first"));
    driver.job(same(&version(3), "second"));
    assert_eq!(to_read(&mut driver, "data", Some("first")), Ok("data".into()));
    assert_eq!(to_read(&mut driver, "data", Some("second")), Ok(version(3)));
}

#[test]
fn a_reader_that_asks_for_no_version_is_told_which_one_it_would_have_read() {
    let mut driver = without_its_dataset();
    driver.register(own(4));
    driver.register(replacing(5));
    let (dataset, job) = (DatasetId::new("data"), Some("train".into()));
    let request = Request::GetVersionToRead { dataset, job, position: None };
    let refused = refuse(&mut driver, request);
    let text = format!("job \"train\" reads dataset data, not {}", version(5));
    assert_eq!(refused.message, format!("{text}: name another job"));
}

#[test]
fn a_freed_job_that_was_set_back_stands_for_one_pipeline_too() {
    let mut driver = without_its_dataset();
    let (name, job) = ("p".into(), "train".into());
    driver.ask(Request::RestorePosition { name, job, wanted: None }).unwrap();
    driver.register(own(4));
    refuse(&mut driver, Request::GetOrCreateJob(same("data", "train")));
    driver.register(at("weather", 3));
    driver.job(same("weather", "train"));
}

/// The dispatcher that has the first answer in its journal may not have the dataset there.
#[test]
fn a_reader_under_another_id_waits_until_it_is_surely_of_the_jobs_pipeline() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.job(same("data", "train"));
    driver.journal = Journal::Slow;
    driver.send(Request::RegisterDataset(at("weather", 3)));
    let reader = driver.send(Request::GetOrCreateJob(same("weather", "train")));
    let (dataset, name) = (DatasetId::new("weather"), Some("train".into()));
    let told = driver.send(Request::GetVersionToRead { dataset, job: name, position: None });
    let client = driver.send(Request::GetOrCreateJob(job("weather", "train")));
    assert!(driver.take(client).is_some(), "whatever a client of TensorFlow's registers");
    assert_eq!([driver.take(reader), driver.take(told)], [None, None]);
    driver.sync();
    assert!(matches!(driver.take(told), Some(Ok(Reply::Dataset(_)))));
    assert!(matches!(driver.take(reader), Some(Ok(Reply::Job(_)))));
}

#[test]
fn a_graph_is_answered_by_the_dataset_of_exactly_its_id() {
    let mut driver = Driver::new();
    let first = own(3);
    driver.register(first.clone());
    let mut second = replacing(4);
    second.metadata.cardinality = 99;
    driver.register(second);
    let registered =
        Request::GetRegistered { dataset: DatasetId::new("data"), metadata: first.metadata };
    assert_eq!(driver.ask(registered), Ok(Reply::Dataset(DatasetId::new("data"))));
}

#[test]
fn the_report_says_that_the_first_version_is_current_again() {
    let mut driver = Driver::new();
    for splits in [3, 4, 3] {
        driver.register(replacing(splits));
    }
    let Ok(Reply::Report(report)) = driver.ask(Request::Report) else { panic!("no report") };
    let current: Vec<_> = report.datasets.into_iter().map(|of| (of.id, of.current)).collect();
    assert_eq!(current, [("data".into(), true), (version(4), false)]);
}

#[test]
fn of_two_versions_with_one_definition_a_reader_under_another_id_is_told_the_current_one() {
    let mut driver = Driver::new();
    driver.register(at("weather", 3));
    driver.job(same("weather", "train"));
    driver.register(own(3));
    let mut other = replacing(3);
    other.metadata.cardinality = 99;
    driver.register(other);
    assert_eq!(to_read(&mut driver, "data", Some("train")), Ok(version(3)));
}

/// Its job is on the same pipeline under another id.
#[test]
fn a_dataset_that_a_reader_asks_for_is_used() {
    let mut driver = Driver::with(config());
    driver.register(own(3));
    driver.register(at("weather", 3));
    driver.job(same("data", "train"));
    for _ in 0..60 {
        driver.job(same("weather", "train"));
        driver.advance(Duration::from_secs(60));
    }
    assert_eq!(to_read(&mut driver, "weather", Some("train")), Ok("weather".into()));
}

#[test]
fn a_former_version_comes_back_under_its_own_id_too() {
    let mut driver = Driver::new();
    for splits in [3, 4, 5] {
        driver.register(replacing(splits));
    }
    let by_its_id = RegisterDataset { replaces: true, ..at(&version(4), 4) };
    assert_eq!(driver.register(by_its_id).as_str(), version(4));
    assert_eq!(to_read(&mut driver, "data", None), Ok(version(4)));
}

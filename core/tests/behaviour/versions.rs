//! Datasets that are replaced, and readers that ask for a job on another dataset.

mod freeing;
mod identity;
mod records;
mod waiting;

use rondo_core::dispatcher::{
    Bounds, Compression, Config, GetOrCreateJob, Record, RegisterDataset, Reply, Request,
    SplitSource, State,
};
use rondo_core::ids::{ClientId, DatasetId, Digest, Lsn};
use rondo_core::status::Code;
use rondo_core::time::{Duration, Time};

use crate::driver::Driver;
use crate::world::{self, dataset, short};

/// A pipeline of Rondo's own with so many splits.
fn own(splits: i64) -> RegisterDataset {
    let mut request = dataset(&[SplitSource::counting(splits)]);
    request.definition.digest = Digest::new([splits as u8; 32]);
    RegisterDataset { wished: Some(DatasetId::new("data")), own: true, ..request }
}

fn at(name: &str, splits: i64) -> RegisterDataset {
    RegisterDataset { wished: Some(DatasetId::new(name)), ..own(splits) }
}

fn replacing(splits: i64) -> RegisterDataset {
    RegisterDataset { replaces: true, ..own(splits) }
}

fn job(dataset: &str, name: &str) -> GetOrCreateJob {
    world::named(&DatasetId::new(dataset), name)
}

fn dataset_of(driver: &Driver, name: &str) -> String {
    driver.state().job_named(name).unwrap().dataset.to_string()
}

fn config() -> Config {
    let dataset_retention = Some(Duration::from_secs(120));
    Config { dataset_retention, named_job_retention: None, ..short() }
}

/// The version that the dispatcher tells a reader to read.
fn to_read(driver: &mut Driver, dataset: &str, job: Option<&str>) -> Result<String, Code> {
    let (dataset, job) = (DatasetId::new(dataset), job.map(Into::into));
    match driver.ask(Request::GetVersionToRead { dataset, job, position: None }) {
        Ok(Reply::Dataset(id)) => Ok(id.to_string()),
        Ok(other) => panic!("{other:?}"),
        Err(status) => Err(status.code),
    }
}

fn definition(driver: &mut Driver, id: &str) -> Digest {
    match driver.ask(Request::GetDefinition { dataset: DatasetId::new(id) }) {
        Ok(Reply::Definition(definition)) => definition.digest,
        other => panic!("{other:?}"),
    }
}

/// The job `train` on the first version, which its reader has read to the end.
fn read_to_the_end(config: Config) -> (Driver, ClientId) {
    let mut driver = Driver::with(config);
    driver.worker("w:1", &[]);
    driver.register(own(3));
    let train = driver.job(job("data", "train"));
    let reader = driver.join(train, 0);
    let task = driver.worker("w:1", &[]).new_tasks[0].task;
    driver.finish("w:1", task);
    (driver, reader)
}

/// The id of the version with so many splits.
fn version(splits: u8) -> String {
    format!("data@{}", format!("{splits:02x}").repeat(8))
}

fn digest(splits: u8) -> Digest {
    Digest::new([splits; 32])
}

fn delete(id: &str) -> Request {
    Request::DeleteDataset { dataset: DatasetId::new(id) }
}

#[test]
fn a_job_keeps_the_version_that_it_was_created_on() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    driver.register(own(3));
    let old = driver.job(job("data", "old"));
    assert_eq!(driver.register(replacing(4)).as_str(), version(4));
    assert_eq!(driver.register(replacing(5)).as_str(), version(5));
    let new = to_read(&mut driver, "data", Some("new")).unwrap();
    let new = driver.job(job(&new, "new"));
    driver.restart();
    assert_eq!(dataset_of(&driver, "old"), "data");
    assert_eq!(dataset_of(&driver, "new"), version(5));
    driver.join(old, 0);
    driver.join(new, 0);
    let tasks = driver.worker("w:1", &[]).new_tasks;
    let read: Vec<(String, Digest)> =
        tasks.iter().map(|it| (it.dataset.to_string(), it.definition.digest)).collect();
    assert_eq!(read, [("data".into(), digest(3)), (version(5), digest(5))]);
    // A worker asks for exactly what its task names.
    assert_eq!(definition(&mut driver, "data"), digest(3));
    assert_eq!(definition(&mut driver, &version(5)), digest(5));
}

#[test]
fn readers_of_a_job_are_told_its_version_and_others_the_current_one() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.job(job("data", "old"));
    driver.register(replacing(4));
    driver.job(job(&version(4), "middle"));
    driver.register(replacing(5));
    let (old, middle, current) = ("data".to_owned(), version(4), version(5));
    assert_eq!(to_read(&mut driver, "data", Some("old")), Ok(old));
    assert_eq!(to_read(&mut driver, "data", Some("middle")), Ok(middle.clone()));
    assert_eq!(to_read(&mut driver, &middle, Some("middle")), Ok(middle.clone()));
    assert_eq!(to_read(&mut driver, "data", Some("new")), Ok(current.clone()));
    assert_eq!(to_read(&mut driver, "data", None), Ok(current.clone()));
    assert_eq!(to_read(&mut driver, &middle, None), Ok(middle.clone()));
    assert_eq!(to_read(&mut driver, &current, Some("old")), Err(Code::FailedPrecondition));
    assert_eq!(to_read(&mut driver, "none", Some("old")), Err(Code::NotFound));
    assert_eq!(to_read(&mut driver, "none", None), Err(Code::NotFound));
}

#[test]
fn a_reader_is_not_given_a_job_on_another_dataset() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.register(at("other", 9));
    let created = driver.job(job("data", "train"));
    let same = |dataset: &str| GetOrCreateJob { same_dataset: true, ..job(dataset, "train") };
    let refused = driver.refused(Request::GetOrCreateJob(same("other")));
    assert_eq!(refused.code, Code::FailedPrecondition);
    assert_eq!(refused.message, "job \"train\" reads dataset data, not other: name another job");
    assert_eq!(to_read(&mut driver, "other", Some("train")), Err(Code::FailedPrecondition));
    driver.register(replacing(4));
    // Asked again after its answer was lost, a request means what it meant before.
    assert_eq!(driver.job(same("data")), created);
    let refused = driver.refused(Request::GetOrCreateJob(same(&version(4))));
    assert_eq!(refused.code, Code::FailedPrecondition);
    // TensorFlow's clients register a dataset each, and share the job.
    assert_eq!(driver.job(job("other", "train")), created);
}

/// It asks for the version, the definition and the job, one after the other.
#[test]
fn a_reader_keeps_its_version_when_the_dataset_is_replaced_while_it_is_opened() {
    let mut driver = Driver::new();
    driver.register(own(3));
    let asked = to_read(&mut driver, "data", Some("train")).unwrap();
    driver.register(replacing(4));
    assert_eq!(definition(&mut driver, &asked), digest(3));
    driver.register(replacing(5));
    driver.job(GetOrCreateJob { same_dataset: true, ..job(&asked, "train") });
    assert_eq!(dataset_of(&driver, "train"), "data");
}

/// A reader of a former release asks for no version.
#[test]
fn an_id_means_one_dataset_in_every_request() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.register(replacing(4));
    assert_eq!(definition(&mut driver, "data"), digest(3));
    driver.job(job("data", "train"));
    assert_eq!(dataset_of(&driver, "train"), "data");
}

#[test]
fn replacing_a_dataset_by_itself_changes_nothing_and_a_former_version_comes_back() {
    let mut driver = Driver::new();
    assert_eq!(driver.register(replacing(3)).as_str(), "data");
    let written = driver.written_upto();
    assert_eq!(driver.register(replacing(3)).as_str(), "data");
    driver.register(replacing(4));
    assert_eq!(driver.register(replacing(4)).as_str(), version(4));
    assert_eq!(driver.register(own(4)).as_str(), version(4));
    assert_eq!(driver.written_upto().get(), written.get() + 1);
    assert_eq!(driver.refused(Request::RegisterDataset(own(3))).code, Code::FailedPrecondition);
    driver.register(replacing(5));
    assert_eq!(driver.register(replacing(4)).as_str(), version(4));
    assert_eq!(to_read(&mut driver, "data", None), Ok(version(4)));
    assert_eq!(driver.state().datasets().len(), 3);
    driver.restart();
    assert_eq!(to_read(&mut driver, "data", None), Ok(version(4)));
}

#[test]
fn a_version_is_replaced_as_the_dataset_that_it_is_of() {
    let mut driver = Driver::new();
    let by_id = |id: &str, splits| RegisterDataset {
        wished: Some(DatasetId::new(id)),
        ..replacing(splits)
    };
    for splits in [3, 4, 5, 6] {
        driver.register(replacing(splits));
    }
    driver.ask(delete(&version(5))).unwrap();
    assert_eq!(driver.register(by_id(&version(4), 7)).as_str(), version(7));
    assert_eq!(to_read(&mut driver, "data", None), Ok(version(7)));
    assert_eq!(driver.register(by_id(&version(4), 5)).as_str(), version(5));
}

#[test]
fn a_version_whose_id_somebody_has_chosen_is_that_dataset_or_refused() {
    let mut driver = Driver::new();
    let chosen =
        |id: String, splits| RegisterDataset { wished: Some(DatasetId::new(id)), ..own(splits) };
    driver.register(chosen(version(4), 9));
    driver.register(own(3));
    let refused = driver.refused(Request::RegisterDataset(replacing(4)));
    assert_eq!(refused.code, Code::FailedPrecondition);
    driver.register(chosen(version(5), 5));
    assert_eq!(driver.register(replacing(5)).as_str(), version(5));
    assert_eq!(driver.state().datasets().len(), 3);
    assert_eq!(definition(&mut driver, &version(4)), digest(9));
}

/// TensorFlow's graphs differ from process to process, and are registered as they ever were.
#[test]
fn only_pipelines_of_rondos_own_have_versions() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.register(replacing(4));
    let graph = |splits| RegisterDataset { own: false, ..replacing(splits) };
    assert_eq!(driver.register(graph(6)).as_str(), "data");
    assert_eq!(definition(&mut driver, "data"), digest(3));
    let first = RegisterDataset { wished: Some(DatasetId::new("data@1")), ..graph(6) };
    assert_eq!(driver.register(first).as_str(), "data@1");
    assert_eq!(definition(&mut driver, "data@1"), digest(6));
}

#[test]
fn other_elements_are_a_new_version_too() {
    let mut driver = Driver::new();
    driver.register(own(3));
    let mut other = replacing(4);
    other.metadata.structure = Digest::new([7; 32]);
    other.metadata.compression = Compression::Off;
    assert_eq!(driver.register(other.clone()).as_str(), version(4));
    // One pipeline has one structure.
    other.metadata.structure = Digest::new([8; 32]);
    driver.register(replacing(5));
    assert_eq!(driver.refused(Request::RegisterDataset(other)).code, Code::InvalidArgument);
}

#[test]
fn a_dataset_is_deleted_with_all_its_versions() {
    let mut driver = Driver::with(config());
    driver.register(own(3));
    driver.register(replacing(4));
    driver.job(job(&version(4), "train"));
    driver.register(replacing(5));
    let refused = driver.refused(delete("data"));
    assert!(refused.message.contains("job \"train\""), "{refused:?}");
    let refused = driver.refused(delete(&version(5)));
    assert_eq!(refused.code, Code::FailedPrecondition);
    assert!(refused.message.contains("current version of dataset data"), "{refused:?}");
    assert_eq!(driver.state().datasets().len(), 3);
    driver.ask(Request::DeleteJob { name: "train".into() }).unwrap();
    driver.ask(delete(&version(4))).unwrap();
    assert_eq!(driver.state().datasets().len(), 2);
    driver.ask(delete("data")).unwrap();
    assert!(driver.state().datasets().is_empty() && driver.state().versions().is_empty());
    driver.restart();
    assert_eq!(driver.register(own(9)).as_str(), "data");
    assert_eq!(to_read(&mut driver, "data", None), Ok("data".into()));
}

#[test]
fn the_current_version_stays_while_another_one_is_read() {
    let mut driver = Driver::with(config());
    driver.register(own(3));
    driver.job(job("data", "train"));
    driver.register(replacing(4));
    driver.register(replacing(5));
    driver.advance(Duration::from_secs(10 * 60));
    // Nobody reads the second version, and the name means the third.
    assert_eq!(driver.state().datasets().len(), 2);
    assert_eq!(to_read(&mut driver, "data", None), Ok(version(5)));
    driver.ask(Request::DeleteJob { name: "train".into() }).unwrap();
    driver.advance(Duration::from_secs(20 * 60));
    assert!(driver.state().datasets().is_empty() && driver.state().versions().is_empty());
}

/// The reader that comes back has read records of the version that it began with.
#[test]
fn a_freed_job_comes_back_on_its_own_version_only() {
    let (mut driver, reader) = read_to_the_end(short());
    driver.release(reader);
    driver.register(replacing(4));
    driver.advance(Duration::from_secs(3600));
    assert!(driver.state().retired().get("train").is_some());
    driver.restart();
    assert_eq!(to_read(&mut driver, "data", Some("train")), Ok("data".into()));
    assert_eq!(to_read(&mut driver, &version(4), Some("train")), Err(Code::FailedPrecondition));
    let same = |dataset: &str| GetOrCreateJob { same_dataset: true, ..job(dataset, "train") };
    let refused = driver.refused(Request::GetOrCreateJob(same(&version(4))));
    assert!(refused.message.contains("job \"train\" reads dataset data, not data@"), "{refused:?}");
    driver.ask(Request::DeleteJob { name: "train".into() }).unwrap();
    assert_eq!(to_read(&mut driver, "data", Some("train")), Ok(version(4)));
    driver.job(same(&version(4)));
}

#[test]
fn the_report_says_which_version_is_current() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.register(RegisterDataset { wished: Some(DatasetId::new("other")), ..own(3) });
    driver.register(replacing(4));
    let Ok(Reply::Report(report)) = driver.ask(Request::Report) else { panic!("no report") };
    let of = |dataset: &rondo_core::dispatcher::DatasetReport| {
        (dataset.id.clone(), dataset.version_of.clone(), dataset.current)
    };
    let data = || Some("data".to_owned());
    let expected =
        [("data".into(), data(), false), (version(4), data(), true), ("other".into(), None, true)];
    assert_eq!(report.datasets.iter().map(of).collect::<Vec<_>>(), expected);
}

#[test]
fn a_record_of_no_version_is_refused() {
    let mut state = State::default();
    let made = own(3);
    let record = Record::ReplaceDataset {
        name: DatasetId::new("data"),
        id: DatasetId::new("other"),
        at: Time::ZERO,
        definition: made.definition,
        plan: made.plan,
        metadata: made.metadata,
    };
    let error = state.apply(Lsn::new(1), &record).unwrap_err();
    assert!(error.to_string().contains("other is no version of dataset data"), "{error}");
    assert_eq!(state, State::default());
}

/// The name of a dataset may have an `@` itself.
#[test]
fn a_dataset_whose_name_looks_like_a_versions_is_replaced_like_any_other() {
    let mut driver = Driver::new();
    driver.register(at("data@mine", 3));
    let replacing = |splits| RegisterDataset { replaces: true, ..at("data@mine", splits) };
    let id = driver.register(replacing(4)).to_string();
    assert_eq!(id, format!("data@mine@{}", "04".repeat(8)));
    assert_eq!(to_read(&mut driver, "data@mine", None), Ok(id.clone()));
    driver.job(job(&id, "train"));
    assert_eq!(to_read(&mut driver, "data@mine", Some("train")), Ok(id));
}

#[test]
fn a_dataset_with_the_id_of_a_version_is_one_only_if_it_was_made_so() {
    let mut driver = Driver::new();
    driver.register(at("data@mine", 3));
    driver.register(own(3));
    driver.register(replacing(4));
    let id = driver.register(RegisterDataset { replaces: true, ..at("data@mine", 5) });
    assert_eq!(id.as_str(), format!("data@mine@{}", "05".repeat(8)));
    assert_eq!(to_read(&mut driver, "data", None), Ok(version(4)));
}

#[test]
fn the_same_definition_with_other_elements_is_not_the_same_pipeline() {
    let mut driver = Driver::new();
    driver.register(own(3));
    let mut other = replacing(3);
    other.metadata.cardinality = 99;
    assert_eq!(driver.register(other.clone()).as_str(), version(3));
    assert_eq!(to_read(&mut driver, "data", None), Ok(version(3)));
    other.metadata.cardinality = 98;
    assert_eq!(driver.refused(Request::RegisterDataset(other)).code, Code::InvalidArgument);
}

#[test]
fn a_version_needs_room_like_any_dataset() {
    let bounds = Bounds { datasets: 2, ..Bounds::default() };
    let mut driver = Driver::with(Config { bounds, ..Config::default() });
    driver.register(own(3));
    driver.register(replacing(4));
    let refused = driver.refused(Request::RegisterDataset(replacing(5)));
    assert_eq!(refused.code, Code::ResourceExhausted);
    assert_eq!(to_read(&mut driver, "data", None), Ok(version(4)));
}

#[test]
fn one_pipeline_of_rondos_own_has_one_structure() {
    let mut driver = Driver::new();
    driver.register(own(3));
    let mut other = own(3);
    other.metadata.structure = Digest::new([7; 32]);
    assert_eq!(driver.refused(Request::RegisterDataset(other)).code, Code::InvalidArgument);
}

#[test]
fn a_refused_pipeline_is_told_which_version_is_there() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.register(replacing(4));
    let refused = driver.refused(Request::RegisterDataset(own(3)));
    assert!(refused.message.contains(&version(4)), "{refused:?}");
}

#[test]
fn a_dataset_in_use_says_how_many_jobs_it_has() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.register(replacing(4));
    for name in ["a", "b", "c"] {
        driver.job(job(&version(4), name));
    }
    driver.job(job("data", "d"));
    let refused = driver.refused(delete(&version(4)));
    assert!(refused.message.contains("by job \"a\" and 2 others"), "{refused:?}");
}

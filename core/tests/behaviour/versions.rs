//! Datasets that are replaced, and readers that ask for a job on another dataset.

use rondo_core::dispatcher::{
    Compression, Config, GetOrCreateJob, RegisterDataset, Reply, Request, ShardingPolicy,
    SplitSource,
};
use rondo_core::ids::{DatasetId, Digest, TaskId};
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::driver::Driver;
use crate::world::{self, dataset, short};

/// A pipeline of Rondo's own with so many splits.
fn own(splits: i64) -> RegisterDataset {
    let mut request = dataset(&[SplitSource::counting(splits)]);
    request.definition.digest = Digest::new([splits as u8; 32]);
    RegisterDataset { wished: Some(DatasetId::new("data")), own: true, ..request }
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

/// What a reader of a dataset and a job is told to read.
fn to_read(driver: &mut Driver, dataset: &str, job: Option<&str>) -> Result<String, Code> {
    let (dataset, job) = (DatasetId::new(dataset), job.map(Into::into));
    match driver.ask(Request::GetVersionToRead { dataset, job }) {
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

#[test]
fn a_job_keeps_the_version_that_it_was_created_on() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    driver.register(own(3));
    let old = driver.job(job("data", "old"));
    assert_eq!(driver.register(replacing(4)), DatasetId::new("data@2"));
    assert_eq!(driver.register(replacing(5)), DatasetId::new("data@3"));
    let new = driver.job(job("data", "new"));
    driver.restart();
    assert_eq!(dataset_of(&driver, "old"), "data");
    assert_eq!(dataset_of(&driver, "new"), "data@3");
    driver.join(old, 0);
    driver.join(new, 0);
    let told: Vec<TaskId> = driver.worker("w:1", &[]).new_tasks.iter().map(|it| it.task).collect();
    assert_eq!(told.len(), 2);
    let tasks = driver.worker("w:1", &[]).new_tasks;
    let read: Vec<(String, Digest)> =
        tasks.iter().map(|it| (it.dataset.to_string(), it.definition.digest)).collect();
    let digest = |splits| Digest::new([splits; 32]);
    assert_eq!(read, [("data".into(), digest(3)), ("data@3".into(), digest(5))]);
    // A worker asks for exactly what its task names.
    assert_eq!(definition(&mut driver, "data"), digest(3));
    assert_eq!(definition(&mut driver, "data@3"), digest(5));
}

#[test]
fn readers_of_a_job_are_told_its_version_and_others_the_newest() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.job(job("data", "old"));
    assert_eq!(to_read(&mut driver, "data", Some("old")), Ok("data@1".into()));
    driver.register(replacing(4));
    assert_eq!(to_read(&mut driver, "data", Some("old")), Ok("data@1".into()));
    assert_eq!(to_read(&mut driver, "data@1", Some("old")), Ok("data@1".into()));
    assert_eq!(to_read(&mut driver, "data", Some("new")), Ok("data@2".into()));
    assert_eq!(to_read(&mut driver, "data", None), Ok("data@2".into()));
    assert_eq!(to_read(&mut driver, "data@2", Some("old")), Err(Code::FailedPrecondition));
    assert_eq!(to_read(&mut driver, "none", None), Err(Code::NotFound));
    assert_eq!(definition(&mut driver, "data@1"), Digest::new([3; 32]));
    // `data@1` is the first version wherever a dataset is named.
    driver.job(job("data@1", "first"));
    assert_eq!(dataset_of(&driver, "first"), "data");
}

#[test]
fn a_reader_is_not_given_a_job_on_another_dataset() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.register(RegisterDataset { wished: Some(DatasetId::new("other")), ..own(3) });
    let created = driver.job(job("data", "train"));
    let same = |dataset: &str| GetOrCreateJob { same_dataset: true, ..job(dataset, "train") };
    let refused = driver.refused(Request::GetOrCreateJob(same("other")));
    assert_eq!(refused.code, Code::FailedPrecondition);
    assert_eq!(
        refused.message,
        "job \"train\" reads dataset \"data\", not \"other\": name another job"
    );
    assert_eq!(to_read(&mut driver, "other", Some("train")), Err(Code::FailedPrecondition));
    assert_eq!(driver.job(same("data")), created);
    driver.register(replacing(4));
    let refused = driver.refused(Request::GetOrCreateJob(same("data")));
    assert!(refused.message.contains("reads dataset \"data@1\", not \"data\""), "{refused:?}");
    assert_eq!(driver.job(same("data@1")), created);
    // TensorFlow's clients register a dataset each, and share the job.
    assert_eq!(driver.job(job("other", "train")), created);
}

#[test]
fn replacing_a_dataset_by_itself_changes_nothing() {
    let mut driver = Driver::new();
    assert_eq!(driver.register(replacing(3)), DatasetId::new("data"));
    let written = driver.written_upto();
    assert_eq!(driver.register(replacing(3)), DatasetId::new("data"));
    driver.register(replacing(4));
    assert_eq!(driver.register(replacing(4)), DatasetId::new("data@2"));
    assert_eq!(driver.register(own(4)), DatasetId::new("data@2"));
    assert_eq!(driver.written_upto().get(), written.get() + 1);
    // The first pipeline comes back as a version of its own.
    assert_eq!(driver.refused(Request::RegisterDataset(own(3))).code, Code::FailedPrecondition);
    assert_eq!(driver.register(replacing(3)), DatasetId::new("data@3"));
    // A version is replaced as the dataset that it is of.
    let by_version = RegisterDataset { wished: Some(DatasetId::new("data@3")), ..replacing(5) };
    assert_eq!(driver.register(by_version), DatasetId::new("data@4"));
}

#[test]
fn a_new_version_takes_no_id_that_somebody_has_chosen() {
    let mut driver = Driver::new();
    driver.register(RegisterDataset { wished: Some(DatasetId::new("data@2")), ..own(9) });
    driver.register(own(3));
    assert_eq!(driver.register(replacing(4)), DatasetId::new("data@3"));
    assert_eq!(definition(&mut driver, "data@2"), Digest::new([9; 32]));
}

#[test]
fn other_elements_are_a_new_version_too() {
    let mut driver = Driver::new();
    driver.register(own(3));
    let mut other = replacing(3);
    other.metadata.structure = Digest::new([7; 32]);
    assert_eq!(driver.register(other), DatasetId::new("data@2"));
}

#[test]
fn a_dataset_is_deleted_with_all_its_versions() {
    let mut driver = Driver::with(config());
    driver.register(own(3));
    driver.register(replacing(4));
    driver.job(job("data", "train"));
    driver.register(replacing(5));
    let delete = |id: &str| Request::DeleteDataset { dataset: DatasetId::new(id) };
    let refused = driver.refused(delete("data"));
    assert!(refused.message.contains("job \"train\""), "{refused:?}");
    let refused = driver.refused(delete("data@3"));
    assert_eq!(refused.code, Code::FailedPrecondition);
    assert!(refused.message.contains("newest version of dataset data"), "{refused:?}");
    assert_eq!(driver.state().datasets().len(), 3);
    driver.ask(delete("data@1")).unwrap();
    assert_eq!(driver.state().datasets().len(), 2);
    driver.ask(Request::DeleteJob { name: "train".into() }).unwrap();
    driver.ask(delete("data")).unwrap();
    assert!(driver.state().datasets().is_empty());
    assert_eq!(driver.register(own(3)), DatasetId::new("data"));
    driver.restart();
    assert_eq!(to_read(&mut driver, "data", None), Ok("data@1".into()));
}

#[test]
fn the_newest_version_stays_while_an_older_one_is_read() {
    let mut driver = Driver::with(config());
    driver.register(own(3));
    driver.job(job("data", "train"));
    driver.register(replacing(4));
    driver.register(replacing(5));
    driver.advance(Duration::from_secs(10 * 60));
    // Nobody reads the second version. The third is what the id means.
    assert_eq!(driver.state().datasets().len(), 2);
    assert_eq!(to_read(&mut driver, "data", None), Ok("data@3".into()));
    driver.ask(Request::DeleteJob { name: "train".into() }).unwrap();
    driver.advance(Duration::from_secs(20 * 60));
    assert!(driver.state().datasets().is_empty());
}

#[test]
fn the_report_names_each_version() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.job(job("data", "train"));
    driver.register(replacing(4));
    let Ok(Reply::Report(report)) = driver.ask(Request::Report) else { panic!("no report") };
    let names: Vec<&str> = report.datasets.iter().map(|dataset| &*dataset.id).collect();
    assert_eq!(names, ["data@1", "data@2"]);
    assert_eq!(report.jobs[0].dataset, "data@1");
}

#[test]
fn static_jobs_read_the_newest_version_too() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.register(replacing(4));
    let off = GetOrCreateJob { sharding: ShardingPolicy::Off, ..job("data", "off") };
    driver.job(off);
    assert_eq!(dataset_of(&driver, "off"), "data@2");
}

#[test]
fn versions_have_one_decision_on_compression() {
    let mut driver = Driver::new();
    let disable =
        |id: &str, disable| Request::DisableCompression { dataset: DatasetId::new(id), disable };
    let told = |disabled| Ok(Reply::Compression(Some(disabled)));
    driver.register(own(3));
    driver.register(replacing(4));
    // A client of the first version, and a worker that has a task of it.
    assert_eq!(driver.ask(disable("data", true)), told(true));
    assert_eq!(driver.ask(disable("data@1", false)), told(true));
    driver.register(replacing(5));
    for version in ["data", "data@1", "data@2", "data@3"] {
        assert_eq!(driver.ask(disable(version, false)), told(true), "{version}");
    }
    let mut other = replacing(6);
    other.metadata.compression = Compression::Off;
    let refused = driver.refused(Request::RegisterDataset(other));
    assert_eq!(refused.code, Code::InvalidArgument);
}

/// It asks for the version, the definition and the job, one after the other.
#[test]
fn a_reader_keeps_its_version_when_the_dataset_is_replaced_while_it_is_opened() {
    let mut driver = Driver::new();
    driver.register(own(3));
    let version = to_read(&mut driver, "data", Some("train")).unwrap();
    driver.register(replacing(4));
    assert_eq!(definition(&mut driver, &version), Digest::new([3; 32]));
    driver.register(replacing(5));
    driver.job(GetOrCreateJob { same_dataset: true, ..job(&version, "train") });
    assert_eq!(dataset_of(&driver, "train"), "data");
}

#[test]
fn a_dataset_that_somebody_called_as_a_first_version_is_itself() {
    let mut driver = Driver::new();
    driver.register(RegisterDataset { wished: Some(DatasetId::new("data@1")), ..own(9) });
    driver.register(own(3));
    let version = to_read(&mut driver, "data", None).unwrap();
    assert_eq!(definition(&mut driver, &version), Digest::new([3; 32]));
    assert_eq!(definition(&mut driver, "data@1"), Digest::new([9; 32]));
}

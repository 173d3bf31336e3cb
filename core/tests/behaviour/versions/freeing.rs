//! Versions that stay, go and come back, and jobs that were freed.

use rondo_core::dispatcher::{Bounds, Config, GetOrCreateJob, Reply, Request};
use rondo_core::ids::DatasetId;
use rondo_core::status::Code;
use rondo_core::time::Duration;

use super::{at, config, delete, job, own, read_to_the_end, replacing, to_read, version};
use crate::driver::Driver;
use crate::world::short;

/// A job named `train` on the first version, read to its end, saved, and freed; and a second version,
/// for which somebody has use.
fn retired(config: Config) -> Driver {
    let (mut driver, reader) = read_to_the_end(config);
    driver.ask(Request::SavePosition { name: "p".into(), job: "train".into() }).unwrap();
    driver.release(reader);
    for _ in 0..60 {
        driver.register(replacing(4));
        driver.advance(Duration::from_secs(60));
    }
    assert!(driver.state().retired().get("train").is_some());
    driver
}

#[test]
fn a_reader_of_a_freed_job_is_not_sent_to_another_version_when_its_own_is_gone() {
    let dataset_retention = Some(Duration::from_secs(120));
    let mut driver = retired(Config { dataset_retention, ..short() });
    assert!(!driver.state().datasets().contains_key(&DatasetId::new("data")));
    assert_eq!(to_read(&mut driver, "data", Some("train")), Err(Code::FailedPrecondition));
}

#[test]
fn a_freed_job_that_is_set_back_keeps_its_version() {
    let mut driver = retired(short());
    driver
        .ask(Request::RestorePosition { name: "p".into(), job: "train".into(), wanted: None })
        .unwrap();
    assert_eq!(to_read(&mut driver, "data", Some("train")), Ok("data".into()));
    let same = GetOrCreateJob { same_dataset: true, ..job(&version(4), "train") };
    assert_eq!(driver.refused(Request::GetOrCreateJob(same)).code, Code::FailedPrecondition);
}

#[test]
fn the_report_tells_what_of_a_freed_job_was_read() {
    let mut driver = retired(short());
    let Ok(Reply::Report(report)) = driver.ask(Request::Report) else { panic!("no report") };
    let freed = report.freed_jobs.first().unwrap();
    assert_eq!((freed.name.as_str(), freed.abandoned.len()), ("train", 0));
    assert_eq!(freed.finished, ["0"]);
}

/// As it shares a job that is there.
#[test]
fn a_client_of_tensorflows_comes_back_to_a_freed_job_with_a_dataset_of_its_own() {
    let mut driver = retired(short());
    driver.register(at("other", 3));
    let train = driver.job(job("other", "train"));
    let reader = driver.join(train, 0);
    assert!(driver.client(reader).iteration_finished);
}

#[test]
fn a_former_version_that_comes_back_is_kept_as_long_as_a_new_one() {
    let mut driver = Driver::with(config());
    for splits in [3, 4, 5] {
        driver.register(replacing(splits));
    }
    driver.advance(Duration::from_secs(170));
    assert_eq!(driver.register(replacing(4)).as_str(), version(4));
    driver.advance(Duration::from_secs(100));
    let left: Vec<&str> = driver.state().datasets().keys().map(DatasetId::as_str).collect();
    assert_eq!(left, [version(4), version(5)]);
}

/// The ids' order is another one.
#[test]
fn the_current_version_is_deleted_last_whatever_its_id() {
    for order in [[4, 5, 6], [6, 5, 4], [4, 6, 5]] {
        let mut driver = Driver::new();
        driver.register(own(3));
        for splits in order {
            driver.register(replacing(splits));
        }
        driver.ask(delete("data")).unwrap();
        assert!(driver.state().datasets().is_empty() && driver.state().versions().is_empty());
    }
}

#[test]
fn a_dataset_is_deleted_by_its_name_when_its_first_version_is_gone() {
    let mut driver = Driver::with(config());
    for splits in [3, 4, 5] {
        driver.register(replacing(splits));
    }
    driver.job(job(&version(4), "train"));
    driver.advance(Duration::from_secs(10 * 60));
    assert!(!driver.state().datasets().contains_key(&DatasetId::new("data")));
    assert_eq!(driver.refused(delete("data")).code, Code::FailedPrecondition);
    driver.ask(Request::DeleteJob { name: "train".into() }).unwrap();
    assert_eq!(to_read(&mut driver, "data", None), Ok(version(5)));
    driver.ask(delete("data")).unwrap();
    assert!(driver.state().datasets().is_empty() && driver.state().versions().is_empty());
    assert_eq!(driver.refused(delete("data")).code, Code::NotFound);
}

#[test]
fn a_version_that_must_stay_does_not_keep_others() {
    let bounds = Bounds { expiries_per_step: 1, ..Bounds::default() };
    let mut driver = Driver::with(Config { bounds, ..config() });
    driver.register(own(3));
    driver.job(job("data", "train"));
    driver.register(replacing(4));
    driver.advance(Duration::from_secs(10));
    driver.register(at("other", 3));
    driver.advance(Duration::from_secs(10 * 60));
    assert!(driver.state().datasets().contains_key(&DatasetId::new(version(4))));
    assert!(!driver.state().datasets().contains_key(&DatasetId::new("other")));
}

#[test]
fn replacing_a_dataset_by_itself_is_a_use_of_it() {
    let mut driver = Driver::with(config());
    for _ in 0..10 {
        driver.register(replacing(3));
        driver.advance(Duration::from_secs(60));
    }
    let written = driver.written_upto();
    driver.register(replacing(3));
    assert_eq!(driver.written_upto().get(), written.get() + 1, "the use is noted");
    assert_eq!(driver.state().datasets().len(), 1);
}

/// Also when nothing but its own use keeps it.
#[test]
fn a_former_version_that_comes_back_is_used_from_then_on() {
    let mut driver = Driver::with(config());
    for splits in [3, 4, 5] {
        driver.register(replacing(splits));
    }
    driver.advance(Duration::from_secs(100));
    assert_eq!(driver.register(replacing(4)).as_str(), version(4));
    driver.ask(delete(&version(5))).unwrap();
    driver.advance(Duration::from_secs(150));
    let left: Vec<&str> = driver.state().datasets().keys().map(DatasetId::as_str).collect();
    assert_eq!(left, [version(4)]);
}

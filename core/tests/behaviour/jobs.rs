//! Jobs by name and without.

use rondo_core::dispatcher::{GetOrCreateJob, Request, ShardingPolicy, TargetWorkers};
use rondo_core::ids::{DatasetId, JobId};
use rondo_core::status::Code;

use crate::driver::Driver;
use crate::world::{dataset, job};

/// A dispatcher with dataset 1000.
fn with_dataset() -> Driver {
    let mut driver = Driver::new();
    driver.register(dataset(&[]));
    driver
}

fn named(name: &str) -> GetOrCreateJob {
    GetOrCreateJob { name: Some(name.into()), ..job(&DatasetId::new("1000"), ShardingPolicy::Off) }
}

/// What comes of asking for job `test` again with other parameters.
fn refusal_of(first: GetOrCreateJob, second: GetOrCreateJob) -> String {
    let mut driver = with_dataset();
    driver.job(first);
    let status = driver.refused(Request::GetOrCreateJob(second));
    assert_eq!(status.code, Code::InvalidArgument);
    status.message
}

#[test]
fn anonymous_jobs_are_all_different() {
    let mut driver = with_dataset();
    let request = job(&DatasetId::new("1000"), ShardingPolicy::Off);
    let ids = [0, 1].map(|_| driver.job(request.clone()));
    assert_eq!(ids, [JobId::new(5000), JobId::new(5001)]);
    let names = driver.state().jobs().values().map(|job| &*job.name);
    assert!(names.clone().all(|name| name.starts_with("anonymous_job_500")));
}

#[test]
fn a_name_that_looks_anonymous_does_not_get_in_the_way() {
    let mut driver = with_dataset();
    // The next call's entropy is 3, so this is the name the next anonymous job would get.
    driver.job(named("anonymous_job_5001_3"));
    let request = job(&DatasetId::new("1000"), ShardingPolicy::Off);
    assert_eq!(driver.job(request), JobId::new(5001));
    assert_eq!(&*driver.state().jobs()[&JobId::new(5001)].name, "anonymous_job_5001_4");
}

#[test]
fn a_name_leads_to_its_job_across_a_restart() {
    let mut driver = with_dataset();
    let id = driver.job(named("test"));
    assert_eq!(driver.job(named("test")), id);
    driver.restart();
    assert_eq!(driver.job(named("test")), id);
}

#[test]
fn dataset_and_consumers_are_not_compared() {
    let mut driver = with_dataset();
    let id = driver.job(named("test"));
    let other =
        GetOrCreateJob { dataset: DatasetId::new("1001"), consumers: Some(3), ..named("test") };
    assert_eq!(driver.job(other), id);
}

#[test]
fn another_processing_mode_is_refused() {
    let dynamic = GetOrCreateJob { sharding: ShardingPolicy::Dynamic, ..named("test") };
    assert_eq!(
        refusal_of(named("test"), dynamic),
        "Tried to create job with name test, but found an existing job with different parameters: \
         Existing processing mode: <OFF>; got <DYNAMIC>. "
    );
}

#[test]
fn another_cross_trainer_cache_is_refused() {
    let cached = GetOrCreateJob { use_cross_trainer_cache: true, ..named("test") };
    assert_eq!(
        refusal_of(cached, named("test")),
        "Tried to create job with name test, but found an existing job with different parameters: \
         Existing cross-trainer cache: <enabled>; got <disabled>. "
    );
}

#[test]
fn other_target_workers_are_refused() {
    let local = GetOrCreateJob { target_workers: TargetWorkers::Local, ..named("test") };
    assert_eq!(
        refusal_of(named("test"), local),
        "Tried to create job with name test, but found an existing job with different parameters: \
         Existing target workers: <AUTO>; got <LOCAL>. "
    );
}

#[test]
fn all_differences_are_named_at_once() {
    let other = GetOrCreateJob {
        sharding: ShardingPolicy::FileOrData,
        use_cross_trainer_cache: true,
        target_workers: TargetWorkers::Any,
        ..named("test")
    };
    let text = refusal_of(named("test"), other);
    let differences = "Existing processing mode: <OFF>; got <FILE_OR_DATA>. \
                       Existing cross-trainer cache: <disabled>; got <enabled>. \
                       Existing target workers: <AUTO>; got <ANY>. ";
    assert!(text.ends_with(differences), "{text}");
}

#[test]
fn the_number_of_consumers_must_make_sense() {
    let mut driver = with_dataset();
    for wrong in [0, -1, 65_537, i64::MAX] {
        let request = GetOrCreateJob { consumers: Some(wrong), ..named("test") };
        let status = driver.refused(Request::GetOrCreateJob(request));
        let text = format!("num_consumers is {wrong}; it must be from 1 to 65536");
        assert_eq!((status.code, status.message), (Code::InvalidArgument, text));
    }
}

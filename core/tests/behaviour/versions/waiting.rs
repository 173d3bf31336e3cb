//! Which dataset a job is to read that waits at a position.

use rondo_core::dispatcher::{Bounds, Config, Request};
use rondo_core::ids::DatasetId;
use rondo_core::status::Code;
use rondo_core::time::Duration;

use super::identity::{begin, begin_at, refuse, same, save, without_its_dataset};
use super::{at, job, own, replacing, to_read, version};
use crate::driver::Driver;
use crate::world::short;

fn restore(driver: &mut Driver, position: &str, job: &str) {
    let (name, job) = (position.into(), job.into());
    driver.ask(Request::RestorePosition { name, job, wanted: None }).unwrap();
}

/// The position `p` of the job `first`, whose repetition 0 is being read of the first version.
fn being_read() -> Driver {
    let mut driver = Driver::with(short());
    driver.worker("w:1", &[]);
    driver.register(own(3));
    let first = driver.job(same("data", "first"));
    driver.join(first, 0);
    save(&mut driver, "first");
    driver
}

/// Lets so much time pass that a named job that nobody reads is freed.
fn free(driver: &mut Driver, name: &str) {
    driver.advance(Duration::from_secs(3600));
    assert!(driver.state().job_named(name).is_none());
}

#[test]
fn another_pipeline_under_the_id_that_a_position_was_saved_of_is_not_the_positions() {
    let mut driver = without_its_dataset();
    restore(&mut driver, "p", "later");
    driver.register(own(4));
    driver.restart();
    assert_eq!(begin_at(&mut driver, "data", "new"), Err(Code::FailedPrecondition));
    let refused = refuse(&mut driver, begin("data", "new"));
    let text = "position \"p\" was saved of a former dataset data, with another pipeline than";
    assert!(refused.message.starts_with(text), "{refused}");
    // Nor is it what the job reads that waits there.
    assert_eq!(to_read(&mut driver, "data", Some("later")), Err(Code::FailedPrecondition));
    refuse(&mut driver, Request::GetOrCreateJob(same("data", "later")));
    driver.register(at("weather", 3));
    assert_eq!(begin_at(&mut driver, "weather", "new"), Ok("weather".into()));
    driver.ask(begin("weather", "new")).unwrap();
    driver.job(same("weather", "later"));
}

/// Nobody came to read it before it was freed, so nothing but the position says what it is to read.
#[test]
fn a_job_that_is_freed_while_it_waits_at_a_position_keeps_its_version() {
    let mut driver = being_read();
    driver.job(same("data", "train"));
    driver.ask(begin("data", "train")).unwrap();
    driver.register(replacing(4));
    free(&mut driver, "train");
    driver.restart();
    assert!(driver.state().retired().get("train").is_none());
    assert_eq!(to_read(&mut driver, "data", Some("train")), Ok("data".into()));
    refuse(&mut driver, Request::GetOrCreateJob(same(&version(4), "train")));
}

#[test]
fn a_job_that_was_taken_to_a_position_of_another_version_stays_on_its_own_when_it_is_freed() {
    let mut driver = being_read();
    driver.register(replacing(4));
    driver.job(same(&version(4), "new"));
    restore(&mut driver, "p", "new");
    driver.register(replacing(5));
    free(&mut driver, "new");
    assert!(driver.state().retired().get("new").is_none());
    assert_eq!(to_read(&mut driver, "data", Some("new")), Ok(version(4)));
    refuse(&mut driver, Request::GetOrCreateJob(same("data", "new")));
    refuse(&mut driver, Request::GetOrCreateJob(same(&version(5), "new")));
    driver.job(same(&version(4), "new"));
}

/// The dispatcher had freed the job before the operator restored the position.
#[test]
fn a_freed_job_that_was_taken_to_a_position_of_another_version_stays_on_its_own() {
    let (mut driver, reader) = super::read_to_the_end(short());
    driver.release(reader);
    free(&mut driver, "train");
    driver.register(replacing(4));
    let first = driver.job(same(&version(4), "first"));
    driver.join(first, 0);
    save(&mut driver, "first");
    restore(&mut driver, "p", "train");
    driver.job(same("data", "train"));
    free(&mut driver, "train");
    assert!(driver.state().retired().get("train").is_none());
    assert_eq!(to_read(&mut driver, "data", Some("train")), Ok("data".into()));
    refuse(&mut driver, Request::GetOrCreateJob(same(&version(4), "train")));
}

/// Clients of TensorFlow's do not ask what they read.
#[test]
fn a_freed_job_is_on_the_version_that_it_read_though_a_position_waits_for_its_name() {
    let mut driver = being_read();
    restore(&mut driver, "p", "later");
    driver.register(replacing(4));
    let later = driver.job(job(&version(4), "later"));
    let reader = driver.join(later, 1);
    let task = driver.client(reader).tasks[0].task;
    driver.finish("w:1", task);
    driver.release(reader);
    free(&mut driver, "later");
    assert!(driver.state().retired().get("later").is_some());
    assert!(driver.state().restorations().contains_key("later"));
    driver.register(replacing(5));
    assert_eq!(to_read(&mut driver, "data", Some("later")), Ok(version(4)));
    refuse(&mut driver, Request::GetOrCreateJob(same("data", "later")));
    driver.job(same(&version(4), "later"));
}

#[test]
fn a_job_counts_before_a_position_and_a_position_before_one_at_which_the_job_waits() {
    let mut driver = Driver::new();
    driver.register(own(3));
    driver.job(same("data", "old"));
    driver.ask(Request::SavePosition { name: "q".into(), job: "old".into() }).unwrap();
    driver.register(replacing(4));
    driver.job(same(&version(4), "middle"));
    save(&mut driver, "middle");
    driver.register(replacing(5));
    assert_eq!(begin_at(&mut driver, "data", "old"), Ok("data".into()));
    let refused = refuse(&mut driver, begin("data", "old"));
    assert!(refused.message.starts_with("position \"p\" was saved of"), "{refused}");
    restore(&mut driver, "q", "later");
    assert_eq!(to_read(&mut driver, "data", Some("later")), Ok("data".into()));
    assert_eq!(begin_at(&mut driver, "data", "later"), Ok(version(4)));
    driver.ask(begin(&version(4), "later")).unwrap();
    assert_eq!(to_read(&mut driver, "data", Some("later")), Ok(version(4)));
    driver.job(same(&version(4), "later"));
}

#[test]
fn a_snapshot_tells_what_jobs_and_positions_stand_for() {
    let mut driver = without_its_dataset();
    restore(&mut driver, "p", "later");
    for splits in [4, 5, 4] {
        driver.register(replacing(splits));
    }
    let name = DatasetId::new("data");
    let state = driver.state().clone();
    assert_eq!(state.versions()[&name].current, name);
    let mut restored = rondo_core::dispatcher::State::default();
    state.parts().into_iter().for_each(|part| restored.restore(part).unwrap());
    assert_eq!(restored, state);
}

#[test]
fn a_reader_that_would_get_no_job_for_want_of_room_restores_no_position() {
    let bounds = Bounds { jobs: 1, ..Bounds::default() };
    let mut driver = Driver::with(Config { bounds, ..short() });
    driver.register(own(3));
    driver.job(same("data", "train"));
    save(&mut driver, "train");
    let refused = driver.refused(begin("data", "later"));
    assert_eq!(refused.code, Code::ResourceExhausted, "{refused}");
    assert!(driver.state().restorations().is_empty());
    driver.ask(begin("data", "train")).unwrap();
}

#[test]
fn a_reader_that_is_refused_a_job_that_waits_is_told_what_the_job_reads() {
    let mut driver = being_read();
    restore(&mut driver, "p", "later");
    driver.register(at("other", 4));
    let refused = refuse(&mut driver, Request::GetOrCreateJob(same("other", "later")));
    let text = "job \"later\" reads dataset data, not other: name another job";
    assert_eq!(refused.message, text);
}

#[test]
fn a_position_that_is_saved_again_is_of_what_was_read_last() {
    let mut driver = being_read();
    driver.register(replacing(4));
    driver.job(same(&version(4), "second"));
    save(&mut driver, "second");
    driver.register(replacing(5));
    assert_eq!(begin_at(&mut driver, "data", "new"), Ok(version(4)));
    refuse(&mut driver, begin("data", "new"));
    driver.ask(begin(&version(4), "new")).unwrap();
}

/// A client of TensorFlow's does not ask which version is to be read from a position.
#[test]
fn a_position_is_of_what_its_job_reads_whatever_that_job_waited_for() {
    let mut driver = being_read();
    restore(&mut driver, "p", "later");
    driver.register(replacing(4));
    driver.job(job(&version(4), "later"));
    save(&mut driver, "later");
    driver.register(replacing(5));
    assert_eq!(begin_at(&mut driver, "data", "new"), Ok(version(4)));
}

#[test]
fn a_freed_job_is_not_taken_to_a_position_of_another_version_by_a_reader() {
    let (mut driver, reader) = super::read_to_the_end(short());
    driver.release(reader);
    free(&mut driver, "train");
    driver.register(replacing(4));
    driver.job(same(&version(4), "first"));
    save(&mut driver, "first");
    assert_eq!(begin_at(&mut driver, "data", "train"), Ok("data".into()));
    let refused = refuse(&mut driver, begin("data", "train"));
    assert!(refused.message.starts_with("position \"p\" was saved of"), "{refused}");
    let refused = refuse(&mut driver, begin(&version(4), "train"));
    assert!(refused.message.starts_with("job \"train\" reads"), "{refused}");
}

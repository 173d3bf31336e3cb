//! Readers that left: the dispatcher says how far each of them came, and takes nothing more from it.

use rondo_core::dispatcher::{
    Client, Config, DepartedReader, Part, Reply, Request, SavedSplit, State,
};
use rondo_core::ids::{ClientId, JobId};
use rondo_core::limits::DEPARTED_READERS_MAX;
use rondo_core::status::Code;
use rondo_core::time::Duration;

use super::{WORKER, finished, hold, reading, reading_with};
use crate::driver::Driver;

fn end(client: ClientId) -> Request {
    Request::EndReader { client, job: "train".into() }
}

/// Places that the reader held, with the records of them that it had acknowledged.
#[track_caller]
fn ended(driver: &mut Driver, client: ClientId) -> Vec<(u64, u64)> {
    match driver.ask(end(client)) {
        Ok(Reply::ReaderEnded(DepartedReader { splits, .. })) => {
            splits.iter().map(|SavedSplit { place, records }| (*place, *records)).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// A reader that has read one split, seven records of the next one and nothing of a third one.
fn begun() -> (Driver, JobId, ClientId) {
    let (mut driver, job, client) = reading(8);
    driver.places(hold(client, 3, &[]));
    driver.places(hold(client, 2, &[(0, 10, true), (1, 7, false)]));
    (driver, job, client)
}

#[test]
fn a_reader_that_is_ended_leaves_its_splits_and_what_it_acknowledged() {
    let (mut driver, job, client) = begun();
    assert_eq!(ended(&mut driver, client), [(1, 7), (2, 0)]);
    assert!(!driver.state().clients().contains_key(&client));
    let other = driver.join(job, 0);
    assert_eq!(driver.places(hold(other, 3, &[])), [(1, 7), (2, 0), (3, 0)]);
    // What the other one does changes nothing of it.
    driver.places(hold(other, 3, &[(1, 10, true)]));
    assert_eq!(ended(&mut driver, client), [(1, 7), (2, 0)]);
}

/// A request that was on its way when its sender died.
#[test]
fn nothing_more_of_an_ended_reader_is_acknowledged() {
    let (mut driver, _, client) = begun();
    ended(&mut driver, client);
    assert_eq!(driver.refused(hold(client, 2, &[(1, 9, false)])).code, Code::NotFound);
    assert_eq!(ended(&mut driver, client), [(1, 7), (2, 0)]);
}

#[test]
fn the_progress_of_readers_that_left_or_were_given_up_outlives_a_restart() {
    let config = Config { reader_timeout: Duration::from_secs(10), ..Config::default() };
    let (mut driver, job, silent) = reading_with(config, 8);
    driver.places(hold(silent, 2, &[]));
    driver.places(hold(silent, 2, &[(0, 4, false)]));
    let leaves = driver.join(job, 0);
    driver.places(hold(leaves, 1, &[]));
    driver.release(leaves);
    driver.advance(Duration::from_secs(11));
    driver.serving_worker(WORKER, &[]);
    assert!(!driver.state().clients().contains_key(&silent));
    driver.restart();
    assert_eq!(ended(&mut driver, silent), [(0, 4), (1, 0)]);
    assert_eq!(ended(&mut driver, leaves), [(2, 0)]);
}

/// Has a reader of two splits read to the end and leave, and the iteration be freed.
fn read_out_and_free(driver: &mut Driver, job: JobId, client: ClientId) {
    driver.places(hold(client, 2, &[]));
    assert!(driver.held(hold(client, 2, &finished(0..2))).finished);
    let iteration = driver.iteration(job, 0);
    driver.release(client);
    driver.advance(Duration::from_secs(3600));
    assert!(!driver.state().iterations().contains_key(&iteration));
}

/// The iteration is freed long before the job is.
#[test]
fn the_progress_outlives_the_iteration() {
    let (mut driver, job, client) = reading(2);
    read_out_and_free(&mut driver, job, client);
    assert_eq!(ended(&mut driver, client), []);
}

#[test]
fn a_reader_that_never_held_a_split_is_not_known() {
    let (mut driver, job, _) = reading(2);
    let idle = driver.join(job, 0);
    assert_eq!(driver.refused(end(idle)).code, Code::NotFound);
    assert!(driver.state().clients().contains_key(&idle), "a refusal changes nothing");
    assert_eq!(driver.refused(end(ClientId::new(7))).code, Code::NotFound);
}

#[test]
fn a_reader_of_another_job_is_left_alone() {
    let (mut driver, _, client) = begun();
    let other = Request::EndReader { client, job: "other".into() };
    let refused = driver.refused(other);
    assert_eq!(refused.code, Code::NotFound);
    assert!(refused.message.contains("job \"other\" knows no reader 3000"), "{}", refused.message);
    assert!(driver.state().clients().contains_key(&client));
}

/// Its records are to be read again: what it acknowledged no longer says which of them count.
#[test]
fn a_restored_position_forgets_readers_whose_records_it_takes_back() {
    let (mut driver, job, client) = reading(4);
    driver.ask(Request::SavePosition { name: "start".into(), job: "train".into() }).unwrap();
    driver.places(hold(client, 2, &[]));
    let present = driver.join(job, 0);
    driver.places(hold(present, 1, &[]));
    assert_eq!(ended(&mut driver, client), [(0, 0), (1, 0)]);
    driver
        .ask(Request::RestorePosition { name: "start".into(), job: "train".into(), wanted: None })
        .unwrap();
    assert_eq!(driver.refused(end(client)).code, Code::NotFound);
    assert_eq!(driver.refused(end(present)).code, Code::NotFound);
    assert!(driver.state().clients().contains_key(&present), "a refusal changes nothing");
}

#[test]
fn a_job_forgets_the_readers_that_left_first_when_too_many_have_left() {
    let (mut driver, job, first) = reading(2);
    driver.places(hold(first, 1, &[]));
    driver.release(first);
    let next = driver.join(job, 0);
    for _ in 0..DEPARTED_READERS_MAX {
        let client = driver.join(job, 0);
        driver.places(hold(client, 1, &[]));
        driver.release(client);
    }
    assert_eq!(driver.state().jobs()[&job].departed.len(), DEPARTED_READERS_MAX);
    assert_eq!(driver.refused(end(first)).code, Code::NotFound);
    assert_eq!(ended(&mut driver, ClientId::new(next.get() + 1)), [(0, 0)]);
}

#[test]
fn a_reader_that_joined_first_and_leaves_last_is_known() {
    let (mut driver, job, first) = reading(2);
    driver.places(hold(first, 1, &[]));
    for _ in 0..DEPARTED_READERS_MAX {
        let client = driver.join(job, 0);
        driver.places(hold(client, 1, &[]));
        driver.release(client);
    }
    assert_eq!(ended(&mut driver, first), [(0, 0)]);
    assert_eq!(ended(&mut driver, first), [(0, 0)]);
    assert_eq!(driver.state().jobs()[&job].departed.len(), DEPARTED_READERS_MAX);
}

#[test]
fn a_restored_position_forgets_readers_of_an_iteration_that_was_freed() {
    let (mut driver, job, client) = reading(2);
    driver.ask(Request::SavePosition { name: "start".into(), job: "train".into() }).unwrap();
    read_out_and_free(&mut driver, job, client);
    assert_eq!(ended(&mut driver, client), []);
    driver
        .ask(Request::RestorePosition { name: "start".into(), job: "train".into(), wanted: None })
        .unwrap();
    assert_eq!(driver.refused(end(client)).code, Code::NotFound);
}

#[test]
fn a_reader_that_leaves_after_its_records_were_taken_back_is_not_known() {
    let (mut driver, _, client) = reading(4);
    driver.ask(Request::SavePosition { name: "start".into(), job: "train".into() }).unwrap();
    driver.places(hold(client, 2, &[]));
    driver.places(hold(client, 1, &[(0, 10, true)]));
    driver
        .ask(Request::RestorePosition { name: "start".into(), job: "train".into(), wanted: None })
        .unwrap();
    driver.release(client);
    assert_eq!(driver.refused(end(client)).code, Code::NotFound);
}

#[test]
fn a_collected_iteration_forgets_its_readers() {
    let config = Config { gc_dynamic_sharding_jobs: true, ..Config::default() };
    let (mut driver, job, client) = reading_with(config, 4);
    driver.places(hold(client, 2, &[]));
    driver.places(hold(client, 1, &[(0, 10, true)]));
    assert_eq!(ended(&mut driver, client), [(1, 0)]);
    let iteration = driver.iteration(job, 0);
    driver.advance(Duration::from_secs(1200));
    assert!(driver.state().iterations().get(&iteration).is_none_or(|of| of.collected));
    assert_eq!(driver.refused(end(client)).code, Code::NotFound);
}

#[test]
fn a_snapshot_of_a_former_release_knows_who_has_held_splits() {
    let (driver, _, client) = begun();
    let mut state = State::default();
    for part in driver.state().parts() {
        let former = match part {
            Part::Client(client) => Part::Client(Client { has_held: false, ..client }),
            other => other,
        };
        state.restore(former).unwrap();
    }
    assert!(state.clients()[&client].has_held);
}

//! Reading by split when workers die, the server is held up, or the disk is full.

use super::*;

/// The disk is full when a dead holder's time is over.
#[test]
fn a_full_disk_is_no_sign_of_life() {
    let of = |index, size| Group { index, size };
    let (mut driver, job, first) = reading(10);
    driver.places(grouped(first, 2, &[], of(0, 2)));
    // The group dies; another one of three begins.
    driver.advance(Duration::from_secs(5));
    let next = driver.join(job, 0);
    assert_eq!(driver.refused(grouped(next, 3, &[], of(0, 3))).code, Code::Unavailable);
    driver.journal = Journal::Full;
    let _ = driver.send(Request::GetOrCreateIteration { job, repetition: 0 });
    for _ in 0..40 {
        driver.advance(Duration::from_secs(1));
        driver.client(next);
    }
    driver.make_room();
    let status = driver.refused(grouped(next, 3, &[], of(0, 3)));
    assert_eq!(status.code, Code::Unavailable, "{status}");
}

fn stand(driver: &mut Driver, secs: u64) {
    driver.now = driver.now.after(Duration::from_secs(secs));
    while driver.node.deadline().is_some_and(|(at, _)| at <= driver.now) {
        driver.tick();
    }
}

/// The server listens for readers by split alone.
#[test]
fn a_hold_up_is_no_silence_of_readers() {
    let config = Config { worker_timeout: None, job_gc_timeout: None, ..Config::default() };
    let (mut driver, job, reader) = reading_with(config, 4);
    driver.places(hold(reader, 2, &[]));
    let other = driver.join(job, 0);
    driver.places(hold(other, 1, &[]));
    stand(&mut driver, 125);
    assert_eq!(driver.places(hold(other, 9, &[])), [(2, 0), (3, 0)]);
    assert_eq!(driver.places(hold(reader, 2, &[])), [(0, 0), (1, 0)]);
}

/// No consumer could come back while the server was held up.
#[test]
fn a_hold_up_is_no_absence_of_consumers() {
    let config = Config { reissue_lost_splits: true, ..Config::default() };
    let (mut driver, _, reader) = left_to_a_worker(config);
    stand(&mut driver, 125);
    let held = driver.held(hold(reader, 9, &[]));
    assert!(held.with_workers, "{held:?}");
}

/// Asserts that workers still have what is left, and that none of it counts as lost.
#[track_caller]
fn assert_nothing_lost(driver: &mut Driver, job: JobId, reader: ClientId) {
    let held = driver.held(hold(reader, 9, &[]));
    let iteration = driver.iteration(job, 0);
    let lost = driver.state().iterations()[&iteration].splits.lost;
    assert!(held.with_workers && lost == 0, "{held:?}, lost {lost}");
}

#[test]
fn a_hold_up_loses_no_splits_of_consumers_about_to_return() {
    let config = Config { gc_dynamic_sharding_jobs: true, ..Config::default() };
    let (mut driver, job, reader) = left_to_a_worker(config);
    stand(&mut driver, 305);
    assert_nothing_lost(&mut driver, job, reader);
}

#[test]
fn a_server_that_was_away_loses_no_splits_of_consumers_about_to_return() {
    let config = Config { gc_dynamic_sharding_jobs: true, ..Config::default() };
    let (mut driver, job, reader) = left_to_a_worker(config);
    driver.now = driver.now.after(Duration::from_secs(305));
    driver.restart();
    assert_nothing_lost(&mut driver, job, reader);
}

fn beat(driver: &mut Driver, workers: &[&str], client: ClientId, secs: u64) {
    for _ in 0..secs {
        driver.advance(Duration::from_secs(1));
        for worker in workers {
            let tasks: Vec<_> =
                driver.state().worker_at(worker).unwrap().tasks.iter().copied().collect();
            driver.serving_worker(worker, &tasks);
        }
        driver.client(client);
    }
}

/// Workers whose tasks were recalled read again, so that the death of one leaves the others.
#[test]
fn a_reader_has_a_task_to_ask_while_a_worker_lives() {
    const OTHER: &str = "w1:1";
    let (mut driver, job, consumer) = reading_with(reissuing(), 4);
    driver.serving_worker(OTHER, &[]);
    let iteration = driver.iteration(job, 0);
    driver.client(consumer);
    assert_eq!(driver.split_for(WORKER, iteration), Some(0));
    assert_eq!(driver.split_for(OTHER, iteration), Some(1));
    driver.advance(Duration::from_secs(1));
    driver.release(consumer);
    let reader = driver.join(job, 0);
    driver.places(hold(reader, 9, &[]));
    assert!(driver.held(hold(reader, 9, &finished(2..4))).with_workers);
    beat(&mut driver, &[WORKER, OTHER], reader, 121);
    assert_eq!(driver.places(hold(reader, 9, &[])), [(0, 0), (1, 0)]);
    let tasks = driver.client(reader).tasks;
    assert_eq!(tasks.len(), 2, "each worker reads again: {tasks:?}");
    // That worker dies; the other one lives.
    beat(&mut driver, &[OTHER], reader, 600);
    assert!(driver.state().worker_at(WORKER).unwrap().lost);
    assert!(!driver.state().worker_at(OTHER).unwrap().lost);
    let held = driver.held(hold(reader, 9, &[]));
    beat(&mut driver, &[OTHER], reader, 600);
    let tasks = driver.client(reader).tasks;
    assert!(!tasks.is_empty(), "holds {:?} for ever, and has no task to ask", held.splits);
}

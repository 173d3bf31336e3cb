//! The dispatcher recalls splits for readers by split only if it knows which worker has them.

use super::*;

const OTHER: &str = "w1:1";

/// Unnamed workers took splits 0 and 1 for a consumer by element, which left. A reader has read the rest.
fn left_to_unnamed_workers(config: Config) -> (Driver, ClientId, IterationId) {
    let (mut driver, job, consumer) = reading_with(config, 4);
    let iteration = driver.iteration(job, 0);
    driver.client(consumer);
    assert_eq!([(); 2].map(|()| driver.split(iteration, 0, 0)), [Some(0), Some(1)]);
    driver.advance(Duration::from_secs(1));
    driver.release(consumer);
    let reader = driver.join(job, 0);
    driver.places(hold(reader, 9, &[]));
    assert!(driver.held(hold(reader, 9, &finished(2..4))).with_workers);
    (driver, reader, iteration)
}

/// The worker lives and has the splits. TensorFlow's workers stay unnamed where their addresses tell nothing.
#[test]
fn a_reader_waits_for_splits_of_which_nobody_knows_who_has_them() {
    for reissue_lost_splits in [false, true] {
        let config = Config { reissue_lost_splits, ..Config::default() };
        let (mut driver, reader, iteration) = left_to_unnamed_workers(config);
        let held = wait(&mut driver, reader, 600);
        let splits = &driver.state().iterations()[&iteration].splits;
        assert!(held.with_workers && !held.finished, "{held:?}, {splits:?}");
    }
}

/// A reader that comes and goes again and again reads by split like all others: nobody comes by element.
#[test]
fn readers_by_split_that_come_and_go_put_no_recall_off() {
    let (mut driver, job, reader) = left_to_a_worker(reissuing());
    for _ in 0..3 {
        assert!(wait(&mut driver, reader, 39).with_workers);
        let guest = driver.join(job, 0);
        assert!(driver.held(hold(guest, 9, &[])).with_workers);
        driver.release(guest);
    }
    let held = wait(&mut driver, reader, 4);
    assert_eq!((held.splits.len(), held.with_workers), (2, false));
}

/// A worker has read the first pass for a consumer that left, and begun the second.
fn left_in_the_second_pass() -> (Driver, JobId, ClientId, IterationId) {
    let (mut driver, job, consumer) = reading_with(reissuing(), 2);
    let iteration = driver.iteration(job, 0);
    driver.client(consumer);
    for (pass, split) in [(0, Some(0)), (0, Some(1)), (0, None), (1, Some(0))] {
        assert_eq!(driver.ask(split_for(WORKER, iteration, pass, 0)), Ok(Reply::Split(split)));
    }
    driver.advance(Duration::from_secs(1));
    driver.release(consumer);
    let reader = driver.join(job, 0);
    assert!(driver.held(hold(reader, 9, &[])).with_workers);
    (driver, job, reader, iteration)
}

/// Readers by split name splits of the first pass only. What is left of others is lost with their consumers.
#[test]
fn an_iteration_read_by_split_ends_without_what_workers_took_of_later_passes() {
    let (mut driver, _, reader, iteration) = left_in_the_second_pass();
    let held = wait(&mut driver, reader, 121);
    assert_eq!(held.splits.iter().map(|split| split.place).collect::<Vec<_>>(), [0, 1]);
    assert!(driver.held(hold(reader, 9, &finished(0..2))).finished);
    assert_eq!(driver.state().iterations()[&iteration].splits.lost, 1);
    assert!(driver.events.contains(&Event::LaterPassesLost { iteration, lost: 1 }));
    driver.restart();
    assert!(driver.held(hold(reader, 9, &[])).finished);
}

/// While a consumer is there, what is left of later passes is for it.
#[test]
fn splits_of_later_passes_wait_for_consumers_that_read_by_element() {
    let (mut driver, job, reader, iteration) = left_in_the_second_pass();
    wait(&mut driver, reader, 121);
    let consumer = driver.join(job, 0);
    let held = driver.held(hold(reader, 9, &finished(0..2)));
    assert!(held.with_workers && !held.finished, "{held:?}");
    assert_eq!(driver.ask(split_for(WORKER, iteration, 1, 0)), Ok(Reply::Split(Some(0))));
    driver.client(consumer);
}

/// The recalled splits that no reader holds yet are not read: they are in a position.
#[test]
fn a_position_keeps_splits_that_were_recalled() {
    let (mut driver, _, reader) = left_to_a_worker(reissuing());
    assert!(wait(&mut driver, reader, 118).with_workers);
    driver.advance(Duration::from_secs(3));
    assert_eq!(driver.places(hold(reader, 1, &[])), [(0, 0)]);
    let saved = driver.ask(save("p"));
    let Ok(Reply::Position(position)) = saved else { panic!("{saved:?}") };
    let splits = position.reading[0].splits.iter();
    assert_eq!(
        splits.map(|split| (split.place, split.records)).collect::<Vec<_>>(),
        [(0, 0), (1, 0)]
    );
}

/// The same after a restart: the others are known from the journal.
#[test]
fn readers_by_split_that_come_after_a_restart_put_no_recall_off() {
    let (mut driver, job, reader) = left_to_a_worker(reissuing());
    driver.restart();
    assert!(wait(&mut driver, reader, 100).with_workers);
    let guest = driver.join(job, 0);
    assert!(driver.held(hold(guest, 9, &[])).with_workers);
    driver.release(guest);
    let held = wait(&mut driver, reader, 21);
    assert_eq!((held.splits.len(), held.with_workers), (2, false));
}

/// All have left, and the job comes back: its consumers may come some time after its first reader.
#[test]
fn who_comes_first_waits_for_consumers_however_long_nobody_was_there() {
    let (mut driver, job, reader) = left_to_a_worker(reissuing());
    driver.release(reader);
    live_on(&mut driver, &[WORKER], None, 600);
    let reader = driver.join(job, 0);
    assert!(wait(&mut driver, reader, 100).with_workers);
    assert_eq!(wait(&mut driver, reader, 21).splits.len(), 2);
}

/// A worker whose splits are recalled gets a new task as long as another one keeps the iteration open.
#[test]
fn a_worker_gets_a_task_in_place_of_a_recalled_one() {
    let (mut driver, job, consumer) = reading_with(reissuing(), 2);
    driver.serving_worker(OTHER, &[]);
    let iteration = driver.iteration(job, 0);
    driver.client(consumer);
    // Who read the first pass did not say its name: perhaps the worker at OTHER.
    assert_eq!([(); 3].map(|()| driver.split(iteration, 0, 0)), [Some(0), Some(1), None]);
    assert_eq!(driver.ask(split_for(WORKER, iteration, 1, 0)), Ok(Reply::Split(Some(0))));
    driver.release(consumer);
    let reader = driver.join(job, 0);
    assert!(driver.held(hold(reader, 9, &[])).with_workers);
    let recalled = driver.state().worker_at(WORKER).unwrap().tasks.clone();
    live_on(&mut driver, &[WORKER, OTHER], Some(reader), 121);
    assert!(driver.held(hold(reader, 9, &[])).with_workers);
    let tasks = |address| driver.state().worker_at(address).unwrap().tasks.len();
    assert_eq!([WORKER, OTHER].map(tasks), [1, 1]);
    assert_ne!(driver.state().worker_at(WORKER).unwrap().tasks, recalled);
}

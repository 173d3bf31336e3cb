//! Consumers by element beside readers by split that hold splits: what a lost worker had of an iteration is
//! handed to another worker for the consumers.

use super::*;

const OTHER: &str = "w1:1";

/// A reader holds the first of three splits, and a consumer by element reads beside it. A worker has the
/// other two for the consumer. Another one has found none.
fn beside_a_reader(config: Config) -> (Driver, IterationId, ClientId, ClientId) {
    let (mut driver, job, reader) = reading_with(config, 3);
    driver.worker(OTHER, &[]);
    let iteration = driver.iteration(job, 0);
    assert_eq!(driver.places(hold(reader, 1, &[])), [(0, 0)]);
    let consumer = driver.join(job, 0);
    driver.client(consumer);
    assert_eq!([(); 2].map(|()| driver.split_for(WORKER, iteration)), [Some(1), Some(2)]);
    assert_eq!(driver.split_for(OTHER, iteration), None);
    let task = *driver.state().worker_at(OTHER).unwrap().tasks.first().unwrap();
    driver.finish(OTHER, task);
    (driver, iteration, reader, consumer)
}

/// One worker falls silent. Everybody else is heard all the while.
fn lose_the_worker(driver: &mut Driver, readers: &[ClientId]) {
    for _ in 0..200 {
        driver.advance(Duration::from_secs(1));
        let known = driver.state().worker_at(OTHER).unwrap();
        let tasks: Vec<_> = known.tasks.iter().copied().collect();
        driver.worker(OTHER, &tasks);
        for reader in readers {
            driver.client(*reader);
        }
        if driver.state().worker_at(WORKER).unwrap().lost {
            return;
        }
    }
    panic!("the worker is never given up");
}

/// The reader holds its split for as long as it likes, and the consumer may be what it waits for.
#[test]
fn a_consumer_gets_lost_splits_while_a_reader_holds_another() {
    let (mut driver, iteration, reader, consumer) = beside_a_reader(reissuing());
    lose_the_worker(&mut driver, &[reader, consumer]);
    driver.client(consumer);
    let unfinished = |driver: &Driver| driver.state().worker_at(OTHER).unwrap().tasks.len();
    assert_eq!(unfinished(&driver), 1, "a worker that lives has a task");
    assert_eq!([(); 2].map(|()| driver.split_for(OTHER, iteration)), [Some(1), Some(2)]);
    assert_eq!(driver.places(hold(reader, 1, &[])), [(0, 0)]);
}

/// A pipeline need not read its sources to the end. The reader gets the splits then.
#[test]
fn a_task_that_asked_for_nothing_is_not_made_again_and_again() {
    let (mut driver, _, reader, consumer) = beside_a_reader(reissuing());
    lose_the_worker(&mut driver, &[reader, consumer]);
    let written = driver.written_upto();
    for _ in 0..10 {
        driver.client(consumer);
        let tasks = driver.state().worker_at(OTHER).unwrap().tasks.clone();
        tasks.into_iter().for_each(|task| driver.finish(OTHER, task));
    }
    assert!(driver.written_upto().get() <= written.get() + 3, "one task at most");
    assert_eq!(driver.places(hold(reader, 3, &[])), [(0, 0), (1, 0), (2, 0)]);
}

/// Readers by split take what was lost: a worker would take it from them.
#[test]
fn no_task_is_made_for_readers_by_split_alone() {
    let (mut driver, _, reader, consumer) = beside_a_reader(reissuing());
    driver.release(consumer);
    lose_the_worker(&mut driver, &[reader]);
    driver.client(reader);
    assert!(driver.state().worker_at(OTHER).unwrap().tasks.is_empty());
    assert_eq!(driver.places(hold(reader, 3, &[])), [(0, 0), (1, 0), (2, 0)]);
}

/// A reader that has just come sends a heartbeat before it asks for splits.
#[test]
fn the_first_heartbeat_of_a_client_makes_no_task() {
    let (mut driver, iteration, reader, consumer) = beside_a_reader(reissuing());
    driver.release(consumer);
    lose_the_worker(&mut driver, &[reader]);
    let job = driver.state().iterations()[&iteration].job;
    let guest = driver.join(job, 0);
    driver.client(guest);
    assert!(driver.state().worker_at(OTHER).unwrap().tasks.is_empty());
    assert_eq!(driver.places(hold(guest, 9, &[])), [(1, 0), (2, 0)]);
}

/// Readers go on with a finished task that its worker has kept for them.
#[test]
fn a_worker_that_keeps_a_task_for_readers_is_the_last_choice() {
    let (mut driver, _, reader, consumer) = beside_a_reader(reissuing());
    let third = "w2:1";
    driver.serving_worker(third, &[]);
    let kept = *driver.state().worker_at(third).unwrap().tasks.first().unwrap();
    driver.finish(third, kept);
    for _ in 0..200 {
        driver.serving_worker(third, &[kept]);
        driver.worker(OTHER, &[]);
        driver.client(reader);
        driver.advance(Duration::from_secs(1));
    }
    assert!(driver.state().worker_at(WORKER).unwrap().lost);
    driver.client(consumer);
    assert_eq!(driver.state().worker_at(OTHER).unwrap().tasks.len(), 1);
    assert!(driver.serving_worker(third, &[kept]).tasks_to_delete.is_empty());
}

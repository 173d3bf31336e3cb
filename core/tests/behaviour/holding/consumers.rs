//! Consumers by element beside readers by split that hold splits: what a lost worker had of an iteration is
//! handed to another worker for the consumers.

use std::collections::BTreeSet;

use rondo_core::ids::TaskId;

use super::*;

const OTHER: &str = "w1:1";
const THIRD: &str = "w2:1";

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
    finish_all(&mut driver, OTHER);
    (driver, iteration, reader, consumer)
}

/// One worker falls silent. The others and the clients are heard all the while.
fn lose(driver: &mut Driver, gone: &str, others: &[&str], clients: &[ClientId]) {
    for _ in 0..200 {
        driver.advance(Duration::from_secs(1));
        for address in others {
            let tasks: Vec<_> = tasks_on(driver, address).into_iter().collect();
            driver.worker(address, &tasks);
        }
        clients.iter().for_each(|client| drop(driver.client(*client)));
        if driver.state().worker_at(gone).unwrap().lost {
            return;
        }
    }
    panic!("the worker is never given up");
}

/// The unfinished tasks of a worker.
fn tasks_on(driver: &Driver, address: &str) -> BTreeSet<TaskId> {
    driver.state().worker_at(address).unwrap().tasks.clone()
}

fn finish_all(driver: &mut Driver, address: &str) {
    tasks_on(driver, address).into_iter().for_each(|task| driver.finish(address, task));
}

/// The reader holds its split for as long as it likes, and the consumer may be what it waits for.
#[test]
fn a_consumer_gets_lost_splits_while_a_reader_holds_another() {
    let (mut driver, iteration, reader, consumer) = beside_a_reader(reissuing());
    lose(&mut driver, WORKER, &[OTHER], &[reader, consumer]);
    driver.client(consumer);
    assert_eq!(tasks_on(&driver, OTHER).len(), 1, "a worker that lives has a task");
    assert_eq!([(); 2].map(|()| driver.split_for(OTHER, iteration)), [Some(1), Some(2)]);
    assert_eq!(driver.places(hold(reader, 1, &[])), [(0, 0)]);
}

/// A pipeline need not read its sources to the end. The reader gets the splits then.
#[test]
fn a_task_that_asked_for_nothing_is_not_made_again_and_again() {
    let (mut driver, _, reader, consumer) = beside_a_reader(reissuing());
    lose(&mut driver, WORKER, &[OTHER], &[reader, consumer]);
    let written = driver.written_upto();
    for _ in 0..10 {
        driver.client(consumer);
        finish_all(&mut driver, OTHER);
    }
    assert!(driver.written_upto().get() <= written.get() + 3, "one task at most");
    assert_eq!(driver.places(hold(reader, 3, &[])), [(0, 0), (1, 0), (2, 0)]);
}

/// Readers by split take what was lost: a worker would take it from them.
#[test]
fn no_task_is_made_for_readers_by_split_alone() {
    let (mut driver, _, reader, consumer) = beside_a_reader(reissuing());
    driver.release(consumer);
    lose(&mut driver, WORKER, &[OTHER], &[reader]);
    driver.client(reader);
    assert!(tasks_on(&driver, OTHER).is_empty());
    assert_eq!(driver.places(hold(reader, 3, &[])), [(0, 0), (1, 0), (2, 0)]);
}

/// A reader that has just come sends a heartbeat before it asks for splits.
#[test]
fn the_first_heartbeat_of_a_client_makes_no_task() {
    let (mut driver, iteration, reader, consumer) = beside_a_reader(reissuing());
    driver.release(consumer);
    lose(&mut driver, WORKER, &[OTHER], &[reader]);
    let job = driver.state().iterations()[&iteration].job;
    let guest = driver.join(job, 0);
    driver.client(guest);
    assert!(tasks_on(&driver, OTHER).is_empty());
    assert_eq!(driver.places(hold(guest, 9, &[])), [(1, 0), (2, 0)]);
}

/// Readers go on with a finished task that its worker has kept for them.
#[test]
fn a_worker_that_keeps_a_task_for_readers_is_the_last_choice() {
    let (mut driver, _, reader, consumer) = beside_a_reader(reissuing());
    driver.serving_worker(THIRD, &[]);
    let kept = *tasks_on(&driver, THIRD).first().unwrap();
    driver.finish(THIRD, kept);
    for _ in 0..200 {
        driver.serving_worker(THIRD, &[kept]);
        driver.worker(OTHER, &[]);
        driver.client(reader);
        driver.advance(Duration::from_secs(1));
    }
    assert!(driver.state().worker_at(WORKER).unwrap().lost);
    driver.client(consumer);
    assert_eq!(tasks_on(&driver, OTHER).len(), 1);
    assert!(driver.serving_worker(THIRD, &[kept]).tasks_to_delete.is_empty());
}

/// The worker that got the task for the consumer is lost, too: with the splits, or before it asked for any.
#[test]
fn another_worker_gets_a_task_when_the_second_one_is_lost() {
    for takes in [true, false] {
        let (mut driver, iteration, reader, consumer) = beside_a_reader(reissuing());
        driver.worker(THIRD, &[]);
        finish_all(&mut driver, THIRD);
        lose(&mut driver, WORKER, &[OTHER, THIRD], &[reader, consumer]);
        driver.client(consumer);
        let has_one = |driver: &Driver, address: &str| tasks_on(driver, address).len() == 1;
        assert!(has_one(&driver, OTHER) != has_one(&driver, THIRD), "one of them has a task");
        let (second, third) = if has_one(&driver, OTHER) { (OTHER, THIRD) } else { (THIRD, OTHER) };
        if takes {
            let splits = [(); 2].map(|()| driver.split_for(second, iteration));
            assert_eq!(splits, [Some(1), Some(2)]);
        }
        lose(&mut driver, second, &[third], &[reader, consumer]);
        driver.client(consumer);
        assert!(has_one(&driver, third), "takes: {takes}");
    }
}

/// A reader whose application is busy sends heartbeats only. The server restarts.
#[test]
fn a_reader_that_holds_splits_is_no_consumer_by_element_after_a_restart() {
    for config in [Config::default(), reissuing()] {
        let (mut driver, job, reader) = reading_with(config, 3);
        let other = driver.join(job, 0);
        let iteration = driver.iteration(job, 0);
        assert_eq!(driver.places(hold(reader, 1, &[])), [(0, 0)]);
        assert_eq!(driver.places(hold(other, 2, &[])), [(1, 0), (2, 0)]);
        assert_eq!(driver.split_for(WORKER, iteration), None);
        finish_all(&mut driver, WORKER);
        driver.release(other);
        driver.restart();
        for _ in 0..3 {
            driver.advance(Duration::from_secs(1));
            driver.client(reader);
        }
        assert!(tasks_on(&driver, WORKER).is_empty());
        assert_eq!(driver.places(hold(reader, 3, &[(0, 10, true)])), [(1, 0), (2, 0)]);
    }
}

/// Another reader had them, and left before it read of them. Workers may read those from the beginning.
#[test]
fn a_consumer_gets_splits_that_a_reader_gave_up_while_another_holds_one() {
    let (mut driver, job, reader) = reading_with(reissuing(), 3);
    let iteration = driver.iteration(job, 0);
    let other = driver.join(job, 0);
    assert_eq!(driver.places(hold(reader, 1, &[])), [(0, 0)]);
    assert_eq!(driver.places(hold(other, 2, &[])), [(1, 0), (2, 0)]);
    assert_eq!(driver.split_for(WORKER, iteration), None);
    finish_all(&mut driver, WORKER);
    let consumer = driver.join(job, 0);
    driver.client(consumer);
    driver.release(other);
    driver.client(consumer);
    assert_eq!(tasks_on(&driver, WORKER).len(), 1, "a worker has a task");
    assert_eq!([(); 2].map(|()| driver.split_for(WORKER, iteration)), [Some(1), Some(2)]);
    assert_eq!(driver.places(hold(reader, 3, &[])), [(0, 0)]);
}

/// One task has asked for nothing. Then another reader leaves, and more is to be handed out.
#[test]
fn another_task_is_made_when_more_is_to_be_handed_out_again() {
    let (mut driver, job, reader) = reading_with(reissuing(), 4);
    driver.worker(OTHER, &[]);
    let iteration = driver.iteration(job, 0);
    let (guest, consumer) = (driver.join(job, 0), driver.join(job, 0));
    assert_eq!(driver.places(hold(reader, 1, &[])), [(0, 0)]);
    assert_eq!(driver.places(hold(guest, 1, &[])), [(1, 0)]);
    driver.client(consumer);
    assert_eq!([(); 2].map(|()| driver.split_for(WORKER, iteration)), [Some(2), Some(3)]);
    finish_all(&mut driver, OTHER);
    lose(&mut driver, WORKER, &[OTHER], &[reader, guest, consumer]);
    driver.client(consumer);
    finish_all(&mut driver, OTHER);
    driver.client(consumer);
    assert!(tasks_on(&driver, OTHER).is_empty(), "the first one asked for nothing");
    driver.release(guest);
    driver.client(consumer);
    assert_eq!(tasks_on(&driver, OTHER).len(), 1, "there is more now");
    let splits = [(); 3].map(|()| driver.split_for(OTHER, iteration));
    assert_eq!(splits, [Some(2), Some(3), Some(1)]);
}

/// What the server remembers of tasks for consumers goes with the iteration.
#[test]
fn an_iteration_in_which_a_consumer_got_a_task_is_freed() {
    let config = Config {
        job_gc_check_interval: Duration::from_secs(1),
        job_gc_timeout: Some(Duration::from_secs(30)),
        ..reissuing()
    };
    let (mut driver, iteration, reader, consumer) = beside_a_reader(config);
    lose(&mut driver, WORKER, &[OTHER], &[reader, consumer]);
    driver.client(consumer);
    assert_eq!([(); 2].map(|()| driver.split_for(OTHER, iteration)), [Some(1), Some(2)]);
    assert_eq!(driver.split_for(OTHER, iteration), None);
    driver.places(hold(reader, 1, &[(0, 10, true)]));
    finish_all(&mut driver, OTHER);
    assert!(driver.client(consumer).iteration_finished);
    driver.release(reader);
    driver.release(consumer);
    driver.advance(Duration::from_secs(60));
    assert!(driver.state().iterations().is_empty());
}

/// As many splits wait as before it, but others.
#[test]
fn a_task_that_took_a_split_is_followed_by_another() {
    let (mut driver, job, reader) = reading_with(reissuing(), 3);
    let iteration = driver.iteration(job, 0);
    let (one, two) = (driver.join(job, 0), driver.join(job, 0));
    for (client, place) in [(reader, 0), (one, 1), (two, 2)] {
        assert_eq!(driver.places(hold(client, 1, &[])), [(place, 0)]);
    }
    assert_eq!(driver.split_for(WORKER, iteration), None);
    finish_all(&mut driver, WORKER);
    let consumer = driver.join(job, 0);
    driver.client(consumer);
    for (left, split) in [(one, 1), (two, 2)] {
        driver.release(left);
        driver.client(consumer);
        assert_eq!(tasks_on(&driver, WORKER).len(), 1, "a task for the consumer");
        assert_eq!(driver.split_for(WORKER, iteration), Some(split));
        assert_eq!(driver.split_for(WORKER, iteration), None);
        finish_all(&mut driver, WORKER);
    }
}

#[test]
fn a_worker_that_keeps_a_task_is_the_last_choice_though_it_came_first() {
    let (mut driver, job, reader) = reading_with(reissuing(), 3);
    driver.serving_worker(OTHER, &[]);
    driver.worker(THIRD, &[]);
    let iteration = driver.iteration(job, 0);
    driver.places(hold(reader, 1, &[]));
    let consumer = driver.join(job, 0);
    driver.client(consumer);
    assert_eq!([(); 2].map(|()| driver.split_for(WORKER, iteration)), [Some(1), Some(2)]);
    let kept = *tasks_on(&driver, OTHER).first().unwrap();
    finish_all(&mut driver, OTHER);
    finish_all(&mut driver, THIRD);
    for _ in 0..200 {
        driver.serving_worker(OTHER, &[kept]);
        driver.worker(THIRD, &[]);
        driver.client(reader);
        driver.advance(Duration::from_secs(1));
    }
    assert!(driver.state().worker_at(WORKER).unwrap().lost);
    driver.client(consumer);
    assert_eq!(tasks_on(&driver, THIRD).len(), 1);
    assert!(driver.serving_worker(OTHER, &[kept]).tasks_to_delete.is_empty());
}

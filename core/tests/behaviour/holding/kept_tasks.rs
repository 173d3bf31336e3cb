//! Tasks that readers by split read with: consumers by element end them, and workers keep them for readers.

use rondo_core::dispatcher::WorkerHeartbeat;
use rondo_core::ids::TaskId;

use super::*;
use crate::world::{listed, records_server, serving_worker, update, worker};

const OTHER: &str = "w1:1";

/// A reader holds two of four splits; consumers by element have read the others, and ended the task.
fn ended_by_consumers() -> (Driver, JobId, ClientId, TaskId) {
    let (mut driver, job, reader) = reading(4);
    let iteration = driver.iteration(job, 0);
    driver.held(hold(reader, 2, &[]));
    while driver.split_for(WORKER, iteration).is_some() {}
    let task = driver.client(reader).tasks[0].task;
    driver.finish(WORKER, task);
    (driver, job, reader, task)
}

impl Driver {
    /// The tasks that a client sees.
    #[track_caller]
    fn tasks_of(&mut self, client: ClientId) -> Vec<TaskId> {
        let seen = self.client(client);
        listed(&seen)
    }
}

#[test]
fn a_worker_keeps_a_finished_task_while_readers_hold_splits() {
    let (mut driver, _, reader, task) = ended_by_consumers();
    assert!(driver.serving_worker(WORKER, &[task]).tasks_to_delete.is_empty());
    assert!(
        driver.serving_worker(WORKER, &[task]).tasks_to_delete.is_empty(),
        "as long as they do"
    );
    driver.restart();
    assert!(driver.serving_worker(WORKER, &[task]).tasks_to_delete.is_empty());
    assert!(driver.held(hold(reader, 0, &finished(0..2))).finished);
    assert_eq!(driver.serving_worker(WORKER, &[task]).tasks_to_delete, [task]);
}

/// Nobody reads by split from a worker that does not serve splits.
#[test]
fn a_worker_that_serves_no_splits_keeps_no_finished_task() {
    let (mut driver, _, _, task) = ended_by_consumers();
    assert_eq!(driver.worker(WORKER, &[task]).tasks_to_delete, [task]);
}

/// The worker is heard after the end of the task, or not yet.
#[test]
fn a_request_for_splits_takes_no_task_from_under_its_reader() {
    for is_heard in [false, true] {
        let (mut driver, _, reader, task) = ended_by_consumers();
        if is_heard {
            driver.serving_worker(WORKER, &[task]);
        }
        driver.held(hold(reader, 2, &[(0, 1, false)]));
        assert_eq!(driver.tasks_of(reader), [task]);
        assert!(driver.serving_worker(WORKER, &[task]).tasks_to_delete.is_empty());
    }
}

/// One reader reads the last split. Another one asks for splits in vain, twice a second. The reader's task
/// stays for minutes, and nothing is written.
#[test]
fn a_reader_that_waits_takes_no_task_from_under_one_that_reads() {
    let (mut driver, job, reads, task) = ended_by_consumers();
    let waits = driver.join(job, 0);
    driver.client(waits);
    let written = driver.written_upto();
    for second in 0..300 {
        if second == 100 {
            driver.restart();
        }
        driver.advance(Duration::from_secs(1));
        driver.held(hold(waits, 1, &[]));
        assert_eq!(driver.tasks_of(reads), [task], "after {second} s");
        assert_eq!(driver.serving_worker(WORKER, &[task]), Default::default());
        driver.held(hold(waits, 1, &[]));
    }
    assert_eq!(driver.written_upto(), written);
    assert!(driver.held(hold(reads, 0, &finished(0..2))).finished);
}

/// The worker's process was replaced by one that has no task.
#[test]
fn a_reader_gets_a_task_in_place_of_one_that_its_worker_has_not() {
    let (mut driver, _, reader, first) = ended_by_consumers();
    driver.serving_worker(WORKER, &[]);
    driver.held(hold(reader, 2, &[]));
    let tasks = driver.tasks_of(reader);
    assert!(
        tasks.len() == 1 && tasks != [first],
        "it is there in place of the first one: {tasks:?}"
    );
    assert_eq!(driver.pushes.last().unwrap().task, tasks[0]);
    driver.held(hold(reader, 2, &[]));
    assert_eq!(driver.tasks_of(reader), tasks, "one is enough");
    driver.finish(WORKER, tasks[0]);
    assert!(!driver.client(reader).iteration_finished, "the reader still reads");
    assert!(driver.held(hold(reader, 2, &finished(0..2))).finished);
}

/// No reader held splits for a while, so the worker was told to drop its task. A server that has restarted
/// since does not know that before it hears the worker.
#[test]
fn a_reader_gets_a_task_in_place_of_one_that_its_worker_was_told_to_drop() {
    for restarts in [false, true] {
        let (mut driver, _, reader) = reading(4);
        driver.worker(OTHER, &[]);
        let task = driver.tasks_of(reader)[0];
        driver.held(hold(reader, 1, &[]));
        driver.finish(WORKER, task);
        driver.held(hold(reader, 0, &finished(0..1)));
        assert_eq!(driver.serving_worker(WORKER, &[task]).tasks_to_delete, [task]);
        if restarts {
            driver.restart();
            assert_eq!(driver.places(hold(reader, 1, &[])), [(1, 0)]);
            assert_eq!(driver.tasks_of(reader)[0], task);
            driver.serving_worker(WORKER, &[]);
        }
        assert_eq!(driver.places(hold(reader, 1, &[])), [(1, 0)]);
        let seen = driver.client(reader).tasks;
        let own = seen.iter().find(|it| &*it.worker_address == WORKER).unwrap();
        assert_ne!(own.task, task);
    }
}

/// Each task of a worker is made in place of the one it has finished.
#[test]
fn a_worker_that_finishes_task_after_task_has_one_of_an_iteration() {
    let (mut driver, job, reader) = reading(4);
    let iteration = driver.iteration(job, 0);
    driver.serving_worker(OTHER, &[]);
    driver.held(hold(reader, 2, &[]));
    while driver.split_for(WORKER, iteration).is_some() {}
    for _ in 0..20 {
        let tasks = driver.state().tasks().values();
        let open: Vec<_> = tasks.filter(|task| !task.finished).map(|task| task.id).collect();
        assert!(!open.is_empty());
        open.into_iter().for_each(|task| driver.finish(WORKER, task));
        driver.serving_worker(WORKER, &[]);
        driver.serving_worker(OTHER, &[]);
        driver.held(hold(reader, 2, &[]));
        assert_eq!(driver.state().tasks().len(), 2, "one of each worker");
        assert_eq!(driver.client(reader).tasks.len(), 2);
    }
    driver.restart();
    assert_eq!(driver.client(reader).tasks.len(), 2);
    assert!(driver.held(hold(reader, 2, &finished(0..2))).finished);
}

/// A split on its way to a task that was finished and replaced meanwhile still comes back.
#[test]
fn a_split_that_does_not_reach_a_replaced_task_is_handed_out_again() {
    let (mut driver, job, reader) = reading(4);
    let iteration = driver.iteration(job, 0);
    driver.held(hold(reader, 1, &[]));
    let first = driver.client(reader).tasks[0].task;
    driver.journal = Journal::Slow;
    let call = driver.send(split_for(WORKER, iteration, 0, 0));
    driver.send(update(WORKER, &[(first, true)]));
    driver.send(Request::WorkerHeartbeat(serving_worker(WORKER, &[])));
    driver.send(hold(reader, 1, &[]));
    assert!(!driver.state().tasks().contains_key(&first));
    driver.cancel(call);
    driver.journal = Journal::Prompt;
    driver.sync();
    assert_eq!(driver.places(hold(reader, 9, &[])), [(0, 0), (1, 0), (2, 0), (3, 0)]);
}

/// The last reader is done. Its worker is told to drop the task when that is durable.
#[test]
fn an_order_to_drop_a_kept_task_waits_for_what_readers_did() {
    let (mut driver, job, reader) = reading(6);
    let iteration = driver.iteration(job, 0);
    driver.serving_worker(OTHER, &[]);
    driver.held(hold(reader, 2, &[]));
    driver.split_for(OTHER, iteration);
    while driver.split_for(WORKER, iteration).is_some() {}
    let tasks = driver.client(reader).tasks;
    let own = tasks.iter().find(|it| &*it.worker_address == WORKER).unwrap().task;
    driver.finish(WORKER, own);
    assert!(driver.serving_worker(WORKER, &[own]).tasks_to_delete.is_empty());
    driver.journal = Journal::Slow;
    driver.send(hold(reader, 0, &finished(0..2)));
    let call = driver.send(Request::WorkerHeartbeat(serving_worker(WORKER, &[own])));
    assert_eq!(driver.take(call), None, "a crash now would give the reader its splits back");
    driver.sync();
    match driver.take(call) {
        Some(Ok(Reply::WorkerHeartbeat(told))) => assert_eq!(told.tasks_to_delete, [own]),
        other => panic!("{other:?}"),
    }
}

/// The task was removed when another one took its place. The order to drop it waits for that record.
#[test]
fn an_order_to_drop_an_unknown_task_waits_for_every_record() {
    let (mut driver, _, reader, task) = ended_by_consumers();
    driver.serving_worker(WORKER, &[]);
    driver.journal = Journal::Slow;
    driver.send(hold(reader, 2, &[]));
    assert!(!driver.state().tasks().contains_key(&task));
    let call = driver.send(Request::WorkerHeartbeat(serving_worker(WORKER, &[task])));
    assert_eq!(driver.take(call), None);
    driver.sync();
    assert!(matches!(driver.take(call), Some(Ok(Reply::WorkerHeartbeat(_)))));
}

/// A process that another one has followed at its address may be the one that lives. What it names says
/// nothing of the other one.
#[test]
fn a_former_process_keeps_what_serves_readers() {
    let (mut driver, _, reader, task) = ended_by_consumers();
    let says = |uid, tasks: &[_]| WorkerHeartbeat { uid, ..serving_worker(WORKER, tasks) };
    driver.worker_says(says(11, &[task]));
    driver.worker_says(says(12, &[]));
    assert!(driver.worker_says(says(11, &[task])).tasks_to_delete.is_empty());
    driver.held(hold(reader, 2, &[]));
    let tasks = driver.tasks_of(reader);
    assert_ne!(tasks, [task], "the present process has none");
    assert_eq!(driver.worker_says(says(11, &[task])).tasks_to_delete, [task]);
}

/// One of two workers serves records by split. It has lost its finished task with its process.
#[test]
fn a_task_for_readers_by_split_is_made_where_splits_are_served() {
    let mut driver = Driver::new();
    driver.worker(WORKER, &[]);
    let says = |uid, tasks: &[_]| WorkerHeartbeat { uid, ..serving_worker(OTHER, tasks) };
    driver.worker_says(says(11, &[]));
    let dataset = driver.register(dataset(&[SplitSource::counting(4)]));
    let job = driver.job(job(&dataset, ShardingPolicy::Dynamic));
    let reader = driver.join(job, 0);
    driver.held(hold(reader, 2, &[]));
    let iteration = driver.iteration(job, 0);
    while driver.split_for(WORKER, iteration).is_some() {}
    let first = driver.tasks_of(reader);
    driver.worker_says(says(12, &[]));
    // The task of the worker that serves no splits is not over, and does not help the reader.
    driver.finish(OTHER, first[1]);
    driver.worker_says(says(12, &[]));
    driver.held(hold(reader, 2, &[]));
    let new = driver.worker_says(says(12, &[])).new_tasks;
    assert_eq!(new.len(), 1);
    assert_eq!(driver.tasks_of(reader), [first[0], new[0].task]);
    driver.held(hold(reader, 2, &[]));
    assert_eq!(driver.tasks_of(reader).len(), 2, "one is enough");
}

/// A task on a worker that serves no splits would help no reader.
#[test]
fn no_task_is_made_for_readers_by_split_where_no_splits_are_served() {
    let (mut driver, _, reader, task) = ended_by_consumers();
    driver.worker(WORKER, &[]);
    let written = driver.written_upto();
    driver.held(hold(reader, 2, &[]));
    assert_eq!((driver.tasks_of(reader), driver.written_upto()), (vec![task], written));
    let server = records_server(WORKER);
    driver.worker_says(WorkerHeartbeat { transfer_servers: vec![server], ..worker(WORKER, &[]) });
    driver.held(hold(reader, 2, &[]));
    assert_ne!(driver.tasks_of(reader), [task], "the worker serves splits now");
}

#[test]
fn a_task_is_made_for_the_splits_of_a_reader_that_was_ended() {
    let (mut driver, _, reader, task) = ended_by_consumers();
    driver.ask(Request::EndReader { client: reader, job: "train".into() }).unwrap();
    let tasks = driver.state().worker_at(WORKER).unwrap().tasks.clone();
    assert!(tasks.len() == 1 && !tasks.contains(&task), "{tasks:?}");
}

/// A worker keeps the task of one iteration, and was told to drop that of another.
#[test]
fn a_task_that_was_dropped_beside_one_that_is_kept_serves_nobody() {
    let (mut driver, _, reader, task) = ended_by_consumers();
    driver.worker(OTHER, &[]);
    let dataset = driver.register(dataset(&[SplitSource::counting(4)]));
    let name = Some("other".into());
    let other = driver.job(GetOrCreateJob { name, ..job(&dataset, ShardingPolicy::Dynamic) });
    let second = driver.join(other, 0);
    driver.held(hold(second, 1, &[]));
    let dropped = *driver.state().worker_at(WORKER).unwrap().tasks.first().unwrap();
    driver.finish(WORKER, dropped);
    assert!(driver.serving_worker(WORKER, &[task, dropped]).tasks_to_delete.is_empty());
    driver.held(hold(second, 0, &finished(0..1)));
    assert_eq!(driver.serving_worker(WORKER, &[task, dropped]).tasks_to_delete, [dropped]);
    assert_eq!(driver.places(hold(second, 1, &[])), [(1, 0)]);
    assert!(!driver.tasks_of(second).contains(&dropped));
    assert!(driver.tasks_of(reader).contains(&task));
}

/// A heartbeat with the task was long under way, behind one of a process that has it not.
#[test]
fn a_heartbeat_like_the_one_before_says_that_a_kept_task_is_gone() {
    let (mut driver, _, reader, task) = ended_by_consumers();
    driver.serving_worker(WORKER, &[]);
    driver.serving_worker(WORKER, &[task]);
    driver.serving_worker(WORKER, &[]);
    driver.held(hold(reader, 2, &[]));
    assert_ne!(driver.tasks_of(reader), [task]);
}

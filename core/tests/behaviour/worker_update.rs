//! Workers that report what they have done.

use rondo_core::dispatcher::{Event, Reply, Request, ShardingPolicy};
use rondo_core::ids::{ClientId, TaskId};

use crate::driver::{Driver, Journal};
use crate::world::{dataset_named, listed, update};

const FIRST: TaskId = TaskId::new(4000);
const CLIENT: ClientId = ClientId::new(3000);

fn one_task() -> Driver {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    driver.reading(ShardingPolicy::Off);
    driver
}

#[test]
fn an_iteration_is_finished_with_its_last_task() {
    let mut driver = one_task();
    driver.worker("w:2", &[]);
    driver.finish("w:1", FIRST);
    assert!(!driver.client(CLIENT).iteration_finished);
    driver.finish("w:2", TaskId::new(4001));
    assert!(driver.client(CLIENT).iteration_finished);
    driver.restart();
    assert!(driver.client(CLIENT).iteration_finished);
}

#[test]
fn a_task_that_is_not_completed_goes_on() {
    let mut driver = one_task();
    let answer = driver.ask(update("w:1", &[(FIRST, false)]));
    assert_eq!(answer, Ok(Reply::WorkerUpdated));
    assert!(!driver.client(CLIENT).iteration_finished);
}

#[test]
fn unknown_tasks_do_not_hold_back_the_others() {
    let mut driver = one_task();
    let unknown = TaskId::new(77);
    let answer = driver.ask(update("w:1", &[(unknown, true), (FIRST, true)]));
    assert_eq!(answer, Ok(Reply::WorkerUpdated));
    assert!(driver.client(CLIENT).iteration_finished);
    let event = Event::UnknownTaskReported { worker_address: "w:1".into(), task: unknown };
    assert!(driver.events.contains(&event));
}

#[test]
fn a_task_ends_only_by_the_word_of_its_own_worker() {
    let mut driver = one_task();
    driver.worker("w:2", &[]);
    let written = driver.written_upto();
    let own = TaskId::new(4001);
    let answer = driver.ask(update("w:2", &[(FIRST, true), (own, true)]));
    assert_eq!(answer, Ok(Reply::WorkerUpdated));
    assert!(!driver.client(CLIENT).iteration_finished);
    assert!(!driver.state().tasks()[&FIRST].finished);
    assert!(driver.state().tasks()[&own].finished);
    let event = Event::ForeignTaskReported {
        worker_address: "w:2".into(),
        task: FIRST,
        owner: "w:1".into(),
    };
    assert!(driver.events.contains(&event));
    let nobody = driver.ask(update("w:9", &[(FIRST, true)]));
    assert_eq!(nobody, Ok(Reply::WorkerUpdated));
    assert_eq!(driver.written_upto().get(), written.get() + 1);
    driver.finish("w:1", FIRST);
    assert!(driver.client(CLIENT).iteration_finished);
}

#[test]
fn completing_twice_is_fine_and_recorded_once() {
    let mut driver = one_task();
    driver.finish("w:1", FIRST);
    let written = driver.written_upto();
    driver.finish("w:1", FIRST);
    assert_eq!(driver.written_upto(), written);
    let answer = driver.ask(update("w:1", &[(FIRST, true), (FIRST, true), (FIRST, false)]));
    assert_eq!(answer, Ok(Reply::WorkerUpdated));
}

#[test]
fn the_end_of_a_coordinated_read_ends_its_pending_tasks() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    let (_, clients) = driver.reading_together(1);
    driver.worker("w:2", &[]);
    driver.finish("w:1", FIRST);
    let reply = driver.client(clients[0]);
    assert_eq!((reply.iteration_finished, reply.block_round), (true, None));
    let pending = TaskId::new(4001);
    assert_eq!(driver.worker("w:2", &[pending]).tasks_to_delete, [pending]);
}

/// The task after it is known, and has not changed for long.
#[test]
fn an_answer_about_an_unknown_task_waits_whatever_task_is_named_after_it() {
    let mut driver = one_task();
    driver.journal = Journal::Slow;
    driver.send(Request::RegisterDataset(dataset_named("mine")));
    let call = driver.send(update("w:1", &[(TaskId::new(77), true), (FIRST, false)]));
    assert_eq!(driver.take(call), None);
    driver.sync();
    assert_eq!(driver.take(call), Some(Ok(Reply::WorkerUpdated)));
}

#[test]
fn a_finished_task_of_a_coordinated_read_stays_when_its_worker_gets_another() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    driver.worker("w:2", &[]);
    let (_, clients) = driver.reading_together(1);
    let own = driver.worker("w:1", &[]).new_tasks[0].task;
    driver.finish("w:1", own);
    driver.worker("w:1", &[]);
    assert_eq!(driver.state().tasks().len(), 3);
    assert!(driver.state().tasks().get(&own).is_some_and(|task| task.finished));
    assert!(listed(&driver.client(clients[0])).contains(&own));
}

#[test]
fn an_end_that_is_reported_again_is_answered_when_it_is_durable() {
    let mut driver = one_task();
    driver.worker("w:2", &[]);
    driver.journal = Journal::Slow;
    let calls = [0, 1].map(|_| driver.send(update("w:1", &[(FIRST, true)])));
    assert_eq!(calls.map(|call| driver.take(call)), [None, None]);
    driver.sync();
    assert_eq!(
        calls.map(|call| driver.take(call)),
        [(); 2].map(|()| Some(Ok(Reply::WorkerUpdated)))
    );
}

//! What workers learn from their heartbeats, and what is learnt of them.

use bytes::Bytes;
use rondo_core::dispatcher::{
    Config, Event, Reply, Request, ShardingPolicy, TransferServer, WorkerHeartbeat,
};
use rondo_core::ids::{JobId, TaskId};
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::driver::{Driver, Journal};
use crate::world::{client, listed, removal, rounds, started, update, worker};

const FIRST: TaskId = TaskId::new(4000);
const SECOND: TaskId = TaskId::new(4001);

fn one_task() -> (Driver, JobId) {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    let (job, _) = driver.reading(ShardingPolicy::Off);
    (driver, job)
}

#[test]
fn a_new_worker_gets_a_task_of_every_open_iteration() {
    let (mut driver, job) = one_task();
    driver.join(job, 1);
    driver.finish("w:1", FIRST);
    let reply = driver.worker("w:2", &[]);
    assert_eq!(started(&reply), [TaskId::new(4002)], "the first iteration is finished");
    assert!(driver.events.contains(&Event::WorkerRegistered { address: "w:2".into() }));
}

#[test]
fn a_worker_with_all_its_tasks_hears_nothing() {
    let (mut driver, _) = one_task();
    let reply = driver.worker("w:1", &[FIRST]);
    assert!(reply.new_tasks.is_empty() && reply.tasks_to_delete.is_empty());
}

#[test]
fn a_worker_restarted_at_its_address_gets_the_same_tasks_again() {
    let (mut driver, _) = one_task();
    for _ in 0..2 {
        assert_eq!(started(&driver.worker("w:1", &[])), [FIRST]);
    }
    driver.restart();
    assert_eq!(started(&driver.worker("w:1", &[])), [FIRST]);
}

#[test]
fn a_worker_at_another_address_is_another_worker() {
    let (mut driver, _) = one_task();
    assert_eq!(started(&driver.worker("w:2", &[FIRST])), [SECOND]);
}

#[test]
fn finished_unknown_and_foreign_tasks_are_to_be_deleted() {
    let (mut driver, job) = one_task();
    driver.worker("w:2", &[]);
    driver.join(job, 1);
    driver.finish("w:1", FIRST);
    let (live, foreign) = (TaskId::new(4002), SECOND);
    let reply = driver.worker("w:1", &[TaskId::new(-7), FIRST, foreign, live, live]);
    assert_eq!(reply.tasks_to_delete, [TaskId::new(-7), FIRST, foreign]);
    assert!(reply.new_tasks.is_empty());
}

#[test]
fn tasks_of_a_collected_iteration_are_to_be_deleted() {
    let (mut driver, _) = one_task();
    driver.release(rondo_core::ids::ClientId::new(3000));
    driver.advance(Duration::from_secs(1200));
    assert_eq!(driver.worker("w:1", &[FIRST]).tasks_to_delete, [FIRST]);
}

#[test]
fn without_a_journal_a_restart_tells_all_tasks_off() {
    let mut driver = Driver::start(Config::default(), rondo_core::control::Durability::MemoryOnly);
    driver.worker("w:1", &[]);
    driver.reading(ShardingPolicy::Off);
    driver.restart_empty();
    assert_eq!(driver.worker("w:1", &[FIRST]).tasks_to_delete, [FIRST]);
}

/// Another process at the same address, with everything different.
fn reborn() -> WorkerHeartbeat {
    WorkerHeartbeat {
        tags: vec!["COLOCATED".into()],
        uid: 2,
        transfer_servers: vec![TransferServer {
            protocol: "grpc".into(),
            address: "w:99".into(),
            compatibility_info: Bytes::from_static(b"\x00\xff"),
            fall_back_to_grpc_at_client_creation_time: true,
            fall_back_to_grpc_at_get_element_time: false,
        }],
        ..worker("w:1", &[])
    }
}

#[test]
fn clients_see_what_a_worker_that_came_back_says_of_itself() {
    let (mut driver, _) = one_task();
    let id = rondo_core::ids::ClientId::new(3000);
    assert_eq!(driver.client(id).tasks[0].worker_uid, 1);
    driver.worker_says(reborn());
    driver.restart();
    let seen = driver.client(id).tasks[0].clone();
    assert_eq!((seen.worker_uid, seen.task), (2, FIRST));
    assert_eq!(*seen.worker_tags, reborn().tags);
    assert_eq!(*seen.transfer_servers, reborn().transfer_servers);
    assert!(driver.events.contains(&Event::WorkerChanged { address: "w:1".into() }));
}

#[test]
fn clients_of_a_finished_iteration_see_it_too() {
    let (mut driver, _) = one_task();
    let id = rondo_core::ids::ClientId::new(3000);
    driver.finish("w:1", FIRST);
    assert_eq!(driver.client(id).tasks[0].worker_uid, 1);
    driver.worker_says(reborn());
    assert_eq!(driver.client(id).tasks[0].worker_uid, 2);
}

#[test]
fn clients_of_a_finished_iteration_see_it_only_when_it_is_durable() {
    let (mut driver, _) = one_task();
    driver.finish("w:1", FIRST);
    driver.journal = Journal::Slow;
    driver.send(Request::WorkerHeartbeat(reborn()));
    let call = driver.send(client(rondo_core::ids::ClientId::new(3000)));
    assert_eq!(driver.take(call), None, "it shows what may yet be lost");
    driver.sync();
    assert!(matches!(driver.take(call), Some(Ok(Reply::ClientHeartbeat(_)))));
}

#[test]
fn a_removed_task_of_a_coordinated_read_comes_back_as_a_new_one() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    let (_, clients) = driver.reading_together(1);
    let answer = driver.ask(removal(FIRST, 0, 5));
    assert_eq!(answer, Ok(Reply::TaskRemoved(true)));
    let reply = driver.worker("w:1", &[FIRST]);
    assert_eq!((started(&reply), reply.tasks_to_delete), (vec![SECOND], vec![FIRST]));
    let reply = driver.heartbeat(rounds(clients[0], Some(0), None));
    assert_eq!((listed(&reply), reply.block_round), (vec![], Some(1)));
    let again = driver.worker("w:1", &[SECOND]);
    assert!(again.new_tasks.is_empty(), "one task is enough");
}

/// Were it kept, all consumers would be brought to a halt to agree on a task that ends at once.
#[test]
fn a_task_finished_while_it_is_pending_is_not_negotiated_any_more() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    let (_, clients) = driver.reading_together(1);
    driver.worker("w:2", &[]);
    driver.finish("w:2", SECOND);
    let reply = driver.heartbeat(rounds(clients[0], Some(0), None));
    assert_eq!((listed(&reply), reply.block_round), (vec![FIRST], None));
    assert_eq!(driver.ask(update("w:2", &[(SECOND, true)])), Ok(Reply::WorkerUpdated));
}

fn listed_workers(entries: &[&str]) -> Driver {
    let worker_addresses = entries.iter().map(|entry| String::from(*entry)).collect();
    Driver::with(Config { worker_addresses, ..Config::default() })
}

#[test]
fn a_worker_outside_the_list_may_not_register() {
    let mut driver = listed_workers(&["a:1", "b"]);
    driver.worker("b:5", &[]);
    for address in ["c:1", "a:2", "b:6"] {
        let status = driver.refused(Request::WorkerHeartbeat(worker(address, &[])));
        assert_eq!(status.code, Code::FailedPrecondition);
        let text = "The worker's address is not configured, or other workers are already running \
                    at the configured host";
        assert!(status.message.contains(text) && status.message.contains(address), "{status}");
        assert!(status.message.contains("[a:1, b:5]"), "{status}");
    }
    assert_eq!(driver.state().workers().len(), 1);
}

#[test]
fn places_in_the_list_are_kept_across_a_restart() {
    let mut driver = listed_workers(&["b:%port%", "b"]);
    driver.worker("b:5", &[]);
    driver.worker("b:6", &[]);
    driver.restart();
    assert!(driver.ask(Request::WorkerHeartbeat(worker("b:7", &[]))).is_err());
    driver.worker("b:6", &[]);
    driver.reading(ShardingPolicy::Data);
    let indices: Vec<_> = driver.pushes.iter().map(|task| task.worker_index).collect();
    assert_eq!(indices, [0, 1]);
}

#[test]
fn workers_are_listed_in_the_order_they_came() {
    let mut driver = Driver::new();
    for address in ["z:1", "a:1", "m:1"] {
        driver.worker(address, &[]);
    }
    let addresses = ["z:1", "a:1", "m:1"].map(Into::into).to_vec();
    assert_eq!(driver.ask(Request::GetWorkers), Ok(Reply::Workers(addresses)));
}

/// The journal is gone, and a worker of before still runs what now would be the first task.
#[test]
fn a_new_task_is_not_taken_for_one_of_a_former_life() {
    let mut driver = Driver::new();
    let (job, _) = driver.reading(ShardingPolicy::Off);
    let former = [TaskId::new(4000), TaskId::new(4001)];
    let reply = driver.worker("w:1", &former);
    assert_eq!(started(&reply), [TaskId::new(4002)]);
    assert_eq!(reply.tasks_to_delete, former);
    // It did not hear that: the next task is not one of those either.
    driver.worker("w:1", &[TaskId::new(4002), TaskId::new(4003)]);
    driver.join(job, 1);
    let reply = driver.worker("w:1", &[TaskId::new(4002), TaskId::new(4003)]);
    assert_eq!(started(&reply), [TaskId::new(4004)]);
}

#[test]
fn a_report_says_how_long_a_worker_has_been_silent() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    driver.advance(Duration::from_millis(1_500));
    let report = driver.node.dispatcher().report(driver.now);
    assert_eq!(report.workers[0].silent_ms, Some(1_500));
}

#[test]
fn of_a_worker_that_this_process_has_not_heard_no_report_says_when_it_was() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    driver.restart();
    driver.advance(Duration::from_millis(1_500));
    let silent_ms =
        |driver: &Driver| driver.node.dispatcher().report(driver.now).workers[0].silent_ms;
    assert_eq!(silent_ms(&driver), None);
    driver.worker("w:1", &[]);
    driver.advance(Duration::from_millis(400));
    assert_eq!(silent_ms(&driver), Some(400));
}

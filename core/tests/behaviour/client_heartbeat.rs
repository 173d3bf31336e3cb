//! What clients learn from their heartbeats.

use rondo_core::control::{Durability, Recovered, Recovery};
use rondo_core::dispatcher::{Client, Config, DeploymentMode, Part, ShardingPolicy};
use rondo_core::ids::{ClientId, TaskId};
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::driver::Driver;
use crate::world::{client, listed};

const TASKS: [TaskId; 2] = [TaskId::new(4000), TaskId::new(4001)];

fn two_workers_and_a_client() -> (Driver, ClientId) {
    let mut driver = Driver::new();
    for address in ["w:1", "w:2"] {
        driver.worker(address, &[]);
    }
    let (_, client) = driver.reading(ShardingPolicy::Off);
    (driver, client)
}

#[test]
fn finished_tasks_stay_in_the_list_in_their_places() {
    let (mut driver, client) = two_workers_and_a_client();
    driver.finish("w:1", TASKS[0]);
    let reply = driver.client(client);
    assert_eq!((listed(&reply), reply.iteration_finished), (TASKS.to_vec(), false));
    driver.finish("w:2", TASKS[1]);
    let reply = driver.client(client);
    assert_eq!((listed(&reply), reply.iteration_finished), (TASKS.to_vec(), true));
}

#[test]
fn the_list_is_the_same_after_a_restart() {
    let (mut driver, client) = two_workers_and_a_client();
    driver.worker("v:0", &[]);
    let before = driver.client(client);
    driver.restart();
    assert_eq!(driver.client(client), before);
}

#[test]
fn a_worker_that_comes_later_is_listed_last() {
    let (mut driver, client) = two_workers_and_a_client();
    driver.worker("a:1", &[]);
    let workers: Vec<_> =
        driver.client(client).tasks.iter().map(|t| t.worker_address.clone()).collect();
    assert_eq!(workers, ["w:1".into(), "w:2".into(), "a:1".into()]);
}

#[test]
fn an_iteration_without_workers_is_not_finished() {
    let mut driver = Driver::new();
    let (_, client) = driver.reading(ShardingPolicy::Off);
    let reply = driver.client(client);
    assert!(reply.tasks.is_empty() && !reply.iteration_finished && reply.block_round.is_none());
}

#[test]
fn the_deployment_mode_is_told() {
    let config = Config { deployment_mode: DeploymentMode::Colocated, ..Config::default() };
    let mut driver = Driver::with(config);
    let (_, client) = driver.reading(ShardingPolicy::Off);
    assert_eq!(driver.client(client).deployment_mode, DeploymentMode::Colocated);
}

#[test]
fn an_unknown_client_is_told_of_a_possible_restart_only_without_fault_tolerance() {
    for (fault_tolerant, text) in [
        (true, "Iteration client id not found: 3000"),
        (
            false,
            "Unknown iteration client id 3000. The dispatcher is not configured to be fault \
             tolerant, so this could be caused by a dispatcher restart.",
        ),
    ] {
        let config = Config { fault_tolerant, ..Config::default() };
        let mut driver = Driver::start(config, Durability::MemoryOnly);
        let (_, id) = driver.reading(ShardingPolicy::Off);
        driver.restart_empty();
        let status = driver.refused(client(id));
        assert_eq!((status.code, &*status.message), (Code::NotFound, text));
    }
}

/// No history leads here, since collected iterations have no clients; a client is told all the
/// same.
#[test]
fn a_client_of_a_collected_iteration_is_told_so() {
    let (mut driver, id) = two_workers_and_a_client();
    driver.release(id);
    driver.advance(Duration::from_secs(700));
    let mut recovery = Recovery::new();
    for part in driver.state().parts() {
        recovery.restore(rondo_core::control::Part::Dispatcher(part)).unwrap();
    }
    let stray = Client {
        id,
        iteration: *driver.state().iterations().keys().next().unwrap(),
        acquired: driver.now,
        changed: rondo_core::ids::Lsn::NONE,
        splits: std::collections::BTreeMap::new(),
        has_held: false,
    };
    let part = rondo_core::control::Part::Dispatcher(Part::Client(stray));
    recovery.restore(part).unwrap();
    let recovered: Recovered = recovery.finish();
    let status = crate::driver::answer_of(Durability::Journal, recovered, client(id)).unwrap_err();
    assert_eq!(status.code, Code::FailedPrecondition);
    assert!(status.message.contains("has ended"), "{status}");
}

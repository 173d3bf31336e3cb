//! Whoever leaves before the answer is forgotten, and nobody else.

use std::future::ready;
use std::time::Duration;

use bytes::Bytes;
use rondo::node::RunningNode;
use rondo_core::dispatcher::{Reply, Request};
use rondo_core::ids::TaskId;
use rondo_core::limits::PARKED_CALLS_MAX;
use rondo_core::status::Status;
use tokio::time::timeout;

use super::calls::{
    call, client_heartbeat, job, job_names, job_request, join, register, split, worker_heartbeat,
};
use super::world::{Life, World};

/// Long enough for an answer that waits for nobody.
const A_WHILE: Duration = Duration::from_millis(100);

/// A task that its consumers may give up together.
async fn coordinated_task(node: &RunningNode, consumers: i64) -> TaskId {
    register(node, "data", Bytes::from_static(b"graph"), 1).await.unwrap();
    worker_heartbeat(node, "worker:1", Vec::new()).await.unwrap();
    let mut request = job_request("coordinated", "data");
    request.sharding = rondo_core::dispatcher::ShardingPolicy::Off;
    request.consumers = Some(consumers);
    let Reply::Job(id) = call(node, Request::GetOrCreateJob(request)).await.unwrap() else {
        panic!("no job")
    };
    let client = join(node, id).await.unwrap();
    client_heartbeat(node, client).await.unwrap().tasks[0].task
}

async fn give_up(node: &RunningNode, task: TaskId, consumer_index: i64) -> Result<bool, Status> {
    let request = Request::MaybeRemoveTask { task, consumer_index, round: 0 };
    match call(node, request).await? {
        Reply::TaskRemoved(removed) => Ok(removed),
        other => panic!("{other:?}"),
    }
}

fn world() -> World {
    let (mut world, _) = World::faulty();
    world.dispatcher.removal_timeout = rondo_core::time::Duration::from_secs(3600);
    world
}

/// Whether this waits for something other than the node's turn.
async fn waits<T>(call: impl Future<Output = T>) -> bool {
    timeout(A_WHILE, call).await.is_err()
}

#[test]
fn one_waiting_call_is_taken_out_and_the_others_wait_on() {
    let world = world();
    let life = Life::begin(&world);
    life.run(async {
        let node = &*life.node;
        let task = coordinated_task(node, 3).await;
        let mut first = Box::pin(give_up(node, task, 0));
        assert!(waits(&mut first).await);
        assert!(waits(give_up(node, task, 1)).await);
        let mut third = Box::pin(give_up(node, task, 2));
        assert!(waits(&mut third).await, "the call that was dropped still counts");
        assert!(give_up(node, task, 1).await.unwrap());
        assert!(first.await.unwrap() && third.await.unwrap());
    });
}

/// Hands a call to the node, which has no turn meanwhile.
async fn hand_in<T>(call: impl Future<Output = T>) {
    tokio::select! {
        biased;
        _ = call => panic!("answered without a turn of the node"),
        () = ready(()) => {}
    }
}

/// Hands a call to the node, which has no turn meanwhile, and withdraws it.
async fn hand_in_and_withdraw<T>(call: impl Future<Output = T>) {
    hand_in(call).await;
}

#[test]
fn a_call_withdrawn_before_it_was_taken_is_not_made() {
    let world = world();
    let life = Life::begin(&world);
    life.run(async {
        let node = &*life.node;
        let task = coordinated_task(node, 2).await;
        hand_in_and_withdraw(give_up(node, task, 1)).await;
        assert!(waits(give_up(node, task, 0)).await, "the withdrawn call counts");
        hand_in_and_withdraw(job(node, "withdrawn")).await;
        job(node, "made").await.unwrap();
        assert_eq!(job_names(node).await, ["coordinated", "made"]);
    });
}

/// The caller leaves when its split is answered already, and it has not looked.
#[test]
fn a_split_whose_caller_did_not_take_the_answer_goes_to_another() {
    let world = world();
    let life = Life::begin(&world);
    life.run(async {
        let node = &*life.node;
        register(node, "data", Bytes::from_static(b"graph"), 2).await.unwrap();
        worker_heartbeat(node, "worker:1", Vec::new()).await.unwrap();
        let job = job(node, "reading").await.unwrap();
        let client = join(node, job).await.unwrap();
        let iteration = client_heartbeat(node, client).await.unwrap().tasks[0].iteration;
        let mut untaken = Box::pin(split(node, iteration));
        hand_in(&mut untaken).await;
        // It is answered before the next one: they wait for the same disk.
        assert_eq!(split(node, iteration).await.unwrap(), Some(1));
        drop(untaken);
        assert_eq!(split(node, iteration).await.unwrap(), Some(0), "nobody has it");
        assert_eq!(split(node, iteration).await.unwrap(), None);
    });
}

#[test]
fn calls_withdrawn_leave_no_trace_however_many() {
    let world = world();
    let life = Life::begin(&world);
    life.run(async {
        let node = &*life.node;
        let task = coordinated_task(node, 2).await;
        // More than the node keeps waiting at once.
        for batch in 0..=PARKED_CALLS_MAX / 1024 {
            let calls = (0..1024).map(|_| Box::pin(give_up(node, task, 1)));
            let mut parked: Vec<_> = calls.collect();
            for parked in &mut parked {
                tokio::select! {
                    biased;
                    answer = parked => panic!("batch {batch}: {answer:?}"),
                    () = ready(()) => {}
                }
            }
            // The node takes them all before it answers this one.
            call(node, Request::GetConfig).await.unwrap();
        }
        let mut alone = Box::pin(give_up(node, task, 0));
        assert!(waits(&mut alone).await);
        assert!(give_up(node, task, 1).await.unwrap());
        assert!(alone.await.unwrap());
    });
}

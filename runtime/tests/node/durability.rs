//! An answer never comes before what it rests on is durable, and many answers share one sync.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rondo::service::NodePort;
use rondo::store::Found;
use rondo_core::dispatcher::{self, WorkerHeartbeat};
use rondo_core::ids::JobId;
use rondo_core::status::{Code, Status};
use rondo_proto::frame;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::calls::{call, job, job_names, register_data, report, worker_heartbeat};
use super::faulty_disk::FaultyDisk;
use super::world::{Life, World, eventually};

/// Long enough to see that an answer waits for the disk.
const A_WHILE: Duration = Duration::from_millis(300);

fn hang(disk: &FaultyDisk, hangs: bool) {
    let which = hangs.then_some("");
    disk.faults.sync_hangs_for.send_replace(which);
}

#[test]
fn an_update_waits_for_its_sync_and_an_unchanged_heartbeat_does_not() {
    let (world, disk) = World::faulty();
    let life = Life::begin(&world);
    life.run(async {
        let node = &*life.node;
        worker_heartbeat(node, "worker:1", Vec::new()).await.unwrap();
        hang(&disk, true);
        let mut update = Box::pin(job(node, "first"));
        assert!(timeout(A_WHILE, &mut update).await.is_err());
        for _ in 0..100 {
            worker_heartbeat(node, "worker:1", Vec::new()).await.unwrap();
        }
        // Whoever finds the job waits for it as well; an operator who looks what is wrong does not.
        let mut same = Box::pin(job(node, "first"));
        assert!(timeout(A_WHILE, &mut same).await.is_err());
        assert_eq!(report(node).await.unwrap().jobs.len(), 1);
        hang(&disk, false);
        assert_eq!(update.await.unwrap(), same.await.unwrap());
    });
}

#[test]
fn a_crash_before_the_sync_ends_loses_no_answer() {
    let (world, disk) = World::faulty();
    let life = Life::begin(&world);
    life.run(async {
        job(&life.node, "answered").await.unwrap();
        hang(&disk, true);
        assert!(timeout(A_WHILE, job(&life.node, "not answered")).await.is_err());
    });
    life.crash();
    hang(&disk, false);
    let life = Life::begin(&world);
    assert_eq!(life.run(job_names(&life.node))[0], "answered");
}

/// Makes so many calls at once.
async fn many_jobs(life: &Life, count: usize) -> Vec<Result<(), Status>> {
    let mut calls = JoinSet::new();
    for n in 0..count {
        let node = Arc::clone(&life.node);
        calls.spawn(async move { job(&node, &format!("job {n}")).await.map(drop) });
    }
    calls.join_all().await
}

#[test]
fn calls_at_once_share_syncs() {
    let (world, disk) = World::faulty();
    let life = Life::begin(&world);
    let before = disk.faults.syncs.load(Ordering::SeqCst);
    let answers = life.run(many_jobs(&life, 1000));
    assert!(answers.iter().all(Result::is_ok));
    let syncs = disk.faults.syncs.load(Ordering::SeqCst) - before;
    assert!((1..=20).contains(&syncs), "{syncs} syncs for 1000 calls");
    life.stop();
    let life = Life::begin(&world);
    assert_eq!(life.run(job_names(&life.node)).len(), 1000);
}

/// The records in each group of the journal's first segment, marks left out.
async fn groups(world: &World) -> Vec<u64> {
    let store = world.open().await.open_journal(&world.store).await.unwrap();
    let found = store.read(store.segments()[0].first).await.unwrap();
    let count = |found: Found| frame::decode(&found.frame.unwrap()).unwrap().0.count;
    found.into_iter().map(count).filter(|count| *count > 0).collect()
}

/// Hangs the disk, and makes calls one after the other, each in a turn of its own of the node: the
/// first is being synced when the others come.
async fn call_during_a_sync(life: &Life, disk: &FaultyDisk) -> JoinSet<Result<JobId, Status>> {
    register_data(&life.node).await.unwrap();
    hang(disk, true);
    let mut calls = JoinSet::new();
    for n in 0..21_u64 {
        let node = Arc::clone(&life.node);
        calls.spawn(async move { job(&node, &format!("job {n}")).await });
        eventually("taken", || life.node.journal_status().next_lsn == n + 3).await;
    }
    calls
}

#[test]
fn what_comes_during_a_sync_is_one_group() {
    let (world, disk) = World::faulty();
    let life = Life::begin(&world);
    life.run(async {
        let calls = call_during_a_sync(&life, &disk).await;
        hang(&disk, false);
        assert!(calls.join_all().await.iter().all(Result::is_ok));
        life.node.shutdown().await.unwrap();
        assert_eq!(groups(&world).await, [1, 1, 20]);
    });
}

#[test]
fn what_was_collected_during_a_sync_is_written_at_an_orderly_stop() {
    let (world, disk) = World::faulty();
    let life = Life::begin(&world);
    life.run(async {
        let calls = call_during_a_sync(&life, &disk).await;
        let stop = life.node.shutdown();
        hang(&disk, false);
        stop.await.unwrap();
        assert!(calls.join_all().await.iter().all(Result::is_ok));
        assert_eq!(groups(&world).await, [1, 1, 20]);
    });
}

#[test]
fn what_was_collected_during_a_sync_that_fails_is_never_written() {
    let (world, disk) = World::faulty();
    let life = Life::begin(&world);
    life.run(async {
        let calls = call_during_a_sync(&life, &disk).await;
        disk.faults.sync_fails.store(true, Ordering::SeqCst);
        hang(&disk, false);
        let answers = calls.join_all().await;
        assert!(answers.iter().all(|a| a.as_ref().is_err_and(|s| s.code == Code::Unavailable)));
        life.node.halted().await;
        disk.faults.sync_fails.store(false, Ordering::SeqCst);
        assert_eq!(groups(&world).await, [1, 1]);
    });
}

/// Registers a worker that says much of itself.
async fn large_worker(life: &Life, n: usize) -> Result<(), Status> {
    let heartbeat = WorkerHeartbeat {
        address: format!("worker{n}:1"),
        current_tasks: Vec::new(),
        tags: vec!["t".repeat(4000); 500],
        uid: 1,
        transfer_servers: Vec::new(),
    };
    let request = dispatcher::Request::WorkerHeartbeat(heartbeat);
    call(&life.node, request).await.map(drop)
}

#[test]
fn calls_at_once_do_not_share_a_group_that_is_too_large() {
    let (world, _) = World::faulty();
    let life = Life::begin(&world);
    life.run(async {
        // All are in the queue before the node has its first turn.
        let calls = (0..20).map(|n| Box::pin(large_worker(&life, n)));
        for answer in join_all(calls.collect()).await {
            answer.unwrap();
        }
        life.node.shutdown().await.unwrap();
        let store = world.open().await.open_journal(&world.store).await.unwrap();
        let mut sizes = Vec::new();
        for segment in store.segments() {
            let found = store.read(segment.first).await.unwrap();
            sizes.extend(found.iter().map(|found| found.frame.as_ref().unwrap().len()));
        }
        assert!(sizes.iter().sum::<usize>() > 20 * 2_000_000);
        assert!(sizes.iter().all(|size| *size < 16 << 20), "{sizes:?}");
    });
}

/// Waits for all, having begun all before any can end.
async fn join_all<T>(mut calls: Vec<Pin<Box<impl Future<Output = T>>>>) -> Vec<T> {
    for call in &mut calls {
        tokio::select! {
            biased;
            _ = call => panic!("answered without a turn of the node"),
            () = ready(()) => {}
        }
    }
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await);
    }
    answers
}

#[test]
fn calls_above_those_of_a_turn_wait_and_none_is_lost() {
    let (mut world, _) = World::faulty();
    world.node.batch_calls_max = 3;
    let life = Life::begin(&world);
    let answers = life.run(many_jobs(&life, 500));
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(life.run(job_names(&life.node)).len(), 500);
}

#[test]
fn bounds_of_nothing_let_calls_through_one_by_one() {
    let (mut world, _) = World::faulty();
    world.node.queue_calls_max = 0;
    world.node.batch_calls_max = 0;
    let life = Life::begin(&world);
    let answers = life.run(many_jobs(&life, 20));
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

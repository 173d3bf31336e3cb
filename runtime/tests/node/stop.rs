//! An orderly stop answers everybody, and leaves everything durable.

use std::sync::Arc;
use std::time::Duration;

use rondo::node::RunningNode;
use rondo::service::NodePort;
use rondo_core::status::Code;
use tokio::task::JoinSet;

use super::calls::{job, job_names, register_data};
use super::world::{Life, World, for_each_store};

for_each_store!(calls_under_way_are_answered_and_what_was_acknowledged_is_kept);

/// Makes one call after the other until one is refused; says which were acknowledged.
async fn call_until_refused(node: Arc<RunningNode>, caller: usize) -> Vec<String> {
    let mut kept = Vec::new();
    loop {
        let name = format!("job {caller} {}", kept.len());
        match job(&node, &name).await {
            Ok(_) => kept.push(name),
            Err(status) => {
                assert_eq!(status.code, Code::Unavailable);
                return kept;
            }
        }
    }
}

fn calls_under_way_are_answered_and_what_was_acknowledged_is_kept(world: World) {
    let life = Life::begin(&world);
    let kept = life.run(async {
        let callers = (0..32).map(|caller| call_until_refused(Arc::clone(&life.node), caller));
        let callers: JoinSet<_> = callers.collect();
        while life.node.journal_status().durable_lsn < 200 {
            tokio::task::yield_now().await;
        }
        life.node.shutdown().await.unwrap();
        callers.join_all().await.concat()
    });
    assert!(kept.len() >= 200 - 32, "{}", kept.len());
    life.crash();
    let life = Life::begin(&world);
    let names = life.run(job_names(&life.node));
    assert!(kept.iter().all(|name| names.contains(name)));
    // Nobody was refused whose call had been carried out.
    assert_eq!(names.len(), kept.len());
}

#[test]
fn a_sync_under_way_is_waited_for() {
    let (world, disk) = World::faulty();
    let life = Life::begin(&world);
    life.run(async {
        register_data(&life.node).await.unwrap();
        disk.faults.sync_hangs_for.send_replace(Some(""));
        let node = Arc::clone(&life.node);
        let call = tokio::spawn(async move { job(&node, "first").await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        let node = Arc::clone(&life.node);
        let stop = tokio::spawn(async move { node.shutdown().await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!call.is_finished() && !stop.is_finished());
        disk.faults.sync_hangs_for.send_replace(None);
        stop.await.unwrap().unwrap();
        call.await.unwrap().unwrap();
    });
}

#[test]
fn a_disk_that_never_answers_is_waited_for_in_vain_for_a_bounded_time() {
    let (mut world, disk) = World::faulty();
    world.node.stop_timeout = Duration::from_millis(200);
    let life = Life::begin(&world);
    life.run(async {
        disk.faults.sync_hangs_for.send_replace(Some(""));
        let node = Arc::clone(&life.node);
        let call = tokio::spawn(async move { job(&node, "first").await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        let stopped = life.node.shutdown().await;
        assert!(stopped.unwrap_err().contains("in time"));
        assert_eq!(call.await.unwrap().unwrap_err().code, Code::Unavailable);
    });
    disk.faults.sync_hangs_for.send_replace(None);
}

//! A sync that fails ends the node: nobody is told that something was kept that may be lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rondo::service::NodePort;
use rondo_core::status::Code;
use tokio::task::JoinSet;

use super::calls::{job, job_names};
use super::world::{Life, World};

#[test]
fn everybody_is_told_and_the_acknowledged_is_kept() {
    let (world, disk) = World::faulty();
    let life = Life::begin(&world);
    life.run(async {
        job(&life.node, "before").await.unwrap();
        disk.faults.sync_fails.store(true, Ordering::SeqCst);
        let mut calls = JoinSet::new();
        for n in 0..50 {
            let node = Arc::clone(&life.node);
            calls.spawn(async move { job(&node, &format!("lost {n}")).await });
        }
        for answer in calls.join_all().await {
            assert_eq!(answer.unwrap_err().code, Code::Unavailable);
        }
        let reason = life.node.halted().await;
        assert!(reason.contains("the disk does not answer"), "{reason}");
        // Nothing comes back to life, whatever the disk says now.
        disk.faults.sync_fails.store(false, Ordering::SeqCst);
        let later = job(&life.node, "later").await.unwrap_err();
        assert_eq!(later.code, Code::Unavailable);
        assert!(life.node.shutdown().await.unwrap_err().contains("the disk does not answer"));
        let state = life.node.journal_status().state;
        assert!(state.starts_with("halted: cannot sync"), "{state}");
    });
    life.crash();
    let life = Life::begin(&world);
    let names = life.run(job_names(&life.node));
    assert_eq!(names[0], "before");
    assert!(!names.contains(&"later".to_owned()), "{names:?}");
}

//! Readers are answered when the workers know of their tasks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rondo::clock::Clock;
use rondo::memory::Ceiling;
use rondo::node::{RunningNode, Surroundings, start_over};
use rondo::store::{BoxFuture, StoreKind};
use rondo::transport::{MessageStream, Transport};
use rondo_core::status::Status;

use super::calls::{job, join, worker_heartbeat};
use super::world::World;

/// More than a list of pushes has room for at first.
const WORKERS: u64 = 9;

/// Workers that take pushes, those told first the slowest.
#[derive(Default)]
struct Slow(Mutex<(u64, Vec<String>)>);

struct Shared(Arc<Slow>);

impl Transport for Shared {
    fn unary(
        &self,
        address: &str,
        _: &'static str,
        _: Bytes,
        _: Duration,
    ) -> BoxFuture<'static, Result<Bytes, Status>> {
        let (slow, address) = (Arc::clone(&self.0), address.to_owned());
        Box::pin(async move {
            let number = {
                let asked = &mut slow.0.lock().unwrap().0;
                *asked += 1;
                *asked
            };
            tokio::time::sleep(Duration::from_millis(10) * (WORKERS + 1 - number) as u32).await;
            slow.0.lock().unwrap().1.push(address);
            Ok(Bytes::new())
        })
    }

    fn streaming(&self, _: &str, _: &'static str, _: Bytes) -> MessageStream {
        unreachable!("pushes are no streams")
    }
}

/// A node whose workers are told of their tasks by this transport, and its workers.
async fn node_with_workers(world: &World, slow: &Arc<Slow>) -> RunningNode {
    let surroundings = Surroundings {
        machines: world.dispatcher.clone().into(),
        node: world.node,
        transport: Arc::new(Shared(Arc::clone(slow))),
        clock: Clock::start(),
        ceiling: Ceiling::none(),
    };
    let node = start_over(world.open().await, &world.store, surroundings).await.unwrap();
    for worker in 0..WORKERS {
        worker_heartbeat(&node, &format!("worker{worker}:1"), Vec::new()).await.unwrap();
    }
    node
}

#[tokio::test]
async fn a_reader_is_answered_when_all_workers_were_told_of_its_tasks() {
    let world = World::new(StoreKind::Segment);
    let slow = Arc::new(Slow::default());
    let node = node_with_workers(&world, &slow).await;
    let job = job(&node, "job").await.unwrap();
    join(&node, job).await.unwrap();
    assert_eq!(slow.0.lock().unwrap().1.len() as u64, WORKERS);
}

/// The first reader leaves before it is answered. What its workers are being told counts for the next one,
/// although others are answered meanwhile.
#[tokio::test]
async fn a_reader_waits_for_what_workers_are_told_for_one_that_left() {
    let (world, disk) = World::faulty();
    let slow = Arc::new(Slow::default());
    let node = node_with_workers(&world, &slow).await;
    let job = job(&node, "job").await.unwrap();
    disk.faults.sync_hangs_for.send_replace(Some(".seg"));
    let left = tokio::time::timeout(Duration::from_millis(50), join(&node, job)).await;
    assert!(left.is_err(), "it was answered before it left: {left:?}");
    disk.faults.sync_hangs_for.send_replace(None);
    while slow.0.lock().unwrap().0 < WORKERS {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    worker_heartbeat(&node, "worker0:1", Vec::new()).await.unwrap();
    join(&node, job).await.unwrap();
    assert_eq!(slow.0.lock().unwrap().1.len() as u64, WORKERS);
}

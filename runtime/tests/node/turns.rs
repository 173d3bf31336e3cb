//! A turn of the node ends, and whoever is served by the same thread has one.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use rondo::node::Line;
use rondo::service::NodePort;
use rondo::transport::ConnectionId;
use rondo_core::control::Request;
use rondo_core::dispatcher::{self, WorkerHeartbeat};

use super::calls::{call, worker_heartbeat};
use super::world::{Life, World};

/// Calls of one connection that are there at once.
const CALLS: usize = 8100;

/// Calls have at least half of the time, and listings the rest.
#[test]
fn listings_have_their_turns_while_calls_wait() {
    let (world, _) = World::faulty();
    let life = Life::begin(&world);
    life.run(async {
        let node = &*life.node;
        worker_heartbeat(node, "worker:1", Vec::new()).await.unwrap();
        let mut listings: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
        for _ in 0..2 {
            listings.push(Box::pin(async {
                call(node, dispatcher::Request::GetWorkers).await.unwrap();
            }));
        }
        let mut calls: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
        for _ in 0..CALLS {
            calls.push(Box::pin(async {
                worker_heartbeat(node, "worker:1", Vec::new()).await.unwrap();
            }));
        }
        let left = tokio::task::unconstrained(poll_fn(|context| {
            // The listings come first on their connection.
            listings.retain_mut(|listing| listing.as_mut().poll(context).is_pending());
            calls.retain_mut(|call| call.as_mut().poll(context).is_pending());
            if listings.is_empty() { Poll::Ready(calls.len()) } else { Poll::Pending }
        }))
        .await;
        assert!(left > 0, "all {CALLS} calls were taken before");
        drop(calls);
    });
}

#[test]
fn a_call_that_comes_meanwhile_waits_for_a_turn_at_most() {
    let (mut world, _) = World::faulty();
    // The turn ends by its time.
    world.node.batch_calls_max = 2 * CALLS;
    let life = Life::begin(&world);
    life.run(async {
        let node = &*life.node;
        worker_heartbeat(node, "worker:1", Vec::new()).await.unwrap();
        let mut calls: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
        for _ in 0..CALLS {
            calls.push(Box::pin(async {
                worker_heartbeat(node, "worker:1", Vec::new()).await.unwrap();
            }));
        }
        let mut other = None;
        // All that is answered is seen at once.
        let left = tokio::task::unconstrained(poll_fn(|context| {
            calls.retain_mut(|call| call.as_mut().poll(context).is_pending());
            let other = other.get_or_insert_with(|| {
                // Its task comes behind the node's, which has all those calls by now.
                let node = Arc::clone(&life.node);
                tokio::spawn(async move {
                    let line = Line::of_client(ConnectionId::new(1));
                    let beat = WorkerHeartbeat {
                        address: "worker:1".into(),
                        current_tasks: Vec::new(),
                        tags: Vec::new(),
                        uid: 7,
                        transfer_servers: Vec::new(),
                    };
                    let beat = Request::Dispatcher(dispatcher::Request::WorkerHeartbeat(beat));
                    node.call(line, beat).await.unwrap();
                })
            });
            Pin::new(other).poll(context).map(|answered| {
                answered.unwrap();
                calls.len()
            })
        }))
        .await;
        assert!(left > 0, "all {CALLS} calls were taken before");
        drop(calls);
    });
}

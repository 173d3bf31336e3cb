//! The node ends its turn, and other tasks of the same thread have theirs.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rondo::node::{Line, RunningNode};
use rondo::transport::ConnectionId;
use rondo_core::dispatcher::Request;

use super::calls::{call, call_on, heartbeat_request, worker_heartbeat};
use super::world::{Life, World};

/// Calls of one connection that are there at once.
const CALLS: usize = 8100;

/// Calls that the node has not answered.
struct Waiting<'a>(Vec<Pin<Box<dyn Future<Output = ()> + 'a>>>);

impl<'a> Waiting<'a> {
    /// The same call so many times.
    fn of<F: Future<Output = ()> + 'a>(count: usize, call: impl Fn() -> F) -> Self {
        Self((0..count).map(|_| Box::pin(call()) as _).collect())
    }

    /// Heartbeats of a worker.
    fn beats(node: &'a RunningNode) -> Self {
        Self::of(CALLS, move || async move {
            worker_heartbeat(node, "worker:1", Vec::new()).await.unwrap();
        })
    }

    /// Takes the answers that are there. How many calls the node has not answered.
    fn left(&mut self, context: &mut Context<'_>) -> usize {
        self.0.retain_mut(|call| call.as_mut().poll(context).is_pending());
        self.0.len()
    }
}

/// Calls have at least half of the time, and listings the rest.
#[test]
fn listings_have_their_turns_while_calls_wait() {
    let (world, _) = World::faulty();
    let life = Life::begin(&world);
    life.run(async {
        let node = &*life.node;
        worker_heartbeat(node, "worker:1", Vec::new()).await.unwrap();
        let mut listings = Waiting::of(2, || async {
            call(node, Request::GetWorkers).await.unwrap();
        });
        let mut calls = Waiting::beats(node);
        let left = tokio::task::unconstrained(poll_fn(|context| {
            // The listings come first on their connection.
            let listings = listings.left(context);
            let calls = calls.left(context);
            if listings == 0 { Poll::Ready(calls) } else { Poll::Pending }
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
        worker_heartbeat(&life.node, "worker:1", Vec::new()).await.unwrap();
        let mut calls = Waiting::beats(&life.node);
        let mut other = None;
        // All that is answered is seen at once.
        let left = tokio::task::unconstrained(poll_fn(|context| {
            let left = calls.left(context);
            let other = other.get_or_insert_with(|| {
                // Its task comes behind the node's, which has all those calls by now.
                let node = Arc::clone(&life.node);
                tokio::spawn(async move {
                    let line = Line::of_client(ConnectionId::new(1));
                    let beat = heartbeat_request("worker:1", Vec::new());
                    call_on(line, &node, Request::WorkerHeartbeat(beat)).await.unwrap();
                })
            });
            Pin::new(other).poll(context).map(|answered| {
                answered.unwrap();
                left
            })
        }))
        .await;
        assert!(left > 0, "all {CALLS} calls were taken before");
        drop(calls);
    });
}

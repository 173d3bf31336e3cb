//! The node ends its turn, and other tasks of the same thread have theirs.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rondo::node::{Line, RunningNode};
use rondo::transport::ConnectionId;
use rondo_core::dispatcher::{Request, WorkerHeartbeat};

use super::calls::{call, call_on, heartbeat_request, worker_heartbeat};
use super::world::{Life, World};

/// Calls of one connection that are there at once.
const CALLS: usize = 8100;
/// Short calls that wait while listings are asked for that take long.
const SHORT_CALLS: usize = 1000;
/// Such listings.
const LISTINGS: usize = 4;
/// Tags of each of a few workers. A listing that shows them takes as long as hundreds of short calls.
const TAGS: usize = 25_000;

/// Calls that the node has not answered.
struct Waiting<'a>(Vec<Pin<Box<dyn Future<Output = ()> + 'a>>>);

impl<'a> Waiting<'a> {
    /// The same call so many times.
    fn of<F: Future<Output = ()> + 'a>(count: usize, call: impl Fn() -> F) -> Self {
        Self((0..count).map(|_| Box::pin(call()) as _).collect())
    }

    /// So many heartbeats of a worker.
    fn beats(count: usize, node: &'a RunningNode) -> Self {
        Self::of(count, move || async move {
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
        let mut calls = Waiting::beats(CALLS, node);
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
fn between_listings_that_take_long_calls_have_many_turns() {
    let (mut world, _) = World::faulty();
    // After each call the node looks whether a listing has its turn.
    world.node.batch_calls_max = 1;
    let life = Life::begin(&world);
    life.run(async {
        let node = &*life.node;
        worker_heartbeat(node, "worker:1", Vec::new()).await.unwrap();
        for number in 0..4 {
            let tags = vec!["tag".to_owned(); TAGS];
            let address = format!("tagged:{number}");
            let beat = WorkerHeartbeat { tags, ..heartbeat_request(&address, Vec::new()) };
            call(node, Request::WorkerHeartbeat(beat)).await.unwrap();
        }
        let mut listings = Waiting::of(LISTINGS, || async {
            call(node, Request::Report).await.unwrap();
        });
        let mut calls = Waiting::beats(SHORT_CALLS, node);
        // How many calls were answered before each listing.
        let mut before = Vec::new();
        tokio::task::unconstrained(poll_fn(|context| {
            let listed = LISTINGS - listings.left(context);
            let answered = SHORT_CALLS - calls.left(context);
            before.resize(listed, answered);
            if listed == LISTINGS { Poll::Ready(()) } else { Poll::Pending }
        }))
        .await;
        // A pause of the process may count as time that the calls had, but hardly between all listings.
        let between = before.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(between > Some(10), "calls before each listing: {before:?}");
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
        let mut calls = Waiting::beats(CALLS, &life.node);
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

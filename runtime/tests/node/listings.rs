//! Listings of the state take long: other calls go before them.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Mutex;
use std::task::Poll;

use rondo_core::dispatcher::Request;

use super::calls::{call, worker_heartbeat};
use super::world::{Life, World};

const LISTINGS: usize = 20;

#[test]
fn a_call_waits_for_one_listing_at_most() {
    let (world, _) = World::faulty();
    let life = Life::begin(&world);
    life.run(async {
        let node = &*life.node;
        worker_heartbeat(node, "worker:1", Vec::new()).await.unwrap();
        let answered = Mutex::new(Vec::new());
        let list = async |name| {
            call(node, Request::GetWorkers).await.unwrap();
            answered.lock().unwrap().push(name);
        };
        let beat = async {
            worker_heartbeat(node, "worker:1", Vec::new()).await.unwrap();
            answered.lock().unwrap().push("heartbeat");
        };
        // All are there before the node takes the first, and each look asks the heartbeat last: only what the
        // node answered before it stands before it.
        let mut calls: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> =
            (0..LISTINGS).map(|_| Box::pin(list("listing")) as _).collect();
        calls.push(Box::pin(beat));
        poll_fn(|context| {
            calls.retain_mut(|call| call.as_mut().poll(context).is_pending());
            if calls.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        drop(calls);
        let answered = answered.into_inner().unwrap();
        let beat = answered.iter().position(|name| *name == "heartbeat").unwrap();
        assert!(beat <= 1, "{answered:?}");
        assert_eq!(answered.len(), LISTINGS + 1);
    });
}

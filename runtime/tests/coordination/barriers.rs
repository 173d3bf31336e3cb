//! Barriers, and what stands beside their errors.

use std::time::Duration;

use prost::Message;
use rondo_proto::{tf, xla};
use tonic::Code;

use crate::world::{Client, World, both_x, in_life, named, pair, payloads, soon};

fn request(life: u64, task: i32, id: &str, counter: i64, timeout_ms: i64) -> xla::BarrierRequest {
    xla::BarrierRequest {
        incarnations: in_life(life),
        barrier_id: id.into(),
        barrier_timeout_in_ms: timeout_ms,
        source_task_id: task,
        counter,
        ..Default::default()
    }
}

async fn come(client: &Client, request: xla::BarrierRequest) -> Result<i64, tonic::Status> {
    let answer = client.x::<xla::BarrierResponse>("Barrier", request).await;
    answer.map(|answer| answer.counter)
}

#[tokio::test]
async fn all_come_and_the_next_instance_follows() {
    let world = World::start(&[pair()]);
    let ([first, second], life) = both_x(&world).await;
    for counter in 0..3 {
        let both = soon(async {
            tokio::join!(
                come(&first, request(life, 0, "b", counter, 60_000)),
                come(&second, request(life, 1, "b", counter, 60_000)),
            )
        });
        let (one, other) = both.await;
        assert_eq!((one.unwrap(), other.unwrap()), (counter, counter));
    }
}

#[tokio::test]
async fn a_late_task_is_named_in_time_and_the_instance_in_the_payload() {
    let world = World::start(&[pair()]);
    let ([first, second], life) = both_x(&world).await;
    let began = std::time::Instant::now();
    let status = soon(come(&first, request(life, 0, "step", 0, 300))).await.unwrap_err();
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(status.message().starts_with("Barrier timed out. Id: step::0."), "{status}");
    let payloads_of = |status: &tonic::Status| {
        let found = payloads(status);
        assert_eq!(found[0].0, "BarrierError");
        assert_eq!(found[1].0, "CoordinationServiceError");
        let error = xla::BarrierError::decode(found[0].1.clone()).unwrap();
        (error.barrier_id, error.counter)
    };
    assert_eq!(payloads_of(&status), ("step".into(), 0));
    let late = soon(come(&second, request(life, 1, "step", 0, 300))).await.unwrap_err();
    assert_eq!(late.message(), status.message(), "the same for who comes late");
    assert_eq!(payloads_of(&late), ("step".into(), 0));
}

/// Observed of JAX's service: whoever came has come, even if it no longer waits.
#[tokio::test]
async fn an_arrival_counts_whose_caller_has_gone() {
    let world = World::start(&[pair()]);
    let ([first, second], life) = both_x(&world).await;
    let gone = tokio::spawn({
        let first = first.clone();
        async move { come(&first, request(life, 0, "b", 0, 60_000)).await }
    });
    world.until_waiting(1).await;
    gone.abort();
    world.until_waiting(0).await;
    assert_eq!(soon(come(&second, request(life, 1, "b", 0, 60_000))).await.unwrap(), 0);
}

/// Clients count a barrier that ends so as not passed, and know that it was the server.
#[tokio::test]
async fn waiting_calls_end_aborted_when_the_server_stops_in_order() {
    let world = World::start(&[pair()]);
    let ([first, second], life) = both_x(&world).await;
    let waiting = [
        tokio::spawn(async move { come(&first, request(life, 0, "b", 0, 60_000)).await }),
        tokio::spawn(async move {
            let request = tf::BarrierRequest {
                barrier_id: "c".into(),
                barrier_timeout_in_ms: 60_000,
                source_task: Some(named(1)),
                ..Default::default()
            };
            second.t::<tf::BarrierResponse>("Barrier", request).await.map(|_| 0)
        }),
    ];
    world.until_waiting(2).await;
    soon(world.stop()).await;
    for waiting in waiting {
        let status = waiting.await.unwrap().unwrap_err();
        assert_eq!(status.code(), Code::Aborted, "{status}");
        assert!(status.message().contains("shutting down"), "{status}");
    }
}

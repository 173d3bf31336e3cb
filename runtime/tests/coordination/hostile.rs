//! Requests that crash or confuse other servers: each gets its status, and nobody else notices.

use rondo_proto::{tf, xla};
use tonic::Code;

use crate::world::{Client, World, both_x, in_life, named, pair, soon};

async fn is_well(client: &Client, life: u64) {
    let beat =
        xla::HeartbeatRequest { incarnations: in_life(life), incarnation: 100, source_task_id: 0 };
    let answer: xla::HeartbeatResponse = client.x("Heartbeat", beat).await.unwrap();
    assert_eq!(answer.service_incarnation, life);
}

#[tokio::test]
async fn a_watch_with_a_version_of_the_future() {
    let world = World::start(&[pair()]);
    let ([client, _], life) = both_x(&world).await;
    for version_number in [1 << 40, i64::MAX] {
        let request = xla::WatchTasksRequest { incarnations: in_life(life), version_number };
        let status = client.x::<xla::WatchTasksResponse>("WatchTasks", request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        let request = tf::WatchJobStateRequest { job_name: "jax_worker".into(), version_number };
        let status =
            client.t::<tf::WatchJobStateResponse>("WatchJobState", request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains(&version_number.to_string()), "{status}");
    }
    is_well(&client, life).await;
}

#[tokio::test]
async fn a_barrier_from_outside_the_cluster() {
    let world = World::start(&[pair()]);
    let ([client, _], life) = both_x(&world).await;
    for source_task_id in [2, -1, i32::MAX] {
        let request = xla::BarrierRequest {
            incarnations: in_life(life),
            barrier_id: "b".into(),
            barrier_timeout_in_ms: 50,
            source_task_id,
            ..Default::default()
        };
        let status = soon(client.x::<xla::BarrierResponse>("Barrier", request)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    }
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    is_well(&client, life).await;
}

#[tokio::test]
async fn states_of_unknown_tasks() {
    let world = World::start(&[pair()]);
    let ([client, _], life) = both_x(&world).await;
    let other = tf::CoordinatedTask { job_name: "other".into(), ..named(0) };
    for task in [named(2), named(-1), named(i32::MIN), other] {
        let request = tf::GetTaskStateRequest { source_task: vec![named(0), task] };
        let status =
            client.t::<tf::GetTaskStateResponse>("GetTaskState", request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    }
    is_well(&client, life).await;
}

#[tokio::test]
async fn a_counter_of_the_future() {
    let world = World::start(&[pair()]);
    let ([client, _], life) = both_x(&world).await;
    let request = xla::BarrierRequest {
        incarnations: in_life(life),
        barrier_id: "b".into(),
        barrier_timeout_in_ms: 60_000,
        counter: i64::MAX,
        ..Default::default()
    };
    let status = soon(client.x::<xla::BarrierResponse>("Barrier", request)).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal, "{status}");
    assert!(status.message().contains('b'), "{status}");
    is_well(&client, life).await;
}

#[tokio::test]
async fn strangers_and_twins() {
    let world = World::start(&[pair()]);
    let ([client, other], life) = both_x(&world).await;
    let register =
        |source_task_id, incarnation| xla::RegisterTaskRequest { incarnation, source_task_id };
    let stranger =
        other.x::<xla::RegisterTaskResponse>("RegisterTask", register(9, 5)).await.unwrap_err();
    assert_eq!(stranger.code(), Code::InvalidArgument, "{stranger}");
    is_well(&client, life).await;
    // Whoever polls is told; without any poll all tasks would be in error.
    let poll = xla::PollForErrorRequest { incarnations: in_life(life), source_task_id: 0 };
    let polling = {
        let client = client.clone();
        tokio::spawn(
            async move { client.x::<xla::PollForErrorResponse>("PollForError", poll).await },
        )
    };
    world.until_waiting(1).await;
    let twin =
        other.x::<xla::RegisterTaskResponse>("RegisterTask", register(1, 5)).await.unwrap_err();
    assert_eq!(twin.code(), Code::Aborted, "{twin}");
    assert_eq!(soon(polling).await.unwrap().unwrap_err().code(), Code::Aborted);
    // Observed of JAX's service: beats of those that did nothing wrong stay well.
    is_well(&client, life).await;
}

#[tokio::test]
async fn methods_and_bytes_that_are_none() {
    let world = World::start(&[pair()]);
    let client = world.client().await;
    let status = client.x::<xla::HeartbeatResponse>("GetTaskState", ()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    let bad = tf::KeyValueEntry { key: "k".into(), value: bytes::Bytes::new() };
    let status = client.t::<tf::HeartbeatResponse>("Heartbeat", bad).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
}

//! Requests that crash or confuse other servers: each gets its status, and nobody else notices.

use rondo_proto::{tf, xla};
use tonic::Code;

use crate::job::Job;
use crate::world::{Client, World, both_x, in_life, named, pair, payloads, soon};

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
async fn counters_that_nobody_counted_to() {
    let world = World::start(&[pair()]);
    let job = Job::start(&world).await;
    let life = job.life;
    let client = world.client().await;
    for (number, counter) in [i64::MAX, 1, -1, i64::MIN].into_iter().enumerate() {
        let request = xla::BarrierRequest {
            incarnations: in_life(life),
            barrier_id: format!("b/{number}"),
            barrier_timeout_in_ms: 60_000,
            counter,
            ..Default::default()
        };
        let status = soon(client.x::<xla::BarrierResponse>("Barrier", request)).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal, "{counter}: {status}");
        assert!(status.message().contains(&format!("b/{number}")), "{status}");
        let names: Vec<String> = payloads(&status).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["BarrierError", "CoordinationServiceError"]);
        let request = xla::CancelBarrierRequest {
            incarnations: in_life(life),
            barrier_id: "job".into(),
            counter,
            source_task_id: 0,
        };
        if counter != 1 {
            let cancel = client.x::<xla::CancelBarrierResponse>("CancelBarrier", request).await;
            assert_eq!(cancel.unwrap_err().code(), Code::FailedPrecondition, "{counter}");
        }
    }
    job.end().await;
}

#[tokio::test]
async fn timeouts_of_any_length() {
    let world = World::start(&[pair()]);
    let ([client, _], life) = both_x(&world).await;
    let come = |barrier_id: &str, barrier_timeout_in_ms| xla::BarrierRequest {
        incarnations: in_life(life),
        barrier_id: barrier_id.into(),
        barrier_timeout_in_ms,
        ..Default::default()
    };
    for timeout in [0, -1, i64::MIN] {
        let request = come(&timeout.to_string(), timeout);
        let status = soon(client.x::<xla::BarrierResponse>("Barrier", request)).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{timeout}: {status}");
    }
    let for_ever = tokio::spawn({
        let (client, request) = (client.clone(), come("for ever", i64::MAX));
        async move { client.x::<xla::BarrierResponse>("Barrier", request).await }
    });
    world.until_waiting(1).await;
    is_well(&client, life).await;
    for_ever.abort();
}

/// Every method that names a task, with those that are none.
#[tokio::test]
async fn unknown_tasks_whatever_they_ask() {
    let world = World::start(&[pair()]);
    let job = Job::start(&world).await;
    let life = in_life(job.life);
    let client = world.client().await;
    for stranger in [2, -1, i32::MAX, i32::MIN] {
        let beat =
            xla::HeartbeatRequest { incarnations: life, incarnation: 1, source_task_id: stranger };
        refused::<xla::HeartbeatResponse>(&client, "Heartbeat", beat).await;
        let poll = xla::PollForErrorRequest { incarnations: life, source_task_id: stranger };
        refused::<xla::PollForErrorResponse>(&client, "PollForError", poll).await;
        let leave = xla::ShutdownTaskRequest { incarnations: life, source_task_id: stranger };
        refused::<xla::ShutdownTaskResponse>(&client, "ShutdownTask", leave).await;
        let report = xla::ReportErrorToServiceRequest {
            incarnations: life,
            source_task_id: stranger,
            error_code: 13,
            error_message: "mine".into(),
        };
        refused::<xla::ReportErrorToServiceResponse>(&client, "ReportErrorToService", report).await;
        let alive = xla::GetAliveTasksRequest {
            incarnations: life,
            requesting_task_id: stranger,
            task_ids: vec![0, 1],
        };
        refused::<xla::GetAliveTasksResponse>(&client, "GetAliveTasks", alive).await;
        let list = xla::BarrierRequest {
            incarnations: life,
            barrier_id: format!("with {stranger}"),
            task_ids: vec![0, stranger],
            ..Default::default()
        };
        refused::<xla::BarrierResponse>(&client, "Barrier", list).await;
    }
    job.end().await;
}

async fn refused<R: prost::Message + Default + std::fmt::Debug>(
    client: &Client,
    method: &str,
    request: impl prost::Message,
) {
    let status = soon(client.x::<R>(method, request)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{method}: {status}");
}

#[tokio::test]
async fn one_task_twice_in_a_list() {
    let world = World::start(&[pair()]);
    let job = Job::start(&world).await;
    let life = in_life(job.life);
    let client = world.client().await;
    let twice = xla::BarrierRequest {
        incarnations: life,
        barrier_id: "twice".into(),
        task_ids: vec![0, 1, 1],
        ..Default::default()
    };
    refused::<xla::BarrierResponse>(&client, "Barrier", twice).await;
    // Who lives is asked of a set.
    let alive = |task| xla::GetAliveTasksRequest {
        incarnations: life,
        requesting_task_id: task,
        task_ids: vec![1, 0, 1, 0, 7],
    };
    let both = async {
        let first = client.x::<xla::GetAliveTasksResponse>("GetAliveTasks", alive(0));
        let second = client.x::<xla::GetAliveTasksResponse>("GetAliveTasks", alive(1));
        tokio::join!(first, second)
    };
    let (first, second) = soon(both).await;
    let first = first.unwrap();
    assert_eq!((&first.alive_task_ids, &first.incarnations), (&vec![0, 1], &vec![100, 101]));
    assert_eq!(first, second.unwrap());
    job.end().await;
}

/// Of what a request of dialect X says of incarnations, only the service's counts.
#[tokio::test]
async fn wrong_incarnations() {
    let world = World::start(&[pair()]);
    let job = Job::start(&world).await;
    let client = world.client().await;
    let request = |service, task_incarnation| xla::TryGetKeyValueRequest {
        incarnations: Some(xla::Incarnations {
            task_id: 77,
            task_incarnation,
            service_incarnation: service,
        }),
        key: "job/constant".into(),
    };
    for service in [0, 1, job.life.wrapping_add(1), u64::MAX] {
        let asked = client.x::<xla::TryGetKeyValueResponse>("TryGetKeyValue", request(service, 0));
        let status = asked.await.unwrap_err();
        assert_eq!(status.code(), Code::Internal, "{service}: {status}");
        let names: Vec<String> = payloads(&status).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["CoordinationServiceError", "ServiceMismatchError"]);
    }
    let asked = client.x::<xla::TryGetKeyValueResponse>("TryGetKeyValue", request(job.life, 12345));
    assert_eq!(asked.await.unwrap().kv.unwrap().value, &b"constant"[..]);
    job.end().await;
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

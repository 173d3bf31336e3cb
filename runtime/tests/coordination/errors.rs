//! Errors of tasks, and how they reach others.

use prost::Message;
use rondo_core::coordination::NamespaceConfig;
use rondo_proto::{tf, xla};
use tonic::Code;

use crate::world::{World, both_x, in_life, ms, named, pair, payloads, soon};

#[tokio::test]
async fn a_reported_error_reaches_who_polls() {
    let world = World::start(&[pair()]);
    let ([first, second], life) = both_x(&world).await;
    let poll = xla::PollForErrorRequest { incarnations: in_life(life), source_task_id: 0 };
    let polling =
        tokio::spawn(
            async move { first.x::<xla::PollForErrorResponse>("PollForError", poll).await },
        );
    world.until_waiting(1).await;
    let report = xla::ReportErrorToServiceRequest {
        incarnations: in_life(life),
        source_task_id: 1,
        error_code: 13,
        error_message: "out of memory".into(),
    };
    let _: xla::ReportErrorToServiceResponse =
        second.x("ReportErrorToService", report).await.unwrap();
    let status = soon(polling).await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert!(status.message().contains("out of memory"), "{status}");
    let (name, payload) = payloads(&status).remove(0);
    let error = xla::CoordinationServiceError::decode(payload).unwrap();
    assert_eq!((name.as_str(), error.is_reported_error), ("CoordinationServiceError", true));
    assert_eq!(error.source_task_id, 1);
}

#[tokio::test]
async fn a_silent_task_is_told_to_the_others_in_time() {
    let config = NamespaceConfig { heartbeat_timeout: ms(400), ..pair() };
    let world = World::start(&[config]);
    let (clients, life) = both_x(&world).await;
    let poll = xla::PollForErrorRequest { incarnations: in_life(life), source_task_id: 0 };
    let polling = {
        let first = clients[0].clone();
        tokio::spawn(
            async move { first.x::<xla::PollForErrorResponse>("PollForError", poll).await },
        )
    };
    let beat =
        xla::HeartbeatRequest { incarnations: in_life(life), incarnation: 100, source_task_id: 0 };
    let began = std::time::Instant::now();
    while !polling.is_finished() {
        assert!(began.elapsed() < crate::world::SOON);
        let _ = clients[0].x::<xla::HeartbeatResponse>("Heartbeat", beat).await;
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let status = polling.await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().contains("stopped sending heartbeats"), "{status}");
    assert!(began.elapsed() >= std::time::Duration::from_millis(300), "{:?}", began.elapsed());
}

#[tokio::test]
async fn another_life_is_named_beside_the_refusal_in_dialect_x() {
    let world = World::start(&[pair()]);
    let ([first, _], life) = both_x(&world).await;
    for wrong in [0, life.wrapping_add(1)] {
        let request = xla::TryGetKeyValueRequest { incarnations: in_life(wrong), key: "k".into() };
        let status =
            first.x::<xla::TryGetKeyValueResponse>("TryGetKeyValue", request).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal);
        let found = payloads(&status);
        assert_eq!(found[0].0, "CoordinationServiceError");
        assert_eq!(found[1].0, "ServiceMismatchError");
        let error = xla::ServiceMismatchError::decode(found[1].1.clone()).unwrap();
        assert_eq!(error.service_incarnation, life);
    }
}

/// Clients end at any other code.
#[tokio::test]
async fn polls_end_cancelled_when_the_server_stops_in_order() {
    let world = World::start(&[pair()]);
    let clients = [world.client().await, world.client().await];
    soon(async { tokio::join!(clients[0].register_t(0, 1), clients[1].register_t(1, 2)) }).await;
    let polling = {
        let client = clients[0].clone();
        let request = tf::PollForErrorRequest { source_task: Some(named(0)) };
        tokio::spawn(
            async move { client.t::<tf::PollForErrorResponse>("PollForError", request).await },
        )
    };
    let getting = {
        let client = clients[1].clone();
        tokio::spawn(async move { client.get("never").await })
    };
    world.until_waiting(2).await;
    soon(world.stop()).await;
    let status = polling.await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Cancelled, "{status}");
    assert_eq!(getting.await.unwrap().unwrap_err().code(), Code::Unavailable);
}

//! Lives of a namespace, namespaces beside each other, and restarts of the server.

use rondo::node::Line;
use rondo::service::NodePort;
use rondo::transport::ConnectionId;
use rondo_core::control;
use rondo_core::coordination::{self, Caller, Dialect, Method, NamespaceConfig};
use rondo_proto::{tf, xla};
use tonic::Code;

use crate::world::{World, both_x, in_life, named, pair, soon};

pub(crate) fn reset(namespace: &str) -> control::Request {
    let caller = Caller { dialect: Dialect::Rondo, ..Caller::default() };
    let namespace = namespace.into();
    let call = coordination::Call { namespace, caller, method: Method::ResetNamespace };
    control::Request::Coordination(coordination::Request::Call(Box::new(call)))
}

/// Dialect T's requests for keys say no life: they belong to that of their connection.
#[tokio::test]
async fn keys_of_a_former_job_are_out_of_reach_for_both() {
    let world = World::start(&[pair()]);
    let former = [world.client().await, world.client().await];
    let (life, _) =
        soon(async { tokio::join!(former[0].register_t(0, 1), former[1].register_t(1, 2)) }).await;
    former[0].insert("topology", b"old").await.unwrap();
    world.node.call(Line::of_client(ConnectionId::new(0)), reset("default")).await.unwrap();
    let late = former[0].insert("topology", b"late").await.unwrap_err();
    assert_eq!(late.code(), Code::Aborted, "{late}");
    assert!(late.message().contains(&life.to_string()), "{late}");
    let fresh = [world.client().await, world.client().await];
    let (new_life, _) =
        soon(async { tokio::join!(fresh[0].register_t(0, 3), fresh[1].register_t(1, 4)) }).await;
    assert_ne!(new_life, life);
    fresh[0].insert("topology", b"new").await.unwrap();
    assert_eq!(fresh[1].get("topology").await.unwrap(), &b"new"[..]);
}

#[tokio::test]
async fn a_job_can_be_run_again_after_all_have_left() {
    let world = World::start(&[pair()]);
    let mut lives = Vec::new();
    for run in 0..3 {
        let clients = [world.client().await, world.client().await];
        let (life, _) = soon(async {
            tokio::join!(
                clients[0].register_t(0, run * 2 + 1),
                clients[1].register_t(1, run * 2 + 2)
            )
        })
        .await;
        lives.push(life);
        clients[0].insert("global_topology", b"t").await.unwrap();
        let leave = |task: usize| {
            let client = clients[task].clone();
            let source_task = Some(named(i32::try_from(task).unwrap()));
            let request = tf::ShutdownTaskRequest { source_task };
            async move { client.t::<tf::ShutdownTaskResponse>("ShutdownTask", request).await }
        };
        let (one, other) = soon(async { tokio::join!(leave(0), leave(1)) }).await;
        one.unwrap();
        other.unwrap();
        assert_eq!(clients[1].get("global_topology").await.unwrap(), &b"t"[..], "until the next");
    }
    lives.dedup();
    assert_eq!(lives.len(), 3, "{lives:?}");
}

#[tokio::test]
async fn namespaces_on_ports_of_their_own_know_nothing_of_each_other() {
    let other = NamespaceConfig { tasks: Some(1), ..NamespaceConfig::named("other") };
    let world = World::start(&[pair(), other]);
    let (_, life) = both_x(&world).await;
    let stranger = world.client_of(1).await;
    let request = xla::TryGetKeyValueRequest { incarnations: in_life(life), key: "k".into() };
    let status =
        stranger.x::<xla::TryGetKeyValueResponse>("TryGetKeyValue", request).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal, "another life: {status}");
    let own = soon(stranger.register_x(0, 9)).await;
    assert_ne!(own, life);
    stranger.insert("k", b"theirs").await.unwrap();
    world.client().await.insert("k", b"ours").await.unwrap();
    assert_eq!(stranger.get("k").await.unwrap(), &b"theirs"[..]);
}

#[tokio::test]
async fn a_restarted_server_goes_on_with_the_same_life() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let world = World::durable(&path, &[pair()]).await;
    let ([first, second], life) = both_x(&world).await;
    first.insert("k", b"v").await.unwrap();
    let arrival = |task| xla::BarrierRequest {
        incarnations: in_life(life),
        barrier_id: "b".into(),
        barrier_timeout_in_ms: 60_000,
        source_task_id: task,
        ..Default::default()
    };
    let waiting = {
        let (first, request) = (first.clone(), arrival(0));
        tokio::spawn(async move { first.x::<xla::BarrierResponse>("Barrier", request).await })
    };
    world.until_waiting(1).await;
    soon(world.stop()).await;
    waiting.await.unwrap().unwrap_err();
    drop((first, second));
    let world = World::durable(&path, &[pair()]).await;
    let client = world.client().await;
    let beat =
        xla::HeartbeatRequest { incarnations: in_life(life), incarnation: 100, source_task_id: 0 };
    let answer: xla::HeartbeatResponse = client.x("Heartbeat", beat).await.unwrap();
    assert_eq!(answer.service_incarnation, life);
    assert_eq!(client.get("k").await.unwrap(), &b"v"[..]);
    // The first arrival is remembered, so the second one completes the barrier.
    let passed: xla::BarrierResponse = soon(client.x("Barrier", arrival(1))).await.unwrap();
    assert_eq!(passed.counter, 0);
    world.stop().await;
}

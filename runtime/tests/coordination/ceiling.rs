//! At the ceiling of the server's memory new work is refused, and what runs goes on.

use rondo::memory::Ceiling;
use rondo_core::coordination::NamespaceConfig;
use rondo_proto::tf;
use tonic::Code;

use crate::world::{World, named, soon};

const MIB: u64 = 1 << 20;

fn alone() -> NamespaceConfig {
    NamespaceConfig { tasks: Some(1), ..NamespaceConfig::named("default") }
}

fn assert_refused<T: std::fmt::Debug>(answer: Result<T, tonic::Status>) {
    let status = answer.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("--memory-max"), "{status}");
}

#[tokio::test]
async fn a_job_at_the_ceiling_goes_on_and_takes_no_more() {
    let ceiling = Ceiling::new(100 * MIB);
    let world = World::start_below(&[alone()], ceiling.clone());
    let client = world.client().await;
    client.register_t(0, 7).await;
    client.insert("there", b"value").await.unwrap();
    client.insert("much/1", &[7; 10_000]).await.unwrap();
    ceiling.see(100 * MIB);

    assert_refused(client.insert("new", b"value").await);
    let more = tf::IncrementKeyValueRequest { key: "count".into(), increment: 1 };
    assert_refused(client.t::<tf::IncrementKeyValueResponse>("IncrementKeyValue", more).await);
    assert_refused(soon(client.get("absent")).await);
    assert_refused(client.insert("long", &[7; 100_000]).await);

    let beat = tf::HeartbeatRequest { source_task: Some(named(0)), incarnation: 7 };
    client.t::<tf::HeartbeatResponse>("Heartbeat", beat).await.unwrap();
    assert_eq!(soon(client.get("there")).await.unwrap(), &b"value"[..]);
    let barrier = tf::BarrierRequest {
        barrier_id: "b".into(),
        barrier_timeout_in_ms: 10_000,
        source_task: Some(named(0)),
        ..Default::default()
    };
    soon(client.t::<tf::BarrierResponse>("Barrier", barrier)).await.unwrap();
    let delete = tf::DeleteKeyValueRequest { key: "much".into(), is_directory: true };
    client.t::<tf::DeleteKeyValueResponse>("DeleteKeyValue", delete).await.unwrap();

    ceiling.see(10 * MIB);
    client.insert("new", b"value").await.unwrap();
    assert_eq!(soon(client.get("new")).await.unwrap(), &b"value"[..]);
}

#[tokio::test]
async fn the_state_stops_growing_below_the_ceiling() {
    let ceiling = Ceiling::new(80 * MIB);
    let world = World::start_below(&[alone()], ceiling.clone());
    let client = world.client().await;
    ceiling.see(70 * MIB);
    assert_refused(client.insert("k", b"value").await);
    ceiling.see(60 * MIB);
    client.insert("k", b"value").await.unwrap();
}

/// A wait that began below the ceiling goes on.
#[tokio::test]
async fn who_waits_already_is_answered() {
    let ceiling = Ceiling::new(100 * MIB);
    let world = World::start_below(&[alone()], ceiling.clone());
    let (waiter, writer) = (world.client().await, world.client().await);
    let waiting = tokio::spawn(async move { waiter.get("later").await });
    world.until_waiting(1).await;
    ceiling.see(100 * MIB);
    ceiling.see(10 * MIB);
    writer.insert("later", b"value").await.unwrap();
    assert_eq!(soon(waiting).await.unwrap().unwrap(), &b"value"[..]);
}

//! Bounds: whoever hits one is told which, and others go on.

use rondo_core::coordination::NamespaceConfig;
use tonic::Code;

use crate::world::{World, pair, soon};

#[tokio::test]
async fn ten_thousand_blocking_gets_on_one_connection_disturb_nobody() {
    const CALLS: usize = 10_000;
    const WAITING_MAX: usize = 3072;
    let world = World::start(&[pair()]);
    let (greedy, other) = (world.client().await, world.client().await);
    let mut gets = tokio::task::JoinSet::new();
    for _ in 0..CALLS {
        let client = greedy.clone();
        gets.spawn(async move { client.get("k").await });
    }
    world.until_waiting(WAITING_MAX as u64).await;
    soon(other.insert("other", b"v")).await.unwrap();
    assert_eq!(soon(other.get("other")).await.unwrap(), &b"v"[..]);
    // The greedy client's own heartbeats find room, too.
    soon(greedy.insert("own", b"v")).await.unwrap();
    other.insert("k", b"there").await.unwrap();
    let (mut answered, mut refused) = (0, 0);
    while let Some(got) = soon(gets.join_next()).await {
        match got.unwrap() {
            Ok(value) => {
                assert_eq!(value, &b"there"[..]);
                answered += 1;
            }
            Err(status) => {
                assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
                assert!(status.message().contains("--calls-per-connection-max"), "{status}");
                refused += 1;
            }
        }
    }
    assert_eq!((answered + refused, answered >= WAITING_MAX), (CALLS, true), "{answered}");
    world.until_waiting(0).await;
}

#[tokio::test]
async fn keys_and_values_are_bounded_by_name() {
    let config = NamespaceConfig {
        keys_max: 2,
        value_bytes_max: 100_000,
        store_bytes_max: 150_000,
        ..pair()
    };
    let world = World::start(&[config]);
    let client = world.client().await;
    let too_long = client.insert("a", &[0; 100_001]).await.unwrap_err();
    assert_eq!(too_long.code(), Code::InvalidArgument, "{too_long}");
    assert!(too_long.message().contains("100001"), "{too_long}");
    client.insert("a", &[0; 100_000]).await.unwrap();
    let full = client.insert("b", &[0; 100_000]).await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted, "{full}");
    client.insert("b", b"").await.unwrap();
    let many = client.insert("c", b"").await.unwrap_err();
    assert_eq!(many.code(), Code::ResourceExhausted, "{many}");
    assert!(many.message().contains("keys"), "{many}");
    let long_key = client.insert(&"k".repeat(5000), b"").await.unwrap_err();
    assert_eq!(long_key.code(), Code::InvalidArgument, "{long_key}");
    assert_eq!(client.get("a").await.unwrap().len(), 100_000);
}

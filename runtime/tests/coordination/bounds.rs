//! Bounds: whoever hits one is told which, and others go on.

use rondo_core::coordination::NamespaceConfig;
use tonic::Code;

use crate::world::{World, pair, soon};

#[tokio::test]
async fn ten_thousand_blocking_gets_on_one_connection_disturb_nobody() {
    const CALLS: usize = 10_000;
    let world = World::start(&[pair()]);
    let (greedy, other) = (world.client().await, world.client().await);
    let mut gets = tokio::task::JoinSet::new();
    for _ in 0..CALLS {
        let client = greedy.clone();
        gets.spawn(async move { client.get("k").await });
    }
    // So many at once; the rest waits in the client.
    world.until_waiting(4096).await;
    soon(other.insert("other", b"v")).await.unwrap();
    assert_eq!(soon(other.get("other")).await.unwrap(), &b"v"[..]);
    other.insert("k", b"there").await.unwrap();
    let mut answered = 0;
    while let Some(got) = soon(gets.join_next()).await {
        assert_eq!(got.unwrap().unwrap(), &b"there"[..]);
        answered += 1;
    }
    assert_eq!(answered, CALLS);
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

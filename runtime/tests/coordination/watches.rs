//! Watched keys as streams: every change once and in order, nothing kept for whoever does not take
//! it, nothing left behind by whoever leaves.

use rondo::node::Line;
use rondo::service::NodePort;
use rondo::transport::ConnectionId;
use rondo_proto::admin::WatchKeysResponse;
use rondo_proto::admin::key_change::Kind;
use rondo_proto::tf;
use tonic::Code;

use crate::lives::reset;
use crate::world::{Client, World, pair, soon};

/// Sets a key, whether it is there or not.
async fn set(client: &Client, key: &str, value: &[u8]) {
    let value = bytes::Bytes::copy_from_slice(value);
    let kv = Some(tf::KeyValueEntry { key: key.into(), value });
    let request = tf::InsertKeyValueRequest { kv, allow_overwrite: true };
    let _: tf::InsertKeyValueResponse = client.t("InsertKeyValue", request).await.unwrap();
}

/// The first bytes of what was put, as a number.
fn numbers(told: &WatchKeysResponse) -> Vec<u32> {
    let number = |kind: Option<Kind>| match kind {
        Some(Kind::Put(value)) => u32::from_le_bytes(value[..4].try_into().unwrap()),
        other => panic!("{other:?}"),
    };
    told.changes.iter().map(|change| number(change.kind.clone())).collect()
}

#[tokio::test]
async fn every_change_comes_once_and_in_order_over_broken_connections() {
    const CHANGES: u32 = 300;
    let world = World::start(&[pair()]);
    let writer = world.client().await;
    let writing = tokio::spawn(async move {
        for number in 1..=CHANGES {
            set(&writer, "n", &number.to_le_bytes()).await;
        }
    });
    let (mut seen, mut upto) = (Vec::new(), Some(0));
    while seen.last() != Some(&CHANGES) {
        let mut watch = world.client().await.watch("n", upto).await.unwrap();
        // Some answers, and then the connection is gone with whatever is on its way.
        for _ in 0..7 {
            let told = watch.next().await.unwrap();
            assert!(!told.is_whole, "{told:?}");
            seen.extend(numbers(&told));
            upto = Some(told.upto);
            if seen.last() == Some(&CHANGES) {
                break;
            }
        }
    }
    writing.await.unwrap();
    assert_eq!(seen, (1..=CHANGES).collect::<Vec<_>>());
}

#[tokio::test]
async fn who_leaves_frees_what_waited() {
    let world = World::start(&[pair()]);
    let client = world.client().await;
    let mut watches = Vec::new();
    for number in 0..50 {
        let mut watch = client.watch(&format!("k/{number}"), None).await.unwrap();
        watch.next().await.unwrap();
        watches.push(watch);
    }
    world.until_waiting(50).await;
    watches.truncate(20);
    world.until_waiting(20).await;
    set(&client, "k/3", b"xxxx").await;
    assert_eq!(watches[3].next().await.unwrap().changes.len(), 1);
    drop(watches);
    world.until_waiting(0).await;
}

/// While a client takes nothing, nobody waits for it, and no more is made than it has room for. What
/// it missed then is more than the server remembers: it is told all there is instead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_client_holds_up_nobody_and_is_told_where_things_stand() {
    const CHANGES: u32 = 1500;
    const VALUE_BYTES: usize = 32 << 10;
    // HTTP/2's window of a connection of this client, and half of that for what is on its way.
    const ROOM_BYTES: usize = 5 << 20;
    let world = World::start(&[pair()]);
    let mut watch = world.client().await.watch("n", Some(0)).await.unwrap();
    world.until_waiting(1).await;
    let writer = world.client().await;
    for number in 1..=CHANGES {
        let mut value = vec![0; VALUE_BYTES];
        value[..4].copy_from_slice(&number.to_le_bytes());
        soon(set(&writer, "n", &value)).await;
    }
    world.until_waiting(0).await;
    let mut seen = Vec::new();
    let all = loop {
        let told = watch.next().await.unwrap();
        if told.is_whole {
            break numbers(&told);
        }
        seen.extend(numbers(&told));
    };
    assert_eq!(all, [CHANGES]);
    let count = u32::try_from(seen.len()).unwrap();
    assert_eq!(seen, (1..=count).collect::<Vec<_>>());
    assert!(seen.len() * VALUE_BYTES < ROOM_BYTES * 3 / 2, "{count} were made");
    set(&writer, "n", &7_u32.to_le_bytes()).await;
    assert_eq!(numbers(&watch.next().await.unwrap()), [7]);
}

#[tokio::test]
async fn who_has_missed_a_life_is_told_all_there_is() {
    let world = World::start(&[pair()]);
    let client = world.client().await;
    set(&client, "n", &1_u32.to_le_bytes()).await;
    let upto = client.watch("n", None).await.unwrap().next().await.unwrap().upto;
    world.node.call(Line::of_client(ConnectionId::new(0)), reset("default")).await.unwrap();
    set(&client, "n", &2_u32.to_le_bytes()).await;
    let mut watch = client.watch("n", Some(upto)).await.unwrap();
    let told = watch.next().await.unwrap();
    assert_eq!((told.is_whole, numbers(&told)), (true, vec![2]));
    set(&client, "n", &3_u32.to_le_bytes()).await;
    let told = watch.next().await.unwrap();
    assert_eq!((told.is_whole, numbers(&told)), (false, vec![3]));
    world.node.call(Line::of_client(ConnectionId::new(0)), reset("default")).await.unwrap();
    let ended = watch.next().await.unwrap_err();
    assert_eq!(ended.code(), Code::Aborted, "{ended}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_many_watches_of_a_connection_and_its_heartbeats_find_room() {
    const PLACES: usize = 3072;
    let world = World::start(&[pair()]);
    let client = world.client().await;
    let mut watches = Vec::new();
    for _ in 0..PLACES {
        let mut watch = client.watch("k", None).await.unwrap();
        watch.next().await.unwrap();
        watches.push(watch);
    }
    let status = client.watch("k", None).await.unwrap().next().await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("--calls-per-connection-max"), "{status}");
    // A watch keeps its place while it tells.
    soon(set(&client, "k", b"xxxx")).await;
    for watch in &mut watches {
        assert_eq!(watch.next().await.unwrap().changes.len(), 1);
    }
    drop(watches);
    world.until_waiting(0).await;
    client.watch("k", None).await.unwrap().next().await.unwrap();
}

#[tokio::test]
async fn a_watch_that_is_refused_says_why() {
    let world = World::start(&[pair()]);
    let client = world.client().await;
    let long = client.watch(&"k".repeat(5000), None).await.unwrap().next().await.unwrap_err();
    assert_eq!(long.code(), Code::InvalidArgument, "{long}");
    let future = client.watch("k", Some(7_000)).await.unwrap().next().await.unwrap_err();
    assert!(future.message().contains("7000"), "{future}");
    assert_eq!(future.code(), Code::InvalidArgument, "{future}");
}

#[tokio::test]
async fn a_server_that_stops_ends_its_watches() {
    let world = World::start(&[pair()]);
    let mut watch = world.client().await.watch("k", None).await.unwrap();
    watch.next().await.unwrap();
    let stopping = tokio::spawn(world.stop());
    let status = watch.next().await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().contains("shutting down"), "{status}");
    soon(stopping).await.unwrap();
}

/// Values that were put, in the order in which they are told.
fn values(told: &WatchKeysResponse) -> Vec<bytes::Bytes> {
    let value = |kind: Option<Kind>| match kind {
        Some(Kind::Put(value)) => value,
        other => panic!("{other:?}"),
    };
    told.changes.iter().map(|change| value(change.kind.clone())).collect()
}

/// Long values are kept beside the journal, and each is told as it is.
#[tokio::test]
async fn long_values_are_told_as_they_were_put() {
    let world = World::start(&[pair()]);
    let client = world.client().await;
    let put: Vec<_> = (1..4).map(|fill| vec![fill; 100_000]).collect();
    for (number, value) in put.iter().enumerate() {
        set(&client, &format!("d/{number}"), value).await;
    }
    let whole = client.watch("d", None).await.unwrap().next().await.unwrap();
    assert!(whole.is_whole && values(&whole) == put);
    let changes = client.watch("d", Some(0)).await.unwrap().next().await.unwrap();
    assert!(!changes.is_whole && values(&changes) == put);
    let mut watch = client.watch("d", Some(changes.upto)).await.unwrap();
    world.until_waiting(1).await;
    set(&client, "d/0", &put[2]).await;
    assert!(values(&watch.next().await.unwrap()) == put[2..]);
}

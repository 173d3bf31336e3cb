//! Keys in both dialects: one store, whoever speaks.

use bytes::Bytes;
use rondo_proto::{admin, tf, xla};
use tonic::Code;

use crate::world::{World, both_x, in_life, pair, payloads, soon};

#[tokio::test]
async fn both_dialects_see_the_same_keys() {
    let world = World::start(&[pair()]);
    let ([x, _], life) = both_x(&world).await;
    let kv =
        Some(xla::KeyValueEntry { key: "/a//b/".into(), value: Bytes::from_static(b"\xff\0") });
    let insert =
        xla::InsertKeyValueRequest { incarnations: in_life(life), kv, ..Default::default() };
    let _: xla::InsertKeyValueResponse = x.x("InsertKeyValue", insert.clone()).await.unwrap();
    let t = world.client().await;
    let request = tf::TryGetKeyValueRequest { key: "a/b//".into() };
    let found: tf::TryGetKeyValueResponse = t.t("TryGetKeyValue", request).await.unwrap();
    let found = found.kv.unwrap();
    assert_eq!((found.key.as_str(), &found.value[..]), ("a/b//", &b"\xff\0"[..]), "key as asked");
    let request = tf::GetKeyValueDirRequest { directory_key: "a".into() };
    let dir: tf::GetKeyValueDirResponse = t.t("GetKeyValueDir", request).await.unwrap();
    assert_eq!((dir.directory_key.as_str(), dir.kv[0].key.as_str()), ("", "a/b"), "normal key");
    let status = x.x::<xla::InsertKeyValueResponse>("InsertKeyValue", insert).await.unwrap_err();
    assert_eq!((status.code(), payloads(&status)), (Code::AlreadyExists, vec![]));
    let request = tf::TryGetKeyValueRequest { key: "c".into() };
    let absent = t.t::<tf::TryGetKeyValueResponse>("TryGetKeyValue", request).await.unwrap_err();
    assert_eq!(absent.code(), Code::NotFound);
    assert_eq!(payloads(&absent), [("CoordinationServiceError".into(), Bytes::new())]);
}

#[tokio::test]
async fn a_blocking_get_waits_for_its_key_and_leaves_with_its_caller() {
    let world = World::start(&[pair()]);
    let client = world.client().await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.get("k").await }
    });
    let given_up = tokio::spawn({
        let client = client.clone();
        async move { client.get("k").await }
    });
    world.until_waiting(2).await;
    given_up.abort();
    world.until_waiting(1).await;
    client.insert("k", b"v").await.unwrap();
    assert_eq!(soon(waiting).await.unwrap().unwrap(), &b"v"[..]);
    world.until_waiting(0).await;
}

/// Keys are any text; only slashes mean something, and "" is a key that no directory has.
#[tokio::test]
async fn keys_with_nuls_and_slashes_and_none_at_all() {
    let world = World::start(&[pair()]);
    let client = world.client().await;
    let find = async |key: &str| {
        let request = tf::TryGetKeyValueRequest { key: key.into() };
        let found = client.t::<tf::TryGetKeyValueResponse>("TryGetKeyValue", request).await;
        found.map(|found| found.kv.unwrap().value)
    };
    let pairs =
        [("a\0b", "a"), ("a\0", "\0"), ("", "///"), ("/top//k/", "top/k"), ("k\u{fffd}", "k")];
    for (key, other) in pairs {
        client.insert(key, key.as_bytes()).await.unwrap();
        assert_eq!(find(key).await.unwrap(), key.as_bytes(), "{key:?}");
        let same = matches!(key, "" | "/top//k/");
        assert_eq!(find(other).await.is_ok(), same, "{other:?} beside {key:?}");
    }
    let list = async |directory_key: &str| {
        let request = tf::GetKeyValueDirRequest { directory_key: directory_key.into() };
        let found = client.t::<tf::GetKeyValueDirResponse>("GetKeyValueDir", request).await;
        found.unwrap().kv.into_iter().map(|entry| entry.key).collect::<Vec<_>>()
    };
    assert_eq!(list("").await, Vec::<String>::new());
    assert_eq!(list("//top/").await, ["top/k"]);
    let all = tf::DeleteKeyValueRequest { key: String::new(), is_directory: true };
    let _: tf::DeleteKeyValueResponse = client.t("DeleteKeyValue", all).await.unwrap();
    assert_eq!(find("").await.unwrap_err().code(), Code::NotFound);
    assert!(find("top/k").await.is_ok(), "only the key \"\" itself goes");
}

#[tokio::test]
async fn compressed_messages_are_read() {
    let world = World::start(&[pair()]);
    let client = world.client().await;
    let value = vec![b'z'; 100_000];
    client.compressing().insert("big", &value).await.unwrap();
    assert_eq!(client.get("big").await.unwrap(), value);
}

#[tokio::test]
async fn long_values_come_back_as_they_were_and_over_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let value: Vec<u8> = (0..64_u32 << 20).map(|at| at.to_le_bytes()[at as usize % 3]).collect();
    let world = World::durable(&path, &[pair()]).await;
    let client = world.client().await;
    client.insert("nul\0key", &value).await.unwrap();
    client.insert("short", b"s").await.unwrap();
    assert!(client.get("nul\0key").await.unwrap() == value);
    drop(client);
    world.stop().await;
    let world = World::durable(&path, &[pair()]).await;
    let client = world.client().await;
    assert!(client.get("nul\0key").await.unwrap() == value);
    assert_eq!(client.get("short").await.unwrap(), &b"s"[..]);
    world.stop().await;
}

#[tokio::test]
async fn our_own_calls_update_compare_and_watch() {
    let world = World::start(&[pair()]);
    let client = world.client().await;
    let put = |condition: admin::PutCondition, revision| admin::PutKeyRequest {
        key: "k".into(),
        value: Bytes::from_static(b"v"),
        condition: condition.into(),
        revision,
        ..Default::default()
    };
    let ask = async |request| client.rondo::<admin::PutKeyResponse>("PutKey", request).await;
    let update = put(admin::PutCondition::PutIfPresent, 0);
    assert_eq!(ask(update.clone()).await.unwrap_err().code(), Code::NotFound);
    let first = ask(put(admin::PutCondition::PutIfRevision, 0)).await.unwrap().revision;
    let mut watch = client.watch("k", None).await.unwrap();
    let whole = watch.next().await.unwrap();
    assert!(whole.is_whole && whole.changes.len() == 1, "{whole:?}");
    world.until_waiting(1).await;
    let second = ask(update).await.unwrap().revision;
    assert!(second > first);
    let seen = watch.next().await.unwrap();
    assert_eq!((seen.is_whole, seen.changes.len(), seen.upto), (false, 1, second));
    let swap = ask(put(admin::PutCondition::PutIfRevision, first)).await.unwrap_err();
    assert_eq!(swap.code(), Code::FailedPrecondition, "{swap}");
    let gone: admin::DeleteKeyResponse = client
        .rondo("DeleteKey", admin::DeleteKeyRequest { key: "k".into(), ..Default::default() })
        .await
        .unwrap();
    assert!(gone.revision > second);
    assert_eq!(watch.next().await.unwrap().upto, gone.revision);
}

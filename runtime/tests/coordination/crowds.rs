//! Too much of everything: whoever asks for it gets what the bounds allow, and a job beside it works
//! on.

use bytes::Bytes;
use rondo_core::coordination::NamespaceConfig;
use rondo_proto::tf;
use tokio::task::JoinSet;
use tonic::{Code, Status};

use crate::job::Job;
use crate::world::{Client, World, pair, soon};

const MIB: usize = 1 << 20;

async fn directory(client: &Client, name: &str) -> Result<Vec<tf::KeyValueEntry>, Status> {
    let request = tf::GetKeyValueDirRequest { directory_key: name.into() };
    let answer: tf::GetKeyValueDirResponse = client.t("GetKeyValueDir", request).await?;
    Ok(answer.kv)
}

/// Ten connections, of which none reaches its own bound.
#[tokio::test]
async fn ten_thousand_blocking_gets_on_ten_connections_disturb_nobody() {
    const CONNECTIONS: usize = 10;
    const CALLS: usize = 10_000;
    let world = World::start(&[pair()]);
    let job = Job::start(&world).await;
    let mut gets = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let client = world.client().await;
        for number in 0..CALLS / CONNECTIONS {
            let client = client.clone();
            gets.spawn(async move { client.get(&format!("never/{number}")).await });
        }
    }
    world.until_at_least_waiting(CALLS as u64).await;
    let slowest = job.end().await;
    assert!(gets.try_join_next().is_none(), "one was answered");
    drop(gets);
    world.until_waiting(0).await;
    println!("the slowest round took {slowest:?}");
}

#[tokio::test]
async fn values_of_64_mib_come_back_alone_and_together() {
    const VALUES: u8 = 3;
    let world = World::start(&[pair()]);
    let job = Job::start(&world).await;
    let client = world.client().await;
    for value in 0..VALUES {
        let bytes = vec![value; 64 * MIB];
        soon(client.insert(&format!("large/{value}"), &bytes)).await.unwrap();
        let found = soon(client.get(&format!("large/{value}"))).await.unwrap();
        assert!(found == bytes, "value {value} is another one");
    }
    let found = soon(directory(&client, "large")).await.unwrap();
    assert_eq!(found.len(), usize::from(VALUES));
    for (entry, value) in found.iter().zip(0..VALUES) {
        assert_eq!((entry.key.as_str(), entry.value.len()), (&*format!("large/{value}"), 64 * MIB));
        assert!(entry.value == vec![value; 64 * MIB], "value {value} is another one");
    }
    println!("the slowest round took {:?}", job.end().await);
}

/// Of one answer the memory is bounded, too.
#[tokio::test]
async fn a_directory_that_holds_more_than_may_be_under_way_is_refused_by_name() {
    let world = World::start_within(&[pair()], 4 * MIB as u64);
    let client = world.client().await;
    for value in 0..5 {
        client.insert(&format!("large/{value}"), &vec![value; MIB]).await.unwrap();
    }
    let refused = directory(&client, "large").await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    for part in ["5242", "4194304", "--inflight-size-max"] {
        assert!(refused.message().contains(part), "{part} in {refused}");
    }
    client.t::<tf::DeleteKeyValueResponse>("DeleteKeyValue", gone("large/4")).await.unwrap();
    client.t::<tf::DeleteKeyValueResponse>("DeleteKeyValue", gone("large/3")).await.unwrap();
    assert_eq!(directory(&client, "large").await.unwrap().len(), 3);
}

fn gone(key: &str) -> tf::DeleteKeyValueRequest {
    tf::DeleteKeyValueRequest { key: key.into(), is_directory: false }
}

/// The bound of keys is lower than an operator's, to be reached in seconds.
#[tokio::test]
async fn more_keys_than_there_may_be_are_refused_while_a_job_works_on() {
    const KEYS_MAX: usize = 5_000;
    const CALLS: usize = 6_000;
    let config = NamespaceConfig { keys_max: KEYS_MAX, ..pair() };
    let world = World::start(&[config]);
    let job = Job::start(&world).await;
    let client = world.client().await;
    let mut inserts = JoinSet::new();
    for number in 0..CALLS {
        let client = client.clone();
        inserts.spawn(async move { client.insert(&format!("many/{number:07}"), b"v").await });
    }
    let mut refused = 0;
    while let Some(inserted) = soon(inserts.join_next()).await {
        if let Err(status) = inserted.unwrap() {
            assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
            assert!(status.message().contains(&KEYS_MAX.to_string()), "{status}");
            refused += 1;
        }
    }
    // Three keys are the job's.
    assert_eq!(CALLS - refused, KEYS_MAX - 3);
    assert_eq!(directory(&client, "many").await.unwrap().len(), KEYS_MAX - 3);
    client.t::<tf::DeleteKeyValueResponse>("DeleteKeyValue", gone("many")).await.unwrap();
    assert_eq!(directory(&client, "many").await.unwrap(), vec![]);
    client.insert("many/again", b"v").await.unwrap();
    println!("the slowest round took {:?}", job.end().await);
}

#[tokio::test]
async fn a_value_above_the_bound_is_refused_by_name() {
    let config = NamespaceConfig { value_bytes_max: 64 * MIB as u64, ..pair() };
    let world = World::start(&[config]);
    let job = Job::start(&world).await;
    let client = world.client().await;
    let refused = soon(client.insert("large", &vec![0; 64 * MIB + 1])).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert!(refused.message().contains("67108865"), "{refused}");
    let request = tf::TryGetKeyValueRequest { key: "large".into() };
    let absent = client.t::<tf::TryGetKeyValueResponse>("TryGetKeyValue", request).await;
    assert_eq!(absent.unwrap_err().code(), Code::NotFound);
    job.end().await;
}

/// `Bytes` as a message has one field of bytes, where these requests have their key.
#[tokio::test]
async fn keys_that_are_no_text_are_refused() {
    let world = World::start(&[pair()]);
    let client = world.client().await;
    for method in ["GetKeyValue", "TryGetKeyValue", "GetKeyValueDir", "DeleteKeyValue"] {
        let key = Bytes::from_static(b"k\xff\xfe");
        let refused = client.t::<tf::TryGetKeyValueResponse>(method, key).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{method}: {refused}");
        assert!(refused.message().contains(method), "{method}: {refused}");
    }
}

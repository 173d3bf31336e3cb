//! Very many keys: put over the wire, kept over `kill -9`, listed and deleted at once, while a
//! neighbour's heartbeats go on.
//!
//! `RONDO_KEYS` is the number of keys (30,000).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;
use rondo::transport::Transport;
use rondo::transport::grpc_client::GrpcClient;
use rondo_core::status::Status;
use rondo_proto::tf;
use rondo_tests::neighbour::Neighbour;
use rondo_tests::server::{Options, Server};
use tokio::task::JoinSet;

const KEYS: u64 = 30_000;
const CONNECTIONS: usize = 4;
const CALLS_PER_CONNECTION: usize = 64;
const PATIENCE: Duration = Duration::from_secs(120);

fn keys() -> u64 {
    env::var("RONDO_KEYS").map_or(KEYS, |keys| keys.parse().expect("a number of keys"))
}

async fn call<R: Message + Default>(
    client: &GrpcClient,
    address: &str,
    path: &'static str,
    request: &impl Message,
) -> Result<R, Status> {
    let answer = client.unary(address, path, request.encode_to_vec().into(), PATIENCE).await?;
    Ok(R::decode(answer).unwrap())
}

/// Puts all keys in no order, over several connections with many calls each.
async fn fill(address: &str, keys: u64) {
    let next = Arc::new(AtomicU64::new(0));
    let mut putting = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let client = GrpcClient::new();
        for _ in 0..CALLS_PER_CONNECTION {
            let (client, next, address) = (client.clone(), Arc::clone(&next), address.to_owned());
            putting.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= keys {
                        return;
                    }
                    let key = format!("many/{}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                    let kv = Some(tf::KeyValueEntry { key, value: Bytes::from_static(&[7; 16]) });
                    let request = tf::InsertKeyValueRequest { kv, allow_overwrite: false };
                    let path = "/tensorflow.CoordinationService/InsertKeyValue";
                    let put: Result<tf::InsertKeyValueResponse, _> =
                        call(&client, &address, path, &request).await;
                    put.unwrap();
                }
            });
        }
    }
    while let Some(put) = putting.join_next().await {
        put.unwrap();
    }
}

async fn list(address: &str) -> usize {
    let request = tf::GetKeyValueDirRequest { directory_key: "many".into() };
    let path = "/tensorflow.CoordinationService/GetKeyValueDir";
    let answer: tf::GetKeyValueDirResponse =
        call(&GrpcClient::new(), address, path, &request).await.unwrap();
    answer.kv.len()
}

async fn delete(address: &str) {
    let request = tf::DeleteKeyValueRequest { key: "many".into(), is_directory: true };
    let path = "/tensorflow.CoordinationService/DeleteKeyValue";
    let _: tf::DeleteKeyValueResponse =
        call(&GrpcClient::new(), address, path, &request).await.unwrap();
}

/// Times what is done, and the longest heartbeat meanwhile.
async fn timed<T>(
    what: &str,
    neighbour: &mut Neighbour,
    server: &Server,
    done: impl Future<Output = T>,
) -> (T, Duration) {
    neighbour.longest_beat();
    let began = Instant::now();
    let result = done.await;
    let took = began.elapsed();
    let beat = neighbour.longest_beat();
    let resident = server.resident_kib() / 1024;
    println!("{what}: {took:.1?}, longest heartbeat {beat:.1?}, {resident} MiB resident");
    (result, beat)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_notices_very_many_keys() {
    let keys = keys();
    for store in ["segment", "sled"] {
        println!("{store}, {keys} keys");
        let mut server = Server::start(&Options::store(store).flag("--tasks=1"));
        let address = server.address();
        let mut neighbour = Neighbour::beside(&address);
        timed("put", &mut neighbour, &server, fill(&address, keys)).await;
        let (listed, _) = timed("listed", &mut neighbour, &server, list(&address)).await;
        assert_eq!(listed as u64, keys);
        drop(neighbour);
        server.kill();
        let began = Instant::now();
        server.start_again();
        println!("started again: {:.1?}", began.elapsed());
        assert_eq!(list(&address).await as u64, keys, "{store}: after a restart");
        let mut neighbour = Neighbour::beside(&address);
        timed("deleted", &mut neighbour, &server, delete(&address)).await;
        let (listed, _) = timed("listed", &mut neighbour, &server, list(&address)).await;
        assert_eq!(listed, 0);
    }
}

//! Very many keys: put over the wire, kept over `kill -9`, listed and deleted at once, while a
//! neighbour's heartbeats go on.
//!
//! `RONDO_KEYS` is the number of keys (80,000).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::env;
use std::time::{Duration, Instant};

use rondo::transport::grpc_client::GrpcClient;
use rondo_core::limits::LISTED_KEYS_MAX;
use rondo_core::status::{Code, Status};
use rondo_proto::tf;
use rondo_tests::keys::{call, fill};
use rondo_tests::neighbour::Neighbour;
use rondo_tests::server::{Options, Server};

const KEYS: u64 = 80_000;
/// The longest that a heartbeat may take meanwhile, in a debug build on a busy machine.
const NOTICED: Duration = Duration::from_secs(2);

fn keys() -> u64 {
    env::var("RONDO_KEYS").map_or(KEYS, |keys| keys.parse().expect("a number of keys"))
}

/// How many keys there are, as far as one answer may tell.
async fn list(address: &str) -> Option<u64> {
    let request = tf::GetKeyValueDirRequest { directory_key: "many".into() };
    let path = "/tensorflow.CoordinationService/GetKeyValueDir";
    let answer: Result<tf::GetKeyValueDirResponse, Status> =
        call(&GrpcClient::new(), address, path, &request).await;
    match answer {
        Ok(answer) => Some(answer.kv.len() as u64),
        Err(status) => {
            assert_eq!(status.code, Code::ResourceExhausted, "{status}");
            assert!(status.message.contains(&LISTED_KEYS_MAX.to_string()), "{status}");
            None
        }
    }
}

async fn find(address: &str, number: u64) -> Result<(), Status> {
    let request = tf::TryGetKeyValueRequest { key: key(number) };
    let path = "/tensorflow.CoordinationService/TryGetKeyValue";
    let answer: Result<tf::TryGetKeyValueResponse, Status> =
        call(&GrpcClient::new(), address, path, &request).await;
    answer.map(drop)
}

/// The keys in no order.
fn key(number: u64) -> String {
    format!("many/{}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
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
    // A heartbeat that was kept waiting is counted when it is answered.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let beat = neighbour.longest_beat();
    let resident = server.resident_kib() / 1024;
    println!("{what}: {took:.1?}, longest heartbeat {beat:.1?}, {resident} MiB resident");
    (result, beat)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_notices_very_many_keys() {
    let keys = keys();
    let listable = (keys <= LISTED_KEYS_MAX as u64).then_some(keys);
    for store in ["segment", "sled"] {
        println!("{store}, {keys} keys");
        let mut server = Server::start(&Options::store(store).flag("--tasks=1"));
        let address = server.address();
        let mut neighbour = Neighbour::beside(&address);
        timed("put", &mut neighbour, &server, fill(&address, keys, key, &[7; 16])).await;
        let (listed, beat) = timed("listed", &mut neighbour, &server, list(&address)).await;
        assert!(beat < NOTICED, "{beat:?}");
        assert_eq!(listed, listable);
        drop(neighbour);
        server.kill();
        let began = Instant::now();
        server.start_again();
        println!("started again: {:.1?}", began.elapsed());
        assert_eq!(list(&address).await, listable, "{store}: after a restart");
        for number in [0, keys / 2, keys - 1] {
            find(&address, number).await.unwrap();
        }
        let mut neighbour = Neighbour::beside(&address);
        let (_, beat) = timed("deleted", &mut neighbour, &server, delete(&address)).await;
        assert!(beat < NOTICED, "{beat:?}");
        let (listed, _) = timed("listed", &mut neighbour, &server, list(&address)).await;
        assert_eq!(listed, Some(0));
    }
}

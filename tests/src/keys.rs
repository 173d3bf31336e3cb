//! Keys put over the wire, many at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use rondo::transport::Transport;
use rondo::transport::grpc_client::GrpcClient;
use rondo_core::status::Status;
use rondo_proto::tf;
use tokio::task::JoinSet;

const CONNECTIONS: usize = 4;
const CALLS_PER_CONNECTION: usize = 64;
const PATIENCE: Duration = Duration::from_secs(120);

/// Makes a call and waits for the answer.
///
/// # Errors
/// The server's refusal.
pub async fn call<R: Message + Default>(
    client: &GrpcClient,
    address: &str,
    path: &'static str,
    request: &impl Message,
) -> Result<R, Status> {
    let answer = client.unary(address, path, request.encode_to_vec().into(), PATIENCE).await?;
    Ok(R::decode(answer).unwrap())
}

/// Puts keys number 0 to `keys`, over several connections with many calls each. None may be there before.
pub async fn fill(address: &str, keys: u64, key: fn(u64) -> String, value: &'static [u8]) {
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
                    let (key, value) = (key(number), Bytes::from_static(value));
                    let kv = Some(tf::KeyValueEntry { key, value });
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

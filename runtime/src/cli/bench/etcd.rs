//! etcd, as far as it can do what a coordination service can: `Put` and `Range` of its `KV`.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use super::coordination_workload::{Directory, LARGE, Made, SMALL, Workload, key_of, value};
use super::load::Calls;
use super::rpc::{Broken, Connection, Drivers};

const PUT: &str = "/etcdserverpb.KV/Put";
const RANGE: &str = "/etcdserverpb.KV/Range";

#[derive(Clone, PartialEq, Message)]
struct Put {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct Range {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    /// The first key that is not meant; empty for the one key.
    #[prost(bytes = "bytes", tag = "2")]
    range_end: Bytes,
}

/// Puts into the etcd at `address` what the workload needs, and says what to call; `None` when etcd
/// has nothing like it.
///
/// # Errors
/// When etcd refuses something, or cannot be reached.
pub(super) async fn prepare(
    address: SocketAddr,
    workload: Workload,
) -> Result<Option<Arc<dyn Calls>>, Broken> {
    let value = value();
    Ok(match workload {
        Workload::Insert | Workload::InsertOne => {
            let message = move |serial| put(key_of(serial), &value);
            Some(Arc::new(Made { path: PUT, message }))
        }
        Workload::TryGet => {
            fill(address, vec![put(key_of(0), &value)]).await?;
            let asked = Range { key: key_of(0).into(), range_end: Bytes::new() };
            let asked: Bytes = asked.encode_to_vec().into();
            Some(Arc::new(Made { path: RANGE, message: move |_| asked.clone() }))
        }
        Workload::Directory => Some(range_over(address, SMALL, &value).await?),
        Workload::LargeDirectory => Some(range_over(address, LARGE, &value).await?),
        Workload::Heartbeat
        | Workload::Increment
        | Workload::Barrier
        | Workload::Timeout
        | Workload::Connected => None,
    })
}

async fn range_over(
    address: SocketAddr,
    directory: Directory,
    value: &Bytes,
) -> Result<Arc<dyn Calls>, Broken> {
    fill(address, directory.keys().map(|key| put(key, value)).collect()).await?;
    let (key, range_end) = (format!("{}/", directory.key), format!("{}0", directory.key));
    let asked = Range { key: key.into(), range_end: range_end.into() };
    let asked: Bytes = asked.encode_to_vec().into();
    Ok(Arc::new(Made { path: RANGE, message: move |_| asked.clone() }))
}

fn put(key: String, value: &Bytes) -> Bytes {
    Put { key: key.into(), value: value.clone() }.encode_to_vec().into()
}

async fn fill(address: SocketAddr, puts: Vec<Bytes>) -> Result<(), Broken> {
    let mut drivers = Drivers::new();
    let mut connection = Connection::open(address, &mut drivers).await?;
    for put in puts {
        let answer = connection.call(PUT, &put).await?;
        if answer.code != 0 {
            return Err(format!("Put: {} {}", answer.code, answer.text).into());
        }
    }
    Ok(())
}

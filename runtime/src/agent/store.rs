//! Keys of a namespace, for a process that is no task of its job: it registers nowhere, and comes and goes
//! as it likes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rondo_core::agent::{Config, PutCondition, Reply, Request};
use rondo_core::ids::{Incarnation, RelayId, Revision, TaskIndex};
use rondo_core::limits::RELAY_PATIENCE_MAX;
use rondo_core::status::{Code, Status};
use rondo_core::{relay, time};
use rondo_proto::convert;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::interface::unexpected;
use super::watches::Told;
use super::way::{Way, told};
use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::relay::Upstream;
use crate::transport::{Client, MessageStream, Transport};

/// Calls and watches under way at most.
const CALLS_MAX: usize = 1024;

/// The key-value store of a namespace. Clones are the same one.
///
/// Calls outlive the server's absence, for as long as was said, and happen once. What is under way is
/// bounded to 1024 calls and watches: RESOURCE_EXHAUSTED above it.
#[derive(Clone)]
pub struct KeyValueStore {
    way: Way,
    config: Arc<Config>,
    room: Arc<Semaphore>,
}

impl KeyValueStore {
    /// The store of the server at `address` (`host:port`), once it has answered.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a patience of more than an hour; UNAVAILABLE when it does not answer within
    /// `connect_timeout`, with its address and what came of the last try.
    pub async fn connect(
        address: &str,
        connect_timeout: Duration,
        patience: Duration,
        entropy: &mut Entropy,
    ) -> Result<Self, Status> {
        let patience_max = Duration::from_nanos(RELAY_PATIENCE_MAX.as_nanos());
        if patience > patience_max {
            let text = format!(
                "patience is {patience:?}: {patience_max:?} at most, for as long the server \
                                remembers what it has done"
            );
            return Err(Status::new(Code::InvalidArgument, text));
        }
        Self::on(way(address, connect_timeout, entropy)).probe(address, connect_timeout).await?;
        Ok(Self::on(way(address, patience, entropy)))
    }

    fn on(way: Way) -> Self {
        // No task: only a lease would name one.
        let config = Config::of("", TaskIndex::new(0), Incarnation::new(0));
        Self { way, config: Arc::new(config), room: Arc::new(Semaphore::new(CALLS_MAX)) }
    }

    /// Whether there is a server.
    async fn probe(&self, address: &str, timeout: Duration) -> Result<(), Status> {
        // The relay's own refusal, which says what came of its tries, comes at the same time.
        let deadline = timeout.saturating_add(Duration::from_secs(1));
        match self.call(Request::TryGet { key: String::new() }, Some(deadline)).await {
            Ok(_) => Ok(()),
            Err(status) if status.code == Code::NotFound => Ok(()),
            Err(status) => {
                let text = format!(
                    "no coordination service of Rondo's answers at {address} within {timeout:?}: is \
                     `rondo serve` there? {}",
                    status.message
                );
                Err(Status::new(Code::Unavailable, text))
            }
        }
    }

    /// A key's value, waited for until it is there, or for so long.
    ///
    /// # Errors
    /// DEADLINE_EXCEEDED when it is not there in time.
    pub async fn get(&self, key: &str, timeout: Option<Duration>) -> Result<Bytes, Status> {
        let waiting = self.value(Request::Get { key: key.to_owned() });
        let Some(timeout) = timeout else {
            return waiting.await;
        };
        tokio::time::timeout(timeout, waiting).await.unwrap_or_else(|_| {
            let text = format!("the key {key:?} was not there within {timeout:?}");
            Err(Status::new(Code::DeadlineExceeded, text))
        })
    }

    /// A key's value, if it is there now.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn try_get(&self, key: &str) -> Result<Option<Bytes>, Status> {
        match self.value(Request::TryGet { key: key.to_owned() }).await {
            Err(status) if status.code == Code::NotFound => Ok(None),
            other => other.map(Some),
        }
    }

    /// A key's value with the revision of its newest change, for a compare-and-swap.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn read(&self, key: &str) -> Result<Option<(Bytes, Revision)>, Status> {
        let mut watch = self.watch(key)?;
        let all = watch.next().await?.changes;
        let found = all.into_iter().find(|change| *change.key == *watch.key);
        Ok(found.and_then(|change| Some((change.value?, change.revision))))
    }

    /// All keys under a directory with their values, in order.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn directory(&self, key: &str) -> Result<Vec<(String, Bytes)>, Status> {
        match self.call(Request::Directory { key: key.to_owned() }, None).await? {
            Reply::Entries(entries) => Ok(entries),
            other => Err(unexpected("GetKeyValueDir", &other)),
        }
    }

    /// Puts a key on a condition, in one step. Returns the change's revision.
    ///
    /// # Errors
    /// That of the condition: ALREADY_EXISTS, NOT_FOUND, or FAILED_PRECONDITION for another revision.
    pub async fn put(
        &self,
        key: &str,
        value: impl Into<Bytes>,
        condition: PutCondition,
    ) -> Result<Revision, Status> {
        let (key, value) = (key.to_owned(), value.into());
        let request = Request::Put { key, value, condition, leased: false };
        match self.call(request, None).await? {
            Reply::Put(revision) => Ok(revision),
            other => Err(unexpected("PutKey", &other)),
        }
    }

    /// Deletes a key and all under it, if it is there.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn delete(&self, key: &str) -> Result<(), Status> {
        self.call(Request::Delete { key: key.to_owned() }, None).await.map(drop)
    }

    /// Adds to a key's decimal number, 0 when it is not there, and returns the sum's text.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when the value is no number, or the sum is none of 64 bits.
    pub async fn increment(&self, key: &str, increment: i64) -> Result<Bytes, Status> {
        self.value(Request::Increment { key: key.to_owned(), increment }).await
    }

    /// Watches a key and what is under it, "" for all keys: first all there is, then every change once
    /// and in order, whatever breaks between. What is not taken waits at the server. It is called within a
    /// runtime.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when as much as may is under way.
    pub fn watch(&self, key: &str) -> Result<StoreWatch, Status> {
        let permit = self.permit()?;
        let request = Request::Watch { key: key.into(), from: None };
        let encoded = convert::encode_agent_request(&self.config, None, &request);
        let stream = self.way.clone().watch(encoded);
        Ok(StoreWatch { key: key.into(), stream, request, _permit: permit })
    }

    async fn value(&self, request: Request) -> Result<Bytes, Status> {
        match self.call(request, None).await? {
            Reply::Value(value) => Ok(value),
            other => Err(unexpected("a read of a key", &other)),
        }
    }

    async fn call(&self, request: Request, deadline: Option<Duration>) -> Result<Reply, Status> {
        let _permit = self.permit()?;
        let encoded = convert::encode_agent_request(&self.config, None, &request);
        self.way.clone().call(encoded, &request, deadline).await
    }

    fn permit(&self) -> Result<OwnedSemaphorePermit, Status> {
        Arc::clone(&self.room).try_acquire_owned().map_err(|_| {
            let text = format!("{CALLS_MAX} calls of this store are under way, which is the bound");
            Status::new(Code::ResourceExhausted, text)
        })
    }
}

/// A watched key, to who watches it. Dropping it ends the watch.
pub struct StoreWatch {
    key: Arc<str>,
    stream: MessageStream,
    request: Request,
    _permit: OwnedSemaphorePermit,
}

impl StoreWatch {
    /// The key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is told next. The first is all there is.
    ///
    /// # Errors
    /// Why the watch has ended.
    pub async fn next(&mut self) -> Result<Told, Status> {
        match told(&mut self.stream, &self.request).await? {
            Reply::Changes { whole, changes, .. } => Ok(Told { whole, changes }),
            other => Err(unexpected("WatchKeys", &other)),
        }
    }
}

/// A way that outlives the server's absence for so long.
fn way(address: &str, patience: Duration, entropy: &mut Entropy) -> Way {
    let nanos = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
    let patience = time::Duration::from_nanos(nanos);
    let connect = Arc::new(|| Arc::new(Client::new()) as Arc<dyn Transport>);
    let relay = RelayId::new(entropy.next().max(1));
    let upstream =
        Upstream { address: address.to_owned(), namespace: String::new(), relay, connect };
    let config = relay::Config { patience, ..relay::Config::of(address) };
    Way::relayed(config, upstream, Clock::start(), entropy)
}

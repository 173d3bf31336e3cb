//! A long value that is replaced between the answer that names it and its reading.

use std::future::{pending, ready};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use rondo::node::{BlobPin, Line};
use rondo::service::{CoordinationService, JournalStatus, NodePort, NodeSlot, Router};
use rondo::store::blobs::Blob;
use rondo::transport::{BoxFuture, ServerConfig, listener, serve};
use rondo_core::control::{self, Health, Request};
use rondo_core::coordination::{NamespaceConfig, Reply, Value};
use rondo_core::ids::{Digest, Lsn, Revision};
use rondo_core::status::{Code, Status};

use crate::world::Client;

/// Names the blobs of a key one after another; only that of the last life is there.
struct Replacing {
    asked: AtomicUsize,
    /// How many answers name a blob that is gone.
    gone: usize,
}

impl Replacing {
    fn digest(number: usize) -> Digest {
        Digest::new([u8::try_from(number).unwrap(); 32])
    }
}

impl NodePort for Replacing {
    fn register(
        &self,
        _: Line,
        _: Request,
        _: BlobPin,
    ) -> BoxFuture<'_, Result<control::Reply, Status>> {
        let digest = Self::digest(self.asked.fetch_add(1, Ordering::SeqCst));
        let value = Value::Blob { digest, size_bytes: 70_000 };
        let reply = Reply::Value { value, revision: Revision::new(1) };
        Box::pin(ready(Ok(control::Reply::Coordination(reply))))
    }

    fn put_blob(&self, _: Blob) -> BoxFuture<'_, Result<BlobPin, Status>> {
        Box::pin(pending())
    }

    fn get_blob(&self, digest: Digest) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(ready(match digest == Self::digest(self.gone) {
            true => Ok(Bytes::from_static(b"the last value")),
            false => Err(Status::new(Code::DataLoss, "gone")),
        }))
    }

    fn health(&self) -> Health {
        Health::Serving
    }

    fn journal_status(&self) -> JournalStatus {
        JournalStatus::memory(Lsn::NONE)
    }

    fn halted(&self) -> BoxFuture<'_, String> {
        Box::pin(pending())
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(ready(Ok(())))
    }
}

async fn client_of(node: Replacing) -> Client {
    let listener = listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let slot = NodeSlot::new();
    slot.fill(Arc::new(node));
    let namespace = NamespaceConfig::named("default");
    let service = CoordinationService::new(slot, &namespace, 100);
    let router = Router::new().with("tensorflow.CoordinationService", service);
    tokio::spawn(serve(listener, Arc::new(router), ServerConfig::default(), pending()));
    Client::of(&address).await
}

#[tokio::test]
async fn the_read_is_made_again() {
    let client = client_of(Replacing { asked: AtomicUsize::new(0), gone: 2 }).await;
    assert_eq!(client.get("k").await.unwrap(), &b"the last value"[..]);
}

#[tokio::test]
async fn a_value_that_is_really_gone_is_data_loss() {
    let client = client_of(Replacing { asked: AtomicUsize::new(0), gone: 200 }).await;
    assert_eq!(client.get("k").await.unwrap_err().code(), tonic::Code::DataLoss);
}

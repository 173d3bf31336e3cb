//! A double of the node, for tests of what stands before it.

use std::net::SocketAddr;

use bytes::Bytes;
use rondo_core::control::{Health, Reply, Request};
use rondo_core::ids::Digest;
use rondo_core::status::{Code, Status};

use super::node_port::{JournalStatus, NodePort};
use crate::node::{BlobPin, Line};
use crate::store::blobs::Blob;
use crate::transport::budget::Budget;
use crate::transport::{BoxFuture, Call, ConnectionId, RequestMemory};

/// A node that answers calls and gives blobs as these two functions say, and does nothing else.
pub(super) struct NodeDouble<C, B> {
    /// Answers a call.
    pub(super) call: C,
    /// Gives a blob.
    pub(super) blob: B,
}

/// Refuses a call: a node that only gives blobs answers so.
pub(super) fn no_answer(_: Request) -> Result<Reply, Status> {
    Err(nothing())
}

/// A call whose long answers take memory of this budget.
pub(super) fn call_within(budget: &Budget) -> Call {
    Call {
        path: String::new(),
        message: Bytes::new(),
        peer: SocketAddr::from(([127, 0, 0, 1], 9)),
        connection: ConnectionId::new(1),
        worker: None,
        memory: RequestMemory::default(),
        budget: budget.clone(),
    }
}

fn nothing() -> Status {
    Status::new(Code::Internal, "the double does nothing of this kind")
}

impl<C, B> NodePort for NodeDouble<C, B>
where
    C: Fn(Request) -> Result<Reply, Status> + Send + Sync + 'static,
    B: Fn(Digest) -> Result<Bytes, Status> + Send + Sync + 'static,
{
    fn register(
        &self,
        _: Line,
        request: Request,
        _: BlobPin,
    ) -> BoxFuture<'_, Result<Reply, Status>> {
        Box::pin(std::future::ready((self.call)(request)))
    }

    fn put_blob(&self, _: Blob) -> BoxFuture<'_, Result<BlobPin, Status>> {
        Box::pin(std::future::ready(Err(nothing())))
    }

    fn get_blob(&self, digest: Digest) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(async move {
            // As with a disk, others come between.
            tokio::task::yield_now().await;
            (self.blob)(digest)
        })
    }

    fn health(&self) -> Health {
        Health::Serving
    }

    fn journal_status(&self) -> JournalStatus {
        JournalStatus::default()
    }

    fn halted(&self) -> BoxFuture<'_, String> {
        Box::pin(std::future::pending())
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

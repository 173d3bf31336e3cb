//! The node as the services see it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use rondo_core::control::{Health, Reply, Request};
use rondo_core::ids::{Digest, Lsn};
use rondo_core::status::{Code, Status};
use serde::{Deserialize, Serialize};

use crate::node::{BlobPin, Line};
use crate::store::blobs::Blob;
use crate::transport::{BoxFuture, Call};

/// The line in which a client's call waits for the node.
pub(super) fn line_of(call: &Call) -> Line {
    Line::of_client(call.connection).from_address(call.peer.ip())
}

/// The line in which a call that a relay brings waits for the node. The relay calls its client `client`.
pub(super) fn line_of_relay(carrier: &Call, client: &str) -> Line {
    Line::of_relay(carrier.connection, client).from_address(carrier.peer.ip())
}

/// A running control-plane node.
pub trait NodePort: Send + Sync + 'static {
    /// Hands a request to the node, in the line of the connection it came on, and waits for the answer. That
    /// comes once everything it depends on is durable. Dropping the future cancels the request.
    fn call(&self, from: Line, request: Request) -> BoxFuture<'_, Result<Reply, Status>> {
        self.register(from, request, BlobPin::none())
    }

    /// Hands a registration to the node, and with it the pin of the blob it names, which ends when
    /// the node has taken or refused it, even if nobody waits for the answer any more.
    fn register(
        &self,
        from: Line,
        request: Request,
        pin: BlobPin,
    ) -> BoxFuture<'_, Result<Reply, Status>>;

    /// Keeps a large definition; it is durable on return, and kept as long as the pin lives.
    /// Keeping the same one twice does nothing.
    fn put_blob(&self, blob: Blob) -> BoxFuture<'_, Result<BlobPin, Status>>;

    /// Reads a large definition.
    fn get_blob(&self, digest: Digest) -> BoxFuture<'_, Result<Bytes, Status>>;

    /// How the node stands.
    fn health(&self) -> Health;

    /// Where the journal stands.
    fn journal_status(&self) -> JournalStatus;

    /// Completes when the node has stopped by itself, with the reason.
    fn halted(&self) -> BoxFuture<'_, String>;

    /// Takes no more requests, makes everything durable, and closes the journal.
    ///
    /// # Errors
    /// A text for people, when the last changes could not be made durable.
    fn shutdown(&self) -> BoxFuture<'_, Result<(), String>>;
}

/// Where a journal stands; fields as in `rondo.v1.JournalStatus`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalStatus {
    /// `sled`, `segment` or `memory`.
    pub store: String,
    /// For people: `ok`, `memory only`, `refusing writes: …`.
    pub state: String,
    /// The last durable record.
    pub durable_lsn: u64,
    /// The next record.
    pub next_lsn: u64,
    /// The last record in the newest snapshot; 0 without one.
    pub snapshot_lsn: u64,
    /// Segments of the journal.
    pub segments: u64,
    /// Bytes of all segments.
    pub size_bytes: u64,
    /// Large definitions kept as files of their own.
    pub blobs: u64,
}

impl JournalStatus {
    /// The status of a journal that is none: everything is in memory.
    pub fn memory(last: Lsn) -> Self {
        Self {
            store: "memory".into(),
            state: "memory only".into(),
            durable_lsn: last.get(),
            next_lsn: last.next().get(),
            ..Self::default()
        }
    }
}

/// Where the node will be once it has started.
#[derive(Clone, Default)]
pub struct NodeSlot(Arc<OnceLock<Arc<dyn NodePort>>>);

impl NodeSlot {
    /// An empty slot.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts the started node in. A slot is filled once; a second node is ignored.
    pub fn fill(&self, node: Arc<dyn NodePort>) {
        // A second node cannot be told from the first by those who hold it already.
        let _ = self.0.set(node);
    }

    /// The node.
    ///
    /// # Errors
    /// UNAVAILABLE, which clients retry, until there is one.
    pub fn node(&self) -> Result<&Arc<dyn NodePort>, Status> {
        let text = "Dispatcher has not started yet: the journal is being read";
        self.0.get().ok_or_else(|| Status::new(Code::Unavailable, text))
    }
}

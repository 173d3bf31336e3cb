//! The running node as the services see it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use rondo_core::control::{Health, Reply, Request};
use rondo_core::ids::Digest;
use rondo_core::status::{Code, Status};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::blob_keeper::{BlobKeeper, BlobPin};
use super::driver::Ended;
use super::handle::NodeHandle;
use super::inbox::Line;
use crate::service::{JournalStatus, NodePort};
use crate::store::blobs::{Blob, BlobError, NO_LARGE_VALUES};
use crate::transport::BoxFuture;

/// A node that runs in a task of its own.
pub struct RunningNode {
    handle: NodeHandle,
    end: Arc<End>,
    blobs: BlobKeeper,
}

/// How the node's task ended, once it has.
#[derive(Default)]
struct End {
    ended: OnceLock<Ended>,
    known: Notify,
}

impl RunningNode {
    pub(super) fn new(handle: NodeHandle, task: JoinHandle<Ended>, blobs: BlobKeeper) -> Self {
        let end = Arc::new(End::default());
        let known = end.clone();
        tokio::spawn(async move {
            let ended = task.await.unwrap_or_else(|error| Ended::Halted(error.to_string()));
            // It ends once.
            let _ = known.ended.set(ended);
            known.known.notify_waiters();
        });
        Self { handle, end, blobs }
    }

    async fn end(&self) -> Ended {
        loop {
            // Made before the look, so that an end between the look and the wait is not missed.
            let known = self.end.known.notified();
            if let Some(ended) = self.end.ended.get() {
                return ended.clone();
            }
            known.await;
        }
    }
}

impl NodePort for RunningNode {
    fn register(
        &self,
        from: Line,
        request: Request,
        pin: BlobPin,
    ) -> BoxFuture<'_, Result<Reply, Status>> {
        Box::pin(self.handle.call(from, request, pin))
    }

    fn put_blob(&self, blob: Blob) -> BoxFuture<'_, Result<BlobPin, Status>> {
        Box::pin(async move {
            let put = self.blobs.put(blob).await;
            put.map_err(|error| not_kept(&error))
        })
    }

    fn get_blob(&self, digest: Digest) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(async move {
            let blob = self.blobs.get(digest).await.map_err(|error| blob_status(&error))?;
            blob.ok_or_else(|| {
                Status::new(
                    Code::DataLoss,
                    format!("the definition {digest} is gone from the disk"),
                )
            })
        })
    }

    fn health(&self) -> Health {
        self.handle.health()
    }

    fn journal_status(&self) -> JournalStatus {
        let mut status = self.handle.journal();
        status.blobs = u64::try_from(self.blobs.count()).unwrap_or(u64::MAX);
        status
    }

    fn halted(&self) -> BoxFuture<'_, String> {
        Box::pin(async move {
            match self.end().await {
                Ended::Halted(reason) => reason,
                Ended::Stopped => std::future::pending().await,
            }
        })
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            self.handle.stop();
            match self.end().await {
                Ended::Stopped => Ok(()),
                Ended::Halted(reason) => Err(reason),
            }
        })
    }
}

/// The refusal of a call whose large value the server could not keep.
fn not_kept(error: &BlobError) -> Status {
    let status = blob_status(error);
    match status.code {
        Code::Unavailable => {
            Status::new(status.code, format!("{NO_LARGE_VALUES}: {}", status.message))
        }
        _ => status,
    }
}

fn blob_status(error: &BlobError) -> Status {
    let code = match error {
        BlobError::Full { .. } | BlobError::Failed(_) => Code::Unavailable,
        BlobError::TooLarge { .. } => Code::ResourceExhausted,
        BlobError::Damaged { .. } => Code::DataLoss,
    };
    Status::new(code, error.to_string())
}

//! The running node as the services see it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rondo_core::control::{Health, Reply, Request};
use rondo_core::ids::Digest;
use rondo_core::status::{Code, Status};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::driver::Ended;
use super::handle::NodeHandle;
use crate::service::{JournalStatus, NodePort};
use crate::store::blobs::{BlobError, Blobs};
use crate::transport::BoxFuture;

/// A node that runs in a task of its own.
pub struct RunningNode {
    handle: NodeHandle,
    ended: watch::Receiver<Option<Ended>>,
    blobs: Arc<dyn Blobs>,
    /// Digests of the blobs, to count each once.
    blobs_kept: Mutex<BTreeSet<Digest>>,
}

impl RunningNode {
    /// The node that `task` runs, with `blobs` of which it keeps those in `blobs_kept`.
    pub(super) fn new(
        handle: NodeHandle,
        task: JoinHandle<Ended>,
        blobs: Arc<dyn Blobs>,
        blobs_kept: BTreeSet<Digest>,
    ) -> Self {
        let (end, ended) = watch::channel(None);
        tokio::spawn(async move {
            let ended = task.await.unwrap_or_else(|error| Ended::Halted(error.to_string()));
            end.send_replace(Some(ended));
        });
        Self { handle, ended, blobs, blobs_kept: Mutex::new(blobs_kept) }
    }

    async fn end(&self) -> Ended {
        let mut ended = self.ended.clone();
        let end = ended.wait_for(Option::is_some).await;
        let gone = || Ended::Halted("the node's task is gone".to_owned());
        end.ok().and_then(|end| end.clone()).unwrap_or_else(gone)
    }
}

impl NodePort for RunningNode {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply, Status>> {
        Box::pin(self.handle.call(request))
    }

    fn put_blob(&self, digest: Digest, blob: Bytes) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(async move {
            self.blobs.put(digest, blob).await.map_err(|error| blob_status(&error))?;
            self.blobs_kept.lock().unwrap_or_else(PoisonError::into_inner).insert(digest);
            Ok(())
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
        let kept = self.blobs_kept.lock().unwrap_or_else(PoisonError::into_inner).len();
        let mut status = self.handle.journal();
        status.blobs = u64::try_from(kept).unwrap_or(u64::MAX);
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

fn blob_status(error: &BlobError) -> Status {
    let code = match error {
        BlobError::Full { .. } | BlobError::Failed(_) => Code::Unavailable,
        BlobError::TooLarge { .. } => Code::ResourceExhausted,
        BlobError::Damaged { .. } => Code::DataLoss,
    };
    Status::new(code, error.to_string())
}

//! What the rest of the process holds of the node.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rondo_core::control::{Health, Reply, Request};
use rondo_core::ids::{CallId, Lsn};
use rondo_core::status::{Code, Status};
use tokio::sync::{Notify, oneshot};

use super::blob_keeper::BlobPin;
use super::inbox::{Line, NotTaken, Submissions};
#[cfg(madsim)]
use super::watch::Watch;
use crate::service::JournalStatus;
use crate::store::StoreKind;
#[cfg(madsim)]
use crate::transport::tag_of_call;

/// One call on its way to the node.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) call: CallId,
    pub(super) request: Request,
    /// Keeps the blob that the request names until the machine has taken it.
    pub(super) pin: BlobPin,
    pub(super) answer: oneshot::Sender<Result<Reply, Status>>,
}

/// Where the journal stands, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// The last durable record.
    pub(super) durable: Lsn,
    /// The newest record.
    pub(super) last: Lsn,
    /// The last record in the newest snapshot.
    pub(super) snapshot: Lsn,
    /// Segments of the journal.
    pub(super) segments: u64,
    /// Bytes of all segments.
    pub(super) size_bytes: u64,
}

/// What the node's task shows to others.
pub(super) struct Shared {
    /// How the journal is kept; `None` for a node that keeps everything in memory.
    store: Option<StoreKind>,
    shown: Mutex<(Health, Figures)>,
    gone: Mutex<Vec<CallId>>,
    pub(super) somebody_left: Notify,
    pub(super) stop: Notify,
    next_call: AtomicU64,
    #[cfg(madsim)]
    watch: Option<Arc<dyn Watch>>,
}

impl Shared {
    pub(super) fn new(store: Option<StoreKind>) -> Self {
        Self {
            store,
            shown: Mutex::new((Health::Serving, Figures::default())),
            gone: Mutex::default(),
            somebody_left: Notify::new(),
            stop: Notify::new(),
            next_call: AtomicU64::new(1),
            #[cfg(madsim)]
            watch: None,
        }
    }

    /// The same with somebody who watches.
    #[cfg(madsim)]
    pub(super) fn watched_by(self, watch: Arc<dyn Watch>) -> Self {
        Self { watch: Some(watch), ..self }
    }

    /// Calls whose callers have left since the last time this was asked.
    pub(super) fn take_gone(&self) -> Vec<CallId> {
        std::mem::take(&mut self.gone.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn show(&self, health: &Health, figures: Figures) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        *shown = (health.clone(), figures);
    }

    fn shown(&self) -> (Health, Figures) {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn journal(&self) -> JournalStatus {
        let (health, figures) = self.shown();
        let mut status = match self.store {
            None => JournalStatus::memory(figures.last),
            Some(store) => JournalStatus {
                store: store.to_string(),
                state: "ok".to_owned(),
                durable_lsn: figures.durable.get(),
                next_lsn: figures.last.next().get(),
                snapshot_lsn: figures.snapshot.get(),
                segments: figures.segments,
                size_bytes: figures.size_bytes,
                blobs: 0,
            },
        };
        match health {
            Health::Serving => {}
            Health::RefusingUpdates(reason) => status.state = format!("refusing writes: {reason}"),
            Health::Halted(reason) => status.state = format!("halted: {reason}"),
        }
        status
    }
}

/// A way to the node. Cheap to clone.
#[derive(Clone)]
pub(super) struct NodeHandle {
    pub(super) submissions: Submissions<Submission>,
    pub(super) shared: Arc<Shared>,
}

impl NodeHandle {
    /// Asks the node for somebody who waits in a line, and waits for the answer. Dropping the future
    /// withdraws the request.
    ///
    /// # Errors
    /// The node's refusal, or UNAVAILABLE when it has stopped.
    pub(super) async fn call(
        &self,
        from: Line,
        request: Request,
        pin: BlobPin,
    ) -> Result<Reply, Status> {
        let call = CallId::new(self.shared.next_call.fetch_add(1, Ordering::Relaxed));
        #[cfg(madsim)]
        if let (Some(watch), Some(tag)) = (&self.shared.watch, tag_of_call()) {
            watch.submitted(call, tag);
        }
        let (answer, answered) = oneshot::channel();
        let submission = Submission { call, request, pin, answer };
        self.submissions.send(from, submission).map_err(|refused| match refused {
            NotTaken::Stopped => stopped(),
            NotTaken::Full(bound) => line_is_full(bound),
        })?;
        let mut withdrawal = Withdrawal { shared: &self.shared, call: Some(call) };
        let result = answered.await;
        withdrawal.call = None;
        result.unwrap_or_else(|_| Err(stopped()))
    }

    /// How the node stands.
    pub(super) fn health(&self) -> Health {
        self.shared.shown().0
    }

    /// How its journal stands.
    pub(super) fn journal(&self) -> JournalStatus {
        self.shared.journal()
    }

    /// Asks the node's task to make everything durable, answer what can be answered, and end.
    pub(super) fn stop(&self) {
        self.shared.stop.notify_one();
    }
}

/// Tells the node when a caller leaves before the answer.
struct Withdrawal<'a> {
    shared: &'a Shared,
    call: Option<CallId>,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.shared.gone.lock().unwrap_or_else(PoisonError::into_inner).push(call);
            self.shared.somebody_left.notify_one();
        }
    }
}

fn line_is_full(bound: usize) -> Status {
    let text =
        format!("{bound} calls of this connection wait for their turn already, as many as may");
    Status::new(Code::ResourceExhausted, text)
}

fn stopped() -> Status {
    Status::new(Code::Unavailable, "the server is shutting down or has stopped; retry later")
}

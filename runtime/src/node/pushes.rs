//! Telling workers of new tasks (`ProcessTask`), beside everything else.

use std::sync::Arc;
use std::time::Duration;

use rondo_core::dispatcher::TaskDef;
use rondo_proto::convert;
use tokio::sync::Semaphore;

use crate::transport::Transport;

/// How long a worker may take to accept a task.
const PUSH_DEADLINE: Duration = Duration::from_secs(5);
/// Pushes under way at once. One more is left out: the worker's next heartbeat brings the task.
const PUSHES_MAX: usize = 1024;

/// Sends pushes; a hung worker delays nobody else.
#[derive(Clone)]
pub(super) struct Pushes {
    transport: Arc<dyn Transport>,
    places: Arc<Semaphore>,
}

impl Pushes {
    pub(super) fn new(transport: Arc<dyn Transport>) -> Self {
        Self { transport, places: Arc::new(Semaphore::new(PUSHES_MAX)) }
    }

    /// Starts telling a worker of a task.
    pub(super) fn push(&self, task: &TaskDef) {
        let address = task.worker_address.to_string();
        let id = task.task;
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            tracing::debug!(worker = %address, task = %id, "too many pushes under way; left out");
            return;
        };
        let message = convert::encode_process_task(task);
        let path = convert::PROCESS_TASK_PATH;
        let sent = self.transport.unary(&address, path, message, PUSH_DEADLINE);
        tokio::spawn(async move {
            if let Err(status) = sent.await {
                tracing::debug!(worker = %address, task = %id, %status, "push failed");
            }
            drop(place);
        });
    }
}

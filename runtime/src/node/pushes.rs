//! Telling workers of new tasks (`ProcessTask`), beside everything else.

use std::sync::Arc;
use std::time::Duration;

use rondo_core::dispatcher::TaskDef;
use rondo_proto::convert;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::transport::Transport;

/// How long a worker may take to accept a task.
const PUSH_DEADLINE: Duration = Duration::from_secs(5);
/// How long the answer that made a reader's tasks waits for their workers to have them. A reader
/// that comes before its worker knows the task has to ask again.
const REPLY_PATIENCE: Duration = Duration::from_millis(500);
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

    /// Starts telling a worker of a task; what comes back ends when that is done or given up.
    pub(super) fn push(&self, task: &TaskDef) -> Option<JoinHandle<()>> {
        let address = task.worker_address.to_string();
        let id = task.task;
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            tracing::debug!(worker = %address, task = %id, "too many pushes under way; left out");
            return None;
        };
        let message = convert::encode_process_task(task);
        let path = convert::PROCESS_TASK_PATH;
        let sent = self.transport.unary(&address, path, message, PUSH_DEADLINE);
        Some(tokio::spawn(async move {
            if let Err(status) = sent.await {
                tracing::debug!(worker = %address, task = %id, %status, "push failed");
            }
            drop(place);
        }))
    }
}

/// Waits for pushes, but not for a hung worker.
pub(super) async fn settled(pushes: Vec<JoinHandle<()>>) {
    let all = async {
        for push in pushes {
            // How a push ended is logged where it is made.
            let _ = push.await;
        }
    };
    let _ = tokio::time::timeout(REPLY_PATIENCE, all).await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::time::{Instant, sleep};

    use super::*;

    #[test]
    fn an_answer_waits_for_a_slow_worker_but_not_for_a_hung_one() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let told = Arc::new(AtomicBool::new(false));
            let slow = told.clone();
            let slow = tokio::spawn(async move {
                sleep(Duration::from_millis(50)).await;
                slow.store(true, Ordering::SeqCst);
            });
            settled(vec![slow]).await;
            assert!(told.load(Ordering::SeqCst));
            let began = Instant::now();
            settled(vec![tokio::spawn(std::future::pending())]).await;
            assert!(began.elapsed() >= REPLY_PATIENCE);
        });
    }
}

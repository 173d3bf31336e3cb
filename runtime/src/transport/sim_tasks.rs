//! Tasks that end together, as tokio's `JoinSet`, which the simulated runtime does not have.

use std::future::Future;

use tokio::task::JoinHandle;

/// A set of tasks, all of which are aborted when it is dropped.
pub(super) struct JoinSet<T>(Vec<JoinHandle<T>>);

impl<T: Send + 'static> JoinSet<T> {
    /// An empty set.
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Starts a task.
    pub(super) fn spawn(&mut self, task: impl Future<Output = T> + Send + 'static) {
        self.0.push(tokio::spawn(task));
    }

    /// How many have not been joined.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets a task that has ended, if there is one.
    pub(super) fn try_join_next(&mut self) -> Option<()> {
        let ended = self.0.iter().position(JoinHandle::is_finished)?;
        drop(self.0.swap_remove(ended));
        Some(())
    }

    /// Waits until a task has ended; `None` when there are none.
    pub(super) async fn join_next(&mut self) -> Option<()> {
        let next = self.0.last_mut()?;
        // Aborted or done: ended.
        let _ = next.await;
        self.0.pop();
        Some(())
    }

    /// Ends all tasks.
    pub(super) async fn shutdown(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
        while self.join_next().await.is_some() {}
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

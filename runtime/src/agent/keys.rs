//! Keys: shared by all tasks of a job, waited for, and watched.

use std::time::Duration;

use bytes::Bytes;
use rondo_core::agent::{Ask, KeyChange, PutCondition, Reply, Request};
use rondo_core::cluster::address_key;
use rondo_core::ids::Revision;
use rondo_core::limits::NAME_BYTES_MAX;
use rondo_core::status::{Code, Status};
use tokio::sync::oneshot;

use super::driver::Happened;
use super::interface::{Agent, unexpected};
use super::watches::{KeyWatch, Told};

impl Agent {
    /// A key's value, waited for until it is there, or for so long.
    ///
    /// # Errors
    /// DEADLINE_EXCEEDED when it is not there in time, CANCELLED when the task leaves meanwhile.
    pub async fn get_key_value(
        &self,
        key: &str,
        timeout: Option<Duration>,
    ) -> Result<Bytes, Status> {
        let waiting = self.value(Request::Get { key: key.to_owned() });
        let Some(timeout) = timeout else {
            return waiting.await;
        };
        tokio::time::timeout(timeout, waiting).await.unwrap_or_else(|_| {
            let text = format!("the key {key:?} was not there within {timeout:?}");
            Err(Status::new(Code::DeadlineExceeded, text))
        })
    }

    /// Has `done` called with a key's value once it is there, or with why it cannot be had.
    pub fn get_key_value_async(
        &self,
        key: &str,
        done: impl FnOnce(Result<Bytes, Status>) + Send + 'static,
    ) {
        let (agent, key) = (self.clone(), key.to_owned());
        tokio::spawn(async move { done(agent.get_key_value(&key, None).await) });
    }

    /// A key's value, if it is there now.
    ///
    /// # Errors
    /// NOT_FOUND when it is not.
    pub async fn try_get_key_value(&self, key: &str) -> Result<Bytes, Status> {
        self.value(Request::TryGet { key: key.to_owned() }).await
    }

    async fn value(&self, request: Request) -> Result<Bytes, Status> {
        match self.ask(Ask::Call(request)).await? {
            Reply::Value(value) => Ok(value),
            other => Err(unexpected("a read of a key", &other)),
        }
    }

    /// All keys under a directory with their values, in order.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn get_key_value_dir(&self, key: &str) -> Result<Vec<(String, Bytes)>, Status> {
        match self.ask(Ask::Call(Request::Directory { key: key.to_owned() })).await? {
            Reply::Entries(entries) => Ok(entries),
            other => Err(unexpected("GetKeyValueDir", &other)),
        }
    }

    /// Puts a key that is not there yet.
    ///
    /// # Errors
    /// ALREADY_EXISTS when it is.
    pub async fn insert_key_value(&self, key: &str, value: impl Into<Bytes>) -> Result<(), Status> {
        let (key, value) = (key.to_owned(), value.into());
        self.ask(Ask::Call(Request::Insert { key, value })).await.map(drop)
    }

    /// Gives a key that is there another value, in one step. Returns the change's revision.
    ///
    /// # Errors
    /// NOT_FOUND when it is not there.
    pub async fn update_key_value(
        &self,
        key: &str,
        value: impl Into<Bytes>,
    ) -> Result<Revision, Status> {
        self.put_key_value(key, value, PutCondition::Present, false).await
    }

    /// Gives a key another value if its newest change has this revision, 0 when it is not there, in
    /// one step. Returns the change's revision.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when it has changed since.
    pub async fn compare_and_swap(
        &self,
        key: &str,
        revision: Revision,
        value: impl Into<Bytes>,
    ) -> Result<Revision, Status> {
        self.put_key_value(key, value, PutCondition::Revision(revision), false).await
    }

    /// Puts a key on a condition, in one step. A leased key dies with this task: when it leaves, is
    /// found dead, or comes back as another process. Returns the change's revision.
    ///
    /// # Errors
    /// That of the condition; FAILED_PRECONDITION for a lease of a task that is not connected.
    pub async fn put_key_value(
        &self,
        key: &str,
        value: impl Into<Bytes>,
        condition: PutCondition,
        leased: bool,
    ) -> Result<Revision, Status> {
        let (key, value) = (key.to_owned(), value.into());
        match self.ask(Ask::Call(Request::Put { key, value, condition, leased })).await? {
            Reply::Put(revision) => Ok(revision),
            other => Err(unexpected("PutKey", &other)),
        }
    }

    /// Announces where this task listens, to all who resolve the cluster by the coordination service
    /// ([`rondo_core::cluster::Rondo`]), for as long as the task is connected. One that comes back has to
    /// announce it again.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for an address that is none; FAILED_PRECONDITION unless the task is connected.
    pub async fn announce(&self, address: &str) -> Result<(), Status> {
        if address.is_empty() || address.len() > NAME_BYTES_MAX {
            let text = format!(
                "an address of {} bytes: 1 to {NAME_BYTES_MAX} are wanted, such as 10.0.0.3:7000",
                address.len()
            );
            return Err(Status::new(Code::InvalidArgument, text));
        }
        let task = self.view(|view| view.task).and_then(|task| u32::try_from(task.get()).ok());
        let task = task.ok_or_else(|| {
            Status::new(Code::FailedPrecondition, "the agent does not know its task: Initialize it")
        })?;
        let address = Bytes::copy_from_slice(address.as_bytes());
        self.put_key_value(&address_key(task), address, PutCondition::Always, true).await.map(drop)
    }

    /// Deletes a key and all under it, if it is there.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn delete_key_value(&self, key: &str) -> Result<(), Status> {
        self.ask(Ask::Call(Request::Delete { key: key.to_owned() })).await.map(drop)
    }

    /// Adds to a key's decimal number, 0 when it is not there, and returns the sum's text.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when the value is no number, or the sum is none of 64 bits.
    pub async fn increment_key_value(&self, key: &str, increment: i64) -> Result<Bytes, Status> {
        self.value(Request::Increment { key: key.to_owned(), increment }).await
    }

    /// Watches a key and what is under it, "" for all keys: first all there is, then every change
    /// once and in order, whatever breaks between. What is not taken waits at the server.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when this agent watches it already, RESOURCE_EXHAUSTED when it watches as
    /// many as it may, and the server's refusal.
    pub async fn watch_key(&self, key: &str) -> Result<KeyWatch, Status> {
        let (sender, watch) = oneshot::channel();
        let permit = self.permit()?;
        let key = key.into();
        self.pass(permit, |call, reply| Happened::Watch(call, key, reply, sender)).await?;
        let gone = || Status::new(Code::Internal, "a watch began without its listener");
        watch.await.map_err(|_| gone())
    }

    /// The same, with `on_change` called for everything told until [`Agent::stop_watch_key`]. It is
    /// not called again before it has returned.
    ///
    /// # Errors
    /// As [`Agent::watch_key`].
    pub async fn start_watch_key(
        &self,
        key: &str,
        mut on_change: impl FnMut(Result<Told, Status>) + Send + 'static,
    ) -> Result<(), Status> {
        let mut watch = self.watch_key(key).await?;
        tokio::spawn(async move {
            while let Some(told) = watch.next().await.transpose() {
                let is_last = told.is_err();
                on_change(told);
                if is_last {
                    return;
                }
            }
        });
        Ok(())
    }

    /// Ends a watch.
    ///
    /// # Errors
    /// NOT_FOUND when this agent does not watch the key.
    pub async fn stop_watch_key(&self, key: &str) -> Result<(), Status> {
        self.ask_own(Ask::StopWatch { key: key.into() }).await.map(drop)
    }

    /// Tells this agent's own watch of a key of these changes, and nobody else.
    ///
    /// # Errors
    /// NOT_FOUND when this agent does not watch the key, RESOURCE_EXHAUSTED when too much that was
    /// told waits to be taken.
    pub async fn activate_watch(&self, key: &str, changes: Vec<KeyChange>) -> Result<(), Status> {
        self.ask(Ask::ActivateWatch { key: key.into(), changes }).await.map(drop)
    }
}

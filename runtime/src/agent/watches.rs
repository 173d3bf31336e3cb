//! Watched keys: what the application is told, and how it takes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_core::agent::KeyChange;
use rondo_core::status::{Code, Status};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::driver::Happened;
use crate::transport::MessageStream;

/// Answers of the server that wait to be taken; above it, the server is not asked on.
const ROOM: usize = 4;

/// What is told of a watched key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Whether this is all there is, in place of what was told before.
    pub whole: bool,
    /// The changes, in order; with `whole`, the keys there.
    pub changes: Vec<KeyChange>,
}

/// What waits to be taken, with its room.
pub(super) type Telling = (Result<Told, Status>, Option<OwnedSemaphorePermit>);

/// A watched key, to who watches it. Dropping it ends the watch.
pub struct KeyWatch {
    pub(super) key: Arc<str>,
    pub(super) id: u64,
    pub(super) tellings: mpsc::UnboundedReceiver<Telling>,
    pub(super) happened: mpsc::WeakUnboundedSender<Happened>,
}

impl KeyWatch {
    /// The key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is told next; `None` when the watch was stopped. The first is all there is.
    ///
    /// # Errors
    /// Why the watch has ended: the server refused it, or the task has left the job.
    pub async fn next(&mut self) -> Result<Option<Told>, Status> {
        match self.tellings.recv().await {
            Some((told, _room)) => told.map(Some),
            None => Ok(None),
        }
    }
}

impl Drop for KeyWatch {
    fn drop(&mut self) {
        if let Some(happened) = self.happened.upgrade() {
            // A loop that has ended watches nothing.
            let _ = happened.send(Happened::Unwatched(Arc::clone(&self.key), self.id));
        }
    }
}

/// All watched keys of an agent, to its loop.
#[derive(Default)]
pub(super) struct Watches {
    by_key: BTreeMap<Arc<str>, Listener>,
    last: u64,
}

struct Listener {
    id: u64,
    tellings: mpsc::UnboundedSender<Telling>,
    room: Arc<Semaphore>,
    /// What tells more, while the server is not asked for it.
    stream: Option<MessageStream>,
}

impl Watches {
    /// Watches one more key.
    ///
    /// # Errors
    /// When it is watched already.
    pub(super) fn add(
        &mut self,
        key: &Arc<str>,
        happened: mpsc::WeakUnboundedSender<Happened>,
    ) -> Result<KeyWatch, Status> {
        if self.by_key.contains_key(key) {
            let text = format!("the key {key:?} is watched already");
            return Err(Status::new(Code::FailedPrecondition, text));
        }
        self.last = self.last.saturating_add(1);
        let (sender, tellings) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(ROOM));
        let listener = Listener { id: self.last, tellings: sender, room, stream: None };
        self.by_key.insert(Arc::clone(key), listener);
        Ok(KeyWatch { key: Arc::clone(key), id: self.last, tellings, happened })
    }

    /// Whether this is the watch of its key.
    pub(super) fn is(&self, key: &str, id: u64) -> bool {
        self.by_key.get(key).is_some_and(|listener| listener.id == id)
    }

    fn room(&self, key: &str) -> Option<Arc<Semaphore>> {
        self.by_key.get(key).map(|listener| Arc::clone(&listener.room))
    }

    /// Where answers of a watch wait for room, and the stream that brings them, if there is one.
    pub(super) fn take(&mut self, key: &str) -> Option<(Arc<Semaphore>, Option<MessageStream>)> {
        let listener = self.by_key.get_mut(key)?;
        Some((Arc::clone(&listener.room), listener.stream.take()))
    }

    /// The stream of a watch brings more.
    pub(super) fn keep(&mut self, key: &str, stream: MessageStream) {
        if let Some(listener) = self.by_key.get_mut(key) {
            listener.stream = Some(stream);
        }
    }

    /// Room at once.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn room_now(&self, key: &str) -> Result<Option<OwnedSemaphorePermit>, Status> {
        let room = self.room(key).map(|room| room.try_acquire_owned());
        room.transpose().map_err(|_| {
            let text = format!("{ROOM} changes of the watched key {key:?} wait to be taken");
            Status::new(Code::ResourceExhausted, text)
        })
    }

    /// Tells of a key.
    pub(super) fn tell(&self, key: &str, told: Told, room: Option<OwnedSemaphorePermit>) {
        if let Some(listener) = self.by_key.get(key) {
            // Who does not listen any more is about to say so.
            let _ = listener.tellings.send((Ok(told), room));
        }
    }

    /// A watch has ended.
    pub(super) fn end(&mut self, key: &str, why: Option<Status>) {
        if let Some((listener, status)) = self.by_key.remove(key).zip(why) {
            // As above.
            let _ = listener.tellings.send((Err(status), None));
        }
    }
}

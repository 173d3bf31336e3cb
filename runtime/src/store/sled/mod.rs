//! The journal in sled: one database for each segment, written by a thread of its own.
//!
//! A frame is one batch of sled's, cut into values that stay in sled's pages. Deleting by key is
//! slow and gives no space back, so old segments are dropped as whole directories. The directory
//! of a segment comes into being with its first frame.

mod database;
mod open_error;
mod pieces;
mod settle;
mod writer;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use bytes::Bytes;
use rondo_core::ids::Lsn;
use tokio::sync::{Semaphore, oneshot};

use self::database::remove_dir_if_there;
use self::pieces::Joined;
use self::settle::SUFFIX_COPY;
use self::writer::{Answer, Command, Place, SUFFIX, SUFFIX_GONE, SUFFIX_UNFINISHED, Writer};
use super::disk::Disk;
use super::health::Health;
use super::order::Order;
use super::reserve::Reserve;
use super::{
    AppendError, BoxFuture, Found, Segment, Store, StoreConfig, StoreError, names, sync_names,
};

/// Space in the queue that each frame takes at least, in bytes: bounds their number.
const QUEUED_FRAME_BYTES_MIN: usize = 4 << 10;
/// No queue holds more, in bytes, whatever is configured.
const QUEUE_BYTES_LIMIT: usize = u32::MAX as usize;
/// Space that sled takes for each byte of a frame, rounded up from the 2.1 measured.
const SLED_BYTES_PER_BYTE: u64 = 3;
/// Space that a new segment's database takes, in bytes, rounded up.
const SLED_BYTES_EMPTY: u64 = 2 << 20;

/// The journal in sled.
///
/// Dropping it waits for the thread to write what it was given.
pub struct SledStore {
    place: Place,
    reserve: Reserve,
    health: Health,
    order: Order,
    /// Sizes of the closed segments, in bytes.
    closed: BTreeMap<Lsn, u64>,
    /// The last segment and its size in bytes, if it has a directory or frames queued for it.
    open: Option<(Lsn, u64)>,
    /// Where the last segment begins, if it has none.
    planned: Option<Lsn>,
    /// Taken when the store is dropped.
    commands: Option<mpsc::Sender<Command>>,
    queue_bytes: Arc<Semaphore>,
    queue_bytes_max: usize,
    thread: Option<JoinHandle<()>>,
    /// Held while a closed segment is open to be read: sled lets only one open it.
    reading: Arc<tokio::sync::Mutex<()>>,
}

impl SledStore {
    /// Opens the journal in the directory `dir`, of whose file system `disk` tells the free space.
    /// The last segment becomes the open one.
    ///
    /// # Errors
    /// When files cannot be read, and when sled does not keep its log where it is expected.
    pub async fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        config: &StoreConfig,
    ) -> Result<Self, StoreError> {
        let place = Place { dir: dir.to_owned(), cache_bytes: config.sled_cache_bytes };
        let looked_at = place.clone();
        let closed = blocking(&place, move || find_segments(&looked_at)).await?;
        sync_names(&*disk, dir).await?;
        let health = Health::default();
        let writer = Writer::new(place.clone(), health.clone());
        let (commands, queue) = mpsc::channel();
        let thread = std::thread::Builder::new().name("rondo-journal".into());
        let thread = thread.spawn(move || writer.run(queue));
        let thread =
            thread.map_err(|error| StoreError::new("cannot start a thread for", dir, &error))?;
        let queue_bytes_max = config.sled_queue_bytes_max.clamp(1, QUEUE_BYTES_LIMIT);
        let mut store = Self {
            reserve: Reserve::new(disk, dir, config.free_space_reserve_bytes),
            place,
            health,
            order: Order::default(),
            closed,
            open: None,
            planned: None,
            commands: Some(commands),
            queue_bytes: Arc::new(Semaphore::new(queue_bytes_max)),
            queue_bytes_max,
            thread: Some(thread),
            reading: Arc::default(),
        };
        store.reopen_last().await?;
        Ok(store)
    }

    /// Makes the last closed segment, if there is one, the open one.
    async fn reopen_last(&mut self) -> Result<(), StoreError> {
        let Some((segment, size_bytes)) = self.closed.pop_last() else {
            return Ok(());
        };
        let found = self.ask(|answer| Command::Read { segment, answer }).await?;
        let headers = found.iter().filter_map(|joined| Some(joined.frame.as_ref().ok()?.0));
        self.order = Order::behind(segment, headers);
        self.open = Some((segment, size_bytes));
        Ok(())
    }

    /// Has the thread do something, once it has done all it was given before. The future does not
    /// keep the thread going.
    fn ask<T: Send + 'static>(
        &self,
        command: impl FnOnce(Answer<T>) -> Command,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let (answer, outcome) = oneshot::channel();
        let given = self.give(command(answer));
        let stopped = self.stopped();
        Box::pin(async move {
            given?;
            outcome.await.map_err(|_| stopped)?
        })
    }

    fn give(&self, command: Command) -> Result<(), StoreError> {
        let given = self.commands.as_ref().map(|commands| commands.send(command));
        given.and_then(Result::ok).ok_or_else(|| self.stopped())
    }

    fn stopped(&self) -> StoreError {
        StoreError::new("cannot use", &self.place.dir, &"the journal's thread has stopped")
    }

    async fn append(&mut self, first: Lsn, frame: Bytes) -> Result<(), AppendError> {
        self.health.check()?;
        let header = self.order.check(first, &frame, &self.place.dir)?;
        let size_bytes = frame.len() as u64;
        let (segment, before) = self.open.unwrap_or((self.planned.unwrap_or(first), 0));
        let new_bytes = if self.open.is_none() { SLED_BYTES_EMPTY } else { 0 };
        let needed = size_bytes.saturating_mul(SLED_BYTES_PER_BYTE).saturating_add(new_bytes);
        self.reserve.take(needed).await?;
        if self.open.is_none() {
            let created = self.create(segment).await;
            created.map_err(|error| self.health.refuse(error))?;
            (self.open, self.planned) = (Some((segment, 0)), None);
        }
        self.queue(segment, first, frame).await.map_err(|error| self.health.fail(error))?;
        self.open = Some((segment, before.saturating_add(size_bytes)));
        self.order.took(&header);
        Ok(())
    }

    /// Has the thread create a segment before a frame is taken for it, as that can fail for want of
    /// descriptors or space. The thread has nothing else to do then: the segment before was closed.
    async fn create(&self, segment: Lsn) -> Result<(), AppendError> {
        let (answer, created) = oneshot::channel();
        self.give(Command::Create { segment, answer })?;
        created.await.map_err(|_| self.stopped())?
    }

    async fn queue(&self, segment: Lsn, first: Lsn, frame: Bytes) -> Result<(), StoreError> {
        // A frame larger than the whole queue waits until it is alone in it.
        let bytes = frame.len().max(QUEUED_FRAME_BYTES_MIN).min(self.queue_bytes_max);
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let space = Arc::clone(&self.queue_bytes).acquire_many_owned(permits).await;
        let queued = space.map_err(|_| self.stopped())?;
        self.give(Command::Append { segment, first, frame, queued })
    }

    async fn rotate(&mut self, next: Lsn) -> Result<bool, StoreError> {
        self.health.check()?;
        let Some((segment, size_bytes)) = self.open.filter(|(first, _)| *first < next) else {
            return Ok(true);
        };
        self.ask(Command::Close).await?;
        self.closed.insert(segment, size_bytes);
        self.open = None;
        self.planned = Some(next);
        Ok(true)
    }

    async fn truncate(&mut self, from: Lsn) -> Result<(), StoreError> {
        self.health.check()?;
        let _reading = Arc::clone(&self.reading).lock_owned().await;
        self.closed.extend(self.open.take());
        self.planned = None;
        let segments = self.closed.keys().copied().collect();
        let left = self.ask(|answer| Command::Truncate { from, segments, answer }).await?;
        self.closed.retain(|segment, _| *segment < from);
        match left.and_then(|_| self.closed.pop_last()) {
            Some((segment, _)) => self.open = Some((segment, self.size_bytes(segment).await?)),
            None => self.planned = Some(from),
        }
        self.order = Order::starting_at(from);
        Ok(())
    }

    /// Bytes of the good frames of the open segment.
    async fn size_bytes(&self, segment: Lsn) -> Result<u64, StoreError> {
        let found = self.ask(|answer| Command::Read { segment, answer }).await?;
        let frames = found.iter().filter_map(|joined| joined.frame.as_ref().ok());
        Ok(frames.map(|(_, frame)| frame.len() as u64).sum())
    }

    async fn remove(&mut self, segment: Lsn) -> Result<(), StoreError> {
        self.health.check()?;
        if !self.closed.contains_key(&segment) {
            return Err(StoreError::not_closed(&self.place.path(segment, SUFFIX)));
        }
        let _reading = Arc::clone(&self.reading).lock_owned().await;
        self.ask(|answer| Command::Remove { segment, answer }).await?;
        self.closed.remove(&segment);
        Ok(())
    }
}

impl Store for SledStore {
    fn append(&mut self, first: Lsn, frame: Bytes) -> BoxFuture<'_, Result<(), AppendError>> {
        Box::pin(self.append(first, frame))
    }

    fn sync(&mut self) -> BoxFuture<'static, Result<(), StoreError>> {
        self.ask(Command::Sync)
    }

    fn rotate(&mut self, next: Lsn) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(self.rotate(next))
    }

    fn segments(&self) -> Vec<Segment> {
        let closed = self.closed.iter().map(|(first, size_bytes)| (*first, *size_bytes));
        let planned = self.planned.map(|first| (first, 0));
        let all = closed.chain(self.open).chain(planned);
        all.map(|(first, size_bytes)| Segment { first, size_bytes }).collect()
    }

    fn read(&self, segment: Lsn) -> BoxFuture<'static, Result<Vec<Found>, StoreError>> {
        if self.planned == Some(segment) {
            return Box::pin(async { Ok(Vec::new()) });
        }
        let path = self.place.path(segment, SUFFIX);
        let is_open = self.open.is_some_and(|(open, _)| open == segment);
        let read_open = is_open.then(|| self.ask(|answer| Command::Read { segment, answer }));
        let place = self.place.clone();
        let reading = Arc::clone(&self.reading);
        Box::pin(async move {
            let joined = match read_open {
                Some(read_open) => read_open.await?,
                None => read_closed(place, segment, reading).await?,
            };
            Ok(joined.into_iter().map(|joined| found(joined, &path)).collect())
        })
    }

    fn truncate(&mut self, from: Lsn) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.truncate(from))
    }

    fn remove(&mut self, segment: Lsn) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.remove(segment))
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            // Its panic has been reported by whatever was asked of it.
            let _ = thread.join();
        }
    }
}

/// Reads a closed segment on a thread of its own, so that appending goes on meanwhile.
async fn read_closed(
    place: Place,
    segment: Lsn,
    reading: Arc<tokio::sync::Mutex<()>>,
) -> Result<Vec<Joined>, StoreError> {
    let reading = reading.lock_owned().await;
    let opened = place.clone();
    blocking(&place, move || {
        let _reading = reading;
        let path = opened.path(segment, SUFFIX);
        if !path.exists() {
            return Err(StoreError::new("cannot read", &path, &"no such segment"));
        }
        opened.open(segment)?.frames()
    })
    .await
}

/// Does blocking work on a thread meant for it.
async fn blocking<T: Send + 'static>(
    place: &Place,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|failure| Err(StoreError::new("cannot use", &place.dir, &failure)))
}

/// The segments with their sizes in bytes. Removes what creations, removals and copies left when the process
/// was killed in them.
fn find_segments(place: &Place) -> Result<BTreeMap<Lsn, u64>, StoreError> {
    let failed = |error: std::io::Error| StoreError::new("cannot list", &place.dir, &error);
    let mut segments = BTreeMap::new();
    for entry in std::fs::read_dir(&place.dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let left_over = [SUFFIX_UNFINISHED, SUFFIX_GONE, SUFFIX_COPY];
        if let Some(first) = names::position(&name, SUFFIX) {
            segments.insert(first, files_bytes(&entry.path()).map_err(failed)?);
        } else if left_over.iter().any(|suffix| names::position(&name, suffix).is_some()) {
            remove_dir_if_there(&entry.path()).map_err(failed)?;
        } else {
            let dir = place.dir.display();
            tracing::warn!(name, %dir, "not a journal segment: ignored");
        }
    }
    Ok(segments)
}

fn files_bytes(dir: &Path) -> std::io::Result<u64> {
    std::fs::read_dir(dir)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}

fn found(joined: Joined, path: &Path) -> Found {
    Found {
        place: format!("{} {}", path.display(), joined.place),
        frame: joined.frame.map(|(_, frame)| frame),
    }
}

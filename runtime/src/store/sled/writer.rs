//! The thread that writes to sled, which blocks.

use std::path::PathBuf;
use std::sync::mpsc;

use bytes::Bytes;
use rondo_core::ids::Lsn;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::database::{self, Database, LOG_PART_BYTES};
use super::pieces::{FrameKey, Joined};
use crate::store::health::Health;
use crate::store::order::{last_to_stay, refuse_to_divide};
use crate::store::{AppendError, StoreError, names};

/// Name of a segment's directory behind its position.
pub(super) const SUFFIX: &str = ".sled";
/// The same while it is created.
pub(super) const SUFFIX_UNFINISHED: &str = ".sled-new";
/// The same while it is removed.
pub(super) const SUFFIX_GONE: &str = ".sled-gone";
/// Commands carried out before a sync that waits is answered.
const COMMANDS_BEFORE_SYNC_MAX: usize = 256;
/// Bytes that sled may write to its log without a sync, unless one frame takes more, as [`written_for`]
/// counts them. sled cuts a part off its log, or writes over it, once it has filled another part (two, to
/// write over it) behind what replaces it. A power cut may keep that and lose what replaces it, so we sync
/// more often. sled writes up to four times what is counted here when it moves pages away from parts that it
/// wants to use again.
const UNSYNCED_BYTES_MAX: u64 = LOG_PART_BYTES / 4;
/// Bytes that sled writes to its log for each byte of a frame, as measured with frames of 1 kB to 40 kB.
const WRITTEN_FOR_BYTE: u64 = 6;
/// Bytes that it writes for each frame besides. Of frames of 50 bytes it is 550, and 11,000 where short
/// frames follow long ones: it writes a page anew with every ten changes.
const WRITTEN_FOR_FRAME: u64 = 4 << 10;

/// How a command's outcome comes back.
pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the thread is asked to do.
pub(super) enum Command {
    /// Create the segment that begins with `segment`, unless it is there, and open it.
    Create { segment: Lsn, answer: oneshot::Sender<Result<(), AppendError>> },
    /// Put a frame into the segment that begins with `segment`, which is the open one or follows.
    Append {
        segment: Lsn,
        first: Lsn,
        frame: Bytes,
        /// Space in the queue, given back when the frame is written.
        queued: OwnedSemaphorePermit,
    },
    /// Make everything so far durable.
    Sync(Answer<()>),
    /// Make everything durable and close the segment.
    Close(Answer<()>),
    /// Say what is in a segment.
    Read { segment: Lsn, answer: Answer<Vec<Joined>> },
    /// Drop everything from record `from` on; `segments` is all there are, oldest first. The answer
    /// is the last segment left, which is open.
    Truncate { from: Lsn, segments: Vec<Lsn>, answer: Answer<Option<Lsn>> },
    /// Remove a segment that is not open.
    Remove { segment: Lsn, answer: Answer<()> },
}

/// Where the segments are, and how they are opened.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) dir: PathBuf,
    pub(super) cache_bytes: u64,
}

impl Place {
    pub(super) fn path(&self, segment: Lsn, suffix: &str) -> PathBuf {
        self.dir.join(names::of(segment, suffix))
    }

    pub(super) fn open(&self, segment: Lsn) -> Result<Database, StoreError> {
        Database::open(&self.path(segment, SUFFIX), self.cache_bytes)
    }

    fn open_or_create(&self, segment: Lsn) -> Result<Database, AppendError> {
        let path = self.path(segment, SUFFIX);
        if path.exists() {
            return Database::open_created(&path, self.cache_bytes);
        }
        Database::create(&path, &self.path(segment, SUFFIX_UNFINISHED), self.cache_bytes)
    }

    fn remove(&self, segment: Lsn) -> Result<(), StoreError> {
        database::remove(&self.path(segment, SUFFIX), &self.path(segment, SUFFIX_GONE))
    }
}

/// The thread's own.
pub(super) struct Writer {
    place: Place,
    health: Health,
    open: Option<Open>,
    waiting: Vec<Answer<()>>,
}

/// The open segment.
struct Open {
    segment: Lsn,
    database: Database,
    last: Option<FrameKey>,
    /// Bytes that sled may have written to its log since the last sync.
    unsynced_bytes: u64,
}

impl Open {
    fn new(segment: Lsn, database: Database, last: Option<FrameKey>) -> Self {
        Self { segment, database, last, unsynced_bytes: 0 }
    }

    fn append(&mut self, first: Lsn, frame: &[u8]) -> Result<(), StoreError> {
        let written = written_for(frame);
        let is_too_much = self.unsynced_bytes.saturating_add(written) > UNSYNCED_BYTES_MAX;
        if self.unsynced_bytes > 0 && is_too_much {
            self.sync()?;
        }
        let key = FrameKey::following(self.last, first);
        self.database.put(key, frame)?;
        self.last = Some(key);
        self.unsynced_bytes = self.unsynced_bytes.saturating_add(written);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.database.sync()?;
        self.unsynced_bytes = 0;
        Ok(())
    }
}

/// Bytes that sled writes to its log for a frame, as far as one can tell beforehand.
const fn written_for(frame: &[u8]) -> u64 {
    WRITTEN_FOR_BYTE.saturating_mul(frame.len() as u64).saturating_add(WRITTEN_FOR_FRAME)
}

impl Writer {
    pub(super) const fn new(place: Place, health: Health) -> Self {
        Self { place, health, open: None, waiting: Vec::new() }
    }

    /// Carries out commands until nobody can give any.
    pub(super) fn run(mut self, commands: mpsc::Receiver<Command>) {
        while let Ok(command) = commands.recv() {
            self.perform(command);
            // Syncs asked for while one was under way share the next one.
            for _ in 1..COMMANDS_BEFORE_SYNC_MAX {
                let Ok(command) = commands.try_recv() else {
                    break;
                };
                self.perform(command);
            }
            self.sync_for_waiting();
        }
    }

    fn perform(&mut self, command: Command) {
        match command {
            Command::Create { segment, answer } => {
                let created = self.create(segment);
                reply(answer, created.map_err(|error| self.health.refuse(error)));
            }
            Command::Append { segment, first, frame, queued } => {
                let appended = self.append(segment, first, &frame);
                // The next caller that waits for a sync is told.
                let _ = appended.map_err(|error| self.health.fail(self.lasting(error)));
                drop(queued);
            }
            Command::Sync(answer) => self.waiting.push(answer),
            Command::Close(answer) => {
                let closed = self.close();
                reply(answer, closed);
            }
            Command::Read { segment, answer } => {
                let found = self.read(segment);
                reply(answer, found.map_err(|error| self.lasting(error)));
            }
            Command::Truncate { from, segments, answer } => {
                let left = self.truncate(from, segments);
                reply(answer, left.map_err(|error| self.health.fail(error)));
            }
            Command::Remove { segment, answer } => reply(answer, self.place.remove(segment)),
        }
    }

    /// The segment, opened if it is not, in place of the one that is.
    fn open(&mut self, segment: Lsn) -> Result<&mut Open, AppendError> {
        let open = match self.open.take_if(|open| open.segment == segment) {
            Some(open) => open,
            None => {
                self.close()?;
                let database = self.place.open_or_create(segment)?;
                let last = database.last_key()?;
                Open::new(segment, database, last)
            }
        };
        Ok(self.open.insert(open))
    }

    fn create(&mut self, segment: Lsn) -> Result<(), AppendError> {
        self.health.check()?;
        self.open(segment)?;
        Ok(())
    }

    fn read(&mut self, segment: Lsn) -> Result<Vec<Joined>, AppendError> {
        Ok(self.open(segment)?.database.frames()?)
    }

    /// The error of a command that nobody tries again.
    fn lasting(&self, error: AppendError) -> StoreError {
        match error {
            AppendError::Failed(error) => error,
            passing => StoreError::new("cannot use", &self.place.dir, &passing),
        }
    }

    fn append(&mut self, segment: Lsn, first: Lsn, frame: &[u8]) -> Result<(), AppendError> {
        self.health.check()?;
        Ok(self.open(segment)?.append(first, frame)?)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.health.check()?;
        let synced = self.open.as_mut().map_or(Ok(()), Open::sync);
        synced.map_err(|error| self.health.fail(error))
    }

    fn sync_for_waiting(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let synced = self.sync();
        for answer in self.waiting.drain(..) {
            reply(answer, synced.clone());
        }
    }

    fn close(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        self.open = None;
        Ok(())
    }

    fn truncate(&mut self, from: Lsn, mut segments: Vec<Lsn>) -> Result<Option<Lsn>, StoreError> {
        self.close()?;
        let gone = segments.split_off(segments.partition_point(|segment| *segment < from));
        let Some(&left) = segments.last() else {
            self.remove_all(&gone)?;
            return Ok(None);
        };
        let path = self.place.path(left, SUFFIX);
        let database = self.place.open(left)?;
        let frames = database.frames()?;
        for header in frames.iter().filter_map(|joined| Some(joined.frame.as_ref().ok()?.0)) {
            refuse_to_divide(&header, from, &path)?;
        }
        self.remove_all(&gone)?;
        let header = |joined: &Joined| Some(joined.frame.as_ref().ok()?.0);
        let last = last_to_stay(&frames, header, from).and_then(|joined| joined.key);
        database.cut_behind(last)?;
        self.open = Some(Open::new(left, database, last));
        Ok(Some(left))
    }

    /// Removes segments one by one from the last, so that a crash leaves no gap.
    fn remove_all(&self, segments: &[Lsn]) -> Result<(), StoreError> {
        segments.iter().rev().try_for_each(|segment| self.place.remove(*segment))
    }
}

fn reply<T, E>(answer: oneshot::Sender<Result<T, E>>, outcome: Result<T, E>) {
    // The caller may have stopped waiting.
    let _ = answer.send(outcome);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    /// sled syncs a database also when it is dropped, which reports no error.
    #[test]
    fn a_segment_is_not_closed_over_a_frame_that_could_not_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place { dir: folder.path().to_owned(), cache_bytes: 1 << 20 };
        let segment = Lsn::new(1);
        std::fs::write(place.path(segment, SUFFIX_UNFINISHED), b"in the way").unwrap();
        let mut writer = Writer::new(place, Health::default());
        let queued = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let frame = Bytes::from_static(b"frame");
        writer.perform(Command::Append { segment, first: segment, frame, queued });
        let (answer, closed) = oneshot::channel();
        writer.perform(Command::Close(answer));
        let error = closed.blocking_recv().unwrap().unwrap_err();
        assert!(error.to_string().contains("it failed before"), "{error}");
    }
}

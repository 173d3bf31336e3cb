//! One segment: one sled database in a directory of its own.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::SLED_BYTES_EMPTY;
use super::open_error::{OpenError, guarded, unreadable};
use super::pieces::{FrameKey, Joined, cut, join};
use super::settle::{SNAPSHOT_UNFINISHED, Settled, settle, snapshots};
use crate::store::disk::of_sync;
use crate::store::disk_real::sync_path;
use crate::store::{AppendError, StoreError};

/// sled's log, below the database's directory. `flush` leaves it to us to make it durable, so we
/// depend on the name, which is why sled's version is pinned.
pub(super) const LOG_FILE: &str = "db";
/// sled's log consists of parts of this size, in bytes, which sled uses again when it needs nothing in them.
pub(super) const LOG_PART_BYTES: u64 = 512 << 10;
/// Keys deleted without a sync when a segment is cut: sled writes some 150 kB for nine of them, where pages
/// hold pieces of 4,000 bytes.
const DELETE_KEYS_MAX: usize = 16;
/// How long to wait until whoever had the database open a moment ago has let it go.
const UNLOCK_WAIT: Duration = Duration::from_secs(5);
/// How long to wait before looking again.
const UNLOCK_POLL: Duration = Duration::from_millis(5);

/// A segment's database, open. Everything here blocks.
pub(super) struct Database {
    db: sled::Db,
    log: File,
    path: PathBuf,
}

impl Database {
    /// Creates the database in the directory `path`, durably; a crash on the way leaves only the
    /// directory `unfinished`, which may be there from an earlier one.
    ///
    /// After an error that passes, it may be tried again, if there is no directory `path`: everything is made
    /// anew. If there is one, it is whole and durable.
    pub(super) fn create(
        path: &Path,
        unfinished: &Path,
        cache_bytes: u64,
    ) -> Result<Self, AppendError> {
        let failed = |error: io::Error| AppendError::no_segment(path, SLED_BYTES_EMPTY, &error);
        remove_dir_if_there(unfinished).map_err(failed)?;
        let new = Self::open_created(unfinished, cache_bytes)?;
        new.try_sync().map_err(|error| failed(of_sync(error)))?;
        drop(new);
        sync_files(unfinished).map_err(failed)?;
        // Before the database has its name: one with a name that is not durable would be used as it is.
        let parent = open_parent(path).map_err(failed)?;
        std::fs::rename(unfinished, path).map_err(failed)?;
        parent.sync_all().map_err(|error| StoreError::new("cannot create", path, &error))?;
        Self::open_created(path, cache_bytes)
    }

    /// Opens the database in the directory `path`, as a part of creating it.
    pub(super) fn open_created(path: &Path, cache_bytes: u64) -> Result<Self, AppendError> {
        let opened = Self::try_open(path, cache_bytes);
        opened.map_err(|error| error.of_creation(path, SLED_BYTES_EMPTY))
    }

    /// Opens the database in the directory `path`.
    pub(super) fn open(path: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        Self::try_open(path, cache_bytes).map_err(|error| error.of_store(path))
    }

    fn try_open(path: &Path, cache_bytes: u64) -> Result<Self, OpenError> {
        let settled = settle(path, cache_bytes)?;
        let db = open_database(path, cache_bytes)?;
        if settled == Settled::NoRoom {
            sync_path(path).map_err(|error| OpenError::Io("cannot sync", error))?;
        }
        let log = File::open(path.join(LOG_FILE)).map_err(OpenError::Log)?;
        Ok(Self { db, log, path: path.to_owned() })
    }

    /// Puts a frame in. Whole or not at all after a crash.
    pub(super) fn put(&self, key: FrameKey, frame: &[u8]) -> Result<(), StoreError> {
        let mut pieces = cut(key, frame);
        let put = match (pieces.next(), pieces.next()) {
            // A batch of one would cost sled one record more, and two buffers of its log.
            (Some((key, piece)), None) => self.db.insert(key, piece).map(drop),
            _ => {
                let mut batch = sled::Batch::default();
                cut(key, frame).for_each(|(key, piece)| batch.insert(&key, piece));
                self.db.apply_batch(batch)
            }
        };
        put.map_err(|error| self.failed("cannot append to", &error))
    }

    /// Makes everything durable.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        let synced = self.try_sync();
        synced.map_err(|error| StoreError::new("cannot sync", &self.path.join(LOG_FILE), &error))
    }

    fn try_sync(&self) -> io::Result<()> {
        self.db.flush()?;
        // sled's flush is no more than sync_file_range: it survives a crash but no power cut.
        self.log.sync_data()
    }

    /// All frames, good and bad, in order.
    pub(super) fn frames(&self) -> Result<Vec<Joined>, StoreError> {
        self.guarded(|| join(self.db.iter()))
    }

    /// The key of the last frame, good or bad.
    pub(super) fn last_key(&self) -> Result<Option<FrameKey>, StoreError> {
        self.guarded(|| {
            let keys = self.db.iter().keys().map_while(Result::ok);
            keys.filter_map(|key| FrameKey::parse(&key)).map(|(frame, _)| frame).last()
        })
    }

    /// Does something that reads pages, over which sled may panic.
    fn guarded<T>(&self, work: impl FnOnce() -> T) -> Result<T, StoreError> {
        let damaged =
            |said: String| StoreError::damaged("cannot read", &self.path, &unreadable(&said));
        guarded(work).map_err(damaged)
    }

    /// Deletes everything behind the frame at `last`, or everything. Durable on return.
    pub(super) fn cut_behind(&self, last: Option<FrameKey>) -> Result<(), StoreError> {
        self.guarded(|| self.delete_behind(last))?
    }

    fn delete_behind(&self, last: Option<FrameKey>) -> Result<(), StoreError> {
        let start = last.map_or_else(Vec::new, |last| last.after().to_vec());
        while self.delete_some_behind(&start)? {}
        Ok(())
    }

    /// Deletes the last keys, but none before `start`: a crash leaves no gap. Says whether there were any.
    /// Durable on return.
    fn delete_some_behind(&self, start: &[u8]) -> Result<bool, StoreError> {
        let failed = |error: sled::Error| self.failed("cannot cut", &error);
        let last = self.db.range(start..).keys().rev().take(DELETE_KEYS_MAX);
        let keys = last.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        for key in &keys {
            self.db.remove(key).map_err(failed)?;
        }
        self.sync()?;
        Ok(!keys.is_empty())
    }

    fn failed(&self, what: &'static str, error: &sled::Error) -> StoreError {
        StoreError::new(what, &self.path, error)
    }
}

/// Has sled open the database in the directory `path`.
pub(super) fn open_database(path: &Path, cache_bytes: u64) -> Result<sled::Db, OpenError> {
    let config = sled::Config::new()
        .path(path)
        .flush_every_ms(None)
        .cache_capacity(cache_bytes)
        .mode(sled::Mode::HighThroughput);
    match open_when_unlocked(&config) {
        // Nobody else has it, since it was looked into.
        Err(OpenError::Sled(sled::Error::Corruption { .. }))
            if remove_unfinished_snapshots(path) =>
        {
            open_when_unlocked(&config)
        }
        opened => opened,
    }
}

/// Removes snapshots that sled had begun to write of its own pages when the process was killed, and says
/// whether there were any. sled takes them for whole ones. It needs none of them: it changes its log only
/// once a snapshot is whole.
fn remove_unfinished_snapshots(path: &Path) -> bool {
    let names = snapshots(path).unwrap_or_default();
    let unfinished = names.iter().filter(|name| name.ends_with(SNAPSHOT_UNFINISHED));
    unfinished.filter(|name| std::fs::remove_file(path.join(name)).is_ok()).count() > 0
}

/// Opens, waiting for a lock that goes away: sled lets go of its files some time after a database
/// was dropped.
fn open_when_unlocked(config: &sled::Config) -> Result<sled::Db, OpenError> {
    let open = || guarded(|| config.open()).map_err(OpenError::Panicked)?.map_err(OpenError::Sled);
    let is_locked = |error: &OpenError| match error {
        OpenError::Sled(sled::Error::Io(error)) => {
            error.to_string().contains("could not acquire lock")
        }
        _ => false,
    };
    when_unlocked(open, is_locked)
}

/// Does what a lock prevents, again and again until the lock is gone or was waited for long enough.
pub(super) fn when_unlocked<T, E>(
    mut attempt: impl FnMut() -> Result<T, E>,
    is_locked: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_locked(&error) && start.elapsed() < UNLOCK_WAIT => sleep(UNLOCK_POLL),
            done => return done,
        }
    }
}

/// Removes a database so that after a crash it is there whole or, under the name `gone`, to be
/// removed. Durable on return. An attempt that failed half way may be tried again.
pub(super) fn remove(path: &Path, gone: &Path) -> Result<(), StoreError> {
    let remove = || {
        let parent = open_parent(path)?;
        match std::fs::rename(path, gone) {
            // An earlier attempt came as far as this.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        parent.sync_all()?;
        remove_dir_if_there(gone)
    };
    remove().map_err(|error| StoreError::new("cannot remove", path, &error))
}

/// Removes a directory that may be there, with all in it.
pub(super) fn remove_dir_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Makes a directory durable with the files in it.
fn sync_files(dir: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        sync_path(&entry?.path())?;
    }
    sync_path(dir)
}

fn open_parent(path: &Path) -> io::Result<File> {
    File::open(path.parent().unwrap_or(Path::new(".")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use bytes::Bytes;
    use rondo_core::ids::Lsn;

    use super::*;

    #[test]
    fn a_snapshot_that_sled_had_begun_when_it_was_killed_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let [path, unfinished] = ["db", "new"].map(|name| folder.path().join(name));
        let key = FrameKey { first: Lsn::new(1), ordinal: 0 };
        let database = Database::create(&path, &unfinished, 1 << 20).unwrap();
        database.put(key, &Bytes::from_static(b"kept")).unwrap();
        database.sync().unwrap();
        drop(database);
        let begun = path.join("snap.FFFFFFFFFFFFFFFF.generating");
        std::fs::write(&begun, b"").unwrap();
        let error = Database::open(&path, 1 << 20).map(|database| {
            assert!(!begun.exists());
            let held: Vec<_> = database.db.iter().values().map(Result::unwrap).collect();
            assert_eq!(held.len(), 1, "what was put is there");
        });
        error.map_err(|error| error.to_string()).unwrap();
    }

    #[test]
    fn a_cut_that_is_broken_off_leaves_no_gap() {
        let folder = tempfile::tempdir().unwrap();
        let [path, unfinished] = ["db", "new"].map(|name| folder.path().join(name));
        let database = Database::create(&path, &unfinished, 1 << 20).unwrap();
        for first in 1..=60 {
            database.put(FrameKey { first: Lsn::new(first), ordinal: 0 }, b"frame").unwrap();
        }
        let keys = || database.db.iter().keys().map(Result::unwrap).collect::<Vec<_>>();
        let before = keys();
        let start = FrameKey { first: Lsn::new(10), ordinal: 0 }.after();
        let mut counts = vec![before.len()];
        while database.delete_some_behind(&start).unwrap() {
            let left = keys();
            assert_eq!(left, before[..left.len()]);
            counts.push(left.len());
        }
        assert_eq!(counts, [60, 44, 28, 12, 10]);
    }

    #[test]
    fn a_removal_that_failed_half_way_can_be_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let [path, gone] = ["db", "gone"].map(|name| folder.path().join(name));
        std::fs::create_dir(&gone).unwrap();
        std::fs::write(gone.join(LOG_FILE), b"what was renamed").unwrap();
        remove(&path, &gone).unwrap();
        assert!(!gone.exists());
        remove(&path, &gone).unwrap();
    }
}

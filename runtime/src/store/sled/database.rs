//! One segment: one sled database in a directory of its own.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::pieces::{FrameKey, Joined, cut, join};
use crate::store::StoreError;

/// sled's log, below the database's directory. `flush` leaves it to us to make it durable, so we
/// depend on the name, which is why sled's version is pinned.
const LOG_FILE: &str = "db";
/// Keys deleted at a time when a segment is cut.
const DELETE_KEYS_MAX: usize = 1024;
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
    pub(super) fn create(
        path: &Path,
        unfinished: &Path,
        cache_bytes: u64,
    ) -> Result<Self, StoreError> {
        let failed = |error: io::Error| StoreError::new("cannot create", path, &error);
        remove_dir_if_there(unfinished).map_err(failed)?;
        let new = Self::open(unfinished, cache_bytes)?;
        new.sync()?;
        drop(new);
        sync_files(unfinished).map_err(failed)?;
        std::fs::rename(unfinished, path).map_err(failed)?;
        sync_parent(path).map_err(failed)?;
        Self::open(path, cache_bytes)
    }

    /// Opens the database in the directory `path`.
    pub(super) fn open(path: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        let failed = |reason: String| StoreError::new("cannot open", path, &reason);
        let config = sled::Config::new()
            .path(path)
            .flush_every_ms(None)
            .cache_capacity(cache_bytes)
            .mode(sled::Mode::HighThroughput);
        let db = match open_when_unlocked(&config) {
            // Nobody else has it, since it was looked into.
            Err(sled::Error::Corruption { .. }) if remove_unfinished_snapshots(path) => {
                open_when_unlocked(&config)
            }
            opened => opened,
        };
        let db = db.map_err(|error| match error {
            sled::Error::Corruption { .. } => {
                let reason = format!(
                    "sled cannot read what it wrote there ({error}). If only its own snapshot is damaged \
                     (snap.*), it does without: try `rondo journal verify` on a copy of the data directory \
                     from which that file is removed. Otherwise restore the data directory from a copy"
                );
                StoreError::damaged("cannot open", path, &reason)
            }
            error => failed(error.to_string()),
        })?;
        let log = File::open(path.join(LOG_FILE)).map_err(|error| {
            failed(format!(
                "sled's log file {LOG_FILE} cannot be opened ({error}); without syncing it nothing \
                 would be durable. Is this sled 0.34.7?"
            ))
        })?;
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
        self.db.flush().map_err(|error| self.failed("cannot flush", &error))?;
        // sled's flush is no more than sync_file_range: it survives a crash but no power cut.
        let synced = self.log.sync_data();
        synced.map_err(|error| StoreError::new("cannot sync", &self.path.join(LOG_FILE), &error))
    }

    /// All frames, good and bad, in order.
    pub(super) fn frames(&self) -> Vec<Joined> {
        join(self.db.iter())
    }

    /// The key of the last frame, good or bad.
    pub(super) fn last_key(&self) -> Option<FrameKey> {
        let keys = self.db.iter().keys().map_while(Result::ok);
        keys.filter_map(|key| FrameKey::parse(&key)).map(|(frame, _)| frame).last()
    }

    /// Deletes everything behind the frame at `last`, or everything. Durable on return.
    pub(super) fn cut_behind(&self, last: Option<FrameKey>) -> Result<(), StoreError> {
        let failed = |error: sled::Error| self.failed("cannot cut", &error);
        let start = last.map_or_else(Vec::new, |last| last.after().to_vec());
        loop {
            let behind = self.db.range(start.clone()..).keys().take(DELETE_KEYS_MAX);
            let keys = behind.collect::<Result<Vec<_>, _>>().map_err(failed)?;
            if keys.is_empty() {
                return self.sync();
            }
            // From the end, so that a crash leaves no gap.
            for key in keys.iter().rev() {
                self.db.remove(key).map_err(failed)?;
            }
        }
    }

    fn failed(&self, what: &'static str, error: &sled::Error) -> StoreError {
        StoreError::new(what, &self.path, error)
    }
}

/// Removes snapshots that sled had begun to write of its own pages when the process was killed, and says
/// whether there were any. sled takes them for whole ones; it needs none, as its log has everything.
fn remove_unfinished_snapshots(path: &Path) -> bool {
    let is_unfinished = |name: &str| name.starts_with("snap.") && name.ends_with(".generating");
    let Ok(entries) = std::fs::read_dir(path) else {
        return false;
    };
    let unfinished = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_str().is_some_and(is_unfinished));
    let removed = unfinished.filter(|entry| std::fs::remove_file(entry.path()).is_ok());
    removed.count() > 0
}

/// Opens, waiting for a lock that goes away: sled lets go of its files some time after a database
/// was dropped.
fn open_when_unlocked(config: &sled::Config) -> Result<sled::Db, sled::Error> {
    let start = Instant::now();
    loop {
        match config.open() {
            Err(sled::Error::Io(error))
                if error.to_string().contains("could not acquire lock")
                    && start.elapsed() < UNLOCK_WAIT =>
            {
                sleep(UNLOCK_POLL);
            }
            other => return other,
        }
    }
}

/// Removes a database so that after a crash it is there whole or, under the name `gone`, to be
/// removed. Durable on return.
pub(super) fn remove(path: &Path, gone: &Path) -> Result<(), StoreError> {
    let remove = || {
        std::fs::rename(path, gone)?;
        sync_parent(path)?;
        std::fs::remove_dir_all(gone)
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
        File::open(entry?.path())?.sync_all()?;
    }
    File::open(dir)?.sync_all()
}

fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
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
}

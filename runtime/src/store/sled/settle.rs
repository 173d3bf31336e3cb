//! sled's snapshot of its own pages, made durable before sled changes its log.
//!
//! When sled opens a database, it writes a snapshot, and then overwrites each part of its log that this
//! snapshot does not need. It never syncs the snapshot's name. After a power cut an older snapshot may stand
//! beside a log that lacks what only the older one needs; sled then drops the records behind it. So we let
//! sled open a copy first, and put the snapshot that it writes there beside the log, durably.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use super::database::{
    LOG_FILE, LOG_PART_BYTES, open_database, remove_dir_if_there, when_unlocked,
};
use super::open_error::{OpenError, guarded};
use crate::store::disk::{is_full, of_sync};
use crate::store::disk_real::{free_bytes, sync_path};

/// Name of the copy, in place of a segment's suffix.
pub(super) const SUFFIX_COPY: &str = ".sled-copy";
/// How sled's snapshots are named: followed by the place in the log, in hexadecimal digits.
const SNAPSHOT_PREFIX: &str = "snap.";
/// Behind the name of a snapshot that sled is writing, or had written when the power went.
pub(super) const SNAPSHOT_UNFINISHED: &str = ".generating";
/// Name of a snapshot that we are writing. sled takes no notice of it.
const SNAPSHOT_NEW: &str = "new-snapshot";
/// Bytes that are copied at a time.
const COPY_BYTES: usize = 512 << 10;

/// Whether sled may open a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// It may: what it overwrites is not needed.
    Yes,
    /// There is no room for the copy. The snapshot that sled writes must be made durable at once.
    NoRoom,
}

/// Makes the log of the database at `path` durable, and beside it a snapshot that has all of the log. Needs
/// no snapshot if there is no log, or if the log has one part: sled does not overwrite the part that it
/// writes to.
///
/// If there is no room for the copy, it warns and leaves the database as it is, so that a server can start
/// on a full disk.
pub(super) fn settle(path: &Path, cache_bytes: u64) -> Result<Settled, OpenError> {
    // Opened for writing too: some file systems lock no other files.
    let log = match OpenOptions::new().read(true).write(true).open(path.join(LOG_FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Settled::Yes),
        log => log.map_err(OpenError::Log)?,
    };
    lock(&log).map_err(|error| OpenError::Io("cannot lock the log of", error))?;
    // A process that was killed may have left bytes that it had not synced.
    let synced = log.sync_data().and_then(|()| log.metadata()).map_err(of_sync);
    let log_bytes = synced.map_err(|error| OpenError::Io("cannot sync the log of", error))?.len();
    let settled = match log_bytes > LOG_PART_BYTES {
        true => settle_by_copy(path, log_bytes, cache_bytes),
        false => Ok(()),
    };
    // To close it is not enough: a process that was forked meanwhile has the file too.
    log.unlock().map_err(|error| OpenError::Io("cannot unlock the log of", error))?;
    match settled {
        Err(error) if is_for_want_of_room(&error) => {
            tracing::warn!(
                path = %path.display(), needed_bytes = log_bytes.saturating_mul(2),
                "the disk has no room for a copy of this segment of the journal: if the power goes in the \
                 next moment, while sled opens the segment, records of it may be lost"
            );
            Ok(Settled::NoRoom)
        }
        settled => settled.map(|()| Settled::Yes),
    }
}

fn is_for_want_of_room(error: &OpenError) -> bool {
    match error {
        OpenError::Io(_, error) | OpenError::Sled(sled::Error::Io(error)) => is_full(error),
        _ => false,
    }
}

fn settle_by_copy(path: &Path, log_bytes: u64, cache_bytes: u64) -> Result<(), OpenError> {
    let copy = path.with_extension(SUFFIX_COPY.trim_start_matches('.'));
    let settled = make_copy(path, &copy, log_bytes).map_err(of_copy);
    let settled = settled.and_then(|()| take_snapshot(&copy, path, cache_bytes));
    if let Err(error) = remove_dir_if_there(&copy) {
        tracing::warn!(path = %copy.display(), %error, "cannot remove a copy of a segment of the journal");
    }
    settled
}

fn of_copy(error: io::Error) -> OpenError {
    OpenError::Io("cannot make a copy beside", error)
}

/// Has sled open the copy, and puts the snapshot that it has then beside the log of the database at `path`.
fn take_snapshot(copy: &Path, path: &Path, cache_bytes: u64) -> Result<(), OpenError> {
    let database = open_database(copy, cache_bytes)?;
    // sled panics if it cannot sync its log on the way. The copy's log may be lost.
    let _ = guarded(|| drop(database));
    // sled takes the last one. It has found it whole, even if its name ends in ".generating".
    let Some(last) = snapshots(copy).map_err(of_copy)?.into_iter().max() else {
        return Ok(());
    };
    let name = last.trim_end_matches(SNAPSHOT_UNFINISHED);
    let there = path.join(name);
    let put = match there.exists() {
        // A directory that was copied may hold what no sync covers.
        true => sync_path(&there).and_then(|()| sync_path(path)),
        false => put_beside(&copy.join(&last), path, name),
    };
    put.map_err(|error| OpenError::Io("cannot put a snapshot of sled's into", error))
}

/// Waits until no database has the log open: sled lets go of its files some time after a database was
/// dropped.
fn lock(log: &File) -> io::Result<()> {
    let is_locked = |error: &TryLockError| matches!(error, TryLockError::WouldBlock);
    when_unlocked(|| log.try_lock(), is_locked).map_err(|error| match error {
        TryLockError::WouldBlock => io::Error::other("it is open already"),
        TryLockError::Error(error) => error,
    })
}

/// Copies the files of a directory, and no directories below it: sled keeps only values there that are longer
/// than ours. Leaves as much space free as it takes, so that the journal can go on.
fn make_copy(from: &Path, to: &Path, log_bytes: u64) -> io::Result<()> {
    remove_dir_if_there(to)?;
    if !has_room(free_bytes(from), log_bytes) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let (name, path) = entry.map(|entry| (entry.file_name(), entry.path()))?;
        if path.metadata()?.is_file() {
            copy_file(&path, &to.join(name))?;
        }
    }
    Ok(())
}

/// Whether a copy of the log leaves as much space free as it takes. If nobody knows, it may.
fn has_room(free_bytes: io::Result<u64>, log_bytes: u64) -> bool {
    !free_bytes.is_ok_and(|free| free < log_bytes.saturating_mul(2))
}

fn copy_file(from: &Path, to: &Path) -> io::Result<File> {
    let (mut from, to) =
        (BufReader::with_capacity(COPY_BYTES, File::open(from)?), File::create(to)?);
    loop {
        let bytes = match from.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        if bytes.is_empty() {
            return Ok(to);
        }
        (&to).write_all(bytes)?;
        let count = bytes.len();
        from.consume(count);
    }
}

/// The names of the snapshots in a directory, whole and unfinished.
pub(super) fn snapshots(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(Some(name).filter(|name| name.starts_with(SNAPSHOT_PREFIX)));
    }
    Ok(names)
}

/// Copies a snapshot into the directory of a database, in place of those that are there. Durable on return.
fn put_beside(snapshot: &Path, dir: &Path, name: &str) -> io::Result<()> {
    let new = dir.join(SNAPSHOT_NEW);
    let copied = copy_file(snapshot, &new).and_then(|copy| copy.sync_all().map_err(of_sync));
    if copied.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    copied?;
    std::fs::rename(&new, dir.join(name))?;
    sync_path(dir)?;
    // sled takes the last one, so others may stay.
    for other in snapshots(dir)?.into_iter().filter(|other| other != name) {
        let _ = std::fs::remove_file(dir.join(other));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use std::path::PathBuf;

    use rondo_core::ids::Lsn;

    use super::super::database::Database;
    use super::super::pieces::FrameKey;
    use super::*;

    const CACHE_BYTES: u64 = 1 << 20;
    const FRAMES: u8 = 40;

    /// A database whose log has several parts.
    fn database(dir: &Path) -> PathBuf {
        let [path, unfinished] = ["a.sled", "a.sled-new"].map(|name| dir.join(name));
        let database = Database::create(&path, &unfinished, CACHE_BYTES).unwrap();
        for number in 1..=FRAMES {
            let key = FrameKey { first: Lsn::new(u64::from(number)), ordinal: 0 };
            database.put(key, &[number; 30_000]).unwrap();
            database.sync().unwrap();
        }
        path
    }

    fn pairs(path: &Path) -> usize {
        let database = open_database(path, CACHE_BYTES).unwrap();
        database.iter().map(Result::unwrap).count()
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        let name = |entry: io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> =
            entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_snapshot_has_all_of_the_log_before_sled_opens_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = database(folder.path());
        let log = std::fs::read(path.join(LOG_FILE)).unwrap();
        // An attempt before was killed.
        let copy = folder.path().join("a.sled-copy");
        std::fs::create_dir(&copy).unwrap();
        for unfinished in [copy.join(LOG_FILE), path.join(SNAPSHOT_NEW)] {
            std::fs::write(unfinished, b"half").unwrap();
        }
        settle(&path, CACHE_BYTES).unwrap();
        assert!(log.len() as u64 > 2 * LOG_PART_BYTES, "{} bytes", log.len());
        assert!(log == std::fs::read(path.join(LOG_FILE)).unwrap(), "sled has not touched the log");
        assert_eq!(names(folder.path()), ["a.sled"]);
        let [snapshot] = &snapshots(&path).unwrap()[..] else {
            panic!("{:?}", names(&path));
        };
        // sled writes no other one, as this one has everything.
        let settled = names(&path);
        assert_eq!(pairs(&path), usize::from(FRAMES) * 8, "30,000 bytes are 8 pieces");
        assert_eq!(names(&path), settled);
        assert!(settled.contains(snapshot) && !settled.iter().any(|name| name == SNAPSHOT_NEW));
    }

    /// The power went before its name was durable.
    #[test]
    fn a_whole_snapshot_that_was_never_renamed_gets_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = database(folder.path());
        settle(&path, CACHE_BYTES).unwrap();
        let [snapshot] = &snapshots(&path).unwrap()[..] else {
            panic!("{:?}", names(&path));
        };
        let unfinished = format!("{snapshot}{SNAPSHOT_UNFINISHED}");
        std::fs::rename(path.join(snapshot), path.join(unfinished)).unwrap();
        // sled takes the one that has most of the log.
        std::fs::write(path.join("snap.0000000000000001"), b"an older one").unwrap();
        settle(&path, CACHE_BYTES).unwrap();
        assert_eq!(snapshots(&path).unwrap(), [&**snapshot]);
        assert_eq!(pairs(&path), usize::from(FRAMES) * 8);
    }

    #[test]
    fn a_copy_leaves_as_much_space_as_it_takes() {
        assert!(has_room(Ok(20), 10) && !has_room(Ok(19), 10));
        assert!(has_room(Err(io::ErrorKind::Unsupported.into()), 10));
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        for error in [of_copy(full()), OpenError::Sled(sled::Error::Io(full()))] {
            assert!(is_for_want_of_room(&error), "{error:?}");
        }
        let other = io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(!is_for_want_of_room(&of_copy(other)));
    }

    #[test]
    fn a_database_that_cannot_be_copied_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = database(folder.path());
        let log = std::fs::read(path.join(LOG_FILE)).unwrap();
        let copy = folder.path().join("a.sled-copy");
        std::fs::write(&copy, b"in the way").unwrap();
        let error = Database::open(&path, CACHE_BYTES).map(drop).unwrap_err();
        let expected = format!("cannot make a copy beside {}", path.display());
        assert!(error.to_string().starts_with(&expected), "{error}");
        assert!(log == std::fs::read(path.join(LOG_FILE)).unwrap());
        std::fs::remove_file(copy).unwrap();
        let frames = Database::open(&path, CACHE_BYTES).unwrap().frames().unwrap();
        assert_eq!(frames.len(), usize::from(FRAMES));
    }

    #[test]
    fn a_database_that_is_open_already_is_not_copied() {
        let folder = tempfile::tempdir().unwrap();
        let path = database(folder.path());
        let _open = Database::open(&path, CACHE_BYTES).unwrap();
        let error = Database::open(&path, CACHE_BYTES).map(drop).unwrap_err();
        assert!(error.to_string().contains("it is open already"), "{error}");
    }
}

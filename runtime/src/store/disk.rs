//! What the stores ask of a disk, so that simulation can give them another one.

use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::BoxFuture;

/// A disk with files and directories. Futures own what they need; one that was begun must be
/// polled to its end, or its operation may still happen later.
///
/// Nothing but [`DiskFile::sync_data`] makes a file's bytes and length durable, and nothing but
/// [`Disk::sync_dir`] makes the names in a directory durable.
pub trait Disk: Send + Sync + 'static {
    /// Creates an empty file for reading and writing.
    ///
    /// # Errors
    /// Also when the name is taken. An error that names a lack of descriptors or memory changes nothing.
    fn create(&self, path: &Path) -> BoxFuture<'static, io::Result<Arc<dyn DiskFile>>>;

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// Also when there is none.
    fn open(&self, path: &Path) -> BoxFuture<'static, io::Result<Arc<dyn DiskFile>>>;

    /// Creates a file that holds `bytes`, whole and durable on return but for its name. Meant for
    /// long ones that nobody reads soon.
    ///
    /// # Errors
    /// Also when the name is taken; later ones may leave the file behind, unfinished.
    fn create_with(&self, path: &Path, bytes: Bytes) -> BoxFuture<'static, io::Result<()>> {
        let created = self.create(path);
        Box::pin(async move {
            let file = created.await?;
            file.write_at(0, bytes).await?;
            file.sync_data().await
        })
    }

    /// Gives a file or directory another name, replacing a file that has it.
    ///
    /// # Errors
    /// As the system says.
    fn rename(&self, from: &Path, to: &Path) -> BoxFuture<'static, io::Result<()>>;

    /// Removes a file.
    ///
    /// # Errors
    /// Also when there is none.
    fn remove_file(&self, path: &Path) -> BoxFuture<'static, io::Result<()>>;

    /// What is in a directory, ordered by name.
    ///
    /// # Errors
    /// Also when there is none, or it is something else.
    fn list(&self, dir: &Path) -> BoxFuture<'static, io::Result<Vec<Entry>>>;

    /// Creates a directory in one that exists.
    ///
    /// # Errors
    /// Also when the name is taken.
    fn create_dir(&self, path: &Path) -> BoxFuture<'static, io::Result<()>>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Also when there is none, or it is not empty.
    fn remove_dir(&self, path: &Path) -> BoxFuture<'static, io::Result<()>>;

    /// Makes creations, renamings and removals in a directory durable.
    ///
    /// # Errors
    /// As the system says. An error that names a lack of descriptors or memory comes from opening the
    /// directory: no sync was begun.
    fn sync_dir(&self, dir: &Path) -> BoxFuture<'static, io::Result<()>>;

    /// Bytes that can still be written to the file system of `path`.
    ///
    /// # Errors
    /// As the system says.
    fn free_space(&self, path: &Path) -> BoxFuture<'static, io::Result<u64>>;

    /// Names the file at `path` and this boot of the machine: what was written to that file within the boot
    /// is still there, synced or not, unless the disk itself was put back to an older image. A copy of
    /// the file has another era. `None` when that cannot be told.
    fn era(&self, path: &Path) -> BoxFuture<'static, Option<[u8; 32]>>;

    /// Takes an exclusive lock on the file `path`, created if need be, and writes into it who
    /// holds it. Does not wait.
    ///
    /// # Errors
    /// As the system says; not when somebody else has it.
    fn lock(&self, path: &Path, holder: String) -> BoxFuture<'static, io::Result<Lock>>;
}

/// A file open for reading and writing.
pub trait DiskFile: Send + Sync {
    /// Lengthens the file from `from`, its end, to `to` bytes of zeros, with space set aside so
    /// that writing them cannot run out of it where the file system can promise that.
    ///
    /// # Errors
    /// Also when there is no space; the file's length may have changed then.
    fn preallocate(&self, from: u64, to: u64) -> BoxFuture<'static, io::Result<()>>;

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// As the system says; some of the bytes may have been written then.
    fn write_at(&self, offset: u64, bytes: Bytes) -> BoxFuture<'static, io::Result<()>>;

    /// Reads `len` bytes at `offset`, fewer only where the file ends.
    ///
    /// # Errors
    /// As the system says.
    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'static, io::Result<Bytes>>;

    /// Makes everything written before this call durable, with the file's length.
    ///
    /// # Errors
    /// As the system says; what was written since the last good sync is in doubt for ever then.
    fn sync_data(&self) -> BoxFuture<'static, io::Result<()>>;

    /// The file's length in bytes.
    ///
    /// # Errors
    /// As the system says.
    fn size_bytes(&self) -> BoxFuture<'static, io::Result<u64>>;

    /// Cuts the file, or lengthens it with zeros.
    ///
    /// # Errors
    /// As the system says.
    fn set_len(&self, len: u64) -> BoxFuture<'static, io::Result<()>>;
}

/// Something in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, without the directory.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Its length in bytes, of no meaning for a directory.
    pub size_bytes: u64,
}

/// What became of an attempt to lock.
pub enum Lock {
    /// It is ours until this is dropped.
    Taken(Box<dyn Any + Send + Sync>),
    /// Somebody else has it, who wrote this into the file.
    Held {
        /// What they wrote; empty if they had no time to.
        holder: String,
    },
}

/// True when an error says that a disk, or a quota of it, is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The system's number for: the process has as many files open as it may. The same on every Unix.
const EMFILE: i32 = 24;
/// The system's number for: all processes together have as many files open as they may.
const ENFILE: i32 = 23;

/// True when an error says that the system lacks something at present, such as descriptors or memory. It says
/// nothing about the disk, so the same operation may succeed later.
pub(super) fn is_passing(error: &io::Error) -> bool {
    let lacks_descriptors = matches!(error.raw_os_error(), Some(EMFILE | ENFILE));
    let kinds = [io::ErrorKind::Interrupted, io::ErrorKind::WouldBlock, io::ErrorKind::OutOfMemory];
    lacks_descriptors || kinds.contains(&error.kind())
}

/// Says in words what an error that passes means.
pub(super) fn explained(passing: &io::Error) -> &'static str {
    match passing.raw_os_error() {
        Some(EMFILE) => "the server may open no more files at present (see ulimit -n)",
        Some(ENFILE) => "the system can open no more files at present (see fs.file-max)",
        _ => "the system refuses this at present",
    }
}

/// The error of a failed sync, which never passes whatever its number is: the data is in doubt from then on.
#[cfg(not(madsim))]
pub(super) fn of_sync(error: io::Error) -> io::Error {
    if is_passing(&error) { io::Error::other(error) } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_descriptors_or_memory_passes_and_a_failed_sync_does_not() {
        // EINTR, EAGAIN, ENOMEM, ENFILE, EMFILE.
        for number in [4, 11, 12, 23, 24] {
            assert!(is_passing(&io::Error::from_raw_os_error(number)), "{number}");
            assert!(!is_full(&io::Error::from_raw_os_error(number)), "{number}");
            #[cfg(not(madsim))]
            {
                let failed = of_sync(io::Error::from_raw_os_error(number));
                assert!(!is_passing(&failed), "{number}");
                let text = io::Error::from_raw_os_error(number).to_string();
                assert_eq!(failed.to_string(), text);
            }
        }
        // EIO, ENOSPC, EROFS.
        for number in [5, 28, 30] {
            assert!(!is_passing(&io::Error::from_raw_os_error(number)), "{number}");
        }
    }
}

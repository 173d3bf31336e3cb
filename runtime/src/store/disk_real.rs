//! The computer's own disk.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

use super::BoxFuture;
use super::direct;
use super::disk::{Disk, DiskFile, Entry, Lock, of_sync};
use super::lock_holder;

/// Zeros are written in pieces of this size where space cannot be set aside otherwise, in bytes.
const ZEROS_BYTES: usize = 1 << 20;
/// Writes up to this length, in bytes, are made on the spot: they end in the page cache, which takes
/// less time than handing them to another thread and waiting for it.
const WRITTEN_AT_ONCE_BYTES_MAX: usize = 64 << 10;
/// How much of a lock file is read to say who holds it, in bytes.
const HOLDER_BYTES_MAX: u64 = 256;

/// The computer's own disk, used on tokio's threads for blocking work.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl RealDisk {
    /// The disk, shared.
    pub fn shared() -> Arc<dyn Disk> {
        Arc::new(Self)
    }
}

/// Does blocking work on a thread meant for it.
fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> BoxFuture<'static, io::Result<T>> {
    Box::pin(async move {
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|failure| Err(io::Error::other(failure)))
    })
}

/// Does blocking work with a path on a thread meant for it.
fn with_path<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce(PathBuf) -> io::Result<T> + Send + 'static,
) -> BoxFuture<'static, io::Result<T>> {
    let path = path.to_owned();
    blocking(move || work(path))
}

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> BoxFuture<'static, io::Result<Arc<dyn DiskFile>>> {
        with_path(path, |path| {
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
            Ok(Arc::new(RealFile(Arc::new(file))) as Arc<dyn DiskFile>)
        })
    }

    fn open(&self, path: &Path) -> BoxFuture<'static, io::Result<Arc<dyn DiskFile>>> {
        with_path(path, |path| {
            let file = OpenOptions::new().read(true).write(true).open(path)?;
            Ok(Arc::new(RealFile(Arc::new(file))) as Arc<dyn DiskFile>)
        })
    }

    fn create_with(&self, path: &Path, bytes: Bytes) -> BoxFuture<'static, io::Result<()>> {
        with_path(path, move |path| {
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
            direct::write_all(&file, &bytes)?;
            file.sync_data()
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> BoxFuture<'static, io::Result<()>> {
        let to = to.to_owned();
        with_path(from, |from| std::fs::rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        with_path(path, std::fs::remove_file)
    }

    fn list(&self, dir: &Path) -> BoxFuture<'static, io::Result<Vec<Entry>>> {
        with_path(dir, |dir| {
            let mut entries = std::fs::read_dir(dir)?.map(entry).collect::<Result<Vec<_>, _>>()?;
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(entries)
        })
    }

    fn create_dir(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        with_path(path, std::fs::create_dir)
    }

    fn remove_dir(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        with_path(path, std::fs::remove_dir)
    }

    fn sync_dir(&self, dir: &Path) -> BoxFuture<'static, io::Result<()>> {
        with_path(dir, |dir| sync_path(&dir))
    }

    fn free_space(&self, path: &Path) -> BoxFuture<'static, io::Result<u64>> {
        with_path(path, |path| free_bytes(&path))
    }

    fn era(&self, path: &Path) -> BoxFuture<'static, Option<[u8; 32]>> {
        let era = with_path(path, |path| Ok(era(&path)));
        Box::pin(async move { era.await.ok().flatten() })
    }

    fn lock(&self, path: &Path, holder: String) -> BoxFuture<'static, io::Result<Lock>> {
        with_path(path, move |path| lock(&path, &holder))
    }
}

/// Makes a file or the names in a directory durable. An error that passes comes from opening it.
pub(super) fn sync_path(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all().map_err(of_sync)
}

/// The free space of the file system that has a path.
pub(super) fn free_bytes(path: &Path) -> io::Result<u64> {
    let system = retry_on_intr(|| rustix::fs::statvfs(path))?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

/// This boot of the machine and this file: its inode, and when it was made. Where the file system does not
/// keep that time, the device takes its place.
fn era(path: &Path) -> Option<[u8; 32]> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    let found = statx(CWD, path, AtFlags::empty(), wanted).ok()?;
    let mut era = blake3::Hasher::new();
    era.update(&boot);
    era.update(&found.stx_ino.to_le_bytes());
    if found.stx_mask & StatxFlags::BTIME.bits() != 0 {
        era.update(&found.stx_btime.tv_sec.to_le_bytes());
        era.update(&found.stx_btime.tv_nsec.to_le_bytes());
    } else {
        era.update(&found.stx_dev_major.to_le_bytes());
        era.update(&found.stx_dev_minor.to_le_bytes());
    }
    Some(*era.finalize().as_bytes())
}

fn entry(found: io::Result<std::fs::DirEntry>) -> io::Result<Entry> {
    let found = found?;
    let metadata = found.metadata()?;
    Ok(Entry {
        name: found.file_name().to_string_lossy().into_owned(),
        is_dir: metadata.is_dir(),
        size_bytes: metadata.len(),
    })
}

/// A file that we have locked.
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing alone leaves it locked for as long as a process that is just being started still has
        // what it was forked with.
        if let Err(error) = self.0.unlock() {
            tracing::debug!(%error, "a lock goes when its file is closed");
        }
    }
}

fn lock(path: &Path, holder: &str) -> io::Result<Lock> {
    // Not truncated: until the lock is ours, the text in it is its holder's.
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
    let mut file = options.open(path)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0)?;
            file.write_all(holder.as_bytes())?;
            Ok(Lock::Taken(Box::new(Locked(file))))
        }
        Err(TryLockError::WouldBlock) => {
            let mut told = Vec::new();
            (&mut file).take(HOLDER_BYTES_MAX).read_to_end(&mut told)?;
            let told = String::from_utf8_lossy(&told).trim().to_owned();
            Ok(Lock::Held { holder: lock_holder::named(&file, told) })
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// An open file.
struct RealFile(Arc<File>);

impl RealFile {
    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&File) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, io::Result<T>> {
        let file = Arc::clone(&self.0);
        blocking(move || work(&file))
    }
}

impl DiskFile for RealFile {
    fn preallocate(&self, from: u64, to: u64) -> BoxFuture<'static, io::Result<()>> {
        self.blocking(move |file| preallocate(file, from, to))
    }

    fn write_at(&self, offset: u64, bytes: Bytes) -> BoxFuture<'static, io::Result<()>> {
        if bytes.len() <= WRITTEN_AT_ONCE_BYTES_MAX {
            let file = Arc::clone(&self.0);
            return Box::pin(async move { file.write_all_at(&bytes, offset) });
        }
        self.blocking(move |file| file.write_all_at(&bytes, offset))
    }

    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'static, io::Result<Bytes>> {
        self.blocking(move |file| read_at(file, offset, len))
    }

    fn sync_data(&self) -> BoxFuture<'static, io::Result<()>> {
        self.blocking(File::sync_data)
    }

    fn size_bytes(&self) -> BoxFuture<'static, io::Result<u64>> {
        self.blocking(|file| Ok(file.metadata()?.len()))
    }

    fn set_len(&self, len: u64) -> BoxFuture<'static, io::Result<()>> {
        self.blocking(move |file| file.set_len(len))
    }
}

fn preallocate(file: &File, from: u64, to: u64) -> io::Result<()> {
    let more = to.saturating_sub(from);
    if more == 0 {
        return Ok(());
    }
    // Some file systems stop half way when the thread gets a signal.
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), from, more)) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        Err(error) => return Err(error.into()),
    }
    // Space that was only set aside is marked as written when it first is, which makes a sync wait
    // for the file system's own journal, and so for whatever else the machine writes.
    write_zeros(file, from, to)
}

fn write_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS_BYTES];
    let mut offset = from;
    while offset < to {
        let len = usize::try_from(to - offset).map_or(ZEROS_BYTES, |left| left.min(ZEROS_BYTES));
        file.write_all_at(zeros.get(..len).unwrap_or(&zeros), offset)?;
        offset += len as u64;
    }
    Ok(())
}

fn read_at(file: &File, offset: u64, len: usize) -> io::Result<Bytes> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_given_up_is_free_though_a_process_that_starts_still_has_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let Lock::Taken(first) = lock(&path, "one").unwrap() else { panic!("it is new") };
        // As a fork leaves it until the new program is loaded: the file is open once, in two processes.
        let forked = first.downcast_ref::<Locked>().unwrap().0.try_clone().unwrap();
        let Lock::Held { holder } = lock(&path, "two").unwrap() else { panic!("it is held") };
        assert_eq!(holder, "one");
        drop(first);
        assert!(matches!(lock(&path, "two").unwrap(), Lock::Taken(_)));
        drop(forked);
    }
}

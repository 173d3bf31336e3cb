//! A disk that fails when told to.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rondo::store::{BoxFuture, Disk, DiskFile, Entry, Lock};
use tokio::sync::watch;

/// The system's number for: the process has as many files open as it may.
const EMFILE: i32 = 24;
/// The system's number for: there is no memory.
const ENOMEM: i32 = 12;

/// What is wrong with the disk. At first, nothing.
#[derive(Debug)]
pub(crate) struct Faults {
    /// Bytes that can be set aside or written behind a file's end before the disk is full.
    pub(crate) space_left: AtomicU64,
    /// Bytes that can be written anywhere before the disk is full, as on a copy-on-write disk.
    pub(crate) writes_left: AtomicU64,
    /// What the disk says is free.
    pub(crate) free_space: AtomicU64,
    /// Syncs of files fail.
    pub(crate) sync_fails: AtomicBool,
    /// Syncs of directories fail.
    pub(crate) dir_sync_fails: AtomicBool,
    /// Syncs of files with this in their names do not end.
    pub(crate) sync_hangs_for: watch::Sender<Option<&'static str>>,
    /// Syncs of files begun so far.
    pub(crate) syncs: AtomicU64,
    /// The disk is full for files with this in their names.
    pub(crate) full_for: Mutex<Option<&'static str>>,
    /// There is no room for new files with this in their names.
    pub(crate) no_new: Mutex<Option<&'static str>>,
    /// The process may open no more files and directories with this in their names.
    pub(crate) no_descriptors: Mutex<Option<&'static str>>,
    /// The system has no memory to write files with this in their names, or not for all that is written.
    pub(crate) no_memory: Mutex<Option<&'static str>>,
    /// The system's number for the error of every read.
    pub(crate) reads_fail: Mutex<Option<i32>>,
    /// The system's number for the error of every question for the free space.
    pub(crate) free_space_fails: Mutex<Option<i32>>,
    /// Files cannot be cut: even that needs space.
    pub(crate) no_cuts: AtomicBool,
    /// Files with this at the end of their names cannot be removed.
    pub(crate) no_removal: Mutex<Option<&'static str>>,
    /// Nothing can be created or locked.
    pub(crate) read_only: AtomicBool,
    /// The disk does not tell the era of a file.
    pub(crate) no_era: AtomicBool,
}

fn is_one(path: &Path, part: Option<&str>) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    part.is_some_and(|part| name.contains(part))
}

/// A disk that fails when told to.
pub(crate) struct FaultyDisk {
    disk: Arc<dyn Disk>,
    pub(crate) faults: Arc<Faults>,
}

impl FaultyDisk {
    pub(crate) fn over(disk: Arc<dyn Disk>) -> Self {
        let faults = Faults {
            space_left: AtomicU64::new(u64::MAX),
            writes_left: AtomicU64::new(u64::MAX),
            free_space: AtomicU64::new(u64::MAX),
            sync_fails: AtomicBool::new(false),
            dir_sync_fails: AtomicBool::new(false),
            sync_hangs_for: watch::Sender::new(None),
            syncs: AtomicU64::new(0),
            full_for: Mutex::default(),
            no_new: Mutex::default(),
            no_descriptors: Mutex::default(),
            no_memory: Mutex::default(),
            reads_fail: Mutex::default(),
            free_space_fails: Mutex::default(),
            no_cuts: AtomicBool::new(false),
            no_removal: Mutex::default(),
            read_only: AtomicBool::new(false),
            no_era: AtomicBool::new(false),
        };
        Self { disk, faults: Arc::new(faults) }
    }

    fn writable(&self) -> io::Result<()> {
        if self.faults.read_only.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        Ok(())
    }

    /// Fails as the system does when the process has as many files open as it may.
    fn openable(&self, path: &Path) -> io::Result<()> {
        match is_one(path, *self.faults.no_descriptors.lock().unwrap()) {
            true => Err(io::Error::from_raw_os_error(EMFILE)),
            false => Ok(()),
        }
    }

    fn wrap(
        &self,
        path: &Path,
        file: BoxFuture<'static, io::Result<Arc<dyn DiskFile>>>,
    ) -> BoxFuture<'static, io::Result<Arc<dyn DiskFile>>> {
        let (faults, path) = (Arc::clone(&self.faults), path.to_owned());
        Box::pin(async move {
            let file = file.await?;
            Ok(Arc::new(FaultyFile { file, path, faults }) as Arc<dyn DiskFile>)
        })
    }
}

fn fail<T: Send + 'static>(error: io::Error) -> BoxFuture<'static, io::Result<T>> {
    Box::pin(async { Err(error) })
}

/// Takes `wanted` bytes of what is left; says how many there were.
fn take(left: &AtomicU64, wanted: u64) -> u64 {
    let before = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
        Some(if left == u64::MAX { left } else { left.saturating_sub(wanted) })
    });
    before.unwrap().min(wanted)
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> BoxFuture<'static, io::Result<Arc<dyn DiskFile>>> {
        if is_one(path, *self.faults.no_new.lock().unwrap()) {
            return fail(io::ErrorKind::StorageFull.into());
        }
        match self.writable().and_then(|()| self.openable(path)) {
            Ok(()) => self.wrap(path, self.disk.create(path)),
            Err(error) => fail(error),
        }
    }

    fn open(&self, path: &Path) -> BoxFuture<'static, io::Result<Arc<dyn DiskFile>>> {
        match self.openable(path) {
            Ok(()) => self.wrap(path, self.disk.open(path)),
            Err(error) => fail(error),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> BoxFuture<'static, io::Result<()>> {
        self.disk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        let no_removal = *self.faults.no_removal.lock().unwrap();
        if no_removal.is_some_and(|end| path.to_string_lossy().ends_with(end)) {
            return fail(io::Error::other("it stays"));
        }
        self.disk.remove_file(path)
    }

    fn list(&self, dir: &Path) -> BoxFuture<'static, io::Result<Vec<Entry>>> {
        self.disk.list(dir)
    }

    fn create_dir(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        self.writable().map_or_else(fail, |()| self.disk.create_dir(path))
    }

    fn remove_dir(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        self.disk.remove_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> BoxFuture<'static, io::Result<()>> {
        if self.faults.dir_sync_fails.load(Ordering::SeqCst) {
            return fail(io::Error::other("the names may be lost"));
        }
        self.openable(dir).map_or_else(fail, |()| self.disk.sync_dir(dir))
    }

    fn era(&self, path: &Path) -> BoxFuture<'static, Option<[u8; 32]>> {
        match self.faults.no_era.load(Ordering::SeqCst) {
            true => Box::pin(async { None }),
            false => self.disk.era(path),
        }
    }

    fn free_space(&self, path: &Path) -> BoxFuture<'static, io::Result<u64>> {
        if let Some(number) = *self.faults.free_space_fails.lock().unwrap() {
            return fail(io::Error::from_raw_os_error(number));
        }
        let (real, said) = (self.disk.free_space(path), Arc::clone(&self.faults));
        Box::pin(async move { Ok(real.await?.min(said.free_space.load(Ordering::SeqCst))) })
    }

    fn lock(&self, path: &Path, holder: String) -> BoxFuture<'static, io::Result<Lock>> {
        self.writable().map_or_else(fail, |()| self.disk.lock(path, holder))
    }
}

struct FaultyFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    faults: Arc<Faults>,
}

impl DiskFile for FaultyFile {
    fn preallocate(&self, from: u64, to: u64) -> BoxFuture<'static, io::Result<()>> {
        if is_one(&self.path, *self.faults.no_memory.lock().unwrap()) {
            return fail(io::Error::from_raw_os_error(ENOMEM));
        }
        if is_one(&self.path, *self.faults.full_for.lock().unwrap()) {
            return fail(io::ErrorKind::StorageFull.into());
        }
        let got = take(&self.faults.space_left, to - from);
        let preallocate = self.file.preallocate(from, from + got);
        Box::pin(async move {
            preallocate.await?;
            if got < to - from { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        })
    }

    fn write_at(&self, offset: u64, bytes: Bytes) -> BoxFuture<'static, io::Result<()>> {
        if is_one(&self.path, *self.faults.no_memory.lock().unwrap()) {
            let write = self.file.write_at(offset, bytes.slice(..bytes.len() / 2));
            return Box::pin(async move {
                write.await?;
                Err(io::Error::from_raw_os_error(ENOMEM))
            });
        }
        // Written over in place, this file has its room since it was created.
        if self.path.ends_with("ACKNOWLEDGED") {
            return self.file.write_at(offset, bytes);
        }
        if is_one(&self.path, *self.faults.full_for.lock().unwrap()) {
            return fail(io::ErrorKind::StorageFull.into());
        }
        let wanted = bytes.len();
        let got = take(&self.faults.writes_left, wanted as u64) as usize;
        let write = self.file.write_at(offset, bytes.slice(..got));
        Box::pin(async move {
            write.await?;
            if got < wanted { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        })
    }

    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'static, io::Result<Bytes>> {
        match *self.faults.reads_fail.lock().unwrap() {
            Some(number) => fail(io::Error::from_raw_os_error(number)),
            None => self.file.read_at(offset, len),
        }
    }

    fn sync_data(&self) -> BoxFuture<'static, io::Result<()>> {
        self.faults.syncs.fetch_add(1, Ordering::SeqCst);
        let sync = self.file.sync_data();
        let (faults, path) = (self.faults.clone(), self.path.clone());
        let mut hangs_for = faults.sync_hangs_for.subscribe();
        Box::pin(async move {
            let goes_on = hangs_for.wait_for(|part| !is_one(&path, *part));
            // The sender lives as long as the disk; without one, nothing ever ends the wait.
            if goes_on.await.is_err() {
                std::future::pending().await
            }
            if faults.sync_fails.load(Ordering::SeqCst) {
                return Err(io::Error::other("the disk does not answer"));
            }
            sync.await
        })
    }

    fn size_bytes(&self) -> BoxFuture<'static, io::Result<u64>> {
        self.file.size_bytes()
    }

    fn set_len(&self, len: u64) -> BoxFuture<'static, io::Result<()>> {
        match self.faults.no_cuts.load(Ordering::SeqCst) {
            true => fail(io::ErrorKind::StorageFull.into()),
            false => self.file.set_len(len),
        }
    }
}

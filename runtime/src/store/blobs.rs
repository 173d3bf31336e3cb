//! Large values in files named by their content.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rondo_core::ids::Digest;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::disk::{Disk, is_full};
use super::small_file::remove_if_there;
use super::{BoxFuture, StoreConfig, StoreError};

/// How the text of a refusal begins when a large value cannot be kept at present.
pub const NO_LARGE_VALUES: &str = "the server keeps no large value at present";

/// Where files are while they are written, below the blobs' directory.
const UNFINISHED_DIR: &str = "unfinished";

/// Bytes with their digest, which takes a while to find: this is the only way to give them one, so
/// that nobody has to look whether it is theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    digest: Digest,
    bytes: Bytes,
}

impl Blob {
    /// Names these bytes.
    pub fn of(bytes: Bytes) -> Self {
        Self { digest: digest(&bytes), bytes }
    }

    /// What they are named.
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The bytes.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// Keeps values by their BLAKE3 digests.
pub trait Blobs: Send + Sync + 'static {
    /// Keeps the blob. Durable on return; cheap when it is kept already. Poll it to its end: the disk goes on
    /// with what a dropped one has begun, beside the puts of others.
    ///
    /// # Errors
    /// [`BlobError`]; [`BlobError::Full`] may pass.
    fn put(&self, blob: Blob) -> BoxFuture<'static, Result<(), BlobError>>;

    /// What has this digest; `None` if nothing kept has it. What is returned has the digest.
    ///
    /// # Errors
    /// [`BlobError::Damaged`] when it is there and is not what was kept.
    fn get(&self, digest: Digest) -> BoxFuture<'static, Result<Option<Bytes>, BlobError>>;

    /// All digests kept and the bytes each takes, in order.
    ///
    /// # Errors
    /// When that cannot be told.
    fn list(&self) -> BoxFuture<'static, Result<Vec<(Digest, u64)>, BlobError>>;

    /// Keeps this one no longer; does nothing if it is not kept. After a crash it may be back.
    ///
    /// # Errors
    /// When it cannot be removed.
    fn remove(&self, digest: Digest) -> BoxFuture<'static, Result<(), BlobError>>;
}

/// A blob was not kept, or not found again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BlobError {
    /// No space; may pass.
    #[error("no space for a blob of {needed_bytes} bytes: {detail}")]
    Full {
        /// Bytes it has.
        needed_bytes: u64,
        /// What is full, and how full.
        detail: String,
    },
    /// It is larger than any may be.
    #[error("a blob has {found_bytes} bytes, at most {max_bytes} are kept (blob_bytes_max)")]
    TooLarge {
        /// Bytes it has.
        found_bytes: u64,
        /// Bytes it may have.
        max_bytes: u64,
    },
    /// It is not what its digest says.
    #[error("blob {place} has digest {found}, expected {expected}: it is damaged")]
    Damaged {
        /// The file.
        place: String,
        /// The digest of what is there.
        found: Digest,
        /// The digest it was asked for by.
        expected: Digest,
    },
    /// Anything else.
    #[error(transparent)]
    Failed(#[from] StoreError),
}

/// The digest that [`Blobs`] knows some bytes by.
pub fn digest(bytes: &[u8]) -> Digest {
    Digest::new(*blake3::hash(bytes).as_bytes())
}

fn check(expected: Digest, bytes: &[u8], place: &str) -> Result<(), BlobError> {
    let found = digest(bytes);
    if found == expected {
        return Ok(());
    }
    Err(BlobError::Damaged { place: place.into(), found, expected })
}

/// Blobs in files: `<first two digits>/<digest>` below one directory.
#[derive(Clone)]
pub struct FileBlobs {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    blob_bytes_max: u64,
    free_space_reserve_bytes: u64,
    /// Numbers the unfinished files of this process.
    unfinished: Arc<AtomicU64>,
    groups: Arc<Groups>,
}

/// Where a blob is kept.
struct Place {
    digest: Digest,
    dir: PathBuf,
    path: PathBuf,
}

/// What is known of the directories of blobs.
#[derive(Default)]
struct Groups {
    /// Held from before a directory is created until its parent is synced: a failed sync then loses the name
    /// of this directory only.
    making: AsyncMutex<()>,
    /// By the first byte of the digests.
    groups: Mutex<BTreeMap<u8, Arc<AsyncMutex<Group>>>>,
}

/// The state of one directory of blobs. A put holds its lock from before the blob gets its name until the
/// directory is synced. A failed sync then loses the name of this blob only.
#[derive(Default)]
struct Group {
    /// It is there, durably.
    is_made: bool,
    /// Blobs whose names may be lost: the sync failed, or nobody waited for it. A later sync may succeed and
    /// not bring them back, so they are written anew.
    doubtful: BTreeSet<Digest>,
}

impl Groups {
    async fn lock(&self, digest: Digest) -> OwnedMutexGuard<Group> {
        self.of(digest).lock_owned().await
    }

    fn of(&self, digest: Digest) -> Arc<AsyncMutex<Group>> {
        let [first, ..] = *digest.as_bytes();
        // A map is whole after any panic of its users.
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(groups.entry(first).or_default())
    }
}

impl FileBlobs {
    /// Opens the blobs in the directory `dir`, and clears away what was left unfinished.
    ///
    /// # Errors
    /// When the directory cannot be used.
    pub async fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        config: &StoreConfig,
    ) -> Result<Self, StoreError> {
        let unfinished = dir.join(UNFINISHED_DIR);
        let prepare = async {
            create_dir(&*disk, dir, &unfinished).await?;
            for left in disk.list(&unfinished).await? {
                disk.remove_file(&unfinished.join(left.name)).await?;
            }
            Ok(())
        };
        prepare.await.map_err(|error: io::Error| StoreError::new("cannot use", dir, &error))?;
        Ok(Self {
            disk,
            dir: dir.to_owned(),
            blob_bytes_max: config.blob_bytes_max,
            free_space_reserve_bytes: config.free_space_reserve_bytes,
            unfinished: Arc::default(),
            groups: Arc::default(),
        })
    }

    fn place(&self, digest: Digest) -> Place {
        let name = digest.to_string();
        let dir = self.dir.join(name.get(..2).unwrap_or_default());
        let path = dir.join(name);
        Place { digest, dir, path }
    }

    async fn put(self, Blob { digest, bytes }: Blob) -> Result<(), BlobError> {
        let found_bytes = bytes.len() as u64;
        if found_bytes > self.blob_bytes_max {
            return Err(BlobError::TooLarge { found_bytes, max_bytes: self.blob_bytes_max });
        }
        let place = self.place(digest);
        self.keep(&place, bytes).await.map_err(|error| {
            if is_full(&error) {
                let detail = format!("{}: {error}", place.path.display());
                return BlobError::Full { needed_bytes: found_bytes, detail };
            }
            StoreError::new("cannot write", &place.path, &error).into()
        })
    }

    async fn keep(&self, place: &Place, bytes: Bytes) -> io::Result<()> {
        if self.has(&place.path, bytes.len() as u64).await? {
            let mut group = self.groups.lock(place.digest).await;
            if !group.doubtful.contains(&place.digest) {
                // It may have got its name just before a crash, so the name may not be durable.
                group.doubtful.insert(place.digest);
                return self.sync(&mut group, place).await;
            }
        }
        self.write(place, bytes).await
    }

    async fn has(&self, path: &Path, size_bytes: u64) -> io::Result<bool> {
        match self.disk.open(path).await {
            Ok(file) => Ok(file.size_bytes().await? == size_bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn write(&self, place: &Place, bytes: Bytes) -> io::Result<()> {
        self.check_space(bytes.len() as u64).await?;
        let number = self.unfinished.fetch_add(1, Ordering::Relaxed);
        let unfinished = self.dir.join(UNFINISHED_DIR).join(number.to_string());
        let write = async {
            self.disk.create_with(&unfinished, bytes).await?;
            self.name(place, &unfinished).await
        };
        let written = write.await;
        if written.is_err() {
            // The space matters more than a second error.
            let _ = remove_if_there(&*self.disk, &unfinished).await;
        }
        written
    }

    /// Gives a written file the blob's name, durably.
    async fn name(&self, place: &Place, unfinished: &Path) -> io::Result<()> {
        let mut group = self.groups.lock(place.digest).await;
        self.make(&mut group, &place.dir).await?;
        group.doubtful.insert(place.digest);
        self.disk.rename(unfinished, &place.path).await?;
        self.sync(&mut group, place).await
    }

    async fn sync(&self, group: &mut Group, place: &Place) -> io::Result<()> {
        self.disk.sync_dir(&place.dir).await?;
        group.doubtful.remove(&place.digest);
        Ok(())
    }

    async fn make(&self, group: &mut Group, dir: &Path) -> io::Result<()> {
        if group.is_made {
            return Ok(());
        }
        let _one_at_a_time = self.groups.making.lock().await;
        // An empty one is created anew: its name may be lost, if a sync failed in this process or a former
        // one. One with blobs in it stays: its name was durable before theirs.
        let _ = self.disk.remove_dir(dir).await;
        create_dir(&*self.disk, &self.dir, dir).await?;
        group.is_made = true;
        Ok(())
    }

    async fn check_space(&self, needed_bytes: u64) -> io::Result<()> {
        let (free, kept) = (self.disk.free_space(&self.dir).await?, self.free_space_reserve_bytes);
        if free >= needed_bytes.saturating_add(kept) {
            return Ok(());
        }
        let reason = format!("{free} bytes are free, of which {kept} are kept in reserve");
        Err(io::Error::new(io::ErrorKind::StorageFull, reason))
    }

    async fn get(self, digest: Digest) -> Result<Option<Bytes>, BlobError> {
        let Place { path, .. } = self.place(digest);
        let failed = |error: io::Error| StoreError::new("cannot read", &path, &error);
        let file = match self.disk.open(&path).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed)?,
        };
        let found_bytes = file.size_bytes().await.map_err(failed)?;
        let max_bytes = self.blob_bytes_max;
        let readable = usize::try_from(found_bytes).ok().filter(|_| found_bytes <= max_bytes);
        let len = readable.ok_or(BlobError::TooLarge { found_bytes, max_bytes })?;
        let bytes = file.read_at(0, len).await.map_err(failed)?;
        check(digest, &bytes, &path.display().to_string())?;
        Ok(Some(bytes))
    }

    async fn list(self) -> Result<Vec<(Digest, u64)>, BlobError> {
        let list = async {
            let mut found = Vec::new();
            for group in self.disk.list(&self.dir).await? {
                if group.is_dir && group.name.len() == 2 {
                    let blobs = self.disk.list(&self.dir.join(group.name)).await?;
                    let named = |blob: &super::Entry| Some((parse(&blob.name)?, blob.size_bytes));
                    found.extend(blobs.iter().filter_map(named));
                }
            }
            Ok(found)
        };
        let found: io::Result<_> = list.await;
        Ok(found.map_err(|error| StoreError::new("cannot list", &self.dir, &error))?)
    }

    async fn remove(self, digest: Digest) -> Result<(), BlobError> {
        let Place { path, .. } = self.place(digest);
        let mut group = self.groups.lock(digest).await;
        let removed = remove_if_there(&*self.disk, &path).await;
        if removed.is_ok() {
            group.doubtful.remove(&digest);
        }
        Ok(removed.map_err(|error| StoreError::new("cannot remove", &path, &error))?)
    }
}

impl Blobs for FileBlobs {
    fn put(&self, blob: Blob) -> BoxFuture<'static, Result<(), BlobError>> {
        Box::pin(self.clone().put(blob))
    }

    fn get(&self, digest: Digest) -> BoxFuture<'static, Result<Option<Bytes>, BlobError>> {
        Box::pin(self.clone().get(digest))
    }

    fn list(&self) -> BoxFuture<'static, Result<Vec<(Digest, u64)>, BlobError>> {
        Box::pin(self.clone().list())
    }

    fn remove(&self, digest: Digest) -> BoxFuture<'static, Result<(), BlobError>> {
        Box::pin(self.clone().remove(digest))
    }
}

/// Creates a directory that may be there, durably.
async fn create_dir(disk: &dyn Disk, parent: &Path, dir: &Path) -> io::Result<()> {
    match disk.create_dir(dir).await {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        // One that is there may have been created just before a crash.
        _ => disk.sync_dir(parent).await,
    }
}

/// The digest that a file's name stands for.
fn parse(name: &str) -> Option<Digest> {
    let mut bytes = [0; 32];
    let plain = name.len() == 64 && name.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    let digits = plain.then(|| name.as_bytes().chunks_exact(2))?;
    for (byte, pair) in bytes.iter_mut().zip(digits) {
        *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(Digest::new(bytes))
}

/// Blobs in memory, for a node without a data directory.
#[derive(Clone, Debug)]
pub struct MemoryBlobs {
    total_bytes_max: u64,
    kept: Arc<Mutex<BTreeMap<Digest, Bytes>>>,
}

impl MemoryBlobs {
    /// Keeps at most `total_bytes_max` bytes.
    pub fn new(total_bytes_max: u64) -> Self {
        Self { total_bytes_max, kept: Arc::default() }
    }

    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<Digest, Bytes>) -> T) -> T {
        // A map is whole after any panic of its users.
        work(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put_now(&self, Blob { digest, bytes }: Blob) -> Result<(), BlobError> {
        let needed_bytes = bytes.len() as u64;
        self.with(|kept| {
            if kept.contains_key(&digest) {
                return Ok(());
            }
            let total: u64 = kept.values().map(|bytes| bytes.len() as u64).sum();
            if total.saturating_add(needed_bytes) > self.total_bytes_max {
                let max = self.total_bytes_max;
                let detail = format!("{total} bytes of at most {max} are kept in memory");
                return Err(BlobError::Full { needed_bytes, detail });
            }
            kept.insert(digest, bytes);
            Ok(())
        })
    }
}

impl Blobs for MemoryBlobs {
    fn put(&self, blob: Blob) -> BoxFuture<'static, Result<(), BlobError>> {
        let put = self.put_now(blob);
        Box::pin(async { put })
    }

    fn get(&self, digest: Digest) -> BoxFuture<'static, Result<Option<Bytes>, BlobError>> {
        let found = self.with(|kept| kept.get(&digest).cloned());
        Box::pin(async { Ok(found) })
    }

    fn list(&self) -> BoxFuture<'static, Result<Vec<(Digest, u64)>, BlobError>> {
        let found = self.with(|kept| kept.iter().map(|(d, b)| (*d, b.len() as u64)).collect());
        Box::pin(async { Ok(found) })
    }

    fn remove(&self, digest: Digest) -> BoxFuture<'static, Result<(), BlobError>> {
        self.with(|kept| kept.remove(&digest));
        Box::pin(async { Ok(()) })
    }
}

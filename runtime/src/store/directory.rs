//! The data directory: what is where, and that only one server of the right kind uses it.

use std::any::Any;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::ids::Lsn;
use rondo_core::journal::Noted;
use serde::{Deserialize, Serialize};

use super::acknowledged::{self, Acknowledged};
use super::directory_error::DirectoryError;
use super::disk::{Disk, Lock};
use super::manifest::{self, Manifest, ManifestError};
use super::small_file::{self, UNFINISHED};
use super::{SegmentStore, Store, StoreConfig, StoreError};

const LOCK: &str = "rondo.lock";
pub(super) const FORMAT_FILE: &str = "FORMAT";
const JOURNAL: &str = "journal";
const SNAPSHOTS: &str = "snapshots";
const BLOBS: &str = "blobs";
/// The newest format of a data directory, which is the one created.
pub(super) const FORMAT: u32 = 1;
/// What a file system has in its own root; not ours, and no reason to refuse it.
const LOST_AND_FOUND: &str = "lost+found";
/// Foreign names that an error lists.
const FOREIGN_NAMES_MAX: usize = 5;

/// How a data directory's journal is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// In sled.
    Sled,
    /// In plain files.
    Segment,
}

impl fmt::Display for StoreKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Sled => "sled",
            Self::Segment => "segment",
        })
    }
}

/// The kind of a new directory when none is asked for.
const DEFAULT_KIND: StoreKind = if cfg!(madsim) { StoreKind::Segment } else { StoreKind::Sled };

/// What whoever opens a data directory wants, and is.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The kind of store; `None` for whatever is there, and sled in a new directory.
    pub store: Option<StoreKind>,
    /// The release, such as `rondo 0.1.0`, noted in a new directory.
    pub release: String,
    /// The process, which others find in the lock file.
    pub pid: u32,
}

/// The file FORMAT.
#[derive(Serialize, Deserialize)]
struct Format {
    format: u32,
    store: StoreKind,
    created_by: String,
}

/// What is read of FORMAT whatever the format.
#[derive(Deserialize)]
struct AnyFormat {
    format: u32,
}

/// A data directory, ours until this is dropped.
pub struct DataDirectory {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    kind: StoreKind,
    _lock: Box<dyn Any + Send + Sync>,
}

impl DataDirectory {
    /// Opens the data directory at `path`, creating it if it does not exist or is empty.
    ///
    /// # Errors
    /// [`DirectoryError`]; a directory that is not Rondo's is left as it is.
    pub async fn open(
        disk: Arc<dyn Disk>,
        path: &Path,
        wanted: &Wanted,
    ) -> Result<Self, DirectoryError> {
        let opening = Opening { disk: &*disk, path };
        opening.create_if_missing().await?;
        opening.refuse_foreign().await?;
        let lock = opening.lock(wanted.pid).await?;
        let kind = match opening.read_format().await? {
            Some(format) => {
                super::sync_names(opening.disk, path).await?;
                format.store
            }
            None => opening.set_up(wanted).await?,
        };
        if let Some(asked) = wanted.store.filter(|asked| *asked != kind) {
            return Err(DirectoryError::OtherStore { path: opening.name(), found: kind, asked });
        }
        Ok(Self { disk, path: path.to_owned(), kind, _lock: lock })
    }

    /// Opens the journal.
    ///
    /// # Errors
    /// When it cannot be read, and when the kind of store is not in this build.
    pub async fn open_journal(&self, config: &StoreConfig) -> Result<Box<dyn Store>, StoreError> {
        let disk = Arc::clone(&self.disk);
        let dir = self.path.join(JOURNAL);
        match self.kind {
            StoreKind::Segment => Ok(Box::new(SegmentStore::open(disk, &dir, config).await?)),
            #[cfg(not(madsim))]
            StoreKind::Sled => Ok(Box::new(super::SledStore::open(disk, &dir, config).await?)),
            #[cfg(madsim)]
            StoreKind::Sled => Err(StoreError::new("cannot open", &dir, &"no sled in simulation")),
        }
    }

    /// Reads the manifest.
    ///
    /// # Errors
    /// As [`Manifest::read`].
    pub async fn manifest(&self) -> Result<Manifest, ManifestError> {
        Manifest::read(&*self.disk, &self.path).await
    }

    /// Opens the note of how far the journal is acknowledged, with what it says now.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub async fn acknowledged(&self) -> Result<(Acknowledged, Option<Noted>), StoreError> {
        Acknowledged::open(&*self.disk, &self.path).await
    }

    /// The disk it is on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How its journal is kept.
    pub const fn kind(&self) -> StoreKind {
        self.kind
    }

    /// Where its snapshots are.
    pub fn snapshots(&self) -> PathBuf {
        self.path.join(SNAPSHOTS)
    }

    /// Where its blobs are.
    pub fn blobs(&self) -> PathBuf {
        self.path.join(BLOBS)
    }
}

/// A data directory that is being opened.
struct Opening<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
}

impl Opening<'_> {
    async fn create_if_missing(&self) -> Result<(), DirectoryError> {
        match self.disk.list(self.path).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other.map(drop).map_err(|error| self.failed(&error)),
        }
        let created = self.disk.create_dir(self.path).await;
        created.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DirectoryError::NoParent { path: self.name() },
            _ => self.failed(&error),
        })?;
        self.sync_parent().await.map_err(|error| self.failed(&error))
    }

    async fn sync_parent(&self) -> io::Result<()> {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        self.disk.sync_dir(parent.unwrap_or(Path::new("."))).await
    }

    /// Looks whether the directory is ours before anything is written to it.
    async fn refuse_foreign(&self) -> Result<(), DirectoryError> {
        let entries = self.list(self.path).await?;
        if entries.iter().any(|name| name == FORMAT_FILE) {
            return Ok(());
        }
        // What creating a directory leaves behind when it is interrupted.
        let unfinished = |name: &str| name.strip_suffix(UNFINISHED).unwrap_or(name).to_owned();
        let ours = [
            LOCK,
            FORMAT_FILE,
            manifest::NAME,
            JOURNAL,
            SNAPSHOTS,
            BLOBS,
            LOST_AND_FOUND,
            acknowledged::NAME,
        ];
        let foreign = entries.iter().filter(|name| !ours.contains(&unfinished(name).as_str()));
        let mut foreign: Vec<_> = foreign.take(FOREIGN_NAMES_MAX + 1).map(String::as_str).collect();
        if foreign.is_empty() {
            return Ok(());
        }
        if let Some(last) = foreign.get_mut(FOREIGN_NAMES_MAX) {
            *last = "more";
        }
        Err(DirectoryError::Foreign { path: self.name(), found: foreign.join(", ") })
    }

    async fn lock(&self, pid: u32) -> Result<Box<dyn Any + Send + Sync>, DirectoryError> {
        let path = self.path.join(LOCK);
        match self.disk.lock(&path, format!("pid {pid}\n")).await {
            Ok(Lock::Taken(lock)) => Ok(lock),
            Ok(Lock::Held { holder }) => {
                let holder = if holder.is_empty() { "pid not known".into() } else { holder };
                Err(DirectoryError::Locked { path: self.name(), holder })
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    async fn read_format(&self) -> Result<Option<Format>, DirectoryError> {
        let Some(bytes) = small_file::read(self.disk, &self.path.join(FORMAT_FILE)).await? else {
            return Ok(None);
        };
        let damaged = |error: serde_json::Error| self.damaged(format!("{FORMAT_FILE}: {error}"));
        let AnyFormat { format: found } = serde_json::from_slice(&bytes).map_err(damaged)?;
        if found > FORMAT {
            return Err(DirectoryError::Newer { path: self.name(), found });
        }
        serde_json::from_slice(&bytes).map(Some).map_err(damaged)
    }

    /// Sets up a new directory. FORMAT comes last: with it, the directory is whole.
    async fn set_up(&self, wanted: &Wanted) -> Result<StoreKind, DirectoryError> {
        match self.sync_parent().await {
            // One that we may not look at did not get its name from a process of ours.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            // One that is there may have been created just before a crash.
            other => other.map_err(|error| self.failed(&error))?,
        }
        for name in [JOURNAL, SNAPSHOTS, BLOBS] {
            let dir = self.path.join(name);
            match self.disk.create_dir(&dir).await {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.refuse_contents(&dir).await?;
                }
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Manifest::NEW.write(self.disk, self.path).await?;
        let store = wanted.store.unwrap_or(DEFAULT_KIND);
        let format = Format { format: FORMAT, store, created_by: wanted.release.clone() };
        let failed = |error: serde_json::Error| StoreError::new("cannot write", self.path, &error);
        let mut text = serde_json::to_vec(&format).map_err(failed)?;
        text.push(b'\n');
        small_file::replace(self.disk, self.path, FORMAT_FILE, Bytes::from(text)).await?;
        Ok(store)
    }

    /// A directory without FORMAT was never used, so nothing can be in it unless FORMAT was lost.
    async fn refuse_contents(&self, dir: &Path) -> Result<(), DirectoryError> {
        match self.list(dir).await?.first() {
            None => Ok(()),
            Some(name) => Err(self.damaged(format!(
                "{FORMAT_FILE} is missing, but {} is there",
                dir.join(name).display()
            ))),
        }
    }

    async fn list(&self, dir: &Path) -> Result<Vec<String>, DirectoryError> {
        let entries = self.disk.list(dir).await.map_err(|error| self.failed(&error))?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    fn damaged(&self, reason: String) -> DirectoryError {
        DirectoryError::Damaged { path: self.name(), reason }
    }

    fn failed(&self, error: &io::Error) -> DirectoryError {
        let (path, reason) = (self.name(), error.to_string());
        match error.kind() {
            io::ErrorKind::NotADirectory => DirectoryError::NotADirectory { path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                DirectoryError::Unwritable { path, reason }
            }
            _ => StoreError::new("cannot open", self.path, error).into(),
        }
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// The position a new journal begins with.
const _: () = assert!(Manifest::NEW.journal_first.get() == Lsn::NONE.get() + 1);

//! Where a journal's commit groups lie.
//!
//! A store keeps opaque frames in order, in segments that are closed one after the other. It
//! decides nothing: what damaged or missing frames mean is `rondo_core::journal`'s to say.

mod acknowledged;
pub mod blobs;
mod config;
#[cfg(not(madsim))]
mod direct;
mod directory;
mod directory_error;
mod disk;
#[cfg(not(madsim))]
mod disk_real;
mod health;
#[cfg(not(madsim))]
mod lock_holder;
mod manifest;
mod names;
mod order;
mod reserve;
mod segment;
#[cfg(not(madsim))]
mod sled;
mod small_file;
pub mod snapshot;

use std::fmt::Display;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;

use bytes::Bytes;
use rondo_core::ids::Lsn;

pub use self::acknowledged::Acknowledged;
pub use self::config::StoreConfig;
pub use self::directory::{DataDirectory, StoreKind, Wanted};
pub use self::directory_error::DirectoryError;
pub use self::disk::{Disk, DiskFile, Entry, Lock};
#[cfg(not(madsim))]
pub use self::disk_real::RealDisk;
pub use self::manifest::{Manifest, ManifestError};
pub use self::segment::SegmentStore;
#[cfg(not(madsim))]
pub use self::sled::SledStore;

use self::disk::{explained, is_full, is_passing};

/// A boxed future, so that stores can be chosen at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An ordered, segmented keeper of frames (`rondo_proto::frame`). One owner appends; syncs may
/// overlap later appends. Futures must be polled to their end.
///
/// Opening never decides: what stands behind the last good frame stays until [`Store::truncate`]
/// drops it, which recovery does before anything is appended.
pub trait Store: Send {
    /// Takes one frame, which holds the records from `first` on. Once this returns, the frame is
    /// in order behind those before it, but not durable.
    ///
    /// # Errors
    /// [`AppendError`], with nothing of the frame kept; the same frame may be given again.
    fn append(&mut self, first: Lsn, frame: Bytes) -> BoxFuture<'_, Result<(), AppendError>>;

    /// Makes every frame appended before this call durable. The future owns what it needs, so
    /// that the store can take frames meanwhile.
    ///
    /// # Errors
    /// [`StoreError`]; what was written since the last good sync is then in doubt for ever, and
    /// the store must not be used again.
    fn sync(&mut self) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Makes everything durable, closes the open segment, and plans one whose first record will be
    /// `next`. Does nothing when the open segment has no record. The new segment comes into being
    /// with its first frame; after a restart before that, the one closed here is open again. Returns false
    /// when the store lacks space or memory to close the segment: then that stays open, nothing is synced,
    /// and the caller may try again.
    ///
    /// # Errors
    /// [`StoreError`], as for [`Store::sync`].
    fn rotate(&mut self, next: Lsn) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// The segments, oldest first; the last one is open. A journal that never had a frame has none.
    fn segments(&self) -> Vec<Segment>;

    /// Reads a whole segment, good and bad frames alike, in order. Frames appended before this
    /// call are in it. A closed segment may be read while others are appended to.
    ///
    /// # Errors
    /// When the segment cannot be read at all.
    fn read(&self, segment: Lsn) -> BoxFuture<'static, Result<Vec<Found>, StoreError>>;

    /// Drops everything from record `from` on, damage behind the last frame that stays included, so
    /// that appending goes on there. Durable on return.
    ///
    /// # Errors
    /// When `from` stands inside a group (nothing is dropped then), and when the files cannot be
    /// changed. The store must be opened anew.
    fn truncate(&mut self, from: Lsn) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Removes the closed segment that begins with record `segment`. Durable on return.
    ///
    /// # Errors
    /// When the files cannot be removed, or not durably. Then it may be tried again.
    fn remove(&mut self, segment: Lsn) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// A segment of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its first record, which also names it.
    pub first: Lsn,
    /// Bytes of frames in it; for a segment found at opening, what its files take.
    pub size_bytes: u64,
}

/// What stands at one place of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// File and offset, or file and key: what an operator needs to look at it.
    pub place: String,
    /// The frame, or why the bytes are none.
    pub frame: Result<Bytes, String>,
}

/// A frame was not taken.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// No space; may pass.
    #[error("no space for {needed_bytes} bytes in the journal: {detail}")]
    Full {
        /// Bytes the frame needs.
        needed_bytes: u64,
        /// What is full, and how full.
        detail: String,
    },
    /// The system lacks something else that the frame needs, such as a descriptor; may pass.
    #[error("{detail}")]
    Later {
        /// What is lacking, and where.
        detail: String,
    },
    /// Anything else; the store must not be used again.
    #[error(transparent)]
    Failed(#[from] StoreError),
}

impl AppendError {
    /// Says that the new segment `path` could not be created for a first frame of `needed_bytes`.
    fn no_segment(path: &Path, needed_bytes: u64, error: &io::Error) -> Self {
        if is_full(error) {
            return Self::Full { needed_bytes, detail: format!("{}: {error}", path.display()) };
        }
        if is_passing(error) {
            return Self::later("cannot create", path, error);
        }
        StoreError::new("cannot create", path, error).into()
    }

    /// Says that the system lacks something at present.
    fn later(what: &'static str, path: &Path, error: &io::Error) -> Self {
        let failed = StoreError::new(what, path, error);
        Self::Later { detail: format!("{}: {failed}", explained(error)) }
    }
}

/// A store does not work any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {place}: {reason}")]
pub struct StoreError {
    /// What was tried, such as "cannot sync".
    pub what: &'static str,
    /// The file or directory.
    pub place: String,
    /// What the system said.
    pub reason: String,
    /// Whether what was written before cannot be read.
    pub is_damage: bool,
}

impl StoreError {
    /// Says that the system refused something.
    pub(crate) fn new(what: &'static str, place: &Path, reason: &dyn Display) -> Self {
        let (place, reason) = (place.display().to_string(), reason.to_string());
        Self { what, place, reason, is_damage: false }
    }

    /// Says that what was written before cannot be read.
    #[cfg(not(madsim))]
    fn damaged(what: &'static str, place: &Path, reason: &dyn Display) -> Self {
        Self { is_damage: true, ..Self::new(what, place, reason) }
    }

    /// Says that only closed segments can be removed.
    fn not_closed(segment: &Path) -> Self {
        Self::new("cannot remove", segment, &"no closed segment of the journal has that name")
    }
}

/// Makes the names in a journal's directory durable. One that is found there may have been given
/// by a process that died right after.
async fn sync_names(disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
    let synced = disk.sync_dir(dir).await;
    synced.map_err(|error| StoreError::new("cannot sync", dir, &error))
}

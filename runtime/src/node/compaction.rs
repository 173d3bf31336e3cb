//! Snapshots, built beside the serving node: the previous snapshot and the closed segments behind
//! it are replayed, the outcome is written and made durable, and the manifest is switched to it.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::control::{Part, Recovery};
use rondo_core::ids::Lsn;
use rondo_core::log::ApplyError;
use rondo_proto::frame::{self, FrameError};

use super::recovery::{Replay, ReplayError};
use crate::allocator;
use crate::store::snapshot::{self, SnapshotError, SnapshotReader, SnapshotWriter};
use crate::store::{
    BoxFuture, DataDirectory, Disk, Found, Manifest, ManifestError, StoreConfig, StoreError,
};

/// Parts of a snapshot that are decoded at once, in bytes.
const RESTORED_BYTES: usize = 1 << 20;

/// A snapshot cannot be read or built.
#[derive(Debug, thiserror::Error)]
pub enum CompactionError {
    /// Nobody can say which snapshot counts.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The snapshot's file is damaged.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A part of a snapshot was read but cannot be understood.
    #[error("part {number} of snapshot {lsn} cannot be decoded: {source}")]
    Undecodable {
        /// Which snapshot.
        lsn: Lsn,
        /// Which part, from 0.
        number: u64,
        /// Why.
        source: FrameError,
    },
    /// A part of a snapshot was read but does not fit those before it.
    #[error("part {number} of snapshot {lsn} does not fit those before it: {source}")]
    Unfit {
        /// Which snapshot.
        lsn: Lsn,
        /// Which part, from 0.
        number: u64,
        /// Why.
        source: ApplyError,
    },
    /// A closed segment cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Files cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The thread that replays died.
    #[error("the replay was interrupted: {0}")]
    Interrupted(String),
}

impl CompactionError {
    /// Whether something that was acknowledged cannot be read any more.
    pub const fn is_damage(&self) -> bool {
        match self {
            Self::Snapshot(error) => matches!(error, SnapshotError::Damaged { .. }),
            Self::Undecodable { source, .. } => !source.is_of_later_release(),
            Self::Unfit { .. } => true,
            Self::Manifest(error) => matches!(error, ManifestError::Damaged { .. }),
            Self::Replay(error) => error.is_damage(),
            Self::Store(error) => error.is_damage,
            Self::Interrupted(_) => false,
        }
    }

    /// Whether a later release wrote the snapshot, or the journal behind it: they are whole.
    pub const fn is_of_later_release(&self) -> bool {
        match self {
            Self::Manifest(error) => matches!(error, ManifestError::LaterRelease { .. }),
            Self::Snapshot(error) => matches!(error, SnapshotError::LaterRelease { .. }),
            Self::Undecodable { source, .. } => source.is_of_later_release(),
            Self::Replay(error) => error.is_of_later_release(),
            _ => false,
        }
    }
}

/// Where a data directory's snapshots are.
#[derive(Clone)]
pub struct Snapshots {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    files: PathBuf,
    part_bytes_max: usize,
}

/// A snapshot that was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Built {
    /// The last record in it.
    pub upto: Lsn,
    /// Its length in bytes.
    pub size_bytes: u64,
}

/// A closed segment on its way in.
pub type SegmentRead = BoxFuture<'static, Result<Vec<Found>, StoreError>>;

impl Snapshots {
    /// Those of this directory.
    pub fn of(directory: &DataDirectory, config: &StoreConfig) -> Self {
        Self {
            disk: directory.disk().clone(),
            directory: directory.path().to_owned(),
            files: directory.snapshots(),
            part_bytes_max: config.snapshot_part_bytes_max,
        }
    }

    /// The state in the snapshot that counts; the empty state when there is none.
    ///
    /// # Errors
    /// When the snapshot cannot be read.
    pub async fn load(&self) -> Result<Recovery, CompactionError> {
        self.restore(false).await
    }

    /// Loads the state here, or aside.
    async fn restore(&self, is_aside: bool) -> Result<Recovery, CompactionError> {
        let manifest = Manifest::read(&*self.disk, &self.directory).await?;
        let Some(lsn) = manifest.snapshot else {
            return Ok(Recovery::new());
        };
        let mut reader =
            SnapshotReader::open(&*self.disk, &self.files, lsn, self.part_bytes_max).await?;
        let mut restored = Restored { lsn, number: 0, recovery: Recovery::new() };
        loop {
            let (parts, goes_on) = next_parts(&mut reader).await;
            // The caller hears of the first defect: one of these parts comes before one behind them.
            restored = match is_aside {
                true => aside(move || restored.with(parts)).await??,
                false => restored.with(parts)?,
            };
            if !goes_on? {
                break;
            }
        }
        restored.recovery.restored_upto(lsn);
        Ok(restored.recovery)
    }

    /// Builds and switches to a snapshot of everything before record `until`, which is what the
    /// closed segments in `reads` hold beyond the snapshot before. Older snapshots are removed.
    ///
    /// # Errors
    /// When something cannot be read or written; the previous snapshot and the segments behind it
    /// still count then.
    pub async fn build(
        self,
        reads: Vec<SegmentRead>,
        until: Lsn,
    ) -> Result<Built, CompactionError> {
        let mut replay = Replay::starting_from(self.restore(true).await?, None);
        replay.durable_before(until);
        for read in reads {
            replay = apply(replay, read.await?).await?;
        }
        let (recovery, _) = replay.finish()?;
        let lsn = recovery.applied();
        let size_bytes = match self.write(&recovery, lsn).await {
            Ok(size_bytes) => size_bytes,
            Err(error) => {
                // What it takes up may be the last room there is.
                if let Err(left) = self.clear_unfinished().await {
                    tracing::warn!(error = %left, "what was written in vain stays");
                }
                return Err(error.into());
            }
        };
        let manifest = Manifest { snapshot: Some(lsn), journal_first: lsn.next() };
        manifest.write(&*self.disk, &self.directory).await?;
        if let Err(error) = self.remove_before(lsn).await {
            // It takes up room until the next snapshot's builder tries again, no more.
            tracing::warn!(%error, "an older snapshot could not be removed");
        }
        // A second copy of the state is much to free, and much to keep.
        if let Err(error) = aside(move || allocator::free(recovery)).await {
            tracing::debug!(%error, "what a snapshot took is freed later");
        }
        Ok(Built { upto: lsn, size_bytes })
    }

    /// The length in bytes of the snapshot that ends with record `upto`; 0 when there is none.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub async fn size_bytes(&self, upto: Lsn) -> Result<u64, StoreError> {
        snapshot::size_bytes(&*self.disk, &self.files, upto).await
    }

    /// Removes what was left of snapshots that were never finished.
    ///
    /// # Errors
    /// When that fails.
    pub async fn clear_unfinished(&self) -> Result<(), StoreError> {
        snapshot::clear_unfinished(&*self.disk, &self.files).await
    }

    async fn write(&self, recovery: &Recovery, lsn: Lsn) -> Result<u64, StoreError> {
        let disk = self.disk.clone();
        let mut writer =
            SnapshotWriter::create(disk, &self.files, lsn, self.part_bytes_max).await?;
        for part in recovery.each_part() {
            writer.part(&frame::encode_part(&part)).await?;
        }
        writer.finish().await
    }

    async fn remove_before(&self, lsn: Lsn) -> Result<(), StoreError> {
        for older in snapshot::list(&*self.disk, &self.files).await? {
            if older < lsn {
                snapshot::remove(&*self.disk, &self.files, older).await?;
            }
        }
        Ok(())
    }
}

/// A snapshot's state as far as its parts are read.
struct Restored {
    lsn: Lsn,
    /// Parts so far.
    number: u64,
    recovery: Recovery,
}

impl Restored {
    /// Takes the parts that follow.
    fn with(mut self, parts: Vec<Bytes>) -> Result<Self, CompactionError> {
        for bytes in parts {
            let (lsn, number) = (self.lsn, self.number);
            let undecodable = |source| CompactionError::Undecodable { lsn, number, source };
            let part: Part = frame::decode_part(&bytes).map_err(undecodable)?;
            let unfit = |source| CompactionError::Unfit { lsn, number, source };
            self.recovery.restore(part).map_err(unfit)?;
            self.number = number.saturating_add(1);
        }
        Ok(self)
    }
}

/// Reads the next parts, about [`RESTORED_BYTES`] together, and whether there may be more.
async fn next_parts(reader: &mut SnapshotReader) -> (Vec<Bytes>, Result<bool, SnapshotError>) {
    let (mut parts, mut size_bytes) = (Vec::new(), 0_usize);
    while size_bytes < RESTORED_BYTES {
        match reader.part().await {
            Ok(Some(part)) => {
                size_bytes = size_bytes.saturating_add(part.len());
                parts.push(part);
            }
            Ok(None) => return (parts, Ok(false)),
            Err(error) => return (parts, Err(error)),
        }
    }
    (parts, Ok(true))
}

async fn apply(mut replay: Replay, found: Vec<Found>) -> Result<Replay, CompactionError> {
    let applied = aside(move || {
        replay.segment(found)?;
        Ok::<_, ReplayError>(replay)
    });
    Ok(applied.await??)
}

/// Works on a thread that may be busy, so that serving is not held up. What is built there also lies in
/// other memory than what the server keeps, and leaves no holes in that.
#[cfg_attr(madsim, expect(deprecated, reason = "simulation runs it in place"))]
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CompactionError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| CompactionError::Interrupted(error.to_string()))
}

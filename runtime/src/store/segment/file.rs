//! One segment's file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::ids::Lsn;
use rondo_proto::frame::{Stretch, aligned, scan};

use crate::store::config::{SEGMENT_BYTES_MAX, SEGMENT_READ_BYTES_MAX};
use crate::store::disk::{Disk, DiskFile, is_full, is_passing};
use crate::store::reserve::Reserve;
use crate::store::{AppendError, StoreError};

/// The segment that takes frames.
pub(super) struct OpenSegment {
    pub(super) first: Lsn,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    /// Where the next frame goes.
    tail: u64,
    /// The file's length: zeros up to here are set aside.
    allocated: u64,
    /// Part of a frame may stand behind the tail, since the file could not be cut.
    is_uncut: bool,
}

impl OpenSegment {
    /// Creates the file of a new segment, empty.
    pub(super) async fn create(disk: &dyn Disk, path: PathBuf, first: Lsn) -> io::Result<Self> {
        let file = create_or_take(disk, &path).await?;
        let segment = Self { first, file, tail: 0, allocated: 0, is_uncut: false, path };
        let dir = segment.path.parent().unwrap_or(Path::new("."));
        match disk.sync_dir(dir).await {
            Ok(()) => Ok(segment),
            Err(error) => {
                // Else the next attempt would find the name taken.
                let _ = disk.remove_file(&segment.path).await;
                Err(error)
            }
        }
    }

    /// Opens the file of a segment to append behind whatever is in it.
    pub(super) async fn open(
        disk: &dyn Disk,
        path: PathBuf,
        first: Lsn,
    ) -> Result<(Self, Vec<Stretch>), StoreError> {
        let file = disk.open(&path).await;
        let file = file.map_err(|error| StoreError::new("cannot open", &path, &error))?;
        let bytes = read_all(&*file, &path).await?;
        let found = scan(&bytes);
        let tail = found.last().map_or(0, |last| last.end as u64);
        let allocated = bytes.len() as u64;
        Ok((Self { first, path, file, tail, allocated, is_uncut: false }, found))
    }

    /// Bytes of frames in it.
    pub(super) const fn size_bytes(&self) -> u64 {
        self.tail
    }

    /// Puts a frame behind those that are there.
    pub(super) async fn append(
        &mut self,
        frame: Bytes,
        reserve: &mut Reserve,
        preallocate_bytes: u64,
    ) -> Result<(), AppendError> {
        let len = aligned(frame.len()) as u64;
        let end = self.tail.saturating_add(len);
        if end > SEGMENT_BYTES_MAX {
            let error = io::Error::other("it is as long as it may be, and must be closed before");
            return Err(AppendError::later("cannot append to", &self.path, &error));
        }
        if self.is_uncut {
            self.shrink(len).await?;
        }
        if end > self.allocated {
            self.grow(end, reserve, preallocate_bytes).await?;
        }
        // The zeros behind the frame are there already.
        match self.file.write_at(self.tail, frame).await {
            Ok(()) => self.tail = end,
            Err(error) => return Err(self.refused("cannot append to", len, error).await),
        }
        Ok(())
    }

    /// Sets space aside up to `end` at least.
    async fn grow(
        &mut self,
        end: u64,
        reserve: &mut Reserve,
        preallocate_bytes: u64,
    ) -> Result<(), AppendError> {
        let needed = end.saturating_sub(self.allocated);
        let wanted = needed.max(preallocate_bytes);
        // With little space left, take what the frame needs and nothing in advance.
        let more = match reserve.take(wanted).await {
            Ok(()) => wanted,
            Err(AppendError::Full { .. }) => {
                reserve.take(needed).await?;
                needed
            }
            Err(failed) => return Err(failed),
        };
        let to = self.allocated.saturating_add(more);
        match self.file.preallocate(self.allocated, to).await {
            Ok(()) => self.allocated = to,
            Err(error) => return Err(self.refused("cannot lengthen", needed, error).await),
        }
        Ok(())
    }

    /// Says why a frame was not taken. If that may pass, drops what the write left behind.
    async fn refused(
        &mut self,
        what: &'static str,
        needed_bytes: u64,
        error: io::Error,
    ) -> AppendError {
        if !is_full(&error) && !is_passing(&error) {
            return self.failed(what, &error).into();
        }
        match self.shrink(needed_bytes).await {
            Ok(()) => self.passing(what, needed_bytes, &error),
            Err(error) => error,
        }
    }

    /// Cuts the file behind its frames. Some file systems need space even for that: then nothing is appended
    /// before the cut succeeds.
    async fn shrink(&mut self, needed_bytes: u64) -> Result<(), AppendError> {
        match self.file.set_len(self.tail).await {
            Ok(()) => {
                (self.allocated, self.is_uncut) = (self.tail, false);
                Ok(())
            }
            Err(error) if is_full(&error) || is_passing(&error) => {
                self.is_uncut = true;
                Err(self.passing("cannot cut", needed_bytes, &error))
            }
            Err(error) => Err(self.failed("cannot cut", &error).into()),
        }
    }

    /// Says that something is lacking that the frame needs.
    fn passing(&self, what: &'static str, needed_bytes: u64, error: &io::Error) -> AppendError {
        if !is_full(error) {
            return AppendError::later(what, &self.path, error);
        }
        let detail = format!("{}: {error}", self.path.display());
        AppendError::Full { needed_bytes, detail }
    }

    /// Makes what was appended before this call durable. The future owns what it needs.
    pub(super) fn sync(&self) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let file = Arc::clone(&self.file);
        let path = self.path.clone();
        async move {
            let synced = file.sync_data().await;
            synced.map_err(|error| StoreError::new("cannot sync", &path, &error))
        }
    }

    /// Drops everything from `tail` on, durably.
    pub(super) async fn cut(&mut self, tail: u64) -> Result<(), StoreError> {
        let cut = self.file.set_len(tail).await;
        cut.map_err(|error| self.failed("cannot cut", &error))?;
        self.tail = tail;
        (self.allocated, self.is_uncut) = (tail, false);
        self.sync().await
    }

    /// Makes everything durable and gives back the space not used. Returns whether that was possible: cutting
    /// the file may need space or memory that is lacking at present.
    pub(super) async fn finish(&mut self) -> Result<bool, StoreError> {
        if self.is_uncut || self.allocated > self.tail {
            match self.file.set_len(self.tail).await {
                Ok(()) => (self.allocated, self.is_uncut) = (self.tail, false),
                Err(error) if is_full(&error) || is_passing(&error) => return Ok(false),
                Err(error) => return Err(self.failed("cannot cut", &error)),
            }
        }
        self.sync().await.map(|()| true)
    }

    fn failed(&self, what: &'static str, error: &io::Error) -> StoreError {
        StoreError::new(what, &self.path, error)
    }
}

/// Creates a segment's file. An attempt before may have left it, empty, and had no means to remove it.
async fn create_or_take(disk: &dyn Disk, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
    let taken = match disk.create(path).await {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => error,
        created => return created,
    };
    let file = disk.open(path).await?;
    if file.size_bytes().await? == 0 { Ok(file) } else { Err(taken) }
}

/// Reads a whole segment file.
pub(super) async fn read_all(file: &dyn DiskFile, path: &Path) -> Result<Bytes, StoreError> {
    let failed = |error: io::Error| StoreError::new("cannot read", path, &error);
    let len = file.size_bytes().await.map_err(failed)?;
    let readable = usize::try_from(len).ok().filter(|_| len <= SEGMENT_READ_BYTES_MAX);
    let Some(readable) = readable else {
        let reason = format!("it has {len} bytes, at most {SEGMENT_READ_BYTES_MAX} are read");
        return Err(failed(io::Error::other(reason)));
    };
    file.read_at(0, readable).await.map_err(failed)
}

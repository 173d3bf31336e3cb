//! Keeps appending from using up the last free space.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::config::FREE_SPACE_ASK_BYTES;
use super::disk::Disk;
use super::{AppendError, StoreError};

/// Counts what is written against the free space last seen.
pub(super) struct Reserve {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    reserve_bytes: u64,
    /// Free space believed to be left, in bytes.
    free_bytes: u64,
    /// Bytes that may be written before asking again.
    unasked_bytes: u64,
}

impl Reserve {
    pub(super) fn new(disk: Arc<dyn Disk>, dir: &Path, reserve_bytes: u64) -> Self {
        Self { disk, dir: dir.to_owned(), reserve_bytes, free_bytes: 0, unasked_bytes: 0 }
    }

    /// Counts `needed_bytes` as written.
    ///
    /// # Errors
    /// [`AppendError::Full`] when that would leave less than the reserve.
    pub(super) async fn take(&mut self, needed_bytes: u64) -> Result<(), AppendError> {
        if self.unasked_bytes < needed_bytes || !self.suffices(needed_bytes) {
            self.ask().await?;
        }
        if !self.suffices(needed_bytes) {
            self.unasked_bytes = 0;
            let detail = format!(
                "{} bytes are free on the file system of {}, of which {} are kept in reserve",
                self.free_bytes,
                self.dir.display(),
                self.reserve_bytes
            );
            return Err(AppendError::Full { needed_bytes, detail });
        }
        self.free_bytes = self.free_bytes.saturating_sub(needed_bytes);
        self.unasked_bytes = self.unasked_bytes.saturating_sub(needed_bytes);
        Ok(())
    }

    /// Whether so many bytes can be had now, counted as written or not.
    pub(super) fn suffices(&self, needed_bytes: u64) -> bool {
        self.free_bytes >= self.reserve_bytes.saturating_add(needed_bytes)
    }

    async fn ask(&mut self) -> Result<(), StoreError> {
        let free = self.disk.free_space(&self.dir).await;
        let failed = |error| StoreError::new("cannot tell the free space of", &self.dir, &error);
        self.free_bytes = free.map_err(failed)?;
        self.unasked_bytes = FREE_SPACE_ASK_BYTES;
        Ok(())
    }
}

//! Keeps appending from using up the last free space.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::time::Instant;

use super::AppendError;
use super::config::{FREE_SPACE_ASK_BYTES, FREE_SPACE_ASK_INTERVAL};
use super::disk::{Disk, is_passing};

/// Counts what is written against the free space last seen.
pub(super) struct Reserve {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    reserve_bytes: u64,
    /// Free space believed to be left, in bytes.
    free_bytes: u64,
    /// Bytes that may be written before asking again.
    unasked_bytes: u64,
    /// When the free space was last asked for; `None` before the first answer.
    asked: Option<Instant>,
    /// The last question was not answered.
    is_unanswered: bool,
}

impl Reserve {
    pub(super) fn new(disk: Arc<dyn Disk>, dir: &Path, reserve_bytes: u64) -> Self {
        Self {
            disk,
            dir: dir.to_owned(),
            reserve_bytes,
            free_bytes: 0,
            unasked_bytes: 0,
            asked: None,
            is_unanswered: false,
        }
    }

    /// Counts `needed_bytes` as written.
    ///
    /// # Errors
    /// [`AppendError::Full`] when that would leave less than the reserve, [`AppendError::Later`] when nobody
    /// knows.
    pub(super) async fn take(&mut self, needed_bytes: u64) -> Result<(), AppendError> {
        let is_known = self.unasked_bytes >= needed_bytes && self.suffices(needed_bytes);
        if !is_known || self.is_stale() {
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
    fn suffices(&self, needed_bytes: u64) -> bool {
        self.free_bytes >= self.reserve_bytes.saturating_add(needed_bytes)
    }

    /// Whether others may have filled the disk since the last answer.
    fn is_stale(&self) -> bool {
        self.asked.is_none_or(|asked| asked.elapsed() >= FREE_SPACE_ASK_INTERVAL)
    }

    async fn ask(&mut self) -> Result<(), AppendError> {
        match self.disk.free_space(&self.dir).await {
            Ok(free_bytes) => {
                self.free_bytes = free_bytes;
                self.is_unanswered = false;
            }
            Err(error) if self.asked.is_none() || is_passing(&error) => {
                let what = "cannot tell the free space of";
                return Err(AppendError::later(what, &self.dir, &error));
            }
            Err(error) => self.keep_last_answer(&error),
        }
        self.unasked_bytes = FREE_SPACE_ASK_BYTES;
        self.asked = Some(Instant::now());
        Ok(())
    }

    /// The reserve is a precaution. A file system that does not tell its free space may still take writes,
    /// and a failed write or sync says so itself. Until the next answer, the last one minus what was written
    /// since bounds the writes of this store.
    fn keep_last_answer(&mut self, error: &io::Error) {
        // Once, however often it is asked.
        if !std::mem::replace(&mut self.is_unanswered, true) {
            let dir = self.dir.display();
            tracing::warn!(%error, %dir, "the free space is not known; the last answer is kept");
        }
    }
}

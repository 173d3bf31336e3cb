//! How far the journal has been acknowledged, known exactly after the process was killed.
//!
//! A small file notes the last record whose replies may leave. The node writes it before they leave, and
//! syncs it within [`SYNC_AFTER`]. After the process dies the file is still there, as everything written
//! is, and says that no later record was ever acknowledged.
//!
//! The note may be older than the journal: the machine died, the file was copied, or an older image of the
//! disk came back. So it is exact only within its era ([`Disk::era`]), which is this boot of the machine and
//! this very file. Without its era it still says that at least those records were acknowledged: a journal
//! that ends before them has lost some. A mount is no part of the era: a process that starts in another
//! container sees the same file through another mount. An older image of the disk has the same file. There
//! the journal itself proves that the note is older: a process writes the note before it writes a group that
//! says as much, and the replay refuses a note that is older than a group. What the journal cannot prove is a
//! last group that was acknowledged less than [`SYNC_AFTER`] before the image was taken.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use rondo_core::ids::Lsn;
use rondo_core::journal::Noted;

use super::disk::{Disk, DiskFile, explained, is_passing};
use super::{BoxFuture, StoreError, small_file};

/// The file's name.
pub(super) const NAME: &str = "ACKNOWLEDGED";
/// Era, record, checksum.
const FILE_BYTES: usize = 32 + 8 + 4;
/// The era of a note that is written where the system tells none. No later life has it.
const NO_ERA: [u8; 32] = [0xff; 32];
/// A note is on the disk this long after it was written, and the time that a sync takes.
const SYNC_AFTER: Duration = Duration::from_secs(1);

/// How soon a note is written again that the system had no means for.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// Notes how far the journal is acknowledged.
#[derive(Clone)]
pub struct Acknowledged {
    file: Arc<dyn DiskFile>,
    path: Arc<Path>,
    era: [u8; 32],
    /// A sync is about to begin.
    sync_is_due: Arc<AtomicBool>,
}

impl Acknowledged {
    /// Opens the note in the directory `dir`, and reads it: `None` when it says nothing.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub async fn open(disk: &dyn Disk, dir: &Path) -> Result<(Self, Option<Noted>), StoreError> {
        let path = dir.join(NAME);
        let found = small_file::read(disk, &path).await?;
        let opened = match found {
            Some(_) => disk.open(&path).await,
            None => create(disk, &path).await,
        };
        let file = opened.map_err(|error| StoreError::new("cannot open", &path, &error))?;
        let era = disk.era(&path).await;
        let known = found.and_then(|bytes| parse(&bytes, era));
        if let (None, Some(noted)) = (era, known) {
            // Nobody may take a note of this life for exact, so nobody may take the former one for exact.
            let written = file.write_at(0, text(NO_ERA, noted.upto())).await;
            written.map_err(|error| StoreError::new("cannot write", &path, &error))?;
        }
        let era = era.unwrap_or(NO_ERA);
        Ok((Self { file, path: path.into(), era, sync_is_due: Arc::default() }, known))
    }

    /// Notes that replies up to record `upto` may leave.
    ///
    /// # Errors
    /// When the file cannot be written. The records are durable then, and their replies must not leave, so
    /// the node ends, for want of space too: only a copy-on-write file system needs space to write the note
    /// over, and it has none for the records before. Replies wait while the system lacks something else for
    /// a moment.
    pub fn note(&self, upto: Lsn) -> BoxFuture<'static, Result<(), StoreError>> {
        let this = self.clone();
        Box::pin(async move {
            let mut is_told = false;
            while let Err(error) = this.file.write_at(0, text(this.era, upto)).await {
                if !is_passing(&error) {
                    return Err(StoreError::new("cannot write", &this.path, &error));
                }
                if !std::mem::replace(&mut is_told, true) {
                    let (path, why) = (this.path.display(), explained(&error));
                    tracing::warn!(%error, %path, why, "replies wait for the note of acknowledged records");
                }
                tokio::time::sleep(RETRY_AFTER).await;
            }
            this.sync_soon();
            Ok(())
        })
    }

    /// Has the file synced soon, once for all notes until then. Nobody waits for it.
    fn sync_soon(&self) {
        if self.sync_is_due.swap(true, Ordering::Relaxed) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(SYNC_AFTER).await;
            this.sync_is_due.store(false, Ordering::Relaxed);
            this.sync().await;
        });
    }

    /// Syncs the file. A failure does no harm while the machine is up.
    pub async fn sync(&self) {
        if let Err(error) = self.file.sync_data().await {
            let path = self.path.display();
            tracing::warn!(%error, %path, "the note of acknowledged records cannot be synced");
        }
    }
}

/// Creates the file with the room it needs, so that a full disk does not get in the way later.
async fn create(disk: &dyn Disk, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
    let file = disk.create(path).await?;
    file.write_at(0, Bytes::from_static(&[0; FILE_BYTES])).await?;
    Ok(file)
}

fn text(era: [u8; 32], upto: Lsn) -> Bytes {
    let mut bytes = BytesMut::with_capacity(FILE_BYTES);
    bytes.put_slice(&era);
    bytes.put_u64_le(upto.get());
    let checksum = crc32c::crc32c(&bytes);
    bytes.put_u32_le(checksum);
    bytes.freeze()
}

fn parse(bytes: &[u8], era: Option<[u8; 32]>) -> Option<Noted> {
    let (written_in, rest) = bytes.split_first_chunk::<32>()?;
    let (upto, rest) = rest.split_first_chunk::<8>()?;
    let upto = Lsn::new(u64::from_le_bytes(*upto));
    let is_whole = rest.len() == 4 && text(*written_in, upto) == bytes;
    is_whole.then_some(match era == Some(*written_in) {
        true => Noted::Exactly(upto),
        false => Noted::AtLeast(upto),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_exact_in_its_era_only() {
        let note = text([7; 32], Lsn::new(41));
        assert_eq!(parse(&note, Some([7; 32])), Some(Noted::Exactly(Lsn::new(41))));
        assert_eq!(parse(&note, Some([8; 32])), Some(Noted::AtLeast(Lsn::new(41))));
        assert_eq!(parse(&note, None), Some(Noted::AtLeast(Lsn::new(41))));
        assert_eq!(parse(&text(NO_ERA, Lsn::new(41)), None), Some(Noted::AtLeast(Lsn::new(41))));
    }

    #[test]
    fn a_damaged_note_does_not_count() {
        let note = text([7; 32], Lsn::new(41));
        for bit in 0..note.len() * 8 {
            let mut damaged = note.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(&damaged, Some([7; 32])), None, "bit {bit}");
        }
        for len in 0..note.len() {
            assert_eq!(parse(&note[..len], Some([7; 32])), None, "{len} bytes");
        }
    }
}

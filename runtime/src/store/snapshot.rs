//! Snapshot files: a sequence of opaque parts, written and read piece by piece.
//!
//! All numbers are little endian.
//!
//! | bytes | what |
//! |---|---|
//! | 8, 4, 8, 4 | header: magic, format version, last record in the snapshot, CRC-32C of these |
//! | 4, 4, n | for each part: length, CRC-32C of length and bytes, bytes |
//! | 4, 8, 32, 4 | trailer: `ffffffff`, number of parts, BLAKE3 of all before the trailer, CRC-32C |
//!
//! A file gets its name when it is whole, so a snapshot that has a name and cannot be read was
//! damaged later.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use rondo_core::ids::Lsn;

use super::disk::{Disk, DiskFile, is_passing};
use super::small_file::{UNFINISHED, remove_if_there};
use super::{StoreError, names};

const SUFFIX: &str = ".snap";
const MAGIC: [u8; 8] = *b"\x89RondoS\n";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 24;
const PART_HEADER_BYTES: usize = 8;
const TRAILER_BYTES: usize = 48;
/// Stands where a part's length would.
const TRAILER_MARK: u32 = u32::MAX;
/// Written and read at once, in bytes.
const CHUNK_BYTES: usize = 1 << 20;

/// A snapshot that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// It is missing, or not what was written.
    #[error("snapshot {file} is damaged at offset {offset} (part {part}): {reason}")]
    Damaged {
        /// The file.
        file: String,
        /// Where the part begins, in bytes.
        offset: u64,
        /// Parts before it.
        part: u64,
        /// Why the part cannot be read.
        reason: String,
    },
    /// A later release wrote it.
    #[error(
        "snapshot {file} has format version {found}, this release reads version {VERSION}: use the \
         release that wrote it, or a later one"
    )]
    LaterRelease {
        /// The file.
        file: String,
        /// The version that stands in it.
        found: u32,
    },
    /// The system does not let us read it, which says nothing about what is in it.
    #[error(transparent)]
    Failed(#[from] StoreError),
}

/// The error of a snapshot that the system does not give us. Without descriptors, memory or the right to read
/// it, nobody knows whether it is damaged.
fn not_read(file: &Path, offset: u64, part: u64, error: &io::Error) -> SnapshotError {
    if is_passing(error) || error.kind() == io::ErrorKind::PermissionDenied {
        return StoreError::new("cannot read", file, error).into();
    }
    let (file, reason) = (file.display().to_string(), error.to_string());
    SnapshotError::Damaged { file, offset, part, reason }
}

/// Where the snapshot upto and including record `lsn` is, below the directory of snapshots.
pub fn path(dir: &Path, lsn: Lsn) -> PathBuf {
    dir.join(names::of(lsn, SUFFIX))
}

/// The whole snapshots in a directory, by their last records, oldest first.
///
/// # Errors
/// When the directory cannot be listed.
pub async fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<Lsn>, StoreError> {
    let entries = disk.list(dir).await;
    let entries = entries.map_err(|error| StoreError::new("cannot list", dir, &error))?;
    Ok(entries.iter().filter_map(|entry| names::position(&entry.name, SUFFIX)).collect())
}

/// The length in bytes of a snapshot; 0 when there is none.
///
/// # Errors
/// When the directory cannot be listed.
pub async fn size_bytes(disk: &dyn Disk, dir: &Path, lsn: Lsn) -> Result<u64, StoreError> {
    let entries = disk.list(dir).await;
    let entries = entries.map_err(|error| StoreError::new("cannot list", dir, &error))?;
    let named = entries.iter().find(|entry| names::position(&entry.name, SUFFIX) == Some(lsn));
    Ok(named.map_or(0, |entry| entry.size_bytes))
}

/// Removes what was left of snapshots that were never finished.
///
/// # Errors
/// When that fails.
pub async fn clear_unfinished(disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
    let entries = disk.list(dir).await;
    let entries = entries.map_err(|error| StoreError::new("cannot list", dir, &error))?;
    let finished = |name: &str| Some(name.strip_suffix(UNFINISHED)?.to_owned());
    for name in entries.into_iter().map(|entry| entry.name) {
        if finished(&name).is_some_and(|name| names::position(&name, SUFFIX).is_some()) {
            let path = dir.join(name);
            let removed = disk.remove_file(&path).await;
            removed.map_err(|error| StoreError::new("cannot remove", &path, &error))?;
        }
    }
    Ok(())
}

/// Removes a snapshot. Durable on return.
///
/// # Errors
/// Also when there is none.
pub async fn remove(disk: &dyn Disk, dir: &Path, lsn: Lsn) -> Result<(), StoreError> {
    let path = path(dir, lsn);
    let remove = async {
        disk.remove_file(&path).await?;
        disk.sync_dir(dir).await
    };
    remove.await.map_err(|error| StoreError::new("cannot remove", &path, &error))
}

/// Writes a snapshot.
pub struct SnapshotWriter {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    path: PathBuf,
    unfinished: PathBuf,
    file: Arc<dyn DiskFile>,
    part_bytes_max: usize,
    buffer: BytesMut,
    /// Bytes in the file.
    written: u64,
    hash: blake3::Hasher,
    parts: u64,
}

impl SnapshotWriter {
    /// Begins the snapshot upto and including record `lsn`, with parts of at most `part_bytes_max`
    /// bytes. An unfinished one of the same name is dropped.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub async fn create(
        disk: Arc<dyn Disk>,
        dir: &Path,
        lsn: Lsn,
        part_bytes_max: usize,
    ) -> Result<Self, StoreError> {
        let path = path(dir, lsn);
        let unfinished = dir.join(format!("{}{UNFINISHED}", names::of(lsn, SUFFIX)));
        let create = async {
            remove_if_there(&*disk, &unfinished).await?;
            disk.create(&unfinished).await
        };
        let file = create.await;
        let file = file.map_err(|error| StoreError::new("cannot create", &unfinished, &error))?;
        let mut writer = Self {
            dir: dir.to_owned(),
            path,
            unfinished,
            file,
            part_bytes_max,
            buffer: BytesMut::new(),
            written: 0,
            hash: blake3::Hasher::new(),
            parts: 0,
            disk,
        };
        let mut header = [&MAGIC[..], &VERSION.to_le_bytes(), &lsn.get().to_le_bytes()].concat();
        header.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
        writer.put(&header);
        Ok(writer)
    }

    /// Adds a part.
    ///
    /// # Errors
    /// When the part is too long, and when the file cannot be written.
    pub async fn part(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let len = u32::try_from(bytes.len()).ok().filter(|len| *len != TRAILER_MARK);
        let Some(len) = len.filter(|_| bytes.len() <= self.part_bytes_max) else {
            let (found, max) = (bytes.len(), self.part_bytes_max);
            let reason = format!("part {} has {found} bytes, at most {max} fit", self.parts);
            return Err(StoreError::new("cannot write", &self.unfinished, &reason));
        };
        self.put(&len.to_le_bytes());
        self.put(&part_checksum(len, bytes).to_le_bytes());
        self.put(bytes);
        self.parts = self.parts.saturating_add(1);
        if self.buffer.len() >= CHUNK_BYTES { self.write_out().await } else { Ok(()) }
    }

    /// Ends the snapshot and gives it its name; its length in bytes. Durable on return.
    ///
    /// # Errors
    /// When that fails; a snapshot of that name may or may not be there then.
    pub async fn finish(mut self) -> Result<u64, StoreError> {
        let hash = self.hash.finalize();
        let mark = TRAILER_MARK.to_le_bytes();
        let mut trailer = [&mark[..], &self.parts.to_le_bytes(), hash.as_bytes()].concat();
        trailer.extend_from_slice(&crc32c::crc32c(&trailer).to_le_bytes());
        self.put(&trailer);
        self.write_out().await?;
        let finish = async {
            self.file.sync_data().await?;
            self.disk.rename(&self.unfinished, &self.path).await?;
            self.disk.sync_dir(&self.dir).await
        };
        finish.await.map_err(|error| StoreError::new("cannot finish", &self.path, &error))?;
        Ok(self.written)
    }

    fn put(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.buffer.extend_from_slice(bytes);
    }

    async fn write_out(&mut self) -> Result<(), StoreError> {
        let bytes = self.buffer.split().freeze();
        let len = bytes.len() as u64;
        let written = self.file.write_at(self.written, bytes).await;
        written.map_err(|error| StoreError::new("cannot write", &self.unfinished, &error))?;
        self.written = self.written.saturating_add(len);
        Ok(())
    }
}

fn part_checksum(len: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&len.to_le_bytes()), bytes)
}

/// Reads a snapshot.
pub struct SnapshotReader {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    part_bytes_max: usize,
    lsn: Lsn,
    /// Bytes read from the file and not yet handed out.
    buffer: BytesMut,
    /// Where the buffer's end stands in the file.
    read_upto: u64,
    /// Where the part now read begins.
    part_offset: u64,
    hash: blake3::Hasher,
    parts: u64,
    ended: bool,
}

impl SnapshotReader {
    /// Opens the snapshot upto and including record `lsn`.
    ///
    /// # Errors
    /// When it is missing, damaged, or of a later format, and when the system does not let us read it.
    pub async fn open(
        disk: &dyn Disk,
        dir: &Path,
        lsn: Lsn,
        part_bytes_max: usize,
    ) -> Result<Self, SnapshotError> {
        let path = path(dir, lsn);
        let opened = disk.open(&path).await;
        let file = opened.map_err(|error| not_read(&path, 0, 0, &error))?;
        let mut reader = Self {
            path,
            file,
            part_bytes_max,
            lsn,
            buffer: BytesMut::new(),
            read_upto: 0,
            part_offset: 0,
            hash: blake3::Hasher::new(),
            parts: 0,
            ended: false,
        };
        let header = reader.take(HEADER_BYTES).await?;
        reader.check_header(&header)?;
        reader.begin_part(&[&header]);
        Ok(reader)
    }

    /// The next part; `None` behind the last one, when the whole file has been found right.
    ///
    /// # Errors
    /// Where the file is damaged, and when the system does not let us read it. Nothing read from it can be
    /// trusted then.
    pub async fn part(&mut self) -> Result<Option<Bytes>, SnapshotError> {
        if self.ended {
            return Ok(None);
        }
        let mut mark = self.take(4).await?;
        let len = mark.clone().get_u32_le();
        if len == TRAILER_MARK {
            return self.check_trailer(mark).await;
        }
        let len_bytes = len as usize;
        if len_bytes > self.part_bytes_max {
            let max = self.part_bytes_max;
            return Err(self.damaged(format!("its length is {len} bytes, at most {max} fit")));
        }
        let mut rest = self.take(PART_HEADER_BYTES - 4).await?;
        let checksum = rest.clone();
        let found = rest.get_u32_le();
        let bytes = self.take(len_bytes).await?;
        let expected = part_checksum(len, &bytes);
        if found != expected {
            return Err(self.differs("its checksum", found, expected));
        }
        self.begin_part(&[&mark.copy_to_bytes(4), &checksum, &bytes]);
        self.parts = self.parts.saturating_add(1);
        Ok(Some(bytes))
    }

    fn check_header(&self, header: &[u8]) -> Result<(), SnapshotError> {
        let (mut fields, mut checksum) = header.split_at(HEADER_BYTES - 4);
        let expected = crc32c::crc32c(fields);
        let found = checksum.get_u32_le();
        let mut magic = [0; 8];
        fields.copy_to_slice(&mut magic);
        if magic != MAGIC {
            return Err(self.damaged(format!("magic is {magic:02x?}, expected {MAGIC:02x?}")));
        }
        if found != expected {
            return Err(self.differs("the header's checksum", found, expected));
        }
        let version = fields.get_u32_le();
        if version > VERSION {
            let file = self.path.display().to_string();
            return Err(SnapshotError::LaterRelease { file, found: version });
        }
        if version != VERSION {
            let reason = format!("format version is {version}, this release reads {VERSION}");
            return Err(self.damaged(reason));
        }
        let lsn = fields.get_u64_le();
        if lsn != self.lsn.get() {
            let named = self.lsn;
            return Err(self.damaged(format!("it ends with record {lsn}, by its name {named}")));
        }
        Ok(())
    }

    async fn check_trailer(&mut self, mark: Bytes) -> Result<Option<Bytes>, SnapshotError> {
        let mut rest = self.take(TRAILER_BYTES - 4).await?;
        let checked = rest.len() - 4;
        let expected = part_checksum(mark.clone().get_u32_le(), rest.get(..checked).unwrap_or(&[]));
        let count = rest.get_u64_le();
        let hash = rest.copy_to_bytes(32);
        let found = rest.get_u32_le();
        if found != expected {
            return Err(self.differs("the trailer's checksum", found, expected));
        }
        if count != self.parts {
            let parts = self.parts;
            return Err(self.damaged(format!("{count} parts were written, {parts} are there")));
        }
        if hash != self.hash.finalize().as_bytes()[..] {
            return Err(self.damaged("the hash over all parts differs".into()));
        }
        self.fill(1).await?;
        if !self.buffer.is_empty() {
            return Err(self.damaged("something follows the trailer".into()));
        }
        self.ended = true;
        Ok(None)
    }

    /// Counts a part as read.
    fn begin_part(&mut self, read: &[&[u8]]) {
        for bytes in read {
            self.hash.update(bytes);
        }
        self.part_offset = self.read_upto.saturating_sub(self.buffer.len() as u64);
    }

    async fn take(&mut self, len: usize) -> Result<Bytes, SnapshotError> {
        self.fill(len).await?;
        if self.buffer.len() < len {
            let there = self.buffer.len();
            return Err(self.damaged(format!("the file ends: {there} of {len} bytes are there")));
        }
        Ok(self.buffer.split_to(len).freeze())
    }

    /// Reads until `len` bytes are in the buffer, or the file ends.
    async fn fill(&mut self, len: usize) -> Result<(), SnapshotError> {
        while self.buffer.len() < len {
            let bytes = self.file.read_at(self.read_upto, CHUNK_BYTES).await;
            let (offset, parts) = (self.part_offset, self.parts);
            let bytes = bytes.map_err(|error| not_read(&self.path, offset, parts, &error))?;
            if bytes.is_empty() {
                break;
            }
            self.read_upto = self.read_upto.saturating_add(bytes.len() as u64);
            self.buffer.extend_from_slice(&bytes);
        }
        Ok(())
    }

    fn differs(&self, what: &str, found: u32, expected: u32) -> SnapshotError {
        self.damaged(format!("{what} is {found:#010x}, expected {expected:#010x}"))
    }

    fn damaged(&self, reason: String) -> SnapshotError {
        SnapshotError::Damaged {
            file: self.path.display().to_string(),
            offset: self.part_offset,
            part: self.parts,
            reason,
        }
    }
}

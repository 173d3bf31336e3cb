//! The model disk: files as bytes, with what the platter has kept apart from what a reader sees.
//!
//! Plain and synchronous: whoever uses it decides when things happen and which faults strike. What
//! was written is *pending* until a sync completes; a power cut decides about pending writes one
//! by one. Damage is laid over the true bytes, so it can be lifted and the two compared.

mod file;
mod lies;
mod misread;
mod power;

use std::collections::BTreeMap;

pub use self::file::FileId;
use self::file::{File, Write};
use self::lies::Lies;
pub use self::misread::Misread;
pub use self::power::{CutFaults, CutOutcome};
use crate::rng::Stream;

/// Why the disk refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// No space.
    Full,
    /// There is no such file or directory.
    NotFound,
    /// The name is taken.
    Exists,
    /// The directory has something in it.
    NotEmpty,
    /// The device failed.
    Device,
}

impl std::fmt::Display for DiskError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Full => "no space left on the model disk",
            Self::NotFound => "no such file",
            Self::Exists => "the file exists",
            Self::NotEmpty => "the directory is not empty",
            Self::Device => "the device failed",
        })
    }
}

impl std::error::Error for DiskError {}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    File(FileId),
    Dir,
}

/// A change of names that is not durable yet.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NameChange {
    Given(String, Named),
    Taken(String),
    Moved(String, String, Named),
}

impl NameChange {
    fn is_in(&self, dir: &str) -> bool {
        let parent = |path: &String| path.rsplit_once('/').map_or("", |(parent, _)| parent) == dir;
        match self {
            Self::Given(path, _) | Self::Taken(path) => parent(path),
            Self::Moved(from, to, _) => parent(from) || parent(to),
        }
    }

    fn apply(&self, names: &mut BTreeMap<String, Named>) {
        match self {
            Self::Given(path, what) => drop(names.insert(path.clone(), *what)),
            Self::Taken(path) => drop(names.remove(path)),
            // Its old name may never have been durable; the new one is all the same.
            Self::Moved(from, to, what) => {
                names.remove(from);
                names.insert(to.clone(), *what);
            }
        }
    }
}

/// A disk.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    files: Vec<File>,
    names: BTreeMap<String, Named>,
    durable_names: BTreeMap<String, Named>,
    changes: Vec<NameChange>,
    /// Bytes that can be written; unlimited when `None`.
    free_bytes: Option<u64>,
    cuts: u64,
    lies: Lies,
}

impl Disk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty file.
    ///
    /// # Errors
    /// When the name is taken, or the disk is full.
    pub fn create(&mut self, path: &str) -> Result<FileId, DiskError> {
        if self.names.contains_key(path) {
            return Err(DiskError::Exists);
        }
        if self.free_bytes == Some(0) {
            return Err(DiskError::Full);
        }
        let id = FileId(self.files.len());
        self.files.push(File::default());
        self.change(NameChange::Given(path.to_owned(), Named::File(id)));
        Ok(id)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(&self, path: &str) -> Result<FileId, DiskError> {
        match self.names.get(path) {
            Some(Named::File(id)) => Ok(*id),
            _ => Err(DiskError::NotFound),
        }
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// When the name is taken.
    pub fn create_dir(&mut self, path: &str) -> Result<(), DiskError> {
        if self.names.contains_key(path) {
            return Err(DiskError::Exists);
        }
        self.change(NameChange::Given(path.to_owned(), Named::Dir));
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// When there is none, or something is in it.
    pub fn remove_dir(&mut self, path: &str) -> Result<(), DiskError> {
        if self.names.get(path) != Some(&Named::Dir) {
            return Err(DiskError::NotFound);
        }
        if !self.list(path).is_empty() {
            return Err(DiskError::NotEmpty);
        }
        self.change(NameChange::Taken(path.to_owned()));
        Ok(())
    }

    /// Gives something another name, replacing a file that has it.
    ///
    /// # Errors
    /// When there is nothing of that name.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        let what = *self.names.get(from).ok_or(DiskError::NotFound)?;
        self.change(NameChange::Moved(from.to_owned(), to.to_owned(), what));
        Ok(())
    }

    /// Removes a file.
    ///
    /// # Errors
    /// When there is none.
    pub fn remove_file(&mut self, path: &str) -> Result<(), DiskError> {
        self.open(path)?;
        self.change(NameChange::Taken(path.to_owned()));
        Ok(())
    }

    /// Names directly in a directory, with whether each is a directory and its length in bytes.
    pub fn list(&self, dir: &str) -> Vec<(String, bool, u64)> {
        let inside = |path: &str| {
            let rest = match dir {
                "" => Some(path),
                dir => path.strip_prefix(dir).and_then(|rest| rest.strip_prefix('/')),
            };
            rest.filter(|rest| !rest.is_empty() && !rest.contains('/')).map(str::to_owned)
        };
        let entry = |(path, named): (&String, &Named)| {
            let name = inside(path)?;
            Some(match named {
                Named::Dir => (name, true, 0),
                Named::File(id) => (name, false, self.size_bytes(*id)),
            })
        };
        self.names.iter().filter_map(entry).collect()
    }

    /// Whether something has this name.
    pub fn exists(&self, path: &str) -> bool {
        self.names.contains_key(path)
    }

    /// Makes what was done to the names in a directory durable.
    pub fn sync_dir(&mut self, dir: &str) {
        let names = &mut self.durable_names;
        self.changes.retain(|change| {
            let here = change.is_in(dir);
            if here {
                change.apply(names);
            }
            !here
        });
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    fn file(&self, id: FileId) -> Option<&File> {
        self.files.get(id.0)
    }

    fn file_mut(&mut self, id: FileId) -> Result<&mut File, DiskError> {
        self.files.get_mut(id.0).ok_or(DiskError::NotFound)
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// When there is no space; part of the bytes may have been written then.
    pub fn write_at(&mut self, id: FileId, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let size = self.size_bytes(id);
        let end = offset.saturating_add(bytes.len() as u64);
        let more = end.saturating_sub(size);
        let room = self.free_bytes.unwrap_or(u64::MAX);
        let fits = more <= room;
        let len = match fits {
            true => bytes.len(),
            false => bytes.len().saturating_sub(usize::try_from(more - room).unwrap_or(usize::MAX)),
        };
        if let Some(free) = &mut self.free_bytes {
            *free = free.saturating_sub(more);
        }
        let kept = bytes.get(..len).unwrap_or(bytes);
        let offset = usize::try_from(offset).map_err(|_| DiskError::Full)?;
        self.file_mut(id)?.write(Write::Bytes { offset, bytes: kept.to_vec() });
        if fits { Ok(()) } else { Err(DiskError::Full) }
    }

    /// Cuts a file, or lengthens it with zeros.
    ///
    /// # Errors
    /// When there is no space.
    pub fn set_len(&mut self, id: FileId, len: u64) -> Result<(), DiskError> {
        let size = self.size_bytes(id);
        if let Some(free) = &mut self.free_bytes {
            let more = len.saturating_sub(size);
            if more > *free {
                return Err(DiskError::Full);
            }
            *free = free.saturating_sub(more).saturating_add(size.saturating_sub(len));
        }
        let len = usize::try_from(len).map_err(|_| DiskError::Full)?;
        self.file_mut(id)?.write(Write::Length(len));
        Ok(())
    }

    /// A file's bytes as a reader sees them, damage included.
    pub fn read(&self, id: FileId) -> Vec<u8> {
        self.file(id).map(File::read).unwrap_or_default()
    }

    /// The same, a part of it: fewer bytes only where the file ends.
    pub fn read_at(&self, id: FileId, offset: u64, len: usize) -> Vec<u8> {
        let bytes = self.read(id);
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let to = from.saturating_add(len).min(bytes.len());
        bytes.get(from..to).unwrap_or_default().to_vec()
    }

    /// A file's length in bytes.
    pub fn size_bytes(&self, id: FileId) -> u64 {
        self.file(id).map_or(0, |file| file.len() as u64)
    }

    /// Begins a sync: it is for everything written so far.
    pub fn sync_begin(&self, id: FileId) -> u64 {
        self.file(id).map_or(0, File::written)
    }

    /// Ends a sync well: what it is for is durable.
    pub fn sync_end(&mut self, id: FileId, begun: u64) {
        self.lies.kept(id, begun);
        if let Some(file) = self.files.get_mut(id.0) {
            file.make_durable(begun);
        }
    }

    /// Ends a sync as if well, and makes nothing durable.
    pub fn sync_lied(&mut self, id: FileId, begun: u64) {
        self.lies.tell(id, begun);
    }

    /// Whether what was promised to be durable may be lost with the power: a sync of a file that
    /// there is was a lie.
    pub fn has_lied(&self) -> bool {
        self.lies.files().any(|id| self.is_named(id))
    }

    fn is_named(&self, id: FileId) -> bool {
        self.names.values().any(|named| *named == Named::File(id))
    }

    /// Ends a sync badly: each write it was for is durable or not, a reader sees it all the same,
    /// and no later sync looks at it again.
    pub fn sync_failed(&mut self, id: FileId, begun: u64, stream: &mut Stream) {
        self.lies.failed(id);
        if let Some(file) = self.files.get_mut(id.0) {
            file.forget_pending(begun, stream);
        }
    }

    /// Whether a file has writes that are not durable.
    pub fn has_pending(&self, id: FileId) -> bool {
        self.file(id).is_some_and(File::has_pending)
    }

    /// Sets how much can be written from here on; `None` is without limit.
    pub fn set_free_bytes(&mut self, free: Option<u64>) {
        self.free_bytes = free;
    }

    /// How much can be written, if there is a limit.
    pub const fn free_bytes(&self) -> Option<u64> {
        self.free_bytes
    }

    /// Power cuts so far: within one of these spans everything written is still there.
    pub const fn era(&self) -> u64 {
        self.cuts
    }
}

#[cfg(test)]
mod tests;

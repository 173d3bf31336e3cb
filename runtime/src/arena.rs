//! Memory that two processes share: one writes tensors into it, the other takes them from there.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create,
};

use crate::tensor::{ALIGNMENT, Region};

/// What a mark says: the other end has not come to the piece.
const UNREAD: u32 = 1;
/// It has.
const READ: u32 = 2;
/// It needs it no more.
const DONE: u32 = 0;

/// How far the other end is with a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It has not come to it.
    Unread,
    /// It has it.
    Read,
    /// It needs it no more.
    Done,
}

/// Bytes that a process may lend over all of its links or connections together.
#[derive(Clone, Debug)]
pub struct Allowance(Arc<AtomicU64>);

impl Allowance {
    /// So many bytes.
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    /// Takes so many bytes, if they are left.
    pub(crate) fn take(&self, bytes: u64) -> Option<Taken> {
        let mut taken = Taken { allowance: self.clone(), bytes: 0 };
        taken.grow_to(bytes).then_some(taken)
    }
}

/// Bytes of an allowance. They go back when this is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    allowance: Allowance,
    bytes: u64,
}

impl Taken {
    /// Takes more, up to so many bytes in all. Whether they are there.
    fn grow_to(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let less = |left: u64| left.checked_sub(more);
        let left = &self.allowance.0;
        let grows = left.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok();
        if grows {
            self.bytes = self.bytes.saturating_add(more);
        }
        grows
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.allowance.0.fetch_add(self.bytes, Ordering::AcqRel);
    }
}

/// Memory that this process writes, and its other end reads.
pub(crate) struct Lent {
    map: Arc<MmapRaw>,
    file: OwnedFd,
    /// Free pieces: where each begins, and how long it is.
    free: BTreeMap<u64, u64>,
    /// Pieces that the other end has.
    taken: BTreeMap<u64, u64>,
    /// The bytes that it takes of a common allowance, if there is one: as far as its memory was ever used,
    /// since that stays until the link ends.
    taken_of_all: Option<Taken>,
}

impl Lent {
    /// Memory of so many bytes, of which none is taken before it is used. The system shows the name.
    pub(crate) fn new(name: &str, bytes: u64) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create(name, flags)?;
        ftruncate(&file, bytes)?;
        // It can never become shorter: the other end need not fear to lose what it reads.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let map = Arc::new(MmapOptions::new().map_raw(&File::from(file.try_clone()?))?);
        let free = BTreeMap::from([(0, bytes)]);
        Ok(Self { map, file, free, taken: BTreeMap::new(), taken_of_all: None })
    }

    /// The same, as far as an allowance has something left when it is used.
    pub(crate) fn within(mut self, allowance: &Allowance) -> Self {
        self.taken_of_all = allowance.take(0);
        self
    }

    /// The file that the other end maps.
    pub(crate) fn file(&self) -> impl AsFd + '_ {
        &self.file
    }

    /// The number of that file in this process.
    pub(crate) fn file_number(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Marks a piece as the other end's, which changes the mark as it goes on.
    pub(crate) fn mark(&self, offset: u64) {
        if let Some(mark) = mark(&self.map, offset) {
            mark.store(UNREAD, Ordering::Release);
        }
    }

    /// How far the other end is with a piece that was marked.
    pub(crate) fn progress(&self, offset: u64) -> Progress {
        match mark(&self.map, offset).map(|mark| mark.load(Ordering::Acquire)) {
            Some(UNREAD) => Progress::Unread,
            Some(DONE) => Progress::Done,
            _ => Progress::Read,
        }
    }

    /// Takes a piece, if there is one so long: where it is, and its memory.
    pub(crate) fn take(&mut self, length: u64) -> Option<(u64, Region)> {
        let wanted = length.max(1).checked_next_multiple_of(ALIGNMENT as u64)?;
        let fits = self.free.iter().find(|(_, free)| **free >= wanted);
        let (offset, free) = fits.map(|(offset, free)| (*offset, *free))?;
        let end = offset.saturating_add(wanted);
        if self.taken_of_all.as_mut().is_some_and(|taken| !taken.grow_to(end)) {
            return None;
        }
        let region = region(&self.map, offset, length, Arc::clone(&self.map) as _)?;
        self.free.remove(&offset);
        if free > wanted {
            self.free.insert(offset.saturating_add(wanted), free.saturating_sub(wanted));
        }
        self.taken.insert(offset, wanted);
        Some((offset, region))
    }

    /// The other end is done with a piece. Whether it had it.
    pub(crate) fn give_back(&mut self, offset: u64) -> bool {
        let Some(mut length) = self.taken.remove(&offset) else { return false };
        let mut start = offset;
        if let Some((before, free)) = self.free.range(..offset).next_back()
            && before.saturating_add(*free) == offset
        {
            (start, length) = (*before, length.saturating_add(*free));
        }
        let end = start.saturating_add(length);
        if let Some(behind) = self.free.remove(&end) {
            length = length.saturating_add(behind);
        }
        self.free.insert(start, length);
        true
    }
}

/// Memory that the other end writes, and this process reads.
pub(crate) struct Borrowed {
    map: Arc<MmapRaw>,
    /// Pieces that are read no more, of which the other end has not been told.
    done: Arc<Done>,
}

/// Pieces that are read no more.
#[derive(Default)]
pub(crate) struct Done(Mutex<Vec<u64>>);

/// A piece as long as it is read.
struct Piece {
    _map: Arc<MmapRaw>,
    offset: u64,
    done: Arc<Done>,
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.done.0.lock().unwrap_or_else(PoisonError::into_inner).push(self.offset);
    }
}

/// A piece with a mark, as long as it is read.
struct MarkedPiece {
    map: Arc<MmapRaw>,
    at: u64,
}

impl Drop for MarkedPiece {
    fn drop(&mut self) {
        if let Some(mark) = mark(&self.map, self.at) {
            mark.store(DONE, Ordering::Release);
        }
    }
}

impl Borrowed {
    /// Maps what the other end lends.
    pub(crate) fn new(file: OwnedFd, bytes_max: u64) -> io::Result<Self> {
        let seals = fcntl_get_seals(&file)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(io::Error::other("memory was offered that may become shorter"));
        }
        let file = File::from(file);
        let bytes = file.metadata()?.len();
        if bytes > bytes_max {
            let text = format!(
                "shared memory of {bytes} bytes was offered; at most {bytes_max} are taken"
            );
            return Err(io::Error::other(text));
        }
        Ok(Self { map: Arc::new(MmapOptions::new().map_raw(&file)?), done: Arc::default() })
    }

    /// A piece, which is the other end's again when nobody has it any more; `None` if there is none such.
    pub(crate) fn piece(&self, offset: u64, length: u64) -> Option<Region> {
        let (map, done) = (Arc::clone(&self.map), Arc::clone(&self.done));
        // Nobody is told of a piece that is none.
        region(&self.map, offset, length, Arc::new(()))?;
        region(&self.map, offset, length, Arc::new(Piece { _map: map, offset, done }))
    }

    /// A piece whose mark says so when nobody has it any more; `None` if there is none such.
    pub(crate) fn marked_piece(&self, at: u64, offset: u64, length: u64) -> Option<Region> {
        let map = Arc::clone(&self.map);
        region(&self.map, offset, length, Arc::new(()))?;
        mark(&map, at)?.store(READ, Ordering::Release);
        region(&self.map, offset, length, Arc::new(MarkedPiece { map, at }))
    }

    /// Pieces that have become the other end's again since this was asked last.
    pub(crate) fn done(&self) -> Vec<u64> {
        std::mem::take(&mut *self.done.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The mark at a place, where a whole number of such fits in front of it.
fn mark(map: &MmapRaw, at: u64) -> Option<&AtomicU32> {
    let at = usize::try_from(at).ok()?;
    let is_within = at.checked_add(size_of::<AtomicU32>())? <= map.len();
    let is_aligned = at.is_multiple_of(align_of::<AtomicU32>());
    // SAFETY: it lies within the map, aligned, since maps begin with a page; both processes reach marks by
    // atomic operations only.
    (is_within && is_aligned)
        .then(|| unsafe { AtomicU32::from_ptr(map.as_mut_ptr().wrapping_add(at).cast()) })
}

/// Part of a map.
fn region(
    map: &MmapRaw,
    offset: u64,
    length: u64,
    owner: Arc<dyn std::any::Any + Send + Sync>,
) -> Option<Region> {
    let (offset, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
    let end = offset.checked_add(length)?;
    // SAFETY: it lies within the map, which stays as long as `owner` and cannot become shorter. Both
    // processes write it only while the other does not read it; one that does otherwise spoils values, as
    // the type says.
    (end <= map.len()).then(|| unsafe {
        Region::from_raw(map.as_mut_ptr().wrapping_add(offset), length, true, owner)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_share_what_may_be_lent_and_give_it_back() {
        const PIECE: u64 = 64 << 10;
        let allowance = Allowance::new(3 * PIECE);
        let lend = || Lent::new("test", 1 << 20).unwrap().within(&allowance);
        let (mut one, mut other) = (lend(), lend());
        let (first, _) = one.take(PIECE).unwrap();
        assert!(one.take(PIECE).is_some() && other.take(PIECE).is_some());
        assert!(one.take(PIECE).is_none() && other.take(1).is_none(), "nothing is left");
        assert!(one.give_back(first));
        assert!(one.take(PIECE).is_some(), "it is there already");
        drop(one);
        assert!(other.take(2 * PIECE).is_some());
    }

    #[test]
    fn pieces_do_not_overlap_and_are_joined_when_they_come_back() {
        let mut lent = Lent::new("test", 1 << 20).unwrap();
        let taken: Vec<(u64, Region)> = (0..16).map(|_| lent.take(1 << 16).unwrap()).collect();
        assert!(lent.take(1).is_none(), "all is taken");
        let offsets: std::collections::BTreeSet<u64> = taken.iter().map(|it| it.0).collect();
        assert_eq!(offsets.len(), 16);
        for at in [3, 5, 4, 0, 15, 1, 2, 14, 13, 12, 11, 10, 9, 8, 7, 6] {
            assert!(lent.give_back(taken[at].0));
            assert!(!lent.give_back(taken[at].0), "twice");
        }
        assert_eq!(lent.take(1 << 20).map(|it| it.0), Some(0));
    }

    #[test]
    fn what_one_end_writes_the_other_reads_and_gives_back() {
        let mut lent = Lent::new("test", 1 << 20).unwrap();
        let file = lent.file().as_fd().try_clone_to_owned().unwrap();
        let borrowed = Borrowed::new(file, 1 << 20).unwrap();
        let (offset, region) = lent.take(1000).unwrap();
        // SAFETY: nobody reads it yet.
        unsafe { region.write(0, &[7; 1000]) };
        let piece = borrowed.piece(offset, 1000).unwrap();
        assert_eq!(piece.to_vec(), [7; 1000]);
        let part = piece.part(10, 10);
        drop(piece);
        assert!(borrowed.done().is_empty(), "part of it is still there");
        drop(part);
        assert_eq!(borrowed.done(), [offset]);
        assert!(borrowed.done().is_empty());
        for (offset, length) in [(1 << 20, 1), (0, (1 << 20) + 1), (u64::MAX, 2), (1, u64::MAX)] {
            assert!(borrowed.piece(offset, length).is_none());
        }
        assert!(borrowed.done().is_empty());
    }

    #[test]
    fn a_mark_says_how_far_the_other_end_is() {
        let mut lent = Lent::new("test", 1 << 20).unwrap();
        let file = lent.file().as_fd().try_clone_to_owned().unwrap();
        let borrowed = Borrowed::new(file, 1 << 20).unwrap();
        let (at, _) = lent.take(1000).unwrap();
        lent.mark(at);
        assert_eq!(lent.progress(at), Progress::Unread);
        let piece = borrowed.marked_piece(at, at + 64, 900).unwrap();
        let part = piece.part(10, 10);
        drop(piece);
        assert_eq!(lent.progress(at), Progress::Read, "part of it is still there");
        drop(part);
        assert_eq!(lent.progress(at), Progress::Done);
        let places =
            [(1 << 20, 0, 1), (1, 64, 1), (u64::MAX, 64, 1), (0, 1 << 20, 1), (0, 1, u64::MAX)];
        for (at, offset, length) in places {
            assert!(borrowed.marked_piece(at, offset, length).is_none(), "{at} {offset} {length}");
        }
    }

    #[test]
    fn memory_that_may_shrink_or_is_too_much_is_not_taken() {
        let open = memfd_create("open", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&open, 4096).unwrap();
        assert!(Borrowed::new(open, 4096).is_err());
        let lent = Lent::new("test", 8192).unwrap();
        let file = lent.file().as_fd().try_clone_to_owned().unwrap();
        assert!(Borrowed::new(file, 4096).is_err());
    }
}

//! Memory that tensors are sent from and received into where it lies, whoever it belongs to.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::BufferBuilder;

/// Host memory of a tensor, read and written in place. A clone refers to the same memory. The memory stays
/// as long as one clone does.
///
/// No lock guards the memory. So every function that writes it is unsafe: its caller promises that nobody
/// else reads or writes the same bytes meanwhile. Functions that only read are safe because of that promise.
#[derive(Clone)]
pub struct Region {
    start: *mut u8,
    length: usize,
    is_writable: bool,
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the region keeps the owner, and so the memory, on whatever thread. Whoever writes the memory has
// promised in an unsafe block that nobody else uses it meanwhile.
unsafe impl Send for Region {}
// SAFETY: as for Send.
unsafe impl Sync for Region {}

impl Region {
    /// Memory of somebody else.
    ///
    /// # Safety
    /// From `start` on, `length` bytes can be read as long as `owner` lives; if `is_writable`, they can be
    /// written too. As long as the region or a clone lives, nobody writes them while they are read through
    /// it, and nobody uses them while they are written through it.
    pub unsafe fn from_raw(
        start: *mut u8,
        length: usize,
        is_writable: bool,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self { start, length, is_writable, _owner: owner }
    }

    /// Memory of its own. It holds zeros, or the bytes of an earlier tensor of this process.
    pub fn allocate(length: usize) -> Self {
        let owned = Owned::new(length);
        let start = owned.start();
        // SAFETY: the owner's memory has this length, and only this region and its clones use it.
        unsafe { Self::from_raw(start, length, true, Arc::new(owned)) }
    }

    /// How many bytes it has.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether it can be written.
    pub const fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Where it begins.
    pub const fn as_ptr(&self) -> *const u8 {
        self.start
    }

    /// A part of it; `None` if it has no such part.
    pub fn part(&self, offset: usize, length: usize) -> Option<Self> {
        let end = offset.checked_add(length)?;
        (end <= self.length).then(|| Self {
            // `offset` is within the memory, or at its end.
            start: self.start.wrapping_add(offset),
            length,
            ..self.clone()
        })
    }

    /// A copy of its bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        // SAFETY: whoever writes the memory has promised that nobody reads it meanwhile.
        unsafe { self.bytes() }.to_vec()
    }

    /// Writes bytes from `offset` on, as many as there is room for. Returns their number: 0 if the memory
    /// cannot be written.
    ///
    /// # Safety
    /// Nobody else reads or writes these bytes of the region meanwhile, and `bytes` is other memory.
    pub unsafe fn write(&self, offset: usize, bytes: &[u8]) -> usize {
        let room = self.length.saturating_sub(offset);
        let length = if self.is_writable { bytes.len().min(room) } else { 0 };
        // SAFETY: so many bytes from there on can be written; the caller promises the rest.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.wrapping_add(offset), length);
        }
        length
    }

    /// Its bytes.
    ///
    /// # Safety
    /// Nobody writes them as long as they are borrowed.
    pub const unsafe fn bytes(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: they can be read as long as this region is there, and the caller promises the rest.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }

    /// Its bytes, to be written; none if they cannot be.
    ///
    /// # Safety
    /// Nobody reads or writes them as long as they are borrowed.
    #[expect(clippy::mut_from_ref, reason = "a clone is of the same memory; the caller promises")]
    pub const unsafe fn bytes_mut(&self) -> &mut [u8] {
        if self.length == 0 || !self.is_writable {
            return &mut [];
        }
        // SAFETY: they can be written as long as this region is there, and the caller promises the rest.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl From<Bytes> for Region {
    /// Memory that can only be read.
    fn from(bytes: Bytes) -> Self {
        let (start, length) = (bytes.as_ptr().cast_mut(), bytes.len());
        // SAFETY: shared bytes stay where they are as long as they are kept, and nobody writes them.
        unsafe { Self::from_raw(start, length, false, Arc::new(bytes)) }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.is_writable { "writable" } else { "read-only" };
        write!(out, "{} bytes at {:?}, {access}", self.length, self.start)
    }
}

/// Memory that a region has of its own.
struct Owned {
    /// Kept as long as the region; what is long is kept for others then.
    _builder: BufferBuilder,
    start: *mut u8,
}

// SAFETY: the pointer is into the builder, which is only kept.
unsafe impl Send for Owned {}
// SAFETY: as for Send.
unsafe impl Sync for Owned {}

impl Owned {
    fn new(length: usize) -> Self {
        let mut builder = BufferBuilder::with_capacity(length, 0);
        let start = builder.whole(length).as_mut_ptr();
        Self { _builder: builder, start }
    }

    const fn start(&self) -> *mut u8 {
        self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ALIGNMENT;
    use crate::memory::PAGED_BYTES_MIN;

    #[test]
    fn memory_of_its_own_is_aligned_and_shared_by_its_clones() {
        for length in [0, 1, 1000, 2 * PAGED_BYTES_MIN] {
            let region = Region::allocate(length);
            assert_eq!((region.len(), region.is_empty()), (length, length == 0));
            assert!(length == 0 || region.as_ptr().addr().is_multiple_of(ALIGNMENT), "{length}");
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            // SAFETY: only this test uses the memory.
            assert_eq!(unsafe { region.clone().write(0, &bytes) }, length);
            assert!(region.to_vec() == bytes, "{length}");
        }
    }

    #[test]
    fn nothing_is_written_beyond_its_end_or_where_it_may_not() {
        let region = Region::allocate(10);
        // SAFETY: only this test uses the memory.
        let write = |region: &Region, at, bytes: &[u8]| unsafe { region.write(at, bytes) };
        assert_eq!(write(&region, 8, &[1, 2, 3]), 2);
        assert_eq!(write(&region, 10, &[1]), 0);
        assert_eq!(write(&region, usize::MAX, &[1]), 0);
        assert_eq!(region.to_vec()[8..], [1, 2]);
        let fixed = Region::from(Bytes::from_static(b"fixed"));
        assert_eq!(write(&fixed, 0, b"other"), 0);
        assert_eq!(fixed.to_vec(), b"fixed");
        assert!(!fixed.is_writable());
    }

    #[test]
    fn a_part_is_of_the_same_memory_and_keeps_it() {
        let part = {
            let region = Region::allocate(100);
            // SAFETY: only this test uses the memory.
            unsafe { region.write(0, &[7; 100]) };
            assert!(region.part(90, 11).is_none());
            assert!(region.part(usize::MAX, 1).is_none());
            assert_eq!(region.part(100, 0).map(|part| part.len()), Some(0));
            region.part(40, 20).unwrap()
        };
        assert_eq!(part.to_vec(), [7; 20]);
        // SAFETY: as above.
        assert_eq!(unsafe { part.write(19, &[8, 8]) }, 1);
    }
}

//! Host memory of a tensor: shared by all who have it, and aligned for whoever computes on it.

use bytes::Bytes;
use rondo_core::element::{Dtype, Tensor, Values};

use super::Region;
use super::memory::{PAGED_BYTES_MIN, Pages};

/// How values are aligned that somebody computes on, in bytes: a line of the cache, and the widest
/// registers there are.
pub const ALIGNMENT: usize = 64;

/// Bytes of a tensor in the host's memory. A clone shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostBuffer {
    bytes: Bytes,
}

impl HostBuffer {
    /// The values of a tensor where they lie; for strings, all their bytes one after the other.
    pub fn of(tensor: &Tensor) -> Self {
        match tensor.values() {
            Values::Fixed(bytes) | Values::Encoded(bytes) | Values::Strings { bytes, .. } => {
                Self { bytes: bytes.clone() }
            }
        }
    }

    /// A copy, aligned to [`ALIGNMENT`].
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut builder = BufferBuilder::with_capacity(bytes.len(), 0);
        builder.extend(bytes);
        Self { bytes: builder.finish() }
    }

    /// The bytes.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Whether they begin at a multiple of so many bytes.
    pub fn is_aligned_to(&self, alignment: usize) -> bool {
        self.bytes.is_empty() || self.bytes.as_ptr().addr().is_multiple_of(alignment.max(1))
    }

    /// The same values where the processor can read them as values of their type: they are copied only
    /// if they do not lie so already.
    #[must_use]
    pub fn aligned_for(self, dtype: Dtype) -> Self {
        let width = dtype.width().and_then(|width| usize::try_from(width).ok());
        // Of complex numbers it is the parts that are read.
        let alignment = match dtype {
            Dtype::Complex64 => 4,
            Dtype::Complex128 => 8,
            _ => width.unwrap_or(1),
        };
        if self.is_aligned_to(alignment) { self } else { Self::copy_of(&self.bytes) }
    }
}

impl From<Bytes> for HostBuffer {
    fn from(bytes: Bytes) -> Self {
        Self { bytes }
    }
}

/// Puts bytes together of which those from some place on are aligned to [`ALIGNMENT`].
#[derive(Debug, Default)]
pub struct BufferBuilder {
    memory: Memory,
    /// Bytes in front of the first one.
    padding: usize,
}

#[derive(Debug)]
enum Memory {
    /// Of what is short; it grows.
    Short(Vec<u8>),
    /// Of what is long, and how many of its bytes are there.
    Long(Block, usize),
}

/// Memory for what is long.
#[derive(Debug)]
enum Block {
    Pages(Pages),
    /// Somebody's, who has given it away.
    Given(Region),
}

impl Block {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Pages(pages) => pages.bytes(),
            // SAFETY: who gave it away does not write it.
            Self::Given(region) => unsafe { region.bytes() },
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Pages(pages) => pages.bytes_mut(),
            // SAFETY: who gave it away does not use it.
            Self::Given(region) => unsafe { region.bytes_mut() },
        }
    }

    /// Those in front, shared by all who have them.
    fn share(self, length: usize) -> Bytes {
        match self {
            Self::Pages(pages) => pages.share(length),
            Self::Given(region) => Bytes::from_owner(Given(region)).slice(..length),
        }
    }
}

/// Memory that was given away, which nobody writes any more.
struct Given(Region);

impl AsRef<[u8]> for Given {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: nobody writes it.
        unsafe { self.0.bytes() }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::Short(Vec::new())
    }
}

/// Where the next bytes go, for those who read them from elsewhere.
pub enum Room<'a> {
    /// They are added behind what is there.
    Behind(&'a mut Vec<u8>),
    /// They are written here, from the front; [`BufferBuilder::filled`] is told how many.
    Here(&'a mut [u8]),
}

impl BufferBuilder {
    /// The shortest content that has memory of its own rather than some of what grows, in bytes.
    pub const LONG_BYTES_MIN: usize = PAGED_BYTES_MIN;

    /// Room in somebody's memory, of whose bytes that at `aligned` will be aligned: [`ALIGNMENT`] more are
    /// taken than are put together.
    ///
    /// # Safety
    /// Nobody else uses it from now on, but for copies of what will have been put together.
    pub unsafe fn in_region(region: Region, aligned: usize) -> Self {
        let start = region.as_ptr().addr().wrapping_add(aligned);
        let padding = start.next_multiple_of(ALIGNMENT).wrapping_sub(start).min(region.len());
        Self { memory: Memory::Long(Block::Given(region), padding), padding }
    }

    /// Room for so many bytes, of which that at `aligned` will be.
    pub fn with_capacity(length: usize, aligned: usize) -> Self {
        let room = length.saturating_add(ALIGNMENT);
        let padding = |start: *const u8| {
            let start = start.addr().wrapping_add(aligned);
            start.next_multiple_of(ALIGNMENT).wrapping_sub(start)
        };
        if length >= PAGED_BYTES_MIN
            && let Some(pages) = Pages::new(room)
        {
            let padding = padding(pages.bytes().as_ptr());
            return Self { memory: Memory::Long(Block::Pages(pages), padding), padding };
        }
        let mut bytes: Vec<u8> = Vec::with_capacity(room);
        let padding = padding(bytes.as_ptr());
        bytes.resize(padding, 0);
        Self { memory: Memory::Short(bytes), padding }
    }

    /// Adds bytes. Above the room there is, none stays aligned.
    pub fn extend(&mut self, bytes: &[u8]) {
        match &mut self.memory {
            Memory::Short(all) => all.extend_from_slice(bytes),
            Memory::Long(pages, there) => {
                let end = there.saturating_add(bytes.len());
                match pages.bytes_mut().get_mut(*there..end) {
                    Some(room) => {
                        room.copy_from_slice(bytes);
                        *there = end;
                    }
                    None => self.outgrow(bytes),
                }
            }
        }
    }

    /// Adds bytes that there is no room for.
    fn outgrow(&mut self, bytes: &[u8]) {
        let all = std::mem::take(self).finish();
        self.memory = Memory::Short([&all, bytes].concat());
    }

    /// Where the next bytes go.
    pub fn room(&mut self) -> Room<'_> {
        match &mut self.memory {
            Memory::Short(all) => Room::Behind(all),
            Memory::Long(pages, there) => {
                Room::Here(pages.bytes_mut().get_mut(*there..).unwrap_or_default())
            }
        }
    }

    /// So many bytes have been written [here](Room::Here).
    pub fn filled(&mut self, count: usize) {
        if let Memory::Long(pages, there) = &mut self.memory {
            *there = there.saturating_add(count).min(pages.bytes().len());
        }
    }

    /// All of so many bytes, which are there whatever stands in them.
    pub(super) fn whole(&mut self, length: usize) -> &mut [u8] {
        let end = self.padding.saturating_add(length);
        let all = match &mut self.memory {
            Memory::Short(all) => {
                all.resize(end, 0);
                all.as_mut_slice()
            }
            Memory::Long(pages, there) => {
                *there = end;
                pages.bytes_mut()
            }
        };
        all.get_mut(self.padding..end).unwrap_or_default()
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        let there = match &self.memory {
            Memory::Short(all) => all.len(),
            Memory::Long(_, there) => *there,
        };
        there.saturating_sub(self.padding)
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes.
    pub fn finish(self) -> Bytes {
        let all = match self.memory {
            Memory::Short(all) => Bytes::from(all),
            Memory::Long(pages, there) => pages.share(there),
        };
        all.slice(self.padding..)
    }
}

#[cfg(test)]
#[cfg(not(madsim))]
mod tests {
    use super::*;
    use rondo_core::element::Shape;

    #[test]
    fn what_is_put_together_is_aligned_where_it_shall_be() {
        for (aligned, length) in [0, 1, 19, 63, 64, 100]
            .into_iter()
            .flat_map(|aligned| [(aligned, 200), (aligned, PAGED_BYTES_MIN + 77)])
        {
            let all: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut builder = BufferBuilder::with_capacity(all.len(), aligned);
            for (index, part) in all.chunks(7).enumerate() {
                match builder.room() {
                    Room::Here(room) if index % 2 == 0 => {
                        room[..part.len()].copy_from_slice(part);
                        builder.filled(part.len());
                    }
                    _ => builder.extend(part),
                }
            }
            assert_eq!(builder.len(), all.len());
            let bytes = builder.finish();
            assert_eq!(bytes, all);
            assert!(bytes[aligned..].as_ptr().addr().is_multiple_of(ALIGNMENT), "{aligned}");
        }
    }

    #[test]
    fn memory_that_was_given_is_where_it_is_put_together() {
        for aligned in [0, 1, 63, 100] {
            let region = Region::allocate(1000 + ALIGNMENT);
            let (start, length) = (region.as_ptr().addr(), region.len());
            // SAFETY: nobody else has it.
            let mut builder = unsafe { BufferBuilder::in_region(region, aligned) };
            builder.extend(&[7; 400]);
            if let Room::Here(room) = builder.room() {
                room[..600].fill(8);
            }
            builder.filled(600);
            let bytes = builder.finish();
            assert_eq!(bytes, [vec![7; 400], vec![8; 600]].concat());
            assert!((start..start + length).contains(&bytes.as_ptr().addr()));
            assert!(bytes[aligned..].as_ptr().addr().is_multiple_of(ALIGNMENT), "{aligned}");
        }
    }

    #[test]
    fn more_than_there_is_room_for_is_there_all_the_same() {
        for length in [10, PAGED_BYTES_MIN] {
            let mut builder = BufferBuilder::with_capacity(length, 0);
            builder.extend(&vec![1; length]);
            builder.extend(&[2; 100]);
            builder.extend(&[3; 5]);
            let expected = [vec![1; length], vec![2; 100], vec![3; 5]].concat();
            assert_eq!(builder.len(), expected.len());
            assert!(builder.finish() == expected);
        }
    }

    #[test]
    fn values_are_copied_only_if_they_lie_wrong() {
        let message = HostBuffer::copy_of(&[7; 41]).bytes().clone();
        let at = |from: usize| {
            let shape = Shape::list(4).unwrap();
            let values = message.slice(from..from + 32);
            HostBuffer::of(&Tensor::fixed(Dtype::Double, shape, values).unwrap())
        };
        let right = at(8).aligned_for(Dtype::Double);
        assert_eq!(right.bytes().as_ptr(), message[8..].as_ptr());
        let wrong = at(9);
        assert!(!wrong.is_aligned_to(8));
        let copy = wrong.clone().aligned_for(Dtype::Double);
        assert!(copy.is_aligned_to(ALIGNMENT));
        assert_eq!(copy, wrong);
        assert_eq!(
            wrong.clone().aligned_for(Dtype::Uint8).bytes().as_ptr(),
            wrong.bytes().as_ptr()
        );
        assert!(HostBuffer::default().aligned_for(Dtype::Complex128).bytes().is_empty());
    }
}

//! The memory of a process, as far as tensors lie in it, and what stands in them.

use std::collections::BTreeMap;

use crate::trace::TraceHash;

/// A part of a buffer of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slice {
    /// The buffer; 0 is none.
    pub buffer: u64,
    /// Where in it, in bytes.
    pub at: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl Slice {
    /// No memory at all.
    pub const NOWHERE: Self = Self { buffer: 0, at: 0, bytes: 0 };

    /// Whether some byte is in both.
    pub const fn meets(&self, other: &Self) -> bool {
        self.buffer == other.buffer
            && self.at < other.at.saturating_add(other.bytes)
            && other.at < self.at.saturating_add(self.bytes)
    }
}

/// All buffers of a process.
#[derive(Debug, Default)]
pub struct Memory {
    buffers: BTreeMap<u64, Vec<u8>>,
    last: u64,
}

impl Memory {
    /// A new buffer with these bytes.
    pub fn put(&mut self, bytes: Vec<u8>) -> Slice {
        self.last = self.last.wrapping_add(1);
        let slice = Slice { buffer: self.last, at: 0, bytes: bytes.len() as u64 };
        self.buffers.insert(self.last, bytes);
        slice
    }

    /// A new buffer of so many bytes, in which nothing stands.
    pub fn room(&mut self, bytes: u64) -> Slice {
        self.put(vec![0xee; usize::try_from(bytes).unwrap_or(0)])
    }

    /// What stands there; `None` where nothing is.
    pub fn read(&self, slice: &Slice) -> Option<&[u8]> {
        let from = usize::try_from(slice.at).ok()?;
        let to = from.checked_add(usize::try_from(slice.bytes).ok()?)?;
        self.buffers.get(&slice.buffer)?.get(from..to)
    }

    /// Writes from a place of a slice on.
    pub fn write(&mut self, slice: &Slice, from: usize, bytes: &[u8]) {
        let buffer = self.buffers.get_mut(&slice.buffer);
        let begin = usize::try_from(slice.at).unwrap_or(usize::MAX).saturating_add(from);
        let place = buffer.and_then(|it| it.get_mut(begin..begin.saturating_add(bytes.len())));
        if let Some(place) = place {
            place.copy_from_slice(bytes);
        }
    }

    /// A buffer is gone.
    pub fn free(&mut self, slice: &Slice) {
        self.buffers.remove(&slice.buffer);
    }
}

/// The first tensor of a request has at least so many bytes, which say which request it is of.
pub const SERIAL_BYTES: u64 = 8;
/// A pulled key says in its lower bits which pull it is, and above them of which request.
const PULL_BITS: u32 = 8;

/// The bytes of a tensor that a request pushes.
pub fn pushed(serial: u64, index: u64, bytes: u64) -> Vec<u8> {
    let mut made = fill(&[serial, index, 0x70], bytes);
    if index == 0
        && let Some(place) = made.get_mut(..8)
    {
        place.copy_from_slice(&serial.to_le_bytes());
    }
    made
}

/// The key of a tensor that a request pulls of a server.
pub const fn pulled_key(serial: u64, index: u64) -> u64 {
    (serial << PULL_BITS) | index
}

/// The request that a unit is of, by what it pulls or else by what stands in its first tensor.
pub fn serial_of(pulled: Option<u64>, first: Option<&[u8]>) -> Option<u64> {
    if let Some(key) = pulled {
        return Some(key >> PULL_BITS);
    }
    let bytes: [u8; 8] = first?.get(..8)?.try_into().ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// What a server makes of all that a request has pushed to it, for one of its pulls.
pub fn answer<'a>(
    server: u32,
    pushes: impl IntoIterator<Item = &'a [u8]>,
    pulled: u64,
    bytes: u64,
) -> Vec<u8> {
    let mut hash = TraceHash::default();
    pushes.into_iter().for_each(|push| hash.add_bytes(push));
    fill(&[hash.value(), u64::from(server), pulled], bytes)
}

fn fill(of: &[u64], bytes: u64) -> Vec<u8> {
    let mut hash = TraceHash::default();
    of.iter().for_each(|number| hash.add(*number));
    let words = (0..bytes.div_ceil(8)).flat_map(|word| {
        let mut hash = hash;
        hash.add(word);
        hash.value().to_le_bytes()
    });
    words.take(usize::try_from(bytes).unwrap_or(0)).collect()
}

//! One file: the bytes on the platter, those a reader sees, and the writes in between.

use std::collections::BTreeMap;

use crate::rng::Stream;

/// An open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub(super) usize);

/// Something done to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// Bytes written.
    Bytes { offset: usize, bytes: Vec<u8> },
    /// Cut or lengthened.
    Length(usize),
}

impl Write {
    /// Does it to some bytes.
    pub(super) fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Length(len) => to.resize(*len, 0),
            Self::Bytes { offset, bytes } => put(to, *offset, bytes),
        }
    }

    /// Its first `len` bytes.
    pub(super) fn torn(&self, len: usize) -> Self {
        match self {
            Self::Length(len) => Self::Length(*len),
            Self::Bytes { offset, bytes } => {
                let bytes = bytes.get(..len).unwrap_or(bytes).to_vec();
                Self::Bytes { offset: *offset, bytes }
            }
        }
    }

    /// How many bytes it writes.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Length(_) => 0,
            Self::Bytes { bytes, .. } => bytes.len(),
        }
    }
}

fn put(to: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset.saturating_add(bytes.len());
    if offset == to.len() {
        return to.extend_from_slice(bytes);
    }
    if to.len() < end {
        to.resize(end, 0);
    }
    if let Some(place) = to.get_mut(offset..end) {
        place.copy_from_slice(bytes);
    }
}

/// A file.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    pub(super) seen: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) pending: Vec<Write>,
    /// Writes ever made; the pending ones are the last of them.
    written: u64,
    /// Damage: bits to be turned over, by place.
    pub(super) flips: BTreeMap<usize, u8>,
}

impl File {
    pub(super) fn write(&mut self, write: Write) {
        // What is written anew is whole again.
        match &write {
            Write::Length(len) => self.flips.retain(|at, _| at < len),
            Write::Bytes { offset, bytes } => {
                let end = offset.saturating_add(bytes.len());
                self.flips.retain(|at, _| !(*offset..end).contains(at));
            }
        }
        write.apply(&mut self.seen);
        self.written = self.written.saturating_add(1);
        self.pending.push(write);
    }

    pub(super) fn len(&self) -> usize {
        self.seen.len()
    }

    pub(super) const fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn read(&self) -> Vec<u8> {
        let mut bytes = self.seen.clone();
        for (at, mask) in &self.flips {
            if let Some(byte) = bytes.get_mut(*at) {
                *byte ^= mask;
            }
        }
        bytes
    }

    /// How many of the pending writes are among the first `upto` ever made.
    fn pending_before(&self, upto: u64) -> usize {
        let first = self.written.saturating_sub(self.pending.len() as u64);
        let count = usize::try_from(upto.saturating_sub(first)).unwrap_or(usize::MAX);
        count.min(self.pending.len())
    }

    pub(super) fn make_durable(&mut self, upto: u64) {
        let count = self.pending_before(upto);
        for write in self.pending.drain(..count) {
            write.apply(&mut self.durable);
        }
    }

    pub(super) fn forget_pending(&mut self, upto: u64, stream: &mut Stream) {
        let count = self.pending_before(upto);
        for write in self.pending.drain(..count) {
            if !stream.chance(500) {
                write.apply(&mut self.durable);
            }
        }
    }
}

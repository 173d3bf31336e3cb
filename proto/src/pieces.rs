//! A message that lies in several pieces of memory, so that what is large in it need not be copied.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Pieces up to this length are copied together, in bytes: that costs less than to keep them apart.
const COPIED_BYTES_MAX: usize = 4 << 10;

/// Bytes in their order, in as many pieces as it takes; none of them is empty. What is short is copied
/// behind what is before it, if that was copied too; what is long stays where it is.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    whole: VecDeque<Bytes>,
    /// Short pieces behind those.
    short: BytesMut,
    length: usize,
}

impl Pieces {
    /// Nothing yet, with room for so many bytes that are copied.
    pub fn with_capacity(short: usize) -> Self {
        Self { short: BytesMut::with_capacity(short), ..Self::default() }
    }

    /// Bytes of pieces that [`Pieces::push`] and [`Pieces::append`] copy.
    pub fn short(&self) -> usize {
        let whole = self.whole.iter().map(Bytes::len).filter(|length| *length <= COPIED_BYTES_MAX);
        whole.fold(self.short.len(), usize::saturating_add)
    }

    /// How many bytes there are.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds bytes at the end.
    pub fn push(&mut self, bytes: Bytes) {
        if bytes.len() <= COPIED_BYTES_MAX {
            return self.push_slice(&bytes);
        }
        self.close();
        self.length = self.length.saturating_add(bytes.len());
        self.whole.push_back(bytes);
    }

    /// Adds a copy of bytes at the end.
    pub fn push_slice(&mut self, bytes: &[u8]) {
        self.length = self.length.saturating_add(bytes.len());
        self.short.put_slice(bytes);
    }

    /// Adds all pieces of another at the end.
    pub fn append(&mut self, other: Self) {
        other.whole.into_iter().for_each(|piece| self.push(piece));
        self.push_slice(&other.short);
    }

    /// The same bytes, each long piece as `change` gives it back.
    #[must_use]
    pub fn map_long(mut self, mut change: impl FnMut(Bytes) -> Bytes) -> Self {
        for piece in &mut self.whole {
            *piece = change(std::mem::take(piece));
        }
        self
    }

    /// Takes bytes from the front, as many as are there at most; none is copied.
    #[must_use]
    pub fn split_to(&mut self, length: usize) -> Self {
        self.close();
        let mut front = Self::default();
        while front.length < length
            && let Some(first) = self.whole.front_mut()
        {
            let wanted = length.saturating_sub(front.length).min(first.len());
            front.whole.push_back(first.split_to(wanted));
            front.length = front.length.saturating_add(wanted);
            self.let_go();
        }
        self.length = self.length.saturating_sub(front.length);
        front
    }

    /// How many bytes are in front of the first long piece; all, if there is none.
    pub fn before_long(&self) -> usize {
        let short = self.whole.iter().take_while(|piece| piece.len() <= COPIED_BYTES_MAX);
        let before = short.fold(0_usize, |sum, piece| sum.saturating_add(piece.len()));
        if before < self.whole.iter().map(Bytes::len).sum() { before } else { self.length }
    }

    /// All bytes in one piece. They are copied if they are in several.
    pub fn join(mut self) -> Bytes {
        let length = self.length;
        self.copy_to_bytes(length)
    }

    /// Lets the first piece go if nothing is left of it.
    fn let_go(&mut self) {
        if self.whole.front().is_some_and(Bytes::is_empty) {
            self.whole.pop_front();
        }
    }

    /// Makes a piece of what was copied together.
    fn close(&mut self) {
        if !self.short.is_empty() {
            self.whole.push_back(self.short.split().freeze());
        }
    }
}

impl From<Bytes> for Pieces {
    /// One piece, which is not copied, however short.
    fn from(bytes: Bytes) -> Self {
        let length = bytes.len();
        let whole = if length > 0 { VecDeque::from([bytes]) } else { VecDeque::new() };
        Self { whole, short: BytesMut::new(), length }
    }
}

impl From<&Bytes> for Pieces {
    fn from(bytes: &Bytes) -> Self {
        Self::from(bytes.clone())
    }
}

impl From<Vec<u8>> for Pieces {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(Bytes::from(bytes))
    }
}

impl FromIterator<Bytes> for Pieces {
    fn from_iter<I: IntoIterator<Item = Bytes>>(bytes: I) -> Self {
        let mut pieces = Self::default();
        bytes.into_iter().for_each(|piece| pieces.push(piece));
        pieces
    }
}

impl PartialEq for Pieces {
    /// Whether the bytes are the same, however they lie.
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length && self.clone().join() == other.clone().join()
    }
}

impl Eq for Pieces {}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.length
    }

    fn chunk(&self) -> &[u8] {
        self.whole.front().map_or(self.short.as_ref(), Bytes::as_ref)
    }

    fn chunks_vectored<'a>(&'a self, all: &mut [IoSlice<'a>]) -> usize {
        let short = Some(self.short.as_ref()).filter(|short| !short.is_empty());
        let pieces = self.whole.iter().map(Bytes::as_ref).chain(short);
        let mut count = 0_usize;
        for (place, piece) in all.iter_mut().zip(pieces) {
            *place = IoSlice::new(piece);
            count = count.saturating_add(1);
        }
        count
    }

    fn advance(&mut self, count: usize) {
        let mut left = count.min(self.length);
        self.length = self.length.saturating_sub(left);
        while let Some(first) = self.whole.front_mut() {
            if left < first.len() {
                return first.advance(left);
            }
            left = left.saturating_sub(first.len());
            self.whole.pop_front();
        }
        self.short.advance(left);
    }

    /// Bytes from the front, which are copied only if they are in several pieces.
    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        let length = length.min(self.length);
        self.close();
        if let Some(first) = self.whole.front_mut()
            && length <= first.len()
        {
            let bytes = first.split_to(length);
            self.let_go();
            self.length = self.length.saturating_sub(length);
            return bytes;
        }
        let mut copy = BytesMut::with_capacity(length);
        while copy.len() < length {
            let chunk = self.chunk();
            let wanted = length.saturating_sub(copy.len()).min(chunk.len());
            copy.put_slice(chunk.get(..wanted).unwrap_or_default());
            self.advance(wanted);
        }
        copy.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(byte: u8) -> Bytes {
        Bytes::from(vec![byte; COPIED_BYTES_MAX + 1])
    }

    /// Short and long pieces in turn, and the same bytes in one.
    fn mixed() -> (Pieces, Vec<u8>) {
        let all =
            [Bytes::from_static(b"ab"), Bytes::new(), long(1), long(2), Bytes::from_static(b"c")];
        (all.iter().cloned().collect(), all.concat())
    }

    #[test]
    fn long_pieces_stay_where_they_are_and_short_ones_are_put_together() {
        let one = long(1);
        let pieces: Pieces =
            [Bytes::from_static(b"a"), Bytes::from_static(b"b"), one.clone()].into_iter().collect();
        assert_eq!(pieces.whole, [Bytes::from_static(b"ab"), one.clone()]);
        assert_eq!(pieces.whole[1].as_ptr(), one.as_ptr(), "not copied");
    }

    #[test]
    fn bytes_come_out_as_they_went_in_whatever_is_asked_for() {
        let (pieces, bytes) = mixed();
        assert_eq!((pieces.len(), pieces.clone().join().as_ref()), (bytes.len(), &bytes[..]));
        for step in [1, 2, 3, COPIED_BYTES_MAX, COPIED_BYTES_MAX + 2, bytes.len()] {
            let (mut left, mut found) = (pieces.clone(), Vec::new());
            while left.has_remaining() {
                found.extend(left.copy_to_bytes(step.min(left.remaining())));
            }
            assert!(found == bytes && left.is_empty(), "steps of {step}");
            let (mut left, mut found) = (pieces.clone(), Vec::new());
            while !left.is_empty() {
                let front = left.split_to(step);
                assert!(front.len() == step || left.is_empty());
                found.extend(front.join());
            }
            assert!(found == bytes, "parts of {step}");
        }
    }

    #[test]
    fn slices_of_all_pieces_are_what_is_left() {
        let (mut pieces, bytes) = mixed();
        for at in [0, 1, 2, 3, 2 + COPIED_BYTES_MAX, bytes.len() - 1, bytes.len()] {
            pieces.advance(at + pieces.len() - bytes.len());
            let mut slices = [IoSlice::new(&[]); 16];
            let count = pieces.chunks_vectored(&mut slices);
            let found: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            assert!(found == bytes[at..], "from {at} on");
            assert!(bytes[at..].starts_with(pieces.chunk()), "from {at} on");
        }
    }

    #[test]
    fn what_lies_in_one_piece_is_not_copied() {
        let one = long(7);
        let mut pieces = Pieces::from(one.clone());
        pieces.advance(3);
        assert_eq!(pieces.copy_to_bytes(90).as_ptr(), one[3..].as_ptr());
    }
}

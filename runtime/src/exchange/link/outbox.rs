//! Frames on their way out.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};

use bytes::Bytes;

use crate::tensor::{Region, TensorBuffer};

/// Pieces that are written at once.
const PIECES_MAX: usize = 64;

/// Pieces of memory that are still to be written, in their order.
#[derive(Default)]
pub(super) struct Outbox {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that have been written.
    written: usize,
    bytes: u64,
    /// Why nothing can be sent any more.
    broken: Option<io::Error>,
}

enum Piece {
    Header(Bytes),
    Tensor(Region),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Header(bytes) => bytes,
            // SAFETY: it is only read by the system, and who handed it over lets it alone meanwhile; if
            // he does not, a mixture is sent, as the type says.
            Self::Tensor(region) => unsafe { region.bytes() },
        }
    }
}

impl Outbox {
    pub(super) fn push_header(&mut self, bytes: Bytes) {
        self.push(Piece::Header(bytes));
    }

    /// Tensors on GPUs go from where they were staged, or are staged now. If that cannot be, the
    /// link is of no use any more.
    pub(super) fn push_tensor(&mut self, buffer: TensorBuffer) {
        match buffer {
            TensorBuffer::Host(region) => self.push(Piece::Tensor(region)),
            TensorBuffer::Cuda(memory) => match memory.staged() {
                Ok(region) => self.push(Piece::Tensor(region)),
                Err(error) => self.fail(io::Error::other(error)),
            },
        }
    }

    /// Nothing can be sent any more.
    pub(super) fn fail(&mut self, why: io::Error) {
        self.broken = Some(why);
    }

    fn push(&mut self, piece: Piece) {
        let length = piece.bytes().len();
        if length > 0 {
            self.bytes = self.bytes.saturating_add(length as u64);
            self.pieces.push_back(piece);
        }
    }

    /// Bytes that are still to be written.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes as much as is taken. Whether nothing is left.
    pub(super) fn write_to(&mut self, out: &mut impl Write) -> io::Result<bool> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        while !self.pieces.is_empty() {
            match self.write_once(out) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => self.advance(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn write_once(&self, out: &mut impl Write) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); PIECES_MAX];
        let mut skipped = self.written;
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            *slice = IoSlice::new(piece.bytes().get(skipped..).unwrap_or_default());
            skipped = 0;
            count += 1;
        }
        out.write_vectored(slices.get(..count).unwrap_or_default())
    }

    fn advance(&mut self, written: usize) {
        self.bytes = self.bytes.saturating_sub(written as u64);
        let mut left = self.written.saturating_add(written);
        while let Some(first) = self.pieces.front() {
            let length = first.bytes().len();
            if left < length {
                break;
            }
            left -= length;
            self.pieces.pop_front();
        }
        self.written = left;
    }
}

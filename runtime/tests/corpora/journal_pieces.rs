//! Journals from bytes: whole frames with right checksums, what a crash or a bad disk makes of
//! them, and anything else.

use bytes::Bytes;
use rondo_core::ids::Lsn;
use rondo_core::journal::GroupHeader;
use rondo_proto::frame::{decode_records, encode};

/// More than that is only slow.
const PIECES_MAX: usize = 64;
/// Frames begin at multiples of this many bytes.
const ALIGNMENT: usize = 8;

/// A journal and how far it is known to be acknowledged.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Journal {
    /// The last record anybody was told of; 0 when that is not known.
    pub(crate) acknowledged: u8,
    pub(crate) pieces: Vec<Piece>,
}

/// A piece of a journal, or something that happens to those before it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// A frame: records missing before it, records more than it holds by its header, and how many
    /// records before it were not yet durable.
    Frame { skip: i8, more: i8, behind: u8, payload: Vec<u8> },
    /// Zeros, so many times 8.
    Zeros(u8),
    /// Whatever bytes.
    Raw(Vec<u8>),
    /// A bit of the segment is another one.
    Flip { at: u16, bit: u8 },
    /// The end of the segment is missing.
    Cut(u8),
    /// A new segment, whose name says so many records more than there are.
    Segment { skip: i8 },
}

/// A segment as it lies on the disk.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) first: Lsn,
    pub(crate) bytes: Vec<u8>,
    /// Frames as they were written, each with its end.
    frames: Vec<(usize, Bytes)>,
    /// Nothing before this place was damaged.
    damaged_from: usize,
}

impl Written {
    const fn starting_at(first: Lsn) -> Self {
        Self { first, bytes: Vec::new(), frames: Vec::new(), damaged_from: usize::MAX }
    }

    /// The frames that must be found first.
    pub(crate) fn sound(&self) -> impl Iterator<Item = &Bytes> {
        let sound = self.frames.iter().take_while(|(end, _)| *end <= self.damaged_from);
        sound.map(|(_, frame)| frame)
    }

    fn frame(&mut self, frame: Bytes) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        self.bytes.extend(&frame);
        self.frames.push((self.bytes.len(), frame));
    }

    fn flip(&mut self, at: usize, bit: u8) {
        if !self.bytes.is_empty() {
            let at = at % self.bytes.len();
            self.bytes[at] ^= 1 << bit;
            self.damaged_from = self.damaged_from.min(at);
        }
    }

    fn cut(&mut self, count: usize) {
        let left = self.bytes.len().saturating_sub(count);
        self.bytes.truncate(left);
        self.damaged_from = self.damaged_from.min(left);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.damaged_from = self.damaged_from.min(self.bytes.len());
        self.bytes.extend(bytes);
    }
}

/// Bytes that have not decided anything yet; zeros behind the end.
struct Bits<'a>(&'a [u8]);

impl Bits<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn pair(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = u32::from_le_bytes([self.byte(), self.byte(), self.byte(), 0]) as usize;
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken.to_vec()
    }

    fn piece(&mut self) -> Piece {
        match self.byte() % 8 {
            0..3 => Piece::Frame {
                skip: self.byte().cast_signed(),
                more: self.byte().cast_signed(),
                behind: self.byte(),
                payload: self.bytes(),
            },
            3 => Piece::Zeros(self.byte()),
            4 => Piece::Raw(self.bytes()),
            5 => Piece::Flip { at: self.pair(), bit: self.byte() % 8 },
            6 => Piece::Cut(self.byte()),
            _ => Piece::Segment { skip: self.byte().cast_signed() },
        }
    }
}

impl Journal {
    /// The journal for which these bytes stand.
    pub(crate) fn by(bytes: &[u8]) -> Self {
        let mut bits = Bits(bytes);
        let acknowledged = bits.byte();
        let mut pieces = Vec::new();
        while !bits.0.is_empty() && pieces.len() < PIECES_MAX {
            pieces.push(bits.piece());
        }
        Self { acknowledged, pieces }
    }

    /// Bytes that stand for the journal.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = vec![self.acknowledged];
        for piece in &self.pieces {
            match piece {
                Piece::Frame { skip, more, behind, payload } => {
                    out.extend([0, skip.cast_unsigned(), more.cast_unsigned(), *behind]);
                    out.extend(counted(payload));
                }
                Piece::Zeros(count) => out.extend([3, *count]),
                Piece::Raw(bytes) => {
                    out.push(4);
                    out.extend(counted(bytes));
                }
                Piece::Flip { at, bit } => {
                    out.push(5);
                    out.extend(at.to_le_bytes());
                    out.push(*bit);
                }
                Piece::Cut(count) => out.extend([6, *count]),
                Piece::Segment { skip } => out.extend([7, skip.cast_unsigned()]),
            }
        }
        out
    }

    /// The journal's segments, by the names they have on the disk.
    pub(crate) fn written(&self) -> Vec<Written> {
        let mut writer = Writer { segments: Vec::new(), next: 1 };
        for piece in &self.pieces {
            writer.write(piece);
        }
        writer.segments
    }
}

fn counted(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
    [&length[..3], bytes].concat()
}

struct Writer {
    segments: Vec<Written>,
    /// The record that comes next.
    next: u64,
}

impl Writer {
    fn write(&mut self, piece: &Piece) {
        match piece {
            Piece::Frame { skip, more, behind, payload } => {
                self.frame(*skip, *more, *behind, payload);
            }
            Piece::Segment { skip } => {
                self.segment(self.next.saturating_add_signed((*skip).into()))
            }
            Piece::Zeros(count) => {
                let zeros = vec![0; usize::from(*count) * ALIGNMENT];
                self.open().bytes.extend(zeros);
            }
            Piece::Raw(bytes) => self.open().raw(bytes),
            Piece::Flip { at, bit } => self.open().flip(usize::from(*at), *bit),
            Piece::Cut(count) => self.open().cut(usize::from(*count)),
        }
    }

    fn frame(&mut self, skip: i8, more: i8, behind: u8, payload: &[u8]) {
        let first = self.next.saturating_add_signed(skip.into());
        let records = decode_records(payload).map_or(1, |records| records.len() as u64);
        let count = records.saturating_add_signed(more.into());
        let durable_upto = first.saturating_sub(1).saturating_sub(behind.into());
        let (first, durable_upto) = (Lsn::new(first), Lsn::new(durable_upto));
        let header = GroupHeader { first, count, durable_upto };
        let frame = encode(&header, payload).unwrap();
        self.open().frame(frame);
        self.next = first.get().saturating_add(count);
    }

    /// Begins a segment, unless there is one of that name or a later one. The first record is 1.
    fn segment(&mut self, first: u64) {
        let first = Lsn::new(first.max(1));
        if self.segments.iter().all(|segment| segment.first < first) {
            self.segments.push(Written::starting_at(first));
        }
    }

    fn open(&mut self) -> &mut Written {
        if self.segments.is_empty() {
            self.segment(self.next);
        }
        self.segments.last_mut().unwrap()
    }
}

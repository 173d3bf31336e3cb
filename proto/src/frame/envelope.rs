//! The envelope of a commit group in the journal: a fixed header and an opaque payload.
//!
//! All numbers are little endian.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | magic |
//! | 8 | 4 | format version |
//! | 12 | 4 | payload length in bytes |
//! | 16 | 8 | position of the first record |
//! | 24 | 8 | number of records |
//! | 32 | 8 | position up to which the journal was durable |
//! | 40 | 4 | CRC-32C of the payload |
//! | 44 | 4 | CRC-32C of the 44 bytes before it |
//! | 48 | – | payload |
//!
//! The header is the same in every version, so that an older reader can step over a newer frame
//! and name it. The version says how to read the payload.

use bytes::Bytes;
use rondo_core::ids::Lsn;
use rondo_core::journal::GroupHeader;

/// The first bytes of every frame. The first is no text and the last ends a line, so that files
/// damaged by a text-mode copy show at once.
pub const MAGIC: [u8; 8] = *b"\x89RondoJ\n";
/// The newest format version, which is the one written.
pub const VERSION: u32 = 1;
/// Bytes of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 48;
/// Longest payload of one frame, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 128 << 20;

const HEADER_CHECKED_BYTES: usize = FRAME_HEADER_BYTES - 4;

const _: () = assert!(PAYLOAD_BYTES_MAX <= u32::MAX as usize);
const _: () = assert!(FRAME_HEADER_BYTES.is_multiple_of(8));

/// Why bytes are no frame, or cannot become one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The bytes end before the frame does.
    #[error("frame is cut short: {found} bytes where {expected} belong")]
    Truncated {
        /// Bytes there are.
        found: usize,
        /// Bytes the header, or the frame by its header, has.
        expected: usize,
    },
    /// The bytes do not begin as a frame.
    #[error("magic is {found:02x?}, expected {MAGIC:02x?}")]
    Magic {
        /// The first bytes.
        found: [u8; 8],
    },
    /// The header is damaged.
    #[error("header checksum is {found:#010x}, expected {expected:#010x}")]
    HeaderChecksum {
        /// The checksum that stands in the header.
        found: u32,
        /// The checksum of the header as it is.
        expected: u32,
    },
    /// A later release wrote the frame.
    #[error(
        "format version is {found}, this release reads versions 1 to {VERSION}: use the release \
         that wrote the journal, or a later one"
    )]
    Version {
        /// The version that stands in the header.
        found: u32,
    },
    /// The payload is longer than any frame may have.
    #[error("payload length is {found} bytes, at most {PAYLOAD_BYTES_MAX} are allowed")]
    PayloadTooLong {
        /// Its length in bytes.
        found: usize,
    },
    /// The payload is damaged.
    #[error("payload checksum is {found:#010x}, expected {expected:#010x}")]
    PayloadChecksum {
        /// The checksum that stands in the header.
        found: u32,
        /// The checksum of the payload as it is.
        expected: u32,
    },
    /// Something follows the frame.
    #[error("frame has {found} bytes, expected {expected}: something follows it")]
    Trailing {
        /// Bytes there are.
        found: usize,
        /// Bytes the frame has by its header.
        expected: usize,
    },
}

impl EnvelopeError {
    /// Whether a later release wrote the frame. Its header is whole.
    pub const fn is_of_later_release(&self) -> bool {
        matches!(self, Self::Version { found } if *found > VERSION)
    }
}

/// What a frame's header says, its own checksum being right and its payload not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    /// The group.
    pub header: GroupHeader,
    /// The format version, which may be newer than [`VERSION`].
    pub version: u32,
    /// Bytes of the whole frame, header included.
    pub frame_len: usize,
    payload_checksum: u32,
}

/// Puts a payload into an envelope.
///
/// # Errors
/// [`EnvelopeError::PayloadTooLong`].
pub fn encode(header: &GroupHeader, payload: &[u8]) -> Result<Bytes, EnvelopeError> {
    let too_long = EnvelopeError::PayloadTooLong { found: payload.len() };
    let length = match u32::try_from(payload.len()) {
        Ok(length) if payload.len() <= PAYLOAD_BYTES_MAX => length,
        _ => return Err(too_long),
    };
    let mut frame = Vec::with_capacity(FRAME_HEADER_BYTES.saturating_add(payload.len()));
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&VERSION.to_le_bytes());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&header.first.get().to_le_bytes());
    frame.extend_from_slice(&header.count.to_le_bytes());
    frame.extend_from_slice(&header.durable_upto.get().to_le_bytes());
    frame.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    let checksum = crc32c::crc32c(&frame);
    frame.extend_from_slice(&checksum.to_le_bytes());
    frame.extend_from_slice(payload);
    Ok(frame.into())
}

/// Takes a frame, and nothing but it, out of its envelope. The payload shares the frame's memory.
///
/// # Errors
/// [`EnvelopeError`], naming what is wrong first.
pub fn decode(frame: &Bytes) -> Result<(GroupHeader, Bytes), EnvelopeError> {
    let peek = peek(frame)?;
    if peek.version == 0 || peek.version > VERSION {
        return Err(EnvelopeError::Version { found: peek.version });
    }
    if frame.len() < peek.frame_len {
        return Err(EnvelopeError::Truncated { found: frame.len(), expected: peek.frame_len });
    }
    if frame.len() > peek.frame_len {
        return Err(EnvelopeError::Trailing { found: frame.len(), expected: peek.frame_len });
    }
    let payload = frame.slice(FRAME_HEADER_BYTES..);
    let expected = crc32c::crc32c(&payload);
    if peek.payload_checksum != expected {
        let found = peek.payload_checksum;
        return Err(EnvelopeError::PayloadChecksum { found, expected });
    }
    Ok((peek.header, payload))
}

/// The header of a frame. Nothing but the header is read of a frame that a later release wrote.
///
/// # Errors
/// Those of [`decode`] but [`EnvelopeError::Version`] of a later release.
pub fn header(frame: &Bytes) -> Result<GroupHeader, EnvelopeError> {
    match decode(frame) {
        Err(error) if error.is_of_later_release() => Ok(peek(frame)?.header),
        other => Ok(other?.0),
    }
}

/// Reads the header of the frame that `bytes` begin with. The frame may be longer than `bytes`, and
/// of a newer version.
///
/// # Errors
/// [`EnvelopeError`] when there is no whole, undamaged header.
pub fn peek(bytes: &[u8]) -> Result<Peek, EnvelopeError> {
    let expected = FRAME_HEADER_BYTES;
    let truncated = || EnvelopeError::Truncated { found: bytes.len(), expected };
    let (header, _) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>().ok_or_else(truncated)?;
    let mut fields = Fields(header);
    let magic = fields.take::<8>();
    if magic != MAGIC {
        return Err(EnvelopeError::Magic { found: magic });
    }
    let version = fields.take_u32();
    let length = fields.take_u32();
    let first = Lsn::new(fields.take_u64());
    let count = fields.take_u64();
    let durable_upto = Lsn::new(fields.take_u64());
    let payload_checksum = fields.take_u32();
    let found = fields.take_u32();
    let (checked, _) = header.split_at(HEADER_CHECKED_BYTES);
    let expected = crc32c::crc32c(checked);
    if found != expected {
        return Err(EnvelopeError::HeaderChecksum { found, expected });
    }
    let length = length as usize;
    // A later release may have longer ones.
    if length > PAYLOAD_BYTES_MAX && version <= VERSION {
        return Err(EnvelopeError::PayloadTooLong { found: length });
    }
    let frame_len = FRAME_HEADER_BYTES.saturating_add(length);
    let header = GroupHeader { first, count, durable_upto };
    Ok(Peek { header, version, frame_len, payload_checksum })
}

/// The header's bytes not yet read.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    /// The next bytes; zeros behind the end, which the fixed layout never reaches.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((field, rest)) = self.0.split_first_chunk::<N>() else {
            return [0; N];
        };
        self.0 = rest;
        *field
    }

    fn take_u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn take_u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(first: u64, count: u64, durable_upto: u64) -> GroupHeader {
        GroupHeader { first: Lsn::new(first), count, durable_upto: Lsn::new(durable_upto) }
    }

    fn sample() -> Bytes {
        encode(&header(7, 2, 5), b"two records").unwrap()
    }

    fn from_hex(text: &str) -> Bytes {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    /// Frames in journals that exist: these bytes must be readable in every later release.
    const GOLDEN_V1: &str = "89526f6e646f4a0a 01000000 0b000000 0700000000000000 0200000000000000
        0500000000000000 d4cfea6a 243ec045 74776f207265636f726473";

    #[test]
    fn version_1_stays_readable() {
        let frame = from_hex(GOLDEN_V1);
        let (group, payload) = decode(&frame).unwrap();
        assert_eq!(group, header(7, 2, 5));
        assert_eq!(&payload[..], b"two records");
    }

    #[test]
    fn version_1_is_what_is_written() {
        assert_eq!(sample(), from_hex(GOLDEN_V1));
    }

    #[test]
    fn every_bit_flip_is_detected() {
        let frame = sample();
        for bit in 0..frame.len() * 8 {
            let mut damaged = frame.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged.into()).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_cut_is_detected() {
        let frame = sample();
        for len in 0..frame.len() {
            let expected = if len < FRAME_HEADER_BYTES { FRAME_HEADER_BYTES } else { frame.len() };
            let error = decode(&frame.slice(..len)).unwrap_err();
            assert_eq!(error, EnvelopeError::Truncated { found: len, expected });
        }
    }

    #[test]
    fn a_byte_too_many_is_detected() {
        let mut longer = sample().to_vec();
        longer.push(0);
        let error = decode(&longer.into()).unwrap_err();
        assert_eq!(error, EnvelopeError::Trailing { found: 60, expected: 59 });
    }

    #[test]
    fn a_newer_version_is_named_and_can_be_stepped_over() {
        let mut newer = sample().to_vec();
        newer[8] = 2;
        let checksum = crc32c::crc32c(&newer[..HEADER_CHECKED_BYTES]).to_le_bytes();
        newer[HEADER_CHECKED_BYTES..FRAME_HEADER_BYTES].copy_from_slice(&checksum);
        assert_eq!(peek(&newer).unwrap().frame_len, newer.len());
        let error = decode(&newer.into()).unwrap_err();
        assert_eq!(error, EnvelopeError::Version { found: 2 });
        assert!(error.to_string().contains("version is 2"), "{error}");
    }

    /// No release wrote version 0, so that no later one is asked for.
    #[test]
    fn only_a_newer_version_is_of_a_later_release() {
        for (version, is_later) in [(0, false), (2, true), (255, true)] {
            let mut frame = sample().to_vec();
            frame[8] = version;
            let checksum = crc32c::crc32c(&frame[..HEADER_CHECKED_BYTES]).to_le_bytes();
            frame[HEADER_CHECKED_BYTES..FRAME_HEADER_BYTES].copy_from_slice(&checksum);
            let frame = Bytes::from(frame);
            assert_eq!(decode(&frame).unwrap_err().is_of_later_release(), is_later, "{version}");
            let group = super::header(&frame).ok();
            assert_eq!(group, is_later.then(|| header(7, 2, 5)), "{version}");
        }
    }

    #[test]
    fn payloads_have_a_bound() {
        let payload = vec![0; PAYLOAD_BYTES_MAX + 1];
        let error = encode(&header(1, 1, 0), &payload).unwrap_err();
        assert_eq!(error, EnvelopeError::PayloadTooLong { found: PAYLOAD_BYTES_MAX + 1 });
        let longest = &payload[..PAYLOAD_BYTES_MAX];
        assert!(decode(&encode(&header(1, 1, 0), longest).unwrap()).is_ok());
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(
            first: u64, count: u64, durable: u64, payload in prop::collection::vec(any::<u8>(), 0..300),
            behind in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            let group = header(first, count, durable);
            let frame = encode(&group, &payload).unwrap();
            prop_assert_eq!(decode(&frame).unwrap(), (group, Bytes::from(payload)));
            let in_file = [&frame[..], &behind].concat();
            let seen = peek(&in_file).unwrap();
            prop_assert_eq!((seen.header, seen.frame_len), (group, frame.len()));
        }

        #[test]
        fn any_bytes_are_taken_calmly(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode(&bytes.into()).is_err());
        }
    }
}

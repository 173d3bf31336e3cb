//! Frames as key-value pairs: cut into pieces that sled keeps in its pages, and put together.

use bytes::{Bytes, BytesMut};
use rondo_core::ids::Lsn;
use rondo_core::journal::GroupHeader;
use rondo_proto::frame::header;

/// Largest value, in bytes: sled puts larger ones into files of their own and syncs each.
const PIECE_BYTES: usize = 4000;
const KEY_BYTES: usize = 16;

/// Where a frame stands: its first record, and how many frames before it begin with the same one
/// (frames without records do).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FrameKey {
    pub(super) first: Lsn,
    pub(super) ordinal: u32,
}

impl FrameKey {
    /// The key for a frame that begins with `first`, this being the last one's.
    pub(super) fn following(last: Option<Self>, first: Lsn) -> Self {
        let same = last.filter(|last| last.first == first);
        Self { first, ordinal: same.map_or(0, |last| last.ordinal.saturating_add(1)) }
    }

    /// The key of one piece: big endian, so that sled's order is the journal's.
    fn of_piece(self, piece: u32) -> [u8; KEY_BYTES] {
        let number =
            u128::from(self.first.get()) << 64 | u128::from(self.ordinal) << 32 | u128::from(piece);
        number.to_be_bytes()
    }

    /// Before the first key of any later frame, behind the last of this one.
    pub(super) fn after(self) -> [u8; KEY_BYTES] {
        Self { ordinal: self.ordinal.saturating_add(1), ..self }.of_piece(0)
    }

    /// The frame and the piece that a key stands for.
    pub(super) fn parse(key: &[u8]) -> Option<(Self, u32)> {
        let number = u128::from_be_bytes(key.try_into().ok()?);
        let first = Lsn::new((number >> 64) as u64);
        Some((Self { first, ordinal: (number >> 32) as u32 }, number as u32))
    }
}

/// The keys and values that a frame is kept as.
pub(super) fn cut(key: FrameKey, frame: &[u8]) -> impl Iterator<Item = ([u8; KEY_BYTES], &[u8])> {
    (0..).zip(frame.chunks(PIECE_BYTES)).map(move |(piece, bytes)| (key.of_piece(piece), bytes))
}

/// A frame put together, or why that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Joined {
    /// Its key, if the key is one of ours.
    pub(super) key: Option<FrameKey>,
    /// sled's key of its first piece found, for an operator.
    pub(super) place: String,
    pub(super) frame: Result<(GroupHeader, Bytes), String>,
}

/// Puts frames together from pairs in sled's order.
pub(super) fn join<K: AsRef<[u8]>, V: AsRef<[u8]>, E: ToString>(
    pairs: impl Iterator<Item = Result<(K, V), E>>,
) -> Vec<Joined> {
    let mut joined = Vec::new();
    let mut gathered: Option<Gathered> = None;
    for pair in pairs {
        let (key, value) = match pair {
            Ok(pair) => pair,
            Err(error) => {
                joined.extend(gathered.take().map(Gathered::finish));
                joined
                    .push(Joined::bad("the pair that sled cannot read".into(), error.to_string()));
                // sled's iterator cannot be trusted to get past an error.
                break;
            }
        };
        let Some((frame_key, piece)) = FrameKey::parse(key.as_ref()) else {
            joined.extend(gathered.take().map(Gathered::finish));
            joined.push(Joined::bad(hex(key.as_ref()), "a key that no frame has".into()));
            continue;
        };
        if gathered.as_ref().is_none_or(|gathered| gathered.key != frame_key) {
            joined.extend(gathered.take().map(Gathered::finish));
        }
        let gathered = gathered.get_or_insert_with(|| Gathered::new(frame_key, hex(key.as_ref())));
        gathered.add(piece, value.as_ref());
    }
    joined.extend(gathered.map(Gathered::finish));
    joined
}

impl Joined {
    const fn bad(place: String, reason: String) -> Self {
        Self { key: None, place, frame: Err(reason) }
    }
}

fn hex(key: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
    let digits = key.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    "key ".chars().chain(digits).collect()
}

/// The pieces of one frame that were found so far.
struct Gathered {
    key: FrameKey,
    place: String,
    bytes: BytesMut,
    next_piece: u32,
    missing: Option<u32>,
}

impl Gathered {
    fn new(key: FrameKey, place: String) -> Self {
        Self { key, place, bytes: BytesMut::new(), next_piece: 0, missing: None }
    }

    fn add(&mut self, piece: u32, value: &[u8]) {
        if piece != self.next_piece && self.missing.is_none() {
            self.missing = Some(self.next_piece);
        }
        self.next_piece = piece.saturating_add(1);
        self.bytes.extend_from_slice(value);
    }

    fn finish(self) -> Joined {
        let frame = match self.missing {
            Some(piece) => Err(format!("piece {piece} is missing")),
            None => check(self.key, without_room(self.bytes)),
        };
        Joined { key: Some(self.key), place: self.place, frame }
    }
}

/// The bytes of a buffer that grew. It may have room for twice as many, and a reader keeps a whole segment.
fn without_room(buffer: BytesMut) -> Bytes {
    let room = buffer.capacity().saturating_sub(buffer.len());
    match room > buffer.len() / 8 {
        true => Bytes::copy_from_slice(&buffer),
        false => buffer.freeze(),
    }
}

fn check(key: FrameKey, frame: Bytes) -> Result<(GroupHeader, Bytes), String> {
    let header = header(&frame).map_err(|error| error.to_string())?;
    if header.first != key.first {
        return Err(format!("the frame of record {} stands here", header.first));
    }
    Ok((header, frame))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rondo_proto::frame::encode;

    use super::*;

    fn frame(first: u64, payload_bytes: usize) -> (FrameKey, Bytes) {
        let first = Lsn::new(first);
        let header = GroupHeader { first, count: 1, durable_upto: Lsn::NONE };
        let frame = encode(&header, &vec![7; payload_bytes]).unwrap();
        (FrameKey { first, ordinal: 0 }, frame)
    }

    type Pair = ([u8; KEY_BYTES], Vec<u8>);

    fn pairs((key, frame): &(FrameKey, Bytes)) -> Vec<Pair> {
        cut(*key, frame).map(|(key, value)| (key, value.to_vec())).collect()
    }

    fn joined(pairs: Vec<Pair>) -> Vec<Joined> {
        join(pairs.into_iter().map(Ok::<_, String>))
    }

    #[test]
    fn any_lost_piece_is_noticed() {
        let long = frame(1, 5 * PIECE_BYTES);
        let whole = pairs(&long);
        for lost in 0..whole.len() {
            let mut rest = whole.clone();
            rest.remove(lost);
            rest.extend(pairs(&frame(2, 9)));
            let found = joined(rest);
            assert!(found[0].frame.is_err(), "piece {lost}");
            assert!(found[1].frame.is_ok(), "piece {lost}");
        }
    }

    #[test]
    fn keys_are_shown_in_hexadecimal() {
        assert_eq!(hex(&[0, 0x0f, 0xa0, 0xff]), "key 000fa0ff");
    }

    #[test]
    fn a_frame_under_another_key_is_noticed() {
        let (_, bytes) = frame(1, 9);
        let key = FrameKey { first: Lsn::new(5), ordinal: 0 };
        assert!(joined(pairs(&(key, bytes)))[0].frame.is_err());
    }

    #[test]
    fn foreign_keys_and_errors_are_reported_in_place() {
        let foreign = (b"somebody's".to_vec(), b"value".to_vec());
        let found = join([Ok(foreign), Err("unreadable")].into_iter());
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|joined| joined.frame.is_err()));
    }

    proptest! {
        #[test]
        fn frames_come_back_in_order(sizes in prop::collection::vec(0_usize..20_000, 1..6)) {
            let frames: Vec<_> = (250..).zip(sizes).map(|(n, size)| frame(n, size)).collect();
            let mut all: Vec<_> = frames.iter().flat_map(pairs).collect();
            prop_assert!(all.iter().all(|(_, value)| value.len() < 4096));
            all.sort();
            let found: Vec<_> = joined(all).into_iter().map(|j| j.frame.unwrap().1).collect();
            let expected: Vec<_> = frames.into_iter().map(|(_, frame)| frame).collect();
            prop_assert_eq!(found, expected);
        }
    }
}

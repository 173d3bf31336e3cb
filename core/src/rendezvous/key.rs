//! The key under which a tensor passes from its sender to its receiver.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use core::cmp::Ordering;
use core::fmt;

use super::device::{Components, Device, Span};
use crate::limits::RENDEZVOUS_KEY_BYTES_MAX;
use crate::status::{Code, Status};

/// Digits of an incarnation.
const INCARNATION_DIGITS: usize = 16;
/// Bytes of an offending key that a refusal shows.
const SHOWN_BYTES: usize = 512;

/// Which run of a loop's body a tensor belongs to; both 0 outside of loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameAndIter {
    /// The frame.
    pub frame_id: u64,
    /// The iteration in it.
    pub iter_id: i64,
}

/// A key. Keys are the same if all of their text is.
///
/// `SOURCE;INCARNATION;DESTINATION;EDGE;FRAME:ITER`: two devices, the incarnation of the first in 16
/// hexadecimal digits, and the edge of the graph that leads from one to the other.
#[derive(Clone)]
pub struct Key {
    /// Decides nearly every comparison without a look at the text. Texts decide the others, so it does
    /// no harm when somebody finds many of one fingerprint.
    fingerprint: u64,
    parsed: Arc<Parsed>,
}

struct Parsed {
    text: Box<str>,
    source: (Span, Components),
    destination: (Span, Components),
    edge: (u32, u32),
    incarnation: u64,
}

impl Key {
    /// Writes a key.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when what comes of it is no key: a device's name is none, or the edge's name is
    /// empty or has a `;` in it.
    pub fn create(
        source: &str,
        incarnation: u64,
        destination: &str,
        edge: &str,
        at: FrameAndIter,
    ) -> Result<Self, Status> {
        let FrameAndIter { frame_id, iter_id } = at;
        Self::parse(&format!(
            "{source};{incarnation:0INCARNATION_DIGITS$x};{destination};{edge};{frame_id}:{iter_id}"
        ))
    }

    /// Reads a key. What stands behind the edge's name is not looked into.
    ///
    /// # Errors
    /// INVALID_ARGUMENT, in the words that TensorFlow's clients know.
    pub fn parse(text: &str) -> Result<Self, Status> {
        if text.len() > RENDEZVOUS_KEY_BYTES_MAX {
            let bytes = text.len();
            return Err(invalid(
                text,
                &format!("it has {bytes} bytes, of at most {RENDEZVOUS_KEY_BYTES_MAX}"),
            ));
        }
        Parsed::of(text)
            .map(|parsed| Self { fingerprint: fingerprint(text), parsed: Arc::new(parsed) })
            .map_err(|what| invalid(text, what))
    }

    /// All of it.
    pub fn text(&self) -> &str {
        &self.parsed.text
    }

    /// The device that the tensor comes from.
    pub fn source(&self) -> Device<'_> {
        let (name, components) = self.parsed.source;
        Device::of(&self.parsed.text, name, components)
    }

    /// The incarnation of that device.
    pub fn incarnation(&self) -> u64 {
        self.parsed.incarnation
    }

    /// The device that the tensor goes to.
    pub fn destination(&self) -> Device<'_> {
        let (name, components) = self.parsed.destination;
        Device::of(&self.parsed.text, name, components)
    }

    /// The edge's name.
    pub fn edge(&self) -> &str {
        let (from, to) = self.parsed.edge;
        self.parsed.text.get(from as usize..to as usize).unwrap_or_default()
    }
}

impl Parsed {
    /// # Errors
    /// What is wrong.
    fn of(text: &str) -> Result<Self, &'static str> {
        let mut ends = text.match_indices(';').map(|(at, _)| at);
        let (Some(a), Some(b), Some(c), Some(d)) =
            (ends.next(), ends.next(), ends.next(), ends.next())
        else {
            return Err("it has fewer than five parts with `;` between them");
        };
        if ends.next().is_some() {
            return Err("it has more than five parts with `;` between them");
        }
        if d.saturating_add(1) == text.len() {
            return Err("its last part, FRAME:ITER, is empty");
        }
        let source = Device::within(text, 0, a).ok_or("its source is no device's name")?;
        let digits = text.get(a.saturating_add(1)..b).unwrap_or_default();
        let incarnation = hexadecimal(digits).ok_or("its incarnation is no hexadecimal number")?;
        let destination = Device::within(text, b.saturating_add(1), c);
        let destination = destination.ok_or("its destination is no device's name")?;
        let edge = (c.saturating_add(1), d);
        if edge.0 == edge.1 {
            return Err("its edge's name is empty");
        }
        let place = |at: usize| u32::try_from(at).map_err(|_| "it is too long");
        Ok(Self {
            text: text.into(),
            source: source.parts(),
            destination: destination.parts(),
            edge: (place(edge.0)?, place(edge.1)?),
            incarnation,
        })
    }
}

/// A number of 1 to 16 hexadecimal digits.
fn hexadecimal(digits: &str) -> Option<u64> {
    let is_one = (1..=INCARNATION_DIGITS).contains(&digits.len())
        && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_one { u64::from_str_radix(digits, 16).ok() } else { None }
}

/// A number that is nearly always different for different texts.
fn fingerprint(text: &str) -> u64 {
    const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
    let fold = |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(MULTIPLIER);
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let sum =
        words.iter().fold(text.len() as u64, |sum, word| fold(sum, u64::from_le_bytes(*word)));
    let last = rest.iter().fold(0_u64, |word, byte| (word << 8) | u64::from(*byte));
    let sum = fold(sum, last);
    sum ^ (sum >> 29)
}

fn invalid(text: &str, what: &str) -> Status {
    let mut end = text.len().min(SHOWN_BYTES);
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    let (shown, cut) =
        (text.get(..end).unwrap_or_default(), if end < text.len() { "…" } else { "" });
    // TensorFlow's own text begins so, two spaces included.
    Status::new(Code::InvalidArgument, format!("Invalid  rendezvous key: {shown}{cut} ({what})"))
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    /// An order that has no meaning but is the same everywhere.
    fn cmp(&self, other: &Self) -> Ordering {
        let texts = || {
            if Arc::ptr_eq(&self.parsed, &other.parsed) {
                return Ordering::Equal;
            }
            self.parsed.text.cmp(&other.parsed.text)
        };
        self.fingerprint.cmp(&other.fingerprint).then_with(texts)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.text())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Key({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "/job:mnist/replica:1/task:2/CPU:0";
    const DESTINATION: &str = "/job:mnist/replica:1/task:2/device:GPU:0";

    fn var0() -> Key {
        Key::create(SOURCE, 7890, DESTINATION, "var0", FrameAndIter::default()).unwrap()
    }

    #[test]
    fn a_key_is_written_and_read_as_tensorflow_does() {
        let key = var0();
        assert_eq!(key.text(), alloc::format!("{SOURCE};0000000000001ed2;{DESTINATION};var0;0:0"));
        assert_eq!((key.source().name(), key.source().kind()), (SOURCE, Some("CPU")));
        assert_eq!(
            (key.destination().name(), key.destination().kind()),
            (DESTINATION, Some("GPU"))
        );
        assert_eq!((key.incarnation(), key.edge()), (7890, "var0"));
        let observed = "/job:worker/replica:0/task:1/device:CPU:0;00c0ffee12345678;\
                        /job:worker/replica:0/task:0/device:CPU:0;edge_x;0:0";
        let key = Key::parse(observed).unwrap();
        assert_eq!((key.incarnation(), key.text()), (0x00c0_ffee_1234_5678, observed));
    }

    #[test]
    fn what_is_no_key() {
        let key = var0();
        for bad in [
            "foo;bar;baz".into(),
            "".into(),
            ";;;;".into(),
            alloc::format!("{SOURCE};{DESTINATION};var0;0:0"),
            alloc::format!("{key};"),
            alloc::format!("{key};{key}"),
            alloc::format!("{SOURCE};0000000000001ed2;{DESTINATION};;0:0"),
            alloc::format!("{SOURCE};0000000000001ed2;{DESTINATION};var0;"),
            alloc::format!("{SOURCE};;{DESTINATION};var0;0:0"),
            alloc::format!("{SOURCE};+1ed2;{DESTINATION};var0;0:0"),
            alloc::format!("{SOURCE};00000000000001ed2;{DESTINATION};var0;0:0"),
            alloc::format!("x{SOURCE};0000000000001ed2;{DESTINATION};var0;0:0"),
        ] {
            let refused = Key::parse(&bad).unwrap_err();
            assert_eq!(refused.code, Code::InvalidArgument, "{bad}");
            assert!(refused.message.starts_with("Invalid  rendezvous key: "), "{refused}");
        }
        let long = alloc::format!("{key}{}", "ä".repeat(RENDEZVOUS_KEY_BYTES_MAX / 2));
        let refused = Key::parse(&long).unwrap_err().message;
        assert!(refused.len() < 700 && refused.contains("bytes, of at most"), "{refused}");
    }

    #[test]
    fn all_of_the_text_tells_keys_apart_even_where_fingerprints_do_not() {
        let one = var0();
        let same = Key::parse(one.text()).unwrap();
        assert!(one == same && !Arc::ptr_eq(&one.parsed, &same.parsed));
        let mut other = Key::parse(&one.text().replace("0:0", "0:1")).unwrap();
        assert_ne!(one, other);
        other.fingerprint = one.fingerprint;
        assert_ne!(one, other, "their texts differ");
        assert_eq!(one.cmp(&other), other.cmp(&one).reverse());
    }
}

//! What a run did: a hash over every input, effect, record and fault with its time, and, when
//! somebody wants to look, all of it as lines.

mod coordination;
mod fingerprint;
pub mod html;
pub mod json;
mod relay;
mod rendezvous;
pub mod text;

pub use self::coordination::{of_call, of_coordination};
pub(crate) use self::fingerprint::whole as of_debug;
pub use self::fingerprint::{of_reply, of_request};
pub use self::relay::{of_relay_effect, of_relay_input};
pub use self::rendezvous::{of_rendezvous_effect, of_rendezvous_input};

/// A hash that takes numbers one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHash(u64);

impl Default for TraceHash {
    fn default() -> Self {
        Self(0x243f_6a88_85a3_08d3)
    }
}

impl TraceHash {
    /// Takes a number.
    #[inline]
    pub const fn add(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }

    /// Takes bytes.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        self.add(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            self.add(word_of(rest));
        }
    }

    /// The hash so far.
    pub const fn value(self) -> u64 {
        self.0
    }
}

/// Up to eight bytes as a number, the first one lowest.
fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
    u64::from_le_bytes(word)
}

/// One line of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When, in ns of simulated time.
    pub at_ns: u64,
    /// The machine: 0 is the node, actors follow, then relays.
    pub lane: u32,
    /// What kind of thing it was.
    pub kind: LineKind,
    /// What happened.
    pub text: String,
}

/// What kind of thing a line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// Something went wrong.
    Fault,
    /// A request was taken.
    Input,
    /// The node did something.
    Effect,
    /// A record was written.
    Record,
    /// A machine said something of itself.
    Note,
    /// A promise was broken.
    Broken,
}

impl LineKind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Input => "input",
            Self::Effect => "effect",
            Self::Record => "record",
            Self::Note => "note",
            Self::Broken => "broken",
        }
    }
}

/// Follows a run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    hash: TraceHash,
    lines: Option<Vec<Line>>,
}

impl Trace {
    /// One that keeps lines too.
    pub fn with_lines() -> Self {
        Self { hash: TraceHash::default(), lines: Some(Vec::new()) }
    }

    /// Takes something into the hash.
    #[inline]
    pub const fn hash(&mut self, at_ns: u64, code: u64, value: u64) {
        self.hash.add(at_ns);
        self.hash.add(code);
        self.hash.add(value);
    }

    /// The hash, to add to.
    pub const fn hasher(&mut self) -> &mut TraceHash {
        &mut self.hash
    }

    /// Adds a line, if lines are kept.
    #[inline]
    pub fn line(&mut self, at_ns: u64, lane: u32, kind: LineKind, text: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(Line { at_ns, lane, kind, text: text() });
        }
    }

    /// The hash so far.
    pub const fn value(&self) -> u64 {
        self.hash.value()
    }

    /// The lines, if they were kept.
    pub fn into_lines(self) -> Vec<Line> {
        self.lines.unwrap_or_default()
    }
}

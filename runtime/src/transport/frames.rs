//! The frames of HTTP/2 in the bytes that a client sends, and what they cost the server.
//!
//! A call of 15 bytes takes the server far longer than its bytes. So the bytes of a connection are a bad
//! measure of the work that they bring, and the server counts frames.

use std::ops::Range;

/// The client's first bytes, which are no frame.
pub(super) const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The head of a frame: length, type, flags and stream.
const HEAD_BYTES: usize = 9;
/// Where the length and the type stand in the head.
const LENGTH: Range<usize> = 0..3;
const TYPE: usize = 3;
/// Where its flags stand.
const FLAGS: usize = 4;
/// Kinds of frames (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// The flag of SETTINGS that change nothing.
const ACK: u8 = 1;

/// The server charges this for a frame that begins a call, and nothing for the frame with the call's message.
const COST_OF_CALL: u32 = 16;
/// The server charges this for a frame at which the HTTP/2 library looks at all calls of the connection.
const COST_OF_ALL_CALLS: u32 = 32;

/// The server charges nothing for the messages of so many calls that have begun. Clients may begin several
/// before they send the first message.
const BEGUN_MAX: u32 = 64;

/// The cost of so many short calls. The server charges 1 for most other frames.
pub(super) const fn cost_of_calls(calls: u32) -> u32 {
    calls.saturating_mul(COST_OF_CALL)
}

/// Where a client's bytes stand between frames.
#[derive(Debug)]
pub(super) struct Frames {
    /// Bytes of the preface, or of a frame's payload, that are still to come.
    left: usize,
    head: [u8; HEAD_BYTES],
    /// Bytes of the head that have come.
    head_bytes: usize,
    /// Calls that have begun, and whose first message has not come.
    begun: u32,
}

impl Default for Frames {
    fn default() -> Self {
        Self { left: PREFACE.len(), head: [0; HEAD_BYTES], head_bytes: 0, begun: 0 }
    }
}

impl Frames {
    /// Bytes of the present frame that are still to come.
    pub(super) const fn left(&self) -> usize {
        self.left
    }

    /// Goes on over `bytes`, until a frame costs more than `allowance` has left. Takes the costs from the
    /// allowance. How many bytes may pass.
    pub(super) fn pass(&mut self, bytes: &[u8], allowance: &mut u32) -> usize {
        let mut passed = 0_usize;
        while let Some(rest) = bytes.get(passed..).filter(|rest| !rest.is_empty()) {
            let payload = self.left.min(rest.len());
            if payload > 0 {
                self.left = self.left.saturating_sub(payload);
                passed = passed.saturating_add(payload);
                continue;
            }
            let Some(more) = self.go_on_with_head(rest, allowance) else { break };
            passed = passed.saturating_add(more);
        }
        passed
    }

    /// Goes on over the bytes of a frame's head. How many; `None` if the frame costs too much.
    fn go_on_with_head(&mut self, bytes: &[u8], allowance: &mut u32) -> Option<usize> {
        let missing = self.head.get_mut(self.head_bytes..).unwrap_or_default();
        let more = missing.len().min(bytes.len());
        missing.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        if more < missing.len() {
            self.head_bytes = self.head_bytes.saturating_add(more);
            return Some(more);
        }
        let kind = self.head.get(TYPE).copied().unwrap_or_default();
        *allowance = allowance.checked_sub(self.cost_of(kind))?;
        match kind {
            HEADERS => self.begun = self.begun.saturating_add(1).min(BEGUN_MAX),
            DATA => self.begun = self.begun.saturating_sub(1),
            _ => {}
        }
        let length = self.head.get(LENGTH).unwrap_or_default();
        self.left = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        self.head_bytes = 0;
        Some(more)
    }

    /// The cost of the frame whose head has come, which is of this kind.
    fn cost_of(&self, kind: u8) -> u32 {
        let is_ack = self.head.get(FLAGS).is_some_and(|flags| flags & ACK != 0);
        match kind {
            HEADERS => COST_OF_CALL,
            // A call is worth little without its message.
            DATA if self.begun > 0 => 0,
            SETTINGS if !is_ack => COST_OF_ALL_CALLS,
            GOAWAY => COST_OF_ALL_CALLS,
            _ => 1,
        }
    }
}

/// A frame of HTTP/2.
#[cfg(test)]
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame_of(kind: u8, length: usize) -> Vec<u8> {
        frame(kind, 0, 1, &vec![7; length])
    }

    /// The cost of each of these frames, by their types.
    fn costs(frames: &[(u8, usize)]) -> Vec<u32> {
        let mut begun = 0;
        let cost = |kind| match kind {
            1 => {
                begun += 1;
                16
            }
            0 if begun > 0 => {
                begun -= 1;
                0
            }
            4 | 7 => 32,
            _ => 1,
        };
        frames.iter().map(|(kind, _)| *kind).map(cost).collect()
    }

    /// How many of these frames pass when `allowance` is there.
    fn model(frames: &[(u8, usize)], mut allowance: u32) -> usize {
        let costs = costs(frames).into_iter();
        costs.map_while(|cost| allowance.checked_sub(cost).map(|left| allowance = left)).count()
    }

    proptest! {
        /// However the bytes are cut, the same frames pass, and the byte that completes the head of the next
        /// one does not.
        #[test]
        fn frames_pass_until_they_cost_too_much(
            frames in prop::collection::vec((0_u8..10, 0_usize..300), 0..40),
            allowance in 0_u32..200,
            pieces in prop::collection::vec(1_usize..100, 1..200),
        ) {
            let encoded: Vec<_> = frames.iter().map(|(kind, length)| frame_of(*kind, *length)).collect();
            let bytes = [&PREFACE[..], &encoded.concat()].concat();
            let whole = model(&frames, allowance);
            let lengths = encoded.iter().take(whole).map(Vec::len).sum::<usize>();
            let right = PREFACE.len() + lengths;
            let (mut scan, mut left, mut passed) = (Frames::default(), allowance, 0);
            for piece in pieces.into_iter().chain([usize::MAX]) {
                let rest = &bytes[passed..];
                let piece = piece.min(rest.len());
                let more = scan.pass(&rest[..piece], &mut left);
                passed += more;
                if more < piece {
                    break;
                }
            }
            let is_all = whole == frames.len();
            let most = if is_all { right + 1 } else { right + HEAD_BYTES };
            prop_assert!((right..most).contains(&passed), "{passed} of {right}");
            // With a new allowance it goes on where it stopped.
            let mut plenty = u32::MAX;
            let rest = scan.pass(&bytes[passed..], &mut plenty);
            prop_assert_eq!(passed + rest, bytes.len());
            let all = allowance - left + (u32::MAX - plenty);
            prop_assert_eq!(all, costs(&frames).iter().sum::<u32>());
        }
    }

    #[test]
    fn so_many_short_calls_pass_each_with_its_message() {
        for message in [0, 12] {
            let calls = [frame_of(1, 6), frame_of(0, message)].concat().repeat(9);
            let bytes = [PREFACE.to_vec(), frame_of(8, 4), calls].concat();
            let mut allowance = cost_of_calls(4) + 2;
            let passed = Frames::default().pass(&bytes, &mut allowance);
            assert_eq!(allowance, 1);
            assert_eq!(passed, PREFACE.len() + 13 + 4 * (15 + 9 + message));
        }
    }

    #[test]
    fn settings_that_are_acknowledged_only_cost_little() {
        for (flags, cost) in [(0, 32), (ACK, 1), (2, 32), (ACK | 2, 1)] {
            let settings = frame(4, flags, 0, &[]);
            let mut allowance = 100;
            Frames { left: 0, ..Frames::default() }.pass(&settings, &mut allowance);
            assert_eq!(allowance, 100 - cost, "{flags}");
        }
    }

    #[test]
    fn the_messages_of_several_calls_may_come_behind_all_of_these() {
        let bytes = [frame_of(1, 6).repeat(4), frame_of(0, 5).repeat(6)].concat();
        let mut allowance = 4 * 16 + 2;
        Frames { left: 0, ..Frames::default() }.pass(&bytes, &mut allowance);
        assert_eq!(allowance, 0);
    }
}

//! Bytes as frames of an exchange, and messages drawn from bytes: what one side writes the other reads,
//! and whatever else comes is refused in words.

use std::fmt::Debug;

use bytes::Bytes;
use rondo_core::exchange::message::{ToMember, ToScheduler, ToServer, ToWorker};
use rondo_core::status::{Code, Status};
use rondo_proto::convert::exchange::{
    Body, FRAME_HEAD_BYTES, FrameHead, FrameLimits, attach_to_server, attach_to_worker,
    decode_to_member, decode_to_scheduler, decode_to_server, decode_to_worker, encode_to_member,
    encode_to_scheduler, encode_to_server, encode_to_worker, tensors_to_server, tensors_to_worker,
};

use crate::exchange_drawing::Dice;

const LIMITS: FrameLimits =
    FrameLimits { header_bytes_max: 1 << 20, body_bytes_max: u64::MAX, tensors_max: 16 };
/// A field that nobody knows: number 500, a number.
const UNKNOWN: [u8; 3] = [0xa0, 0x1f, 7];

/// One of the four that are spoken to.
trait Side: Clone + Debug + PartialEq + Sized {
    fn read(head: FrameHead, header: &Bytes, body: Body) -> Result<Self, Status>;
    fn write(&self, body: Body, out: &mut Vec<u8>) -> Result<FrameHead, Status>;
    /// Bytes of its tensors.
    fn bytes(&self) -> Option<u64>;
}

fn sum(bytes: impl Iterator<Item = u64>) -> Option<u64> {
    let mut bytes = bytes;
    bytes.try_fold(0, u64::checked_add)
}

impl Side for ToServer<()> {
    fn read(head: FrameHead, header: &Bytes, body: Body) -> Result<Self, Status> {
        decode_to_server(head, header, body, &LIMITS)
    }
    fn write(&self, body: Body, out: &mut Vec<u8>) -> Result<FrameHead, Status> {
        encode_to_server(self, body, &LIMITS, out)
    }
    fn bytes(&self) -> Option<u64> {
        let tensors = tensors_to_server(self);
        let payloads = |more| std::iter::repeat_n((), tensors.len().saturating_add(more));
        assert_eq!(attach_to_server(self.clone(), payloads(0)).as_ref(), Some(self));
        let takes_tensors = matches!(self, Self::Request(_));
        assert!(!takes_tensors || attach_to_server(self.clone(), payloads(1)).is_none());
        sum(tensors.iter().map(|tensor| tensor.info.bytes()))
    }
}

impl Side for ToWorker<()> {
    fn read(head: FrameHead, header: &Bytes, body: Body) -> Result<Self, Status> {
        decode_to_worker(head, header, body, &LIMITS)
    }
    fn write(&self, body: Body, out: &mut Vec<u8>) -> Result<FrameHead, Status> {
        encode_to_worker(self, body, &LIMITS, out)
    }
    fn bytes(&self) -> Option<u64> {
        let tensors = tensors_to_worker(self);
        let payloads = std::iter::repeat_n((), tensors.len());
        assert_eq!(attach_to_worker(self.clone(), payloads).as_ref(), Some(self));
        sum(tensors.iter().map(|tensor| tensor.info.bytes()))
    }
}

impl Side for ToScheduler {
    fn read(head: FrameHead, header: &Bytes, _: Body) -> Result<Self, Status> {
        decode_to_scheduler(head, header)
    }
    fn write(&self, _: Body, out: &mut Vec<u8>) -> Result<FrameHead, Status> {
        encode_to_scheduler(self, &LIMITS, out)
    }
    fn bytes(&self) -> Option<u64> {
        Some(0)
    }
}

impl Side for ToMember {
    fn read(head: FrameHead, header: &Bytes, _: Body) -> Result<Self, Status> {
        decode_to_member(head, header)
    }
    fn write(&self, _: Body, out: &mut Vec<u8>) -> Result<FrameHead, Status> {
        encode_to_member(self, &LIMITS, out)
    }
    fn bytes(&self) -> Option<u64> {
        Some(0)
    }
}

/// Checks one input. Says whether it was a message.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let mut dice = Dice(bytes);
    match dice.byte() % 8 {
        0 => round(&dice.word_to_server()),
        1 => round(&dice.word_to_worker()),
        2 => round(&dice.word_to_scheduler()),
        3 => round(&dice.word_to_member()),
        _ => return anything(dice.0),
    }
    true
}

/// What is written is read as it was, and not as what is said to others.
fn round<S: Side>(message: &S) {
    let Some(bytes) = message.bytes() else {
        return;
    };
    for (body, follows) in [(Body::Follows, bytes), (Body::Elsewhere, 0)] {
        let mut out = vec![9];
        let head = message.write(body, &mut out).unwrap();
        let (start, header) = out[1..].split_first_chunk::<FRAME_HEAD_BYTES>().unwrap();
        assert_eq!(FrameHead::decode(start, &LIMITS).unwrap(), head);
        assert_eq!(head.encode(), *start);
        assert_eq!((head.header_bytes as usize, head.body_bytes), (header.len(), follows));
        let header = Bytes::copy_from_slice(header);
        assert_eq!(S::read(head, &header, body).as_ref(), Ok(message));
        // A body of another length is none of its tensors'.
        let other = FrameHead { body_bytes: follows.wrapping_add(1), ..head };
        let status = S::read(other, &header, body).unwrap_err();
        assert!(status.message.contains("FrameHead.body_bytes"), "{status}");
        anything(&header);
        for end in 0..header.len() {
            anything(&header[..end]);
        }
    }
}

/// Whatever comes is a message to one side or refused in words.
fn anything(header: &[u8]) -> bool {
    let accepted = [
        is_message::<ToServer<()>>(header),
        is_message::<ToWorker<()>>(header),
        is_message::<ToScheduler>(header),
        is_message::<ToMember>(header),
    ];
    let count = accepted.into_iter().filter(|it| *it).count();
    // Servers and the scheduler reject alike.
    assert!(count <= 1 || (count == 2 && accepted[1] && accepted[3]));
    count > 0
}

fn is_message<S: Side>(header: &[u8]) -> bool {
    let head = FrameHead { header_bytes: header.len() as u32, body_bytes: 0 };
    let message = match S::read(head, &Bytes::copy_from_slice(header), Body::Elsewhere) {
        Ok(message) => message,
        Err(status) => {
            let names = ["Exchange", "FrameHead"];
            assert_eq!(status.code, Code::InvalidArgument, "{status}");
            assert!(names.iter().any(|name| status.message.contains(name)), "{status}");
            return false;
        }
    };
    let mut longer = header.to_vec();
    longer.extend(UNKNOWN);
    let again = S::read(head, &longer.into(), Body::Elsewhere);
    assert_eq!(again.as_ref(), Ok(&message), "an unknown field changes nothing");
    let mut out = Vec::new();
    message.write(Body::Elsewhere, &mut out).unwrap();
    let again = S::read(head, &Bytes::from(out.split_off(FRAME_HEAD_BYTES)), Body::Elsewhere);
    assert_eq!(again.as_ref(), Ok(&message), "what is taken is written again as it was");
    true
}

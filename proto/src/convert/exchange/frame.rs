//! Frames: what stands before each message on a connection, and the bounds on it.

use bytes::Bytes;
use prost::Message;
use rondo_core::exchange::message::Tensor;
use rondo_core::status::{Code, Status};

use super::items;
use crate::admin as wire;
use crate::convert::check::{MEMBERS_STEPS_MAX, bounded};

/// Bytes of a frame's head.
pub const FRAME_HEAD_BYTES: usize = 12;

/// What may come in one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// Bytes of the header.
    pub header_bytes_max: u32,
    /// Bytes of the body.
    pub body_bytes_max: u64,
    /// Tensors: pushes and pulls together.
    pub tensors_max: usize,
}

impl Default for FrameLimits {
    /// Those between a worker and a server.
    fn default() -> Self {
        Self { header_bytes_max: 1 << 20, body_bytes_max: 4 << 30, tensors_max: 1 << 12 }
    }
}

impl FrameLimits {
    /// Those between a process and the scheduler: a membership may be long, and tensors there are none.
    pub const fn of_scheduler() -> Self {
        Self { header_bytes_max: 16 << 20, body_bytes_max: 0, tensors_max: 0 }
    }
}

/// Where the tensors of a message lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Behind the header.
    Follows,
    /// In memory that both ends share: nothing follows the header.
    Elsewhere,
}

/// How much follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of the header.
    pub header_bytes: u32,
    /// Bytes of the body behind it.
    pub body_bytes: u64,
}

impl FrameHead {
    /// The head as it is written.
    pub const fn encode(self) -> [u8; FRAME_HEAD_BYTES] {
        let [a, b, c, d] = self.header_bytes.to_le_bytes();
        let [e, f, g, h, i, j, k, l] = self.body_bytes.to_le_bytes();
        [a, b, c, d, e, f, g, h, i, j, k, l]
    }

    /// The head that was read.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED for a header or a body that is longer than allowed. Nothing that follows on the
    /// connection can be understood then.
    pub fn decode(bytes: &[u8; FRAME_HEAD_BYTES], limits: &FrameLimits) -> Result<Self, Status> {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *bytes;
        let head = Self {
            header_bytes: u32::from_le_bytes([a, b, c, d]),
            body_bytes: u64::from_le_bytes([e, f, g, h, i, j, k, l]),
        };
        head.check(limits)?;
        Ok(head)
    }

    fn check(self, limits: &FrameLimits) -> Result<(), Status> {
        let parts = [
            ("header", u64::from(self.header_bytes), u64::from(limits.header_bytes_max)),
            ("body", self.body_bytes, limits.body_bytes_max),
        ];
        for (name, bytes, max) in parts {
            if bytes > max {
                let text = format!("a frame's {name} has {bytes} bytes; at most {max} are allowed");
                return Err(Status::new(Code::ResourceExhausted, text));
            }
        }
        Ok(())
    }
}

/// The message in a header that was read.
pub(super) fn kind(header: &Bytes) -> Result<wire::exchange_frame::Kind, Status> {
    items::check(header)?;
    let frame: wire::ExchangeFrame = bounded("ExchangeFrame", header, MEMBERS_STEPS_MAX)?;
    frame.kind.ok_or_else(|| {
        let text =
            "ExchangeFrame.kind is missing, or of a later version; it must be one of its messages";
        Status::new(Code::InvalidArgument, text)
    })
}

/// A message came from who does not say it.
pub(super) fn misdirected(kind: &wire::exchange_frame::Kind, to: &str) -> Status {
    use wire::exchange_frame::Kind;
    let name = match kind {
        Kind::Hello(_) => "hello",
        Kind::Request(_) => "request",
        Kind::Acknowledge(_) => "acknowledge",
        Kind::Welcome(_) => "welcome",
        Kind::Pushed(_) => "pushed",
        Kind::Answer(_) => "answer",
        Kind::Refused(_) => "refused",
        Kind::Released(_) => "released",
        Kind::Rejected(_) => "rejected",
        Kind::Register(_) => "register",
        Kind::Heartbeat(_) => "heartbeat",
        Kind::Barrier(_) => "barrier",
        Kind::Withdraw(_) => "withdraw",
        Kind::Leave(_) => "leave",
        Kind::Assigned(_) => "assigned",
        Kind::Membership(_) => "membership",
        Kind::Heard(_) => "heard",
        Kind::BarrierDone(_) => "barrier_done",
        Kind::Left(_) => "left",
        Kind::Observe(_) => "observe",
        Kind::AskTraces(_) => "ask_traces",
        Kind::TracesWanted(_) => "traces_wanted",
        Kind::Known(_) => "known",
        Kind::Traces(_) => "traces",
    };
    let text = format!("ExchangeFrame.kind is {name}, which nobody says to {to}");
    Status::new(Code::InvalidArgument, text)
}

/// Whether the body is as long as the tensors in it.
pub(super) fn check_body<'a, T: 'a>(
    tensors: impl IntoIterator<Item = &'a Tensor<T>>,
    head: FrameHead,
    body: Body,
) -> Result<(), Status> {
    let follows = match body {
        Body::Follows => sum(tensors).ok_or_else(|| {
            Status::new(Code::InvalidArgument, "tensors have more bytes than 64 bits can count")
        })?,
        Body::Elsewhere => 0,
    };
    if head.body_bytes == follows {
        return Ok(());
    }
    let text = format!(
        "FrameHead.body_bytes is {}; with the tensors of the header it must be {follows}",
        head.body_bytes
    );
    Err(Status::new(Code::InvalidArgument, text))
}

fn sum<'a, T: 'a>(tensors: impl IntoIterator<Item = &'a Tensor<T>>) -> Option<u64> {
    let mut bytes = tensors.into_iter().map(|tensor| tensor.info.bytes());
    bytes.try_fold(0, u64::checked_add)
}

/// Appends the head and the header of a frame to `out`.
pub(super) fn append<'a, T: 'a>(
    kind: wire::exchange_frame::Kind,
    tensors: impl IntoIterator<Item = &'a Tensor<T>>,
    body: Body,
    limits: &FrameLimits,
    out: &mut Vec<u8>,
) -> Result<FrameHead, Status> {
    let frame = wire::ExchangeFrame { kind: Some(kind) };
    let body_bytes = match body {
        Body::Follows => sum(tensors).unwrap_or(u64::MAX),
        Body::Elsewhere => 0,
    };
    let header_bytes = u32::try_from(frame.encoded_len()).unwrap_or(u32::MAX);
    let head = FrameHead { header_bytes, body_bytes };
    head.check(limits)?;
    out.extend_from_slice(&head.encode());
    frame.encode_raw(out);
    Ok(head)
}

//! What goes over a simulated connection: calls, answers, cancellations and signs of life, as bytes
//! behind their length. It stands where HTTP/2 and gRPC's framing stand in production.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use rondo_core::status::{Code, Status};

/// Bytes before a frame's body: its length.
const PREFIX_BYTES: usize = 4;

const CALL: u8 = 1;
const ANSWER: u8 = 2;
const REFUSAL: u8 = 3;
const CANCEL: u8 = 4;
const PING: u8 = 5;
const PONG: u8 = 6;
const GOODBYE: u8 = 7;
const MESSAGE: u8 = 8;
const MORE: u8 = 9;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A call begins.
    Call(CallFrame),
    /// A call's outcome; of a stream, how it ends.
    Answer { id: u64, result: Result<Bytes, Status> },
    /// A message of a stream that goes on.
    Message { id: u64, message: Bytes },
    /// The caller has taken it, and wants one more.
    More { id: u64 },
    /// The caller gives a call up.
    Cancel { id: u64 },
    /// Asks whether the peer is alive.
    Ping,
    /// It is.
    Pong,
    /// No more calls on this connection: those under way go on.
    Goodbye,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallFrame {
    pub(super) id: u64,
    pub(super) path: String,
    /// The worker that calls, if it names itself.
    pub(super) worker: Option<String>,
    /// What a simulation knows the call by.
    pub(super) tag: u64,
    /// How long the caller waits.
    pub(super) deadline: Duration,
    pub(super) message: Bytes,
}

impl Frame {
    /// The frame as bytes.
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u32(0);
        match self {
            Self::Call(call) => put_call(&mut out, call),
            Self::Answer { id, result: Ok(message) } => {
                put_head(&mut out, ANSWER, *id);
                out.put_slice(message);
            }
            Self::Message { id, message } => {
                put_head(&mut out, MESSAGE, *id);
                out.put_slice(message);
            }
            Self::More { id } => put_head(&mut out, MORE, *id),
            Self::Answer { id, result: Err(status) } => {
                put_head(&mut out, REFUSAL, *id);
                out.put_i32(status.code.number());
                out.put_slice(status.message.as_bytes());
            }
            Self::Cancel { id } => put_head(&mut out, CANCEL, *id),
            Self::Ping => put_head(&mut out, PING, 0),
            Self::Pong => put_head(&mut out, PONG, 0),
            Self::Goodbye => put_head(&mut out, GOODBYE, 0),
        }
        let length = u32::try_from(out.len().saturating_sub(PREFIX_BYTES)).unwrap_or(u32::MAX);
        if let Some(prefix) = out.get_mut(..PREFIX_BYTES) {
            prefix.copy_from_slice(&length.to_be_bytes());
        }
        out.freeze()
    }

    /// Takes the first whole frame out of what was received; `None` while there is none.
    ///
    /// # Errors
    /// When the bytes are no frame: the connection is worth nothing any more.
    pub(super) fn take(received: &mut BytesMut) -> Result<Option<Self>, &'static str> {
        let Some(prefix) = received.first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*prefix) as usize;
        if received.len().saturating_sub(PREFIX_BYTES) < length {
            return Ok(None);
        }
        received.advance(PREFIX_BYTES);
        Self::decode(received.split_to(length).freeze()).map(Some)
    }

    fn decode(mut body: Bytes) -> Result<Self, &'static str> {
        let kind = body.try_get_u8().map_err(|_| "an empty frame")?;
        let id = body.try_get_u64().map_err(|_| "a frame without a call's number")?;
        Ok(match kind {
            CALL => Self::Call(decode_call(id, body)?),
            ANSWER => Self::Answer { id, result: Ok(body) },
            REFUSAL => {
                let code = body.try_get_i32().map_err(|_| "a refusal without a code")?;
                let status = Status::new(code_of(code), String::from_utf8_lossy(&body));
                Self::Answer { id, result: Err(status) }
            }
            MESSAGE => Self::Message { id, message: body },
            MORE => Self::More { id },
            CANCEL => Self::Cancel { id },
            PING => Self::Ping,
            PONG => Self::Pong,
            GOODBYE => Self::Goodbye,
            _ => return Err("a frame of no known kind"),
        })
    }
}

fn put_head(out: &mut BytesMut, kind: u8, id: u64) {
    out.put_u8(kind);
    out.put_u64(id);
}

fn put_call(out: &mut BytesMut, call: &CallFrame) {
    put_head(out, CALL, call.id);
    put_text(out, &call.path);
    out.put_u8(u8::from(call.worker.is_some()));
    put_text(out, call.worker.as_deref().unwrap_or_default());
    out.put_u64(call.tag);
    out.put_u64(u64::try_from(call.deadline.as_nanos()).unwrap_or(u64::MAX));
    out.put_slice(&call.message);
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
    out.put_slice(text.as_bytes());
}

fn decode_call(id: u64, mut body: Bytes) -> Result<CallFrame, &'static str> {
    let path = take_text(&mut body)?;
    let named = body.try_get_u8().map_err(|_| "a call that is cut short")? != 0;
    let worker = take_text(&mut body)?;
    let tag = body.try_get_u64().map_err(|_| "a call without a tag")?;
    let deadline = body.try_get_u64().map_err(|_| "a call without a deadline")?;
    let deadline = Duration::from_nanos(deadline);
    Ok(CallFrame { id, path, worker: named.then_some(worker), tag, deadline, message: body })
}

fn take_text(body: &mut Bytes) -> Result<String, &'static str> {
    let length = body.try_get_u32().map_err(|_| "a text without a length")? as usize;
    if body.len() < length {
        return Err("a text that is cut short");
    }
    String::from_utf8(body.split_to(length).into()).map_err(|_| "a text that is no UTF-8")
}

fn code_of(number: i32) -> Code {
    const ALL: [Code; 16] = [
        Code::Cancelled,
        Code::Unknown,
        Code::InvalidArgument,
        Code::DeadlineExceeded,
        Code::NotFound,
        Code::AlreadyExists,
        Code::PermissionDenied,
        Code::ResourceExhausted,
        Code::FailedPrecondition,
        Code::Aborted,
        Code::OutOfRange,
        Code::Unimplemented,
        Code::Internal,
        Code::Unavailable,
        Code::DataLoss,
        Code::Unauthenticated,
    ];
    ALL.into_iter().find(|code| code.number() == number).unwrap_or(Code::Unknown)
}

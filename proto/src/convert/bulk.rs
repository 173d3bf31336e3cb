//! Calls over connections of their own: `BulkCall` and `BulkEnd`, and the frames around them.

use bytes::{Buf, Bytes};
use prost::Message;
use rondo_core::status::{Code, Detail, Status};

use super::check::long_message;
use crate::admin as wire;

/// What both sides begin a connection with.
pub const BULK_PREFACE: [u8; 8] = *b"RONDO/1\n";
/// Bytes in front of what a frame holds.
pub const BULK_HEAD_BYTES: usize = 9;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkFrame {
    /// A message of the answer.
    Message,
    /// How the call ended.
    End,
    /// A call.
    Call,
    /// Whether messages can go through memory that both ends have: asked, offered, taken.
    Near,
    /// Where a message of the answer lies in that memory.
    Lent,
}

/// Memory of a process, which others on its host can open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkNear {
    /// The process.
    pub process: u32,
    /// The number of its file there.
    pub file: u32,
    /// A number that is in the file's name.
    pub token: u128,
}

/// Where a message lies in memory that both ends have, in bytes from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkLent {
    /// The mark that its reader takes away when it is done.
    pub mark: u64,
    /// Its first byte.
    pub start: u64,
    /// How many bytes it has.
    pub length: u64,
}

const NEAR_BYTES: usize = 24;
/// Bytes of a frame that says where a message lies.
pub const BULK_LENT_BYTES: usize = 24;

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkCall {
    /// The method's path.
    pub path: String,
    /// The worker that calls, if it names itself.
    pub worker: Option<String>,
    /// The encoded request.
    pub message: Bytes,
}

/// Encodes what stands in front of a frame's bytes.
pub fn encode_bulk_head(frame: BulkFrame, length: u64) -> [u8; BULK_HEAD_BYTES] {
    let kind = match frame {
        BulkFrame::Message => 0,
        BulkFrame::End => 1,
        BulkFrame::Call => 2,
        BulkFrame::Near => 3,
        BulkFrame::Lent => 4,
    };
    let [a, b, c, d, e, f, g, h] = length.to_le_bytes();
    [kind, a, b, c, d, e, f, g, h]
}

/// Decodes what stands in front of a frame's bytes: what it holds, and how many there are.
///
/// # Errors
/// INTERNAL for a kind of frame that there is none of.
pub fn decode_bulk_head(head: [u8; BULK_HEAD_BYTES]) -> Result<(BulkFrame, u64), Status> {
    let [kind, a, b, c, d, e, f, g, h] = head;
    let frame = match kind {
        0 => BulkFrame::Message,
        1 => BulkFrame::End,
        2 => BulkFrame::Call,
        3 => BulkFrame::Near,
        4 => BulkFrame::Lent,
        other => {
            let text = format!("a frame of kind {other} came; 0 to 4 are known");
            return Err(Status::new(Code::Internal, text));
        }
    };
    Ok((frame, u64::from_le_bytes([a, b, c, d, e, f, g, h])))
}

/// Encodes an offer of memory; `None` offers none.
pub fn encode_bulk_near(near: Option<BulkNear>) -> Bytes {
    let Some(BulkNear { process, file, token }) = near else { return Bytes::new() };
    [&process.to_le_bytes()[..], &file.to_le_bytes(), &token.to_le_bytes()].concat().into()
}

/// Decodes an offer of memory; `None` if none is offered.
///
/// # Errors
/// INTERNAL for what is no offer.
pub fn decode_bulk_near(mut bytes: Bytes) -> Result<Option<BulkNear>, Status> {
    match bytes.len() {
        0 => Ok(None),
        NEAR_BYTES => Ok(Some(BulkNear {
            process: bytes.get_u32_le(),
            file: bytes.get_u32_le(),
            token: bytes.get_u128_le(),
        })),
        other => {
            let text = format!("an offer of memory has {other} bytes; 0 or {NEAR_BYTES} are right");
            Err(Status::new(Code::Internal, text))
        }
    }
}

/// Encodes where a message lies.
pub fn encode_bulk_lent(lent: BulkLent) -> [u8; BULK_LENT_BYTES] {
    let mut bytes = [0; BULK_LENT_BYTES];
    let words = [lent.mark, lent.start, lent.length].map(u64::to_le_bytes);
    bytes.as_chunks_mut().0.iter_mut().zip(words).for_each(|(place, word)| *place = word);
    bytes
}

/// Decodes where a message lies.
pub fn decode_bulk_lent(bytes: [u8; BULK_LENT_BYTES]) -> BulkLent {
    let mut bytes = &bytes[..];
    BulkLent { mark: bytes.get_u64_le(), start: bytes.get_u64_le(), length: bytes.get_u64_le() }
}

/// Encodes `BulkCall`.
pub fn encode_bulk_call(call: BulkCall) -> Bytes {
    let BulkCall { path, worker, message } = call;
    let worker = worker.unwrap_or_default();
    wire::BulkCall { path, worker, message }.encode_to_vec().into()
}

/// Decodes `BulkCall`, whose request is a slice of `bytes`.
///
/// # Errors
/// INVALID_ARGUMENT for what is none.
pub fn decode_bulk_call(bytes: Bytes) -> Result<BulkCall, Status> {
    let call: wire::BulkCall = long_message("BulkCall", &bytes)?;
    let worker = (!call.worker.is_empty()).then_some(call.worker);
    Ok(BulkCall { path: call.path, worker, message: call.message })
}

/// Encodes `BulkEnd`: `Ok` if all messages came.
pub fn encode_bulk_end(end: Result<(), Status>) -> Bytes {
    let Err(status) = end else { return Bytes::new() };
    let details = status.details.iter().find_map(|detail| match detail {
        Detail::Encoded(encoded) => Some(encoded.clone()),
        _ => None,
    });
    let (code, details) = (status.code.number(), details.unwrap_or_default());
    wire::BulkEnd { code, message: status.message, details }.encode_to_vec().into()
}

/// Decodes `BulkEnd`.
///
/// # Errors
/// What the call was refused with; INTERNAL for what is no `BulkEnd`.
pub fn decode_bulk_end(bytes: Bytes) -> Result<(), Status> {
    let size = bytes.len();
    let end = wire::BulkEnd::decode(bytes).map_err(|error| {
        let text = format!("the {size} bytes received are no BulkEnd: {error}");
        Status::new(Code::Internal, text)
    })?;
    if end.code == 0 {
        return Ok(());
    }
    let details = (!end.details.is_empty()).then_some(Detail::Encoded(end.details));
    let code = Code::of_number(end.code).unwrap_or(Code::Unknown);
    Err(Status::new(code, end.message).with(details))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_ends_come_as_they_were_sent() {
        for worker in [None, Some("host:1".to_owned())] {
            let call = BulkCall { path: "/a.B/C".into(), worker, message: vec![7; 300].into() };
            assert_eq!(decode_bulk_call(encode_bulk_call(call.clone())), Ok(call));
        }
        assert_eq!(decode_bulk_end(encode_bulk_end(Ok(()))), Ok(()));
        let plain = Status::new(Code::Aborted, "enough");
        let detailed = plain.clone().with([Detail::Encoded(Bytes::from_static(b"more"))]);
        for status in [plain, detailed] {
            assert_eq!(decode_bulk_end(encode_bulk_end(Err(status.clone()))), Err(status));
        }
    }

    #[test]
    fn heads_of_frames_come_as_they_were_sent_and_others_are_refused() {
        use BulkFrame::{Call, End, Lent, Message, Near};
        for frame in [Message, End, Call, Near, Lent] {
            for length in [0, 1, 300, u64::MAX] {
                assert_eq!(decode_bulk_head(encode_bulk_head(frame, length)), Ok((frame, length)));
            }
        }
        let refused = decode_bulk_head([5, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap_err();
        assert_eq!((refused.code, refused.message.contains('5')), (Code::Internal, true));
    }

    #[test]
    fn offers_of_memory_and_places_in_it_come_as_they_were_sent() {
        for near in [None, Some(BulkNear { process: 7, file: u32::MAX, token: u128::MAX - 1 })] {
            assert_eq!(decode_bulk_near(encode_bulk_near(near)), Ok(near));
        }
        assert_eq!(decode_bulk_near(Bytes::from_static(&[1])).unwrap_err().code, Code::Internal);
        let lent = BulkLent { mark: 1, start: 2 << 40, length: u64::MAX };
        assert_eq!(decode_bulk_lent(encode_bulk_lent(lent)), lent);
    }

    #[test]
    fn bytes_that_are_none_are_refused_and_a_code_that_is_none_is_unknown() {
        let broken = Bytes::from_static(&[10, 9, 1]);
        assert_eq!(decode_bulk_call(broken.clone()).unwrap_err().code, Code::InvalidArgument);
        assert_eq!(decode_bulk_end(broken).unwrap_err().code, Code::Internal);
        let strange = wire::BulkEnd { code: 4711, ..Default::default() }.encode_to_vec();
        assert_eq!(decode_bulk_end(strange.into()).unwrap_err().code, Code::Unknown);
    }
}

//! Calls over connections of their own: `BulkCall` and `BulkEnd`, and the frames around them.

use bytes::Bytes;
use prost::Message;
use rondo_core::status::{Code, Detail, Status};

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
}

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
        other => {
            let text = format!("a frame of kind {other} came; 0, 1 and 2 are known");
            return Err(Status::new(Code::Internal, text));
        }
    };
    Ok((frame, u64::from_le_bytes([a, b, c, d, e, f, g, h])))
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
    let size = bytes.len();
    let call = wire::BulkCall::decode(bytes).map_err(|error| {
        let text = format!("the {size} bytes received are no BulkCall: {error}");
        Status::new(Code::InvalidArgument, text)
    })?;
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
        for frame in [BulkFrame::Message, BulkFrame::End, BulkFrame::Call] {
            for length in [0, 1, 300, u64::MAX] {
                assert_eq!(decode_bulk_head(encode_bulk_head(frame, length)), Ok((frame, length)));
            }
        }
        let refused = decode_bulk_head([3, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap_err();
        assert_eq!((refused.code, refused.message.contains('3')), (Code::Internal, true));
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

//! Messages between workers, as bytes.

use ::bytes::{Bytes, BytesMut};
use rondo_core::element::{Tensor, Values};
use rondo_core::ids::RequestId;
use rondo_core::rendezvous::{Delivery, Value};
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{
    self, Fetch, FetchChunk, ReceivedTensor, RecvTensor, RendezvousMethod, RendezvousRequest,
};
use rondo_proto::pieces::Pieces;

/// A tensor takes no more.
const BYTES_MAX: u64 = 1 << 20;

/// A request.
pub(super) fn request(request: &RendezvousRequest) -> Bytes {
    let encoded = convert::encode_rendezvous_request(request);
    encoded.map(Pieces::join).unwrap_or_default()
}

/// Reads a request.
pub(super) fn read(path: &str, message: &Bytes) -> Result<RendezvousRequest, Status> {
    let method = RendezvousMethod::from_path(path).ok_or_else(|| {
        Status::new(Code::Unimplemented, format!("{path} is no method of a rendezvous"))
    })?;
    convert::decode_rendezvous_request(method, message, BYTES_MAX)
}

/// What a request for a tensor says, of either kind.
pub(super) fn fetch(is_plain: bool, message: &Bytes) -> Result<Fetch, Status> {
    let method = match is_plain {
        true => RendezvousMethod::RecvTensor,
        false => RendezvousMethod::Fetch,
    };
    match read(method.path(), message)? {
        RendezvousRequest::Fetch(fetch) => Ok(fetch),
        RendezvousRequest::RecvTensor(RecvTensor { step, key, request }) => {
            let (offset, chunk_bytes, finished) = (0, 0, Vec::new());
            Ok(Fetch { step, key, request, offset, chunk_bytes, finished })
        }
        other => Err(Status::new(Code::Internal, format!("{other:?} asks for no tensor"))),
    }
}

/// An answer, whole.
pub(super) fn answer(delivery: &Delivery<Tensor>, require_ack: bool) -> Result<Pieces, Status> {
    let Value { tensor, is_dead, .. } = &delivery.value;
    convert::encode_received_tensor(&ReceivedTensor {
        tensor: tensor.clone(),
        is_dead: *is_dead,
        send_start_micros: 0,
        require_ack,
    })
}

/// The rest of an answer from a place of it on, in messages of so many bytes.
pub(super) fn pieces(answer: Pieces, offset: u64, chunk_bytes: u64) -> Vec<Bytes> {
    let whole = answer.join();
    let total_bytes = whole.len() as u64;
    let at_once = usize::try_from(chunk_bytes).ok().filter(|size| *size > 0).unwrap_or(usize::MAX);
    let mut from = usize::try_from(offset).unwrap_or(usize::MAX).min(whole.len());
    let mut messages = Vec::new();
    while from < whole.len() || messages.is_empty() {
        let to = from.saturating_add(at_once).min(whole.len());
        let chunk = FetchChunk {
            total_bytes: if messages.is_empty() { total_bytes } else { 0 },
            offset: from as u64,
            data: Pieces::from(whole.slice(from..to)),
        };
        messages.push(convert::encode_fetch_chunk(chunk).join());
        from = to;
    }
    messages
}

/// Adds a piece to what has come; whether all has. `None` where it does not belong.
pub(super) fn add(
    received: &mut BytesMut,
    total: &mut Option<u64>,
    message: &Bytes,
) -> Option<bool> {
    let chunk = convert::decode_fetch_chunk(message).ok()?;
    if chunk.offset != received.len() as u64 {
        return None;
    }
    if chunk.total_bytes > 0 {
        if total.is_some_and(|total| total != chunk.total_bytes) {
            return None;
        }
        *total = Some(chunk.total_bytes);
    }
    received.extend_from_slice(&chunk.data);
    Some((*total)? <= received.len() as u64)
}

/// What has come, and whether its sender wants to know that.
pub(super) fn received(message: &Bytes) -> Result<(Value<Tensor>, bool), Status> {
    let ReceivedTensor { tensor, is_dead, require_ack, .. } =
        convert::decode_received_tensor(message, BYTES_MAX)?;
    let bytes = match tensor.values() {
        Values::Fixed(bytes) | Values::Strings { bytes, .. } | Values::Encoded(bytes) => {
            bytes.len()
        }
    };
    Ok((Value { tensor, bytes: bytes as u64, is_dead }, require_ack))
}

/// That a client has what answered a request, as TensorFlow's say it, or of several.
pub(super) fn finished(is_plain: bool, requests: Vec<RequestId>) -> Vec<(&'static str, Bytes)> {
    let all: Vec<RendezvousRequest> = match is_plain {
        true => requests
            .into_iter()
            .map(|request| RendezvousRequest::MarkRecvFinished { request })
            .collect(),
        false => vec![RendezvousRequest::Finish { requests }],
    };
    all.into_iter().map(|it| (it.method().path(), request(&it))).collect()
}

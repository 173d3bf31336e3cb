//! Handing out splits.

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::Request;
use rondo_core::ids::IterationId;
use rondo_core::status::Status;

use super::check::message;
use crate::tf;
use crate::tf::data as wire;

/// Decodes `GetSplitRequest`.
pub(super) fn decode_split(bytes: &Bytes) -> Result<Request, Status> {
    let request: wire::GetSplitRequest = message("GetSplitRequest", bytes)?;
    Ok(Request::GetSplit {
        iteration: IterationId::new(request.iteration_id),
        repetition: request.repetition,
        source: request.split_provider_index,
        // The message does not say; its connection may.
        asker: None,
    })
}

/// Encodes `GetSplitResponse`; `None` ends the pass.
pub(super) fn encode_split(split: Option<i64>) -> Bytes {
    let response =
        wire::GetSplitResponse { split: split.map(scalar), end_of_splits: split.is_none() };
    response.encode_to_vec().into()
}

/// A scalar int64 tensor, as TensorFlow writes it: with a shape that is present and empty.
fn scalar(value: i64) -> tf::TensorProto {
    tf::TensorProto {
        dtype: tf::DataType::DtInt64.into(),
        tensor_shape: Some(tf::TensorShapeProto::default()),
        tensor_content: Bytes::copy_from_slice(&value.to_le_bytes()),
        ..Default::default()
    }
}

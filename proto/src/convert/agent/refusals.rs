//! What stands beside refusals of dialect T, for programs.

use bytes::Bytes;
use prost::Message;
use rondo_core::ids::TaskIndex;
use rondo_core::status::Detail;

use crate::convert::coordination::{BARRIER_ERROR, SERVICE_ERROR};
use crate::tf;
use crate::tf::distributed_runtime::GrpcPayloadContainer;

/// Decodes the trailer `grpc-status-details-bin` of a refusal of dialect T. What is not understood is
/// left out: a refusal stays one whatever stands beside it.
pub fn decode_details(trailer: &Bytes) -> Vec<Detail> {
    let container = GrpcPayloadContainer::decode(trailer.clone()).unwrap_or_default();
    let found = container.payloads.into_iter().filter_map(|(key, payload)| match &*key {
        SERVICE_ERROR => service(payload),
        BARRIER_ERROR => barrier(payload),
        _ => None,
    });
    found.collect()
}

fn service(payload: Bytes) -> Option<Detail> {
    let error = tf::CoordinationServiceError::decode(payload).ok()?;
    let source = error.source_task.map(|task| TaskIndex::new(task.task_id));
    Some(Detail::CoordinationService { is_reported: error.is_reported_error, source })
}

fn barrier(payload: Bytes) -> Option<Detail> {
    let error = tf::BarrierError::decode(payload).ok()?;
    Some(Detail::Barrier { id: error.barrier_id.into(), counter: error.counter })
}

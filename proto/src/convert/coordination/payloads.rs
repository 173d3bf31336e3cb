//! What stands beside a refusal, for programs: the trailer `grpc-status-details-bin`, which TensorFlow
//! and JAX fill with a map of payloads by type URL.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use rondo_core::coordination::Dialect;
use rondo_core::status::Detail;

use crate::tf::distributed_runtime::GrpcPayloadContainer;
use crate::{tf, xla};

/// The keys are the same in both dialects; only the bytes differ.
pub(in crate::convert) const SERVICE_ERROR: &str =
    "type.googleapis.com/tensorflow.CoordinationServiceError";
pub(in crate::convert) const BARRIER_ERROR: &str = "type.googleapis.com/tensorflow.BarrierError";
const SERVICE_MISMATCH: &str = "type.googleapis.com/tensorflow.ServiceMismatchError";

/// Encodes the trailer for whoever speaks `dialect`, in a namespace whose job is called `job`. Empty
/// when there is nothing to say.
pub fn encode_details(dialect: Dialect, job: &str, details: &[Detail]) -> Bytes {
    if let Some(Detail::Encoded(encoded)) = details.first() {
        return encoded.clone();
    }
    let payloads = details.iter().filter_map(|detail| match dialect {
        Dialect::T => payload_t(detail, job),
        Dialect::X => payload_x(detail),
        Dialect::Rondo => None,
    });
    let payloads: BTreeMap<String, Bytes> =
        payloads.map(|(key, payload)| (key.to_owned(), payload.into())).collect();
    GrpcPayloadContainer { payloads }.encode_to_vec().into()
}

fn payload_t(detail: &Detail, job: &str) -> Option<(&'static str, Vec<u8>)> {
    Some(match detail {
        Detail::CoordinationService { is_reported, source } => {
            let source_task = source.map(|task| tf::CoordinatedTask {
                job_name: job.to_owned(),
                task_id: task.get(),
                recoverable: false,
            });
            let error =
                tf::CoordinationServiceError { is_reported_error: *is_reported, source_task };
            (SERVICE_ERROR, error.encode_to_vec())
        }
        Detail::Barrier { id, counter } => {
            let error = tf::BarrierError { barrier_id: id.to_string(), counter: *counter };
            (BARRIER_ERROR, error.encode_to_vec())
        }
        // This dialect knows no such message.
        Detail::ServiceMismatch { .. } | Detail::Encoded(_) => return None,
    })
}

fn payload_x(detail: &Detail) -> Option<(&'static str, Vec<u8>)> {
    Some(match detail {
        Detail::CoordinationService { is_reported, source } => {
            let error = xla::CoordinationServiceError {
                is_reported_error: *is_reported,
                source_task_id: source.map_or(0, |task| task.get()),
            };
            (SERVICE_ERROR, error.encode_to_vec())
        }
        Detail::Barrier { id, counter } => {
            let error = xla::BarrierError { barrier_id: id.to_string(), counter: *counter };
            (BARRIER_ERROR, error.encode_to_vec())
        }
        Detail::ServiceMismatch { incarnation } => {
            let error = xla::ServiceMismatchError { service_incarnation: incarnation.get() };
            (SERVICE_MISMATCH, error.encode_to_vec())
        }
        Detail::Encoded(_) => return None,
    })
}

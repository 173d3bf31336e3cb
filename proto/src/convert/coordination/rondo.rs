//! Requests of `rondo.v1.Coordination`.

use bytes::Bytes;
use prost::Message;
use rondo_core::coordination::{Caller, Condition, Dialect, Method, Value};
use rondo_core::ids::{Revision, ServiceIncarnation, TaskIndex};
use rondo_core::status::Status;

use super::{CoordinationMethod, CoordinationRequest, not_offered};
use crate::admin as wire;
use crate::convert::check::{field, long_message, message};

/// Decodes one.
pub(super) fn decode(
    method: CoordinationMethod,
    bytes: &Bytes,
) -> Result<CoordinationRequest, Status> {
    match method {
        CoordinationMethod::PutKey => put(bytes),
        CoordinationMethod::DeleteKey => {
            let request: wire::DeleteKeyRequest = message("DeleteKeyRequest", bytes)?;
            let method = Method::DeleteKeyValue { key: request.key };
            Ok(in_life(request.service_incarnation, method))
        }
        CoordinationMethod::WatchKeys => {
            let request: wire::WatchKeysRequest = message("WatchKeysRequest", bytes)?;
            let from = request.from_revision.map(Revision::new);
            let method = Method::WatchKeys { key: request.key, from };
            Ok(in_life(request.service_incarnation, method))
        }
        _ => Err(not_offered(method)),
    }
}

/// A `WatchKeysRequest` without the bytes that nobody reads: the watch keeps it as long as it lasts.
///
/// # Errors
/// INVALID_ARGUMENT for malformed bytes.
pub fn encode_first_watch(request: &Bytes) -> Result<Bytes, Status> {
    let request: wire::WatchKeysRequest = message("WatchKeysRequest", request)?;
    Ok(request.encode_to_vec().into())
}

/// The `WatchKeysRequest` that goes on where the answer to the last one ends.
///
/// # Errors
/// INVALID_ARGUMENT for malformed bytes.
pub fn encode_next_watch(last: &Bytes, answer: &Bytes) -> Result<Bytes, Status> {
    let last: wire::WatchKeysRequest = message("WatchKeysRequest", last)?;
    let Upto { upto } = message("WatchKeysResponse", answer)?;
    let next = wire::WatchKeysRequest { from_revision: Some(upto), ..last };
    Ok(next.encode_to_vec().into())
}

/// Of a `WatchKeysResponse`, which may be long, what the next request must know.
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Upto {
    #[prost(uint64, tag = "3")]
    upto: u64,
}

fn in_life(life: u64, method: Method) -> CoordinationRequest {
    let life = (life != 0).then(|| ServiceIncarnation::new(life));
    let caller = Caller { dialect: Dialect::Rondo, life, ..Caller::default() };
    CoordinationRequest::of(method, caller)
}

fn put(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    const NAME: &str = "PutKeyRequest";
    let request: wire::PutKeyRequest = long_message(NAME, bytes)?;
    let condition = condition(request.condition, request.revision).ok_or_else(|| {
        field(NAME, "condition").refuse(
            request.condition,
            "it must be 0 (always), 1 (if present), 2 (if absent) or 3 (if at this revision)",
        )
    })?;
    let lease = request.lease_task_id.map(TaskIndex::new);
    let value = Value::Inline(request.value);
    let method = Method::PutKeyValue { key: request.key, value, condition, lease };
    Ok(in_life(request.service_incarnation, method))
}

fn condition(number: i32, revision: u64) -> Option<Condition> {
    use wire::PutCondition as Wire;
    Some(match Wire::try_from(number).ok()? {
        Wire::PutAlways => Condition::Always,
        Wire::PutIfPresent => Condition::Present,
        Wire::PutIfAbsent => Condition::Absent,
        Wire::PutIfRevision => Condition::Revision(Revision::new(revision)),
    })
}

//! Requests of `xla.coordination.CoordinationService`.

use bytes::Bytes;
use rondo_core::coordination::{Caller, Condition, Dialect, Method, TaskName, Value};
use rondo_core::ids::{Incarnation, ServiceIncarnation, TaskIndex};
use rondo_core::status::Status;

use super::{CoordinationMethod, CoordinationRequest, not_offered};
use crate::convert::check::{field, long_message, message};
use crate::xla as wire;

/// Decodes one.
pub(super) fn decode(
    method: CoordinationMethod,
    bytes: &Bytes,
) -> Result<CoordinationRequest, Status> {
    use CoordinationMethod as M;
    match method {
        M::RegisterTask => register(bytes),
        M::Heartbeat => heartbeat(bytes),
        M::ShutdownTask => shutdown(bytes),
        M::ReportErrorToService => report_to_service(bytes),
        M::PollForError => poll(bytes),
        M::WatchTasks => watch(bytes),
        M::InsertKeyValue => insert(bytes),
        M::GetKeyValue => get(bytes),
        M::TryGetKeyValue => try_get(bytes),
        M::IncrementKeyValue => increment(bytes),
        M::GetKeyValueDir => directory(bytes),
        M::DeleteKeyValue => delete(bytes),
        M::Barrier => barrier(bytes),
        M::CancelBarrier => cancel_barrier(bytes),
        M::GetAliveTasks => alive(bytes),
        M::WaitForAllTasks
        | M::ResetTask
        | M::ReportErrorToTask
        | M::GetTaskState
        | M::GetJobState
        | M::WatchJobState
        | M::PutKey
        | M::DeleteKey
        | M::WatchKeys => Err(not_offered(method)),
    }
}

/// Who asks. Nobody said for which life counts as one that never was. The task's number there is
/// not filled in by most calls, so it says nothing.
fn sender(incarnations: Option<wire::Incarnations>) -> Caller {
    let block = incarnations.unwrap_or_default();
    let known = (block.task_incarnation != 0).then_some(block.task_incarnation);
    Caller {
        dialect: Dialect::X,
        life: Some(ServiceIncarnation::new(block.service_incarnation)),
        incarnation: known.map(Incarnation::new),
        ..Caller::default()
    }
}

fn from(
    task: i32,
    incarnations: Option<wire::Incarnations>,
    method: impl FnOnce(TaskName) -> Method,
) -> CoordinationRequest {
    let caller = Caller { task: Some(TaskIndex::new(task)), ..sender(incarnations) };
    CoordinationRequest::of(method(TaskName::of(task)), caller)
}

fn register(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    let request: wire::RegisterTaskRequest = message("RegisterTaskRequest", bytes)?;
    let incarnation = Incarnation::new(request.incarnation);
    let task = TaskName::of(request.source_task_id);
    let caller = Caller { task: Some(task.index), dialect: Dialect::X, ..Caller::default() };
    let method = Method::RegisterTask { task, incarnation, recoverable: false, tasks: None };
    Ok(CoordinationRequest::of(method, caller))
}

fn heartbeat(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    let request: wire::HeartbeatRequest = message("HeartbeatRequest", bytes)?;
    let incarnation = Incarnation::new(request.incarnation);
    Ok(from(request.source_task_id, request.incarnations, |task| Method::Heartbeat {
        task,
        incarnation,
    }))
}

fn shutdown(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    let request: wire::ShutdownTaskRequest = message("ShutdownTaskRequest", bytes)?;
    Ok(from(request.source_task_id, request.incarnations, |task| Method::ShutdownTask { task }))
}

fn report_to_service(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    let request: wire::ReportErrorToServiceRequest = message("ReportErrorToServiceRequest", bytes)?;
    let (code, message) = (request.error_code, request.error_message);
    Ok(from(request.source_task_id, request.incarnations, |task| Method::ReportErrorToService {
        task,
        code,
        message,
    }))
}

fn poll(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    let request: wire::PollForErrorRequest = message("PollForErrorRequest", bytes)?;
    Ok(from(request.source_task_id, request.incarnations, |task| Method::PollForError { task }))
}

fn watch(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    let request: wire::WatchTasksRequest = message("WatchTasksRequest", bytes)?;
    let method = Method::WatchTasks { version: request.version_number };
    Ok(CoordinationRequest::of(method, sender(request.incarnations)))
}

fn insert(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    const NAME: &str = "InsertKeyValueRequest";
    let request: wire::InsertKeyValueRequest = long_message(NAME, bytes)?;
    let missing = || field(NAME, "kv").refuse("missing", "it must be a KeyValueEntry");
    let wire::KeyValueEntry { key, value } = request.kv.ok_or_else(missing)?;
    let condition = if request.allow_overwrite { Condition::Always } else { Condition::Absent };
    let value = Value::Inline(value);
    let method = Method::PutKeyValue { key, value, condition, lease: None };
    Ok(CoordinationRequest::of(method, sender(request.incarnations)))
}

fn get(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    let wire::GetKeyValueRequest { incarnations, key } = message("GetKeyValueRequest", bytes)?;
    let method = Method::GetKeyValue { key: key.clone() };
    Ok(CoordinationRequest::echoing(method, sender(incarnations), &key))
}

fn try_get(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    let wire::TryGetKeyValueRequest { incarnations, key } =
        message("TryGetKeyValueRequest", bytes)?;
    let method = Method::TryGetKeyValue { key: key.clone() };
    Ok(CoordinationRequest::echoing(method, sender(incarnations), &key))
}

fn increment(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    let wire::IncrementKeyValueRequest { incarnations, key, increment } =
        message("IncrementKeyValueRequest", bytes)?;
    let method = Method::IncrementKeyValue { key: key.clone(), increment };
    Ok(CoordinationRequest::echoing(method, sender(incarnations), &key))
}

fn directory(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    let request: wire::GetKeyValueDirRequest = message("GetKeyValueDirRequest", bytes)?;
    let method = Method::GetKeyValueDir { directory: request.directory_key };
    Ok(CoordinationRequest::of(method, sender(request.incarnations)))
}

/// Whether it is a directory makes no difference: all under the key goes with it.
fn delete(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    let request: wire::DeleteKeyValueRequest = message("DeleteKeyValueRequest", bytes)?;
    let method = Method::DeleteKeyValue { key: request.key };
    Ok(CoordinationRequest::of(method, sender(request.incarnations)))
}

fn barrier(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    const NAME: &str = "BarrierRequest";
    let request: wire::BarrierRequest = message(NAME, bytes)?;
    let (id, counter) = (request.barrier_id.into(), request.counter);
    let timeout_ms = request.barrier_timeout_in_ms;
    let tasks = field(NAME, "task_ids").task_ids(request.task_ids)?;
    Ok(from(request.source_task_id, request.incarnations, |source| Method::Barrier {
        id,
        counter,
        timeout_ms,
        tasks,
        source,
    }))
}

fn cancel_barrier(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    let request: wire::CancelBarrierRequest = message("CancelBarrierRequest", bytes)?;
    let (id, counter) = (request.barrier_id.into(), request.counter);
    Ok(from(request.source_task_id, request.incarnations, |_| Method::CancelBarrier {
        id,
        counter,
    }))
}

fn alive(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    const NAME: &str = "GetAliveTasksRequest";
    let request: wire::GetAliveTasksRequest = message(NAME, bytes)?;
    let tasks = field(NAME, "task_ids").task_ids(request.task_ids)?;
    Ok(from(request.requesting_task_id, request.incarnations, |requester| Method::GetAliveTasks {
        requester,
        tasks,
    }))
}

//! Requests of `tensorflow.CoordinationService`.

use bytes::Bytes;
use rondo_core::coordination::{Caller, Condition, Dialect, Method, TaskName, Value};
use rondo_core::ids::Incarnation;
use rondo_core::limits::DEVICES_BYTES_MAX;
use rondo_core::status::Status;

use super::{CoordinationMethod, CoordinationRequest, not_offered};
use crate::convert::check::{field, long_message, message};
use crate::tf as wire;

/// Decodes one.
pub(super) fn decode(
    method: CoordinationMethod,
    bytes: &Bytes,
) -> Result<CoordinationRequest, Status> {
    use CoordinationMethod as M;
    match method {
        M::RegisterTask => register(bytes),
        M::Heartbeat => heartbeat(bytes),
        M::WaitForAllTasks => wait_for_all_tasks(bytes),
        M::ShutdownTask => shutdown(bytes),
        M::ResetTask => reset(bytes),
        M::ReportErrorToTask => report_to_task(bytes),
        M::ReportErrorToService => report_to_service(bytes),
        M::PollForError => poll(bytes),
        M::GetTaskState => task_state(bytes),
        M::GetJobState => job_state(bytes),
        M::WatchJobState => watch_job(bytes),
        M::InsertKeyValue => insert(bytes),
        M::GetKeyValue => get(bytes),
        M::TryGetKeyValue => try_get(bytes),
        M::IncrementKeyValue => increment(bytes),
        M::GetKeyValueDir => directory(bytes),
        M::DeleteKeyValue => delete(bytes),
        M::Barrier => barrier(bytes),
        M::CancelBarrier => cancel_barrier(bytes),
        M::GetAliveTasks => alive(bytes),
        M::WatchTasks | M::PutKey | M::DeleteKey | M::WatchKeys => Err(not_offered(method)),
    }
}

/// Somebody of whom the request says nothing: keys and watches.
fn anyone(method: Method) -> CoordinationRequest {
    CoordinationRequest::of(method, Caller { dialect: Dialect::T, ..Caller::default() })
}

/// The task that asks.
fn from(task: &TaskName, method: Method) -> CoordinationRequest {
    let mut request = anyone(method);
    request.caller.task = Some(task.index);
    request
}

fn of_key(method: Method, key: &str) -> CoordinationRequest {
    CoordinationRequest { echo: key.to_owned(), ..anyone(method) }
}

fn register(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    const NAME: &str = "RegisterTaskRequest";
    let request: wire::RegisterTaskRequest = message(NAME, bytes)?;
    let recoverable = request.source_task.as_ref().is_some_and(|task| task.recoverable);
    let task = field(NAME, "source_task").task(request.source_task)?;
    let incarnation = Incarnation::new(request.incarnation);
    let method = Method::RegisterTask { task: task.clone(), incarnation, recoverable, tasks: None };
    Ok(from(&task, method))
}

fn heartbeat(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    const NAME: &str = "HeartbeatRequest";
    let request: wire::HeartbeatRequest = message(NAME, bytes)?;
    let task = field(NAME, "source_task").task(request.source_task)?;
    let incarnation = Incarnation::new(request.incarnation);
    Ok(from(&task, Method::Heartbeat { task: task.clone(), incarnation }))
}

fn wait_for_all_tasks(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    const NAME: &str = "WaitForAllTasksRequest";
    let request: wire::WaitForAllTasksRequest = message(NAME, bytes)?;
    let task = field(NAME, "source_task").task(request.source_task)?;
    let devices = field(NAME, "device_info").bytes(request.device_info, DEVICES_BYTES_MAX)?;
    message::<wire::DeviceInfo>("DeviceInfo", &devices)?;
    // What stays in the state must not keep the whole request in memory.
    let devices = Bytes::copy_from_slice(&devices);
    Ok(from(&task, Method::WaitForAllTasks { task: task.clone(), devices }))
}

fn shutdown(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    const NAME: &str = "ShutdownTaskRequest";
    let request: wire::ShutdownTaskRequest = message(NAME, bytes)?;
    let task = field(NAME, "source_task").task(request.source_task)?;
    Ok(from(&task, Method::ShutdownTask { task: task.clone() }))
}

fn reset(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    const NAME: &str = "ResetTaskRequest";
    let request: wire::ResetTaskRequest = message(NAME, bytes)?;
    let task = field(NAME, "source_task").task(request.source_task)?;
    Ok(from(&task, Method::ResetTask { task: task.clone() }))
}

fn report_to_task(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    message::<wire::ReportErrorToTaskRequest>("ReportErrorToTaskRequest", bytes)?;
    Ok(anyone(Method::ReportErrorToTask))
}

fn report_to_service(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    const NAME: &str = "ReportErrorToServiceRequest";
    let request: wire::ReportErrorToServiceRequest = message(NAME, bytes)?;
    let task = field(NAME, "error_origin").task(request.error_origin)?;
    let (code, message) = (request.error_code, request.error_message);
    Ok(from(&task, Method::ReportErrorToService { task: task.clone(), code, message }))
}

fn poll(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    const NAME: &str = "PollForErrorRequest";
    let request: wire::PollForErrorRequest = message(NAME, bytes)?;
    let task = field(NAME, "source_task").task(request.source_task)?;
    Ok(from(&task, Method::PollForError { task: task.clone() }))
}

fn task_state(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    const NAME: &str = "GetTaskStateRequest";
    let request: wire::GetTaskStateRequest = message(NAME, bytes)?;
    let tasks = field(NAME, "source_task").tasks(request.source_task)?;
    Ok(anyone(Method::GetTaskState { tasks }))
}

fn job_state(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    const NAME: &str = "GetJobStateRequest";
    let request: wire::GetJobStateRequest = message(NAME, bytes)?;
    let job = field(NAME, "job_name").name(request.job_name)?.into();
    Ok(anyone(Method::GetJobState { job }))
}

/// The job's name is not looked at, as by JAX's own server: a namespace has one job.
fn watch_job(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    let request: wire::WatchJobStateRequest = message("WatchJobStateRequest", bytes)?;
    Ok(anyone(Method::WatchTasks { version: request.version_number }))
}

fn insert(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    const NAME: &str = "InsertKeyValueRequest";
    let request: wire::InsertKeyValueRequest = long_message(NAME, bytes)?;
    let missing = || field(NAME, "kv").refuse("missing", "it must be a KeyValueEntry");
    let wire::KeyValueEntry { key, value } = request.kv.ok_or_else(missing)?;
    let condition = if request.allow_overwrite { Condition::Always } else { Condition::Absent };
    let value = Value::Inline(value);
    Ok(anyone(Method::PutKeyValue { key, value, condition, lease: None }))
}

fn get(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    let wire::GetKeyValueRequest { key } = message("GetKeyValueRequest", bytes)?;
    Ok(of_key(Method::GetKeyValue { key: key.clone() }, &key))
}

fn try_get(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    let wire::TryGetKeyValueRequest { key } = message("TryGetKeyValueRequest", bytes)?;
    Ok(of_key(Method::TryGetKeyValue { key: key.clone() }, &key))
}

fn increment(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    let wire::IncrementKeyValueRequest { key, increment } =
        message("IncrementKeyValueRequest", bytes)?;
    Ok(of_key(Method::IncrementKeyValue { key: key.clone(), increment }, &key))
}

fn directory(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    let request: wire::GetKeyValueDirRequest = message("GetKeyValueDirRequest", bytes)?;
    Ok(anyone(Method::GetKeyValueDir { directory: request.directory_key }))
}

/// Whether it is a directory makes no difference: all under the key goes with it.
fn delete(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    let request: wire::DeleteKeyValueRequest = message("DeleteKeyValueRequest", bytes)?;
    Ok(anyone(Method::DeleteKeyValue { key: request.key }))
}

fn barrier(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    const NAME: &str = "BarrierRequest";
    let request: wire::BarrierRequest = message(NAME, bytes)?;
    let source = field(NAME, "source_task").task(request.source_task)?;
    let method = Method::Barrier {
        id: request.barrier_id.into(),
        counter: request.counter,
        timeout_ms: request.barrier_timeout_in_ms,
        tasks: field(NAME, "tasks").tasks(request.tasks)?,
        source: source.clone(),
    };
    Ok(from(&source, method))
}

fn cancel_barrier(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    const NAME: &str = "CancelBarrierRequest";
    let request: wire::CancelBarrierRequest = message(NAME, bytes)?;
    let source = field(NAME, "source_task").task(request.source_task)?;
    let id = request.barrier_id.into();
    Ok(from(&source, Method::CancelBarrier { id, counter: request.counter }))
}

fn alive(bytes: &Bytes) -> Result<CoordinationRequest, Status> {
    const NAME: &str = "GetAliveTasksRequest";
    let request: wire::GetAliveTasksRequest = message(NAME, bytes)?;
    let requester = field(NAME, "requesting_task").task(request.requesting_task)?;
    let tasks = field(NAME, "tasks").tasks(request.tasks)?;
    Ok(from(&requester, Method::GetAliveTasks { requester: requester.clone(), tasks }))
}

//! Workers: heartbeats, progress, and the tasks they are told of.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{
    Request, TaskDef, TransferServer, WorkerHeartbeat, WorkerHeartbeatReply,
};
use rondo_core::ids::TaskId;
use rondo_core::limits::COMPATIBILITY_INFO_BYTES_MAX;
use rondo_core::status::Status;

use super::check::{field, message};
use super::jobs::sharding;
use crate::tf::data as wire;

/// Decodes `WorkerHeartbeatRequest`.
pub(super) fn decode_heartbeat(bytes: &Bytes) -> Result<Request, Status> {
    const NAME: &str = "WorkerHeartbeatRequest";
    let request: wire::WorkerHeartbeatRequest = message(NAME, bytes)?;
    let current_tasks = field(NAME, "current_tasks").items(request.current_tasks)?;
    let tags = field(NAME, "worker_tags");
    let transfer_servers = field(NAME, "transfer_servers").items(request.transfer_servers)?;
    Ok(Request::WorkerHeartbeat(WorkerHeartbeat {
        address: field(NAME, "worker_address").present_name(request.worker_address)?,
        current_tasks: current_tasks.into_iter().map(TaskId::new).collect(),
        tags: tags
            .items(request.worker_tags)?
            .into_iter()
            .map(|tag| tags.name(tag))
            .collect::<Result<_, _>>()?,
        uid: request.worker_uid,
        transfer_servers: transfer_servers
            .into_iter()
            .map(decode_transfer_server)
            .collect::<Result<_, _>>()?,
    }))
}

fn decode_transfer_server(server: wire::DataTransferServerInfo) -> Result<TransferServer, Status> {
    const NAME: &str = "DataTransferServerInfo";
    let compatibility_info = field(NAME, "compatibility_info")
        .bytes(server.compatibility_info, COMPATIBILITY_INFO_BYTES_MAX)?;
    Ok(TransferServer {
        protocol: field(NAME, "protocol").name(server.protocol)?,
        address: field(NAME, "address").name(server.address)?,
        // Kept as long as the worker: a slice would keep the whole request with it.
        compatibility_info: Bytes::copy_from_slice(&compatibility_info),
        fall_back_to_grpc_at_client_creation_time: server.fall_back_to_grpc_at_client_creation_time,
        fall_back_to_grpc_at_get_element_time: server.fall_back_to_grpc_at_get_element_time,
    })
}

/// Decodes `WorkerUpdateRequest`.
pub(super) fn decode_update(bytes: &Bytes) -> Result<Request, Status> {
    const NAME: &str = "WorkerUpdateRequest";
    let request: wire::WorkerUpdateRequest = message(NAME, bytes)?;
    let updates = field(NAME, "updates").items(request.updates)?;
    Ok(Request::WorkerUpdate {
        worker_address: field(NAME, "worker_address").present_name(request.worker_address)?,
        progress: updates
            .into_iter()
            .map(|update| (TaskId::new(update.task_id), update.completed))
            .collect(),
    })
}

/// Decodes `GetWorkersRequest`.
pub(super) fn decode_get_workers(bytes: &Bytes) -> Result<Request, Status> {
    message::<wire::GetWorkersRequest>("GetWorkersRequest", bytes)?;
    Ok(Request::GetWorkers)
}

/// Encodes `WorkerHeartbeatResponse`.
pub(super) fn encode_heartbeat(reply: &WorkerHeartbeatReply) -> Bytes {
    let response = wire::WorkerHeartbeatResponse {
        new_tasks: reply.new_tasks.iter().map(task_def).collect(),
        tasks_to_delete: reply.tasks_to_delete.iter().map(|task| task.get()).collect(),
    };
    response.encode_to_vec().into()
}

/// Encodes `WorkerUpdateResponse`.
pub(super) fn encode_updated() -> Bytes {
    wire::WorkerUpdateResponse {}.encode_to_vec().into()
}

/// Encodes `GetWorkersResponse`.
pub(super) fn encode_workers(addresses: &[Arc<str>]) -> Bytes {
    let info = |address: &Arc<str>| wire::WorkerInfo { address: address.as_ref().to_owned() };
    wire::GetWorkersResponse { workers: addresses.iter().map(info).collect() }
        .encode_to_vec()
        .into()
}

/// Encodes `ProcessTaskRequest`, which tells the worker at `task.worker_address` of a task.
pub fn encode_process_task(task: &TaskDef) -> Bytes {
    wire::ProcessTaskRequest { task: Some(task_def(task)) }.encode_to_vec().into()
}

fn task_def(task: &TaskDef) -> wire::TaskDef {
    wire::TaskDef {
        dataset: Some(task_dataset(task)),
        dataset_id: task.dataset.as_str().to_owned(),
        task_id: task.task.get(),
        iteration_id: task.iteration.get(),
        num_consumers: task.consumers,
        worker_address: task.worker_address.as_ref().to_owned(),
        num_split_providers: task.split_providers,
        processing_mode_def: Some(wire::ProcessingModeDef {
            sharding_policy: sharding(task.sharding).into(),
        }),
        num_workers: task.workers,
        worker_index: task.worker_index,
        use_cross_trainer_cache: task.use_cross_trainer_cache,
    }
}

/// The definition itself, or a path at which there can be no file: the worker then asks for the
/// definition by `GetDatasetDef`, so that it need not share a file system with the dispatcher.
fn task_dataset(task: &TaskDef) -> wire::task_def::Dataset {
    match &task.definition.inline {
        Some(bytes) => wire::task_def::Dataset::DatasetDef(bytes.clone()),
        None => wire::task_def::Dataset::Path(format!("rondo:{}", task.definition.digest)),
    }
}

/// A transfer server as it stands on the wire.
pub(super) fn transfer_server(server: &TransferServer) -> wire::DataTransferServerInfo {
    wire::DataTransferServerInfo {
        protocol: server.protocol.clone(),
        address: server.address.clone(),
        compatibility_info: server.compatibility_info.clone(),
        fall_back_to_grpc_at_client_creation_time: server.fall_back_to_grpc_at_client_creation_time,
        fall_back_to_grpc_at_get_element_time: server.fall_back_to_grpc_at_get_element_time,
    }
}

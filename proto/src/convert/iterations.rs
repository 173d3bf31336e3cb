//! Iterations and their clients: joining, heartbeats, leaving, giving a task up.

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{ClientHeartbeat, ClientHeartbeatReply, Request, TaskInfo};
use rondo_core::ids::{ClientId, JobId, TaskId};
use rondo_core::status::Status;

use super::check::message;
use super::datasets::deployment_mode;
use super::workers::transfer_server;
use crate::tf::data as wire;

/// Decodes `GetOrCreateIterationRequest`.
pub(super) fn decode_iteration(bytes: &Bytes) -> Result<Request, Status> {
    let request: wire::GetOrCreateIterationRequest = message("GetOrCreateIterationRequest", bytes)?;
    Ok(Request::GetOrCreateIteration {
        job: JobId::new(request.job_id),
        repetition: request.repetition,
    })
}

/// Decodes `ClientHeartbeatRequest`.
pub(super) fn decode_heartbeat(bytes: &Bytes) -> Result<Request, Status> {
    let request: wire::ClientHeartbeatRequest = message("ClientHeartbeatRequest", bytes)?;
    Ok(Request::ClientHeartbeat(ClientHeartbeat {
        client: ClientId::new(request.iteration_client_id),
        current_round: request.current_round,
        blocked_round: request.blocked_round,
        target_processing_time_ns: whole_ns(request.target_processing_time_nsec),
    }))
}

/// Whole nanoseconds. What is no span of time (negative, NaN) counts as none.
fn whole_ns(nsec: f64) -> u64 {
    // A float's `as` saturates, and turns NaN into 0.
    nsec as u64
}

/// Decodes `ReleaseIterationClientRequest`.
pub(super) fn decode_release(bytes: &Bytes) -> Result<Request, Status> {
    let request: wire::ReleaseIterationClientRequest =
        message("ReleaseIterationClientRequest", bytes)?;
    Ok(Request::ReleaseClient { client: ClientId::new(request.iteration_client_id) })
}

/// Decodes `MaybeRemoveTaskRequest`.
pub(super) fn decode_remove_task(bytes: &Bytes) -> Result<Request, Status> {
    let request: wire::MaybeRemoveTaskRequest = message("MaybeRemoveTaskRequest", bytes)?;
    Ok(Request::MaybeRemoveTask {
        task: TaskId::new(request.task_id),
        consumer_index: request.consumer_index,
        round: request.round,
    })
}

/// Encodes `GetOrCreateIterationResponse`.
pub(super) fn encode_client(id: ClientId) -> Bytes {
    wire::GetOrCreateIterationResponse { iteration_client_id: id.get() }.encode_to_vec().into()
}

/// Encodes `ClientHeartbeatResponse`.
pub fn encode_client_heartbeat(reply: &ClientHeartbeatReply) -> Bytes {
    let response = wire::ClientHeartbeatResponse {
        task_info: reply.tasks.iter().map(task_info).collect(),
        iteration_finished: reply.iteration_finished,
        block_round: reply.block_round,
        deployment_mode: deployment_mode(reply.deployment_mode).into(),
    };
    response.encode_to_vec().into()
}

fn task_info(task: &TaskInfo) -> wire::TaskInfo {
    wire::TaskInfo {
        worker_address: task.worker_address.as_ref().to_owned(),
        task_id: task.task.get(),
        iteration_id: task.iteration.get(),
        starting_round: task.starting_round,
        worker_tags: task.worker_tags.to_vec(),
        worker_uid: task.worker_uid,
        transfer_servers: task.transfer_servers.iter().map(transfer_server).collect(),
    }
}

/// Encodes `ReleaseIterationClientResponse`.
pub(super) fn encode_released() -> Bytes {
    wire::ReleaseIterationClientResponse {}.encode_to_vec().into()
}

/// Encodes `MaybeRemoveTaskResponse`.
pub(super) fn encode_removed(removed: bool) -> Bytes {
    wire::MaybeRemoveTaskResponse { removed }.encode_to_vec().into()
}

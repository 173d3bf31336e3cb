//! Answers of workers other than elements.

use bytes::Bytes;
use prost::Message;
use rondo_core::ids::{IterationId, TaskId};
use rondo_core::limits::REQUEST_BYTES_MAX;
use rondo_core::status::Status;

use super::HeldTask;
use crate::convert::check::{field, message};
use crate::tf::data as wire;

const NAME: &str = "GetWorkerTasksResponse";

/// Encodes `ProcessTaskResponse`, which says nothing, and `GetSnapshotTaskProgressesResponse` of a
/// worker that writes no snapshots.
pub const fn encode_nothing() -> Bytes {
    Bytes::new()
}

/// Encodes `GetWorkerTasksResponse`: the tasks held by the worker at this address.
pub fn encode_worker_tasks(worker_address: &str, tasks: &[HeldTask]) -> Bytes {
    let info = |held: &HeldTask| wire::TaskInfo {
        worker_address: worker_address.to_owned(),
        task_id: held.task.get(),
        iteration_id: held.iteration.get(),
        ..Default::default()
    };
    let tasks = tasks.iter().map(info).collect();
    wire::GetWorkerTasksResponse { tasks }.encode_to_vec().into()
}

/// Decodes `GetWorkerTasksResponse`: the tasks that the worker at `worker_address` holds.
///
/// # Errors
/// INVALID_ARGUMENT for what is no such message, is too long, or tells of another worker's tasks.
pub fn decode_worker_tasks(worker_address: &str, bytes: &Bytes) -> Result<Vec<HeldTask>, Status> {
    let tasks = field(NAME, "tasks");
    tasks.bytes(bytes.clone(), REQUEST_BYTES_MAX)?;
    let response: wire::GetWorkerTasksResponse = message(NAME, bytes)?;
    let held = |info: wire::TaskInfo| {
        if info.worker_address != worker_address {
            let found = format!("of worker \"{}\"", info.worker_address.escape_debug());
            return Err(field("TaskInfo", "worker_address")
                .refuse(found, format_args!("the worker asked is \"{worker_address}\"")));
        }
        let (task, iteration) = (TaskId::new(info.task_id), IterationId::new(info.iteration_id));
        Ok(HeldTask { task, iteration })
    };
    tasks.items(response.tasks)?.into_iter().map(held).collect()
}

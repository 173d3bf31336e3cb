//! Requests to a worker.

use bytes::Bytes;
use prost::Message;
use rondo_core::ids::TaskId;
use rondo_core::limits::REQUEST_BYTES_MAX;
use rondo_core::status::{Code, Status};

use super::task::{decode_task, encode_task};
use super::{ConsumerRound, GetElement, WorkerMethod, WorkerRequest};
use crate::convert::check::{Field, field, message};
use crate::tf::data as wire;

/// Decodes the request message of `method`.
///
/// # Errors
/// INVALID_ARGUMENT for malformed bytes and wrong values (INTERNAL for a sharding policy that does
/// not exist and FAILED_PRECONDITION for a negative round or consumer, as TensorFlow has it),
/// RESOURCE_EXHAUSTED for requests that are too long.
pub fn decode_worker_request(method: WorkerMethod, bytes: &Bytes) -> Result<WorkerRequest, Status> {
    if method == WorkerMethod::ProcessTask {
        // Holds a dataset's definition, and no list.
        let request: wire::ProcessTaskRequest = message("ProcessTaskRequest", bytes)?;
        return decode_task(request.task).map(WorkerRequest::ProcessTask);
    }
    short(method, bytes)?;
    Ok(match method {
        WorkerMethod::ProcessTask | WorkerMethod::GetElement => {
            WorkerRequest::GetElement(decode_get_element(bytes)?)
        }
        WorkerMethod::GetWorkerTasks => {
            message::<wire::GetWorkerTasksRequest>("GetWorkerTasksRequest", bytes)?;
            WorkerRequest::GetWorkerTasks
        }
        WorkerMethod::GetSnapshotTaskProgresses => {
            const NAME: &str = "GetSnapshotTaskProgressesRequest";
            message::<wire::GetSnapshotTaskProgressesRequest>(NAME, bytes)?;
            WorkerRequest::GetSnapshotTaskProgresses
        }
    })
}

fn short(method: WorkerMethod, bytes: &Bytes) -> Result<(), Status> {
    if bytes.len() <= REQUEST_BYTES_MAX {
        return Ok(());
    }
    let (name, size) = (method.name(), bytes.len());
    let text = format!(
        "{name}Request is {size} bytes long; at most {REQUEST_BYTES_MAX} bytes are allowed"
    );
    Err(Status::new(Code::ResourceExhausted, text))
}

fn decode_get_element(bytes: &Bytes) -> Result<GetElement, Status> {
    const NAME: &str = "GetElementRequest";
    let request: wire::GetElementRequest = message(NAME, bytes)?;
    let (consumer, round) = (field(NAME, "consumer_index"), field(NAME, "round_index"));
    let round = match (request.consumer_index, request.round_index) {
        (None, None) => None,
        (Some(index), Some(number)) => Some(ConsumerRound {
            consumer: from_zero(consumer, index)?,
            round: from_zero(round, number)?,
        }),
        (Some(_), None) => return Err(round.refuse("absent", "consumer_index is present")),
        (None, Some(_)) => return Err(consumer.refuse("absent", "round_index is present")),
    };
    Ok(GetElement {
        task: TaskId::new(request.task_id),
        round,
        skipped_previous_round: request.skipped_previous_round,
        allow_skip: request.allow_skip,
        trainer: field(NAME, "trainer_id").name(request.trainer_id)?,
    })
}

fn from_zero(field: Field, number: i64) -> Result<i64, Status> {
    if number >= 0 {
        return Ok(number);
    }
    let refusal = field.refuse(number, "it must be 0 or more");
    Err(Status { code: Code::FailedPrecondition, ..refusal })
}

/// The path and the message of a request to a worker.
pub fn encode_worker_request(request: &WorkerRequest) -> (&'static str, Bytes) {
    match request {
        WorkerRequest::ProcessTask(task) => {
            let request = wire::ProcessTaskRequest { task: Some(encode_task(task)) };
            (WorkerMethod::ProcessTask.path(), request.encode_to_vec().into())
        }
        WorkerRequest::GetElement(request) => {
            let request = wire::GetElementRequest {
                task_id: request.task.get(),
                consumer_index: request.round.map(|round| round.consumer),
                round_index: request.round.map(|round| round.round),
                skipped_previous_round: request.skipped_previous_round,
                allow_skip: request.allow_skip,
                trainer_id: request.trainer.clone(),
            };
            (WorkerMethod::GetElement.path(), request.encode_to_vec().into())
        }
        WorkerRequest::GetWorkerTasks => (WorkerMethod::GetWorkerTasks.path(), Bytes::new()),
        WorkerRequest::GetSnapshotTaskProgresses => {
            (WorkerMethod::GetSnapshotTaskProgresses.path(), Bytes::new())
        }
    }
}

//! What the dispatcher answers.

use std::sync::Arc;

use bytes::Bytes;
use rondo_core::dispatcher;
use rondo_core::ids::{ClientId, JobId, TaskId};
use rondo_core::limits::HEARTBEAT_ITEMS_MAX;
use rondo_core::reader::{Answer, HeartbeatAnswer, HeldSplit, Request, SplitsAnswer, Task};
use rondo_core::status::Status;

use super::malformed::{answer, bounded, malformed, name};
use crate::convert::decode_held;
use crate::tf::data as wire;

/// Decodes the dispatcher's answer to a request of a reader.
///
/// # Errors
/// INTERNAL for bytes that are no such answer, and for lists and names longer than they may be.
pub fn decode_reader_answer(request: &Request, bytes: &Bytes) -> Result<Answer, Status> {
    Ok(match request {
        Request::CreateJob => {
            let told: wire::GetOrCreateJobResponse = answer("GetOrCreateJobResponse", bytes)?;
            Answer::Job(JobId::new(told.job_id))
        }
        Request::CreateIteration { .. } => {
            let told: wire::GetOrCreateIterationResponse =
                answer("GetOrCreateIterationResponse", bytes)?;
            Answer::Client(ClientId::new(told.iteration_client_id))
        }
        Request::Heartbeat { .. } => Answer::Heartbeat(heartbeat(bytes)?),
        Request::HoldSplits { .. } => Answer::Splits(splits(bytes)?),
        Request::RemoveTask { .. } => {
            let told: wire::MaybeRemoveTaskResponse = answer("MaybeRemoveTaskResponse", bytes)?;
            Answer::Removed(told.removed)
        }
        Request::Release { .. } => Answer::Released,
    })
}

fn heartbeat(bytes: &Bytes) -> Result<HeartbeatAnswer, Status> {
    const NAME: &str = "ClientHeartbeatResponse";
    let told: wire::ClientHeartbeatResponse = answer(NAME, bytes)?;
    let tasks = bounded(NAME, "task_info", told.task_info, HEARTBEAT_ITEMS_MAX)?;
    Ok(HeartbeatAnswer {
        tasks: tasks.into_iter().map(task).collect::<Result<_, _>>()?,
        is_finished: told.iteration_finished,
        block_round: told.block_round,
    })
}

fn task(info: wire::TaskInfo) -> Result<Task, Status> {
    const NAME: &str = "TaskInfo";
    let servers = bounded(NAME, "transfer_servers", info.transfer_servers, HEARTBEAT_ITEMS_MAX)?;
    let server = |server: wire::DataTransferServerInfo| {
        let protocol = name(NAME, "protocol", server.protocol)?;
        Ok((protocol, Arc::from(name(NAME, "address", server.address)?)))
    };
    Ok(Task {
        id: TaskId::new(info.task_id),
        worker: name(NAME, "worker_address", info.worker_address)?.into(),
        servers: servers.into_iter().map(server).collect::<Result<_, Status>>()?,
        starting_round: info.starting_round,
    })
}

fn splits(bytes: &Bytes) -> Result<SplitsAnswer, Status> {
    let told = decode_held(bytes)
        .map_err(|status| malformed("HoldSplitsResponse", format_args!("{}", status.message)))?;
    let held = |split: dispatcher::HeldSplit| HeldSplit {
        place: split.place,
        split: split.split,
        records: split.records,
    };
    let splits = told.splits.into_iter().map(held).collect();
    let (is_finished, is_with_workers) = (told.finished, told.with_workers);
    Ok(SplitsAnswer { splits, is_finished, is_with_workers })
}

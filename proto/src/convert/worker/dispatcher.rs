//! What a worker asks of its dispatcher, and the answers.

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{ShardingPolicy, TransferServer};
use rondo_core::ids::{IterationId, TaskId};
use rondo_core::status::{Code, Status};
use rondo_core::worker::{Part, Reply, Request, ShardBy, TaskDef};

use super::task::decode_task;
use super::{TaskDefinition, WorkerTask};
use crate::convert::method::Method;
use crate::convert::workers::transfer_server;
use crate::tf;
use crate::tf::data as wire;

/// Who a worker is, as it tells its dispatcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerIdentity {
    /// Its address (`host:port`), which is its name.
    pub address: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// A number of its process; -1 for none.
    pub uid: i64,
    /// Where consumers may read from it.
    pub transfer_servers: Vec<TransferServer>,
}

/// The path and the message of a worker's request to its dispatcher.
pub fn encode_request_to_dispatcher(
    worker: &WorkerIdentity,
    request: &Request,
) -> (&'static str, Bytes) {
    let (method, message) = match request {
        Request::Version => (Method::GetVersion, Vec::new()),
        Request::Heartbeat { tasks } => {
            (Method::WorkerHeartbeat, heartbeat(worker, tasks).encode_to_vec())
        }
        Request::Update { completed } => {
            let progress =
                |task: &TaskId| wire::TaskProgress { task_id: task.get(), completed: true };
            let update = wire::WorkerUpdateRequest {
                worker_address: worker.address.clone(),
                updates: completed.iter().map(progress).collect(),
            };
            (Method::WorkerUpdate, update.encode_to_vec())
        }
        Request::Split { iteration } => (Method::GetSplit, split(*iteration).encode_to_vec()),
        Request::Compression { dataset } => {
            let wish = wire::DisableCompressionAtRuntimeRequest {
                dataset_id: dataset.as_str().to_owned(),
                // Clients wish, and come first; a worker asks what was decided.
                disable_compression_at_runtime: false,
            };
            (Method::DisableCompressionAtRuntime, wish.encode_to_vec())
        }
        Request::Definition { dataset } => {
            let wanted = wire::GetDatasetDefRequest { dataset_id: dataset.as_str().to_owned() };
            (Method::GetDatasetDef, wanted.encode_to_vec())
        }
    };
    (method.path(), message.into())
}

fn heartbeat(worker: &WorkerIdentity, tasks: &[TaskId]) -> wire::WorkerHeartbeatRequest {
    wire::WorkerHeartbeatRequest {
        worker_address: worker.address.clone(),
        current_tasks: tasks.iter().map(|task| task.get()).collect(),
        worker_tags: worker.tags.clone(),
        worker_uid: worker.uid,
        transfer_servers: worker.transfer_servers.iter().map(transfer_server).collect(),
    }
}

/// A dataset of ours has one source, which counts the splits of all passes.
const fn split(iteration: IterationId) -> wire::GetSplitRequest {
    wire::GetSplitRequest { iteration_id: iteration.get(), repetition: 0, split_provider_index: 0 }
}

/// Decodes the dispatcher's answer to a request. Tasks that cannot be understood are left out, and
/// why is pushed into `refused`.
///
/// # Errors
/// INTERNAL for malformed bytes, and for an answer that lacks what was asked for.
pub fn decode_reply_of_dispatcher(
    request: &Request,
    bytes: &Bytes,
    refused: &mut Vec<Status>,
) -> Result<Reply, Status> {
    Ok(match request {
        Request::Version => {
            let answer: wire::GetVersionResponse = message("GetVersionResponse", bytes)?;
            Reply::Version(answer.version)
        }
        Request::Heartbeat { .. } => orders(message("WorkerHeartbeatResponse", bytes)?, refused),
        Request::Update { .. } => Reply::Done,
        Request::Split { .. } => Reply::Split(taken(message("GetSplitResponse", bytes)?)?),
        Request::Compression { .. } => {
            Reply::Compression(compressed(message("DisableCompressionAtRuntimeResponse", bytes)?)?)
        }
        Request::Definition { .. } => {
            let answer: wire::GetDatasetDefResponse = message("GetDatasetDefResponse", bytes)?;
            let definition = answer.dataset_def;
            Reply::Definition(
                definition.ok_or_else(|| broken("GetDatasetDefResponse has no dataset_def"))?,
            )
        }
    })
}

fn orders(answer: wire::WorkerHeartbeatResponse, refused: &mut Vec<Status>) -> Reply {
    let tasks = answer.new_tasks.into_iter().map(|task| decode_task(Some(task)));
    let mut new = Vec::new();
    for task in tasks {
        match task {
            Ok(task) => new.push(task.into()),
            Err(status) => refused.push(status),
        }
    }
    let deleted = answer.tasks_to_delete.into_iter().map(TaskId::new).collect();
    Reply::Tasks { new, deleted }
}

fn taken(answer: wire::GetSplitResponse) -> Result<Option<i64>, Status> {
    match (answer.split, answer.end_of_splits) {
        (_, true) => Ok(None),
        (Some(tensor), false) => scalar(&tensor).map(Some),
        (None, false) => Err(broken("GetSplitResponse has neither a split nor end_of_splits")),
    }
}

fn scalar(tensor: &tf::TensorProto) -> Result<i64, Status> {
    let content: Result<[u8; 8], _> = tensor.tensor_content.as_ref().try_into();
    let value = content.ok().map(i64::from_le_bytes).or(tensor.int64_val.first().copied());
    value.ok_or_else(|| broken("GetSplitResponse.split is no scalar int64"))
}

fn compressed(answer: wire::DisableCompressionAtRuntimeResponse) -> Result<bool, Status> {
    use wire::disable_compression_at_runtime_response::Response;
    match answer.response {
        Some(Response::NoCompressionToDisable(_)) => Ok(false),
        Some(Response::CompressionDisabledAtRuntime(disabled)) => Ok(!disabled),
        None => Err(broken("DisableCompressionAtRuntimeResponse says nothing")),
    }
}

impl From<WorkerTask> for TaskDef {
    fn from(task: WorkerTask) -> Self {
        Self {
            part: part(&task),
            task: task.task,
            iteration: task.iteration,
            dataset: task.dataset,
            definition: match task.definition {
                TaskDefinition::Inline(definition) => Some(definition),
                // The dispatcher's files are not ours to read: it tells what it has.
                TaskDefinition::Path(_) => None,
            },
            worker_address: task.worker_address.into(),
            consumers: task.consumers,
            uses_cache: task.use_cross_trainer_cache,
        }
    }
}

/// The part of the dataset that is the worker's. Where a `shard` would stand in a graph says a graph
/// alone (HINT): a dataset of ours has none, and all of it is every worker's.
fn part(task: &WorkerTask) -> Part {
    let natural = |number: i64| u64::try_from(number).unwrap_or(0);
    let by = match task.sharding {
        ShardingPolicy::Off | ShardingPolicy::Hint => return Part::Whole,
        ShardingPolicy::Dynamic => return Part::Splits,
        ShardingPolicy::File => ShardBy::File,
        ShardingPolicy::Data => ShardBy::Data,
        ShardingPolicy::FileOrData => ShardBy::FileOrData,
    };
    Part::Shard { by, index: natural(task.worker_index), of: natural(task.workers) }
}

fn message<M: Message + Default>(name: &str, bytes: &Bytes) -> Result<M, Status> {
    M::decode(bytes.clone()).map_err(|error| {
        broken(&format!("the {} bytes received are no {name}: {error}", bytes.len()))
    })
}

fn broken(what: &str) -> Status {
    Status::new(Code::Internal, format!("the dispatcher's answer is broken: {what}"))
}

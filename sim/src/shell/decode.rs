//! Answers as clients and workers read them off the wire, by the kind of what they asked.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use rondo::store::blobs;
use rondo_core::dispatcher::{
    ClientHeartbeatReply, Definition, DeploymentMode, PositionReport, Reply, ShardingPolicy,
    TaskDef, TaskInfo, TransferServer, WorkerHeartbeatReply,
};
use rondo_core::ids::{ClientId, DatasetId, Digest, IterationId, JobId, TaskId};
use rondo_proto::tf::data as wire;
use rondo_proto::{admin, convert};
use wire::processing_mode_def::ShardingPolicy as WirePolicy;

use crate::workload::kind::Kind;

/// Reads the answer to a request of this kind.
///
/// # Errors
/// What is wrong with it.
pub(super) fn decode(kind: Kind, bytes: &Bytes) -> Result<Reply, String> {
    match kind {
        Kind::RegisterDataset
        | Kind::GetMetadata
        | Kind::GetConfig
        | Kind::DisableCompression
        | Kind::GetDefinition => of_datasets(kind, bytes),
        Kind::GetOrCreateJob
        | Kind::GetOrCreateIteration
        | Kind::ClientHeartbeat
        | Kind::ReleaseClient
        | Kind::MaybeRemoveTask
        | Kind::HoldSplits
        | Kind::EndReader
        | Kind::GetWorkers => of_readers(kind, bytes),
        Kind::WorkerHeartbeat | Kind::WorkerUpdate | Kind::GetSplit => of_workers(kind, bytes),
        Kind::Report
        | Kind::SavePosition
        | Kind::RestorePosition
        | Kind::DeletePosition
        | Kind::ListPositions
        | Kind::GetVersionToRead
        | Kind::DeleteJob
        | Kind::DeleteDataset
        | Kind::RemoveWorker => of_people(kind, bytes),
        // Nobody in this world asks the coordination service.
        _ => Err(format!("{kind} is none of the dispatcher's requests")),
    }
}

fn of_datasets(kind: Kind, bytes: &Bytes) -> Result<Reply, String> {
    Ok(match kind {
        Kind::RegisterDataset => {
            let answer: wire::GetOrRegisterDatasetResponse = message(bytes)?;
            Reply::Dataset(DatasetId::new(answer.dataset_id))
        }
        Kind::GetMetadata => {
            let answer: wire::GetDataServiceMetadataResponse = message(bytes)?;
            Reply::Metadata(answer.metadata.ok_or("no metadata")?)
        }
        Kind::GetConfig => {
            let answer: wire::GetDataServiceConfigResponse = message(bytes)?;
            Reply::Config(mode(answer.config.ok_or("no config")?.deployment_mode)?)
        }
        Kind::GetDefinition => {
            let answer: wire::GetDatasetDefResponse = message(bytes)?;
            Reply::Definition(definition_of(&answer.dataset_def.ok_or("no definition")?))
        }
        _ => {
            use wire::disable_compression_at_runtime_response::Response;
            let answer: wire::DisableCompressionAtRuntimeResponse = message(bytes)?;
            Reply::Compression(match answer.response.ok_or("no response")? {
                Response::CompressionDisabledAtRuntime(disabled) => Some(disabled),
                Response::NoCompressionToDisable(_) => None,
            })
        }
    })
}

fn of_readers(kind: Kind, bytes: &Bytes) -> Result<Reply, String> {
    Ok(match kind {
        Kind::GetOrCreateJob => {
            let answer: wire::GetOrCreateJobResponse = message(bytes)?;
            Reply::Job(JobId::new(answer.job_id))
        }
        Kind::GetOrCreateIteration => {
            let answer: wire::GetOrCreateIterationResponse = message(bytes)?;
            Reply::Client(ClientId::new(answer.iteration_client_id))
        }
        Kind::ClientHeartbeat => client_heartbeat(message(bytes)?)?,
        Kind::ReleaseClient => {
            message::<wire::ReleaseIterationClientResponse>(bytes)?;
            Reply::ClientReleased
        }
        Kind::MaybeRemoveTask => {
            let answer: wire::MaybeRemoveTaskResponse = message(bytes)?;
            Reply::TaskRemoved(answer.removed)
        }
        Kind::HoldSplits => {
            let held = convert::decode_held(bytes).map_err(|status| status.message)?;
            Reply::SplitsHeld(held)
        }
        Kind::EndReader => {
            Reply::ReaderEnded(convert::decode_ended(bytes).map_err(|status| status.message)?)
        }
        _ => {
            let answer: wire::GetWorkersResponse = message(bytes)?;
            Reply::Workers(answer.workers.into_iter().map(|of| of.address.into()).collect())
        }
    })
}

fn of_workers(kind: Kind, bytes: &Bytes) -> Result<Reply, String> {
    Ok(match kind {
        Kind::WorkerHeartbeat => {
            let answer: wire::WorkerHeartbeatResponse = message(bytes)?;
            let new_tasks = answer.new_tasks.into_iter().map(task_def).collect::<Result<_, _>>()?;
            let tasks_to_delete = answer.tasks_to_delete.into_iter().map(TaskId::new).collect();
            Reply::WorkerHeartbeat(WorkerHeartbeatReply { new_tasks, tasks_to_delete })
        }
        Kind::GetSplit => Reply::Split(split(message(bytes)?)?),
        _ => {
            message::<wire::WorkerUpdateResponse>(bytes)?;
            Reply::WorkerUpdated
        }
    })
}

fn of_people(kind: Kind, bytes: &Bytes) -> Result<Reply, String> {
    Ok(match kind {
        Kind::Report => {
            let answer: admin::GetStatusResponse = message(bytes)?;
            Reply::Report(convert::report(answer.dispatcher.ok_or("no dispatcher's status")?))
        }
        Kind::SavePosition => {
            let answer: admin::SavePositionResponse = message(bytes)?;
            Reply::Position(answer.position.ok_or("no position")?.into())
        }
        Kind::RestorePosition => {
            let answer: admin::RestorePositionResponse = message(bytes)?;
            Reply::Position(answer.position.ok_or("no position")?.into())
        }
        Kind::DeletePosition => {
            message::<admin::DeletePositionResponse>(bytes)?;
            Reply::PositionDeleted
        }
        Kind::GetVersionToRead => {
            let answer: admin::GetVersionToReadResponse = message(bytes)?;
            Reply::Dataset(DatasetId::new(answer.dataset_id))
        }
        Kind::DeleteJob => {
            message::<admin::DeleteJobResponse>(bytes)?;
            Reply::JobDeleted
        }
        Kind::DeleteDataset => {
            message::<admin::DeleteDatasetResponse>(bytes)?;
            Reply::DatasetDeleted
        }
        Kind::RemoveWorker => {
            message::<admin::RemoveWorkerResponse>(bytes)?;
            Reply::WorkerRemoved
        }
        _ => {
            let answer: admin::ListPositionsResponse = message(bytes)?;
            Reply::Positions(answer.positions.into_iter().map(PositionReport::from).collect())
        }
    })
}

/// Reads the task that a worker is told of.
///
/// # Errors
/// What is wrong with it.
pub(super) fn pushed(bytes: &Bytes) -> Result<TaskDef, String> {
    let request: wire::ProcessTaskRequest = message(bytes)?;
    task_def(request.task.ok_or("no task")?)
}

fn message<M: Message + Default>(bytes: &Bytes) -> Result<M, String> {
    M::decode(bytes.clone()).map_err(|error| error.to_string())
}

fn mode(number: i32) -> Result<DeploymentMode, String> {
    Ok(match wire::DeploymentMode::try_from(number).map_err(|error| error.to_string())? {
        wire::DeploymentMode::Unspecified => DeploymentMode::Unspecified,
        wire::DeploymentMode::Colocated => DeploymentMode::Colocated,
        wire::DeploymentMode::Remote => DeploymentMode::Remote,
        wire::DeploymentMode::Hybrid => DeploymentMode::Hybrid,
    })
}

fn client_heartbeat(answer: wire::ClientHeartbeatResponse) -> Result<Reply, String> {
    let tasks: Vec<TaskInfo> = answer.task_info.into_iter().map(task_info).collect();
    Ok(Reply::ClientHeartbeat(ClientHeartbeatReply {
        tasks: tasks.into(),
        iteration_finished: answer.iteration_finished,
        block_round: answer.block_round,
        deployment_mode: mode(answer.deployment_mode)?,
    }))
}

fn task_info(info: wire::TaskInfo) -> TaskInfo {
    let servers = info.transfer_servers.into_iter().map(transfer_server);
    TaskInfo {
        worker_address: info.worker_address.into(),
        task: TaskId::new(info.task_id),
        iteration: IterationId::new(info.iteration_id),
        starting_round: info.starting_round,
        worker_tags: info.worker_tags.into(),
        worker_uid: info.worker_uid,
        transfer_servers: servers.collect::<Vec<_>>().into(),
    }
}

fn transfer_server(server: wire::DataTransferServerInfo) -> TransferServer {
    TransferServer {
        protocol: server.protocol,
        address: server.address,
        compatibility_info: server.compatibility_info,
        fall_back_to_grpc_at_client_creation_time: server.fall_back_to_grpc_at_client_creation_time,
        fall_back_to_grpc_at_get_element_time: server.fall_back_to_grpc_at_get_element_time,
    }
}

fn task_def(task: wire::TaskDef) -> Result<TaskDef, String> {
    let definition = match task.dataset.ok_or("a task without a dataset")? {
        wire::task_def::Dataset::DatasetDef(bytes) => definition_of(&bytes),
        wire::task_def::Dataset::Path(path) => blob(&path).ok_or("a path that names no blob")?,
    };
    let number = task.processing_mode_def.unwrap_or_default().sharding_policy;
    let worker_address: Arc<str> = task.worker_address.into();
    Ok(TaskDef {
        task: TaskId::new(task.task_id),
        iteration: IterationId::new(task.iteration_id),
        dataset: DatasetId::new(task.dataset_id),
        definition,
        worker_address,
        sharding: sharding(number)?,
        consumers: task.num_consumers,
        split_providers: task.num_split_providers,
        workers: task.num_workers,
        worker_index: task.worker_index,
        use_cross_trainer_cache: task.use_cross_trainer_cache,
    })
}

fn sharding(number: i32) -> Result<ShardingPolicy, String> {
    Ok(match WirePolicy::try_from(number).map_err(|error| error.to_string())? {
        WirePolicy::Off => ShardingPolicy::Off,
        WirePolicy::Dynamic => ShardingPolicy::Dynamic,
        WirePolicy::File => ShardingPolicy::File,
        WirePolicy::Data => ShardingPolicy::Data,
        WirePolicy::FileOrData => ShardingPolicy::FileOrData,
        WirePolicy::Hint => ShardingPolicy::Hint,
    })
}

/// A definition that a worker has to ask for. Its length is not told.
fn blob(path: &str) -> Option<Definition> {
    let digits = path.strip_prefix("rondo:").filter(|digits| digits.len() == 64)?;
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(Definition { digest: Digest::new(digest), size_bytes: 0, inline: None })
}

fn split(answer: wire::GetSplitResponse) -> Result<Option<i64>, String> {
    match (answer.split, answer.end_of_splits) {
        (None, true) => Ok(None),
        (Some(tensor), false) => {
            let bytes = tensor.tensor_content.as_ref().try_into();
            bytes.map(|bytes| Some(i64::from_le_bytes(bytes))).map_err(|_| format!("{tensor:?}"))
        }
        other => Err(format!("neither a split nor an end: {other:?}")),
    }
}

/// What a definition is by its bytes; here too its digest is its name.
fn definition_of(bytes: &Bytes) -> Definition {
    convert::definition_of(blobs::digest(bytes), bytes)
}

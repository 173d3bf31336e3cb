//! What a request that was taken says, written as the message it came in: nothing may be missing.

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{
    ClientHeartbeat, Compression, GetOrCreateJob, Request, ShardingPolicy, TargetWorkers,
    TransferServer, WorkerHeartbeat,
};
use rondo_proto::admin;
use rondo_proto::convert::{Decoded, Method, Registration};
use rondo_proto::tf::data as wire;

/// The message received, written again without what the dispatcher does not ask for.
pub(crate) fn received(method: Method, bytes: &Bytes) -> Vec<u8> {
    match method {
        Method::GetVersion => again::<wire::GetVersionRequest>(bytes),
        Method::GetOrRegisterDataset => registration(bytes),
        Method::GetDataServiceMetadata => again::<wire::GetDataServiceMetadataRequest>(bytes),
        Method::GetDataServiceConfig => again::<wire::GetDataServiceConfigRequest>(bytes),
        Method::DisableCompressionAtRuntime => {
            again::<wire::DisableCompressionAtRuntimeRequest>(bytes)
        }
        Method::GetOrCreateJob => {
            let mut message = wire::GetOrCreateJobRequest::decode(bytes.clone()).unwrap();
            // Absent is the same as all zero.
            message.processing_mode_def.get_or_insert_default();
            message.encode_to_vec()
        }
        Method::GetOrCreateIteration => again::<wire::GetOrCreateIterationRequest>(bytes),
        Method::ClientHeartbeat => {
            let mut message = wire::ClientHeartbeatRequest::decode(bytes.clone()).unwrap();
            let time = &mut message.target_processing_time_nsec;
            // Whole nanoseconds, from none to the most there can be.
            *time = if *time >= 1.0 { time.trunc().min(u64::MAX as f64) } else { 0.0 };
            message.encode_to_vec()
        }
        Method::ReleaseIterationClient => again::<wire::ReleaseIterationClientRequest>(bytes),
        Method::WorkerHeartbeat => again::<wire::WorkerHeartbeatRequest>(bytes),
        Method::WorkerUpdate => again::<wire::WorkerUpdateRequest>(bytes),
        Method::GetDatasetDef => again::<wire::GetDatasetDefRequest>(bytes),
        Method::GetSplit => again::<wire::GetSplitRequest>(bytes),
        Method::MaybeRemoveTask => again::<wire::MaybeRemoveTaskRequest>(bytes),
        Method::GetWorkers => again::<wire::GetWorkersRequest>(bytes),
        Method::Snapshot | Method::GetSnapshotSplit | Method::GetSnapshotStreams => {
            panic!("{method:?} is not offered")
        }
    }
}

fn again<M: Message + Default>(bytes: &Bytes) -> Vec<u8> {
    M::decode(bytes.clone()).unwrap().encode_to_vec()
}

fn registration(bytes: &Bytes) -> Vec<u8> {
    let mut message = wire::GetOrRegisterDatasetRequest::decode(bytes.clone()).unwrap();
    // An empty id is no wish, and absent metadata is all zero.
    message.dataset_id = message.dataset_id.filter(|id| !id.is_empty());
    message.metadata.get_or_insert_default();
    message.encode_to_vec()
}

/// The message in which the request must have come.
pub(crate) fn taken(decoded: &Decoded) -> Vec<u8> {
    match decoded {
        Decoded::Version => Vec::new(),
        Decoded::Register(registration) => register(registration),
        Decoded::Request(request) => asked(request),
    }
}

fn register(registration: &Registration) -> Vec<u8> {
    let metadata = &registration.metadata;
    let said = wire::DataServiceMetadata::decode(metadata.encoded.clone()).unwrap();
    let compression = match metadata.compression {
        Compression::Unspecified => 0,
        Compression::Off => 1,
        Compression::Snappy => 2,
        Compression::ForcedSnappy => 3,
    };
    assert_eq!((said.compression, said.cardinality), (compression, metadata.cardinality));
    let message = wire::GetOrRegisterDatasetRequest {
        dataset: Some(registration.dataset_def.clone()),
        metadata: Some(metadata.encoded.clone()),
        dataset_id: registration.wished.as_ref().map(|id| id.as_str().to_owned()),
        replaces: registration.replaces,
    };
    message.encode_to_vec()
}

fn asked(request: &Request) -> Vec<u8> {
    let id = |dataset: &rondo_core::ids::DatasetId| dataset.as_str().to_owned();
    match request {
        Request::GetConfig | Request::GetWorkers => Vec::new(),
        // The two messages are alike.
        Request::GetMetadata { dataset } | Request::GetDefinition { dataset } => {
            wire::GetDatasetDefRequest { dataset_id: id(dataset) }.encode_to_vec()
        }
        Request::DisableCompression { dataset, disable } => {
            wire::DisableCompressionAtRuntimeRequest {
                dataset_id: id(dataset),
                disable_compression_at_runtime: *disable,
            }
            .encode_to_vec()
        }
        Request::GetOrCreateJob(job) => job_message(job).encode_to_vec(),
        Request::GetOrCreateIteration { job, repetition } => {
            let (job_id, repetition) = (job.get(), *repetition);
            wire::GetOrCreateIterationRequest { job_id, repetition }.encode_to_vec()
        }
        Request::ClientHeartbeat(heartbeat) => client_message(heartbeat).encode_to_vec(),
        Request::ReleaseClient { client } => {
            let iteration_client_id = client.get();
            wire::ReleaseIterationClientRequest { iteration_client_id }.encode_to_vec()
        }
        Request::WorkerHeartbeat(heartbeat) => worker_message(heartbeat).encode_to_vec(),
        Request::WorkerUpdate { worker_address, progress } => {
            let update = |(task, completed): &(rondo_core::ids::TaskId, bool)| wire::TaskProgress {
                task_id: task.get(),
                completed: *completed,
            };
            let updates = progress.iter().map(update).collect();
            let worker_address = worker_address.clone();
            wire::WorkerUpdateRequest { worker_address, updates }.encode_to_vec()
        }
        Request::GetSplit { iteration, repetition, source, asker: None } => wire::GetSplitRequest {
            iteration_id: iteration.get(),
            repetition: *repetition,
            split_provider_index: *source,
        }
        .encode_to_vec(),
        Request::MaybeRemoveTask { task, consumer_index, round } => wire::MaybeRemoveTaskRequest {
            task_id: task.get(),
            consumer_index: *consumer_index,
            round: *round,
        }
        .encode_to_vec(),
        other => panic!("no method asks {other:?}"),
    }
}

fn job_message(job: &GetOrCreateJob) -> wire::GetOrCreateJobRequest {
    let sharding_policy = match job.sharding {
        ShardingPolicy::Off => 0,
        ShardingPolicy::Dynamic => 1,
        ShardingPolicy::File => 2,
        ShardingPolicy::Data => 3,
        ShardingPolicy::FileOrData => 4,
        ShardingPolicy::Hint => 5,
    };
    let target_workers = match job.target_workers {
        TargetWorkers::Unspecified => 0,
        TargetWorkers::Auto => 1,
        TargetWorkers::Any => 2,
        TargetWorkers::Local => 3,
    };
    wire::GetOrCreateJobRequest {
        dataset_id: job.dataset.as_str().to_owned(),
        processing_mode_def: Some(wire::ProcessingModeDef { sharding_policy }),
        job_name: job.name.clone(),
        num_consumers: job.consumers,
        use_cross_trainer_cache: job.use_cross_trainer_cache,
        target_workers,
        same_dataset: job.same_dataset,
    }
}

fn client_message(heartbeat: &ClientHeartbeat) -> wire::ClientHeartbeatRequest {
    wire::ClientHeartbeatRequest {
        iteration_client_id: heartbeat.client.get(),
        current_round: heartbeat.current_round,
        blocked_round: heartbeat.blocked_round,
        target_processing_time_nsec: heartbeat.target_processing_time_ns as f64,
    }
}

fn worker_message(heartbeat: &WorkerHeartbeat) -> wire::WorkerHeartbeatRequest {
    let server = |server: &TransferServer| wire::DataTransferServerInfo {
        protocol: server.protocol.clone(),
        address: server.address.clone(),
        compatibility_info: server.compatibility_info.clone(),
        fall_back_to_grpc_at_client_creation_time: server.fall_back_to_grpc_at_client_creation_time,
        fall_back_to_grpc_at_get_element_time: server.fall_back_to_grpc_at_get_element_time,
    };
    wire::WorkerHeartbeatRequest {
        worker_address: heartbeat.address.clone(),
        current_tasks: heartbeat.current_tasks.iter().map(|task| task.get()).collect(),
        worker_tags: heartbeat.tags.clone(),
        worker_uid: heartbeat.uid,
        transfer_servers: heartbeat.transfer_servers.iter().map(server).collect(),
    }
}

/// The same for a request about positions.
pub(crate) fn administered(request: &Request) -> Vec<u8> {
    match request.clone() {
        Request::SavePosition { name, job } => {
            admin::SavePositionRequest { name, job }.encode_to_vec()
        }
        Request::RestorePosition { name, job, wanted } => {
            // The job has the name that stands beside it.
            let wanted = wanted.map(|wanted| wire::GetOrCreateJobRequest {
                job_name: None,
                ..job_message(&wanted)
            });
            admin::RestorePositionRequest { name, job, wanted }.encode_to_vec()
        }
        Request::DeletePosition { name } => admin::DeletePositionRequest { name }.encode_to_vec(),
        Request::ListPositions => Vec::new(),
        Request::GetVersionToRead { dataset, job, position } => {
            let dataset_id = dataset.as_str().to_owned();
            let (job_name, position_name) = (job, position);
            let request = admin::GetVersionToReadRequest { dataset_id, job_name, position_name };
            request.encode_to_vec()
        }
        Request::DeleteJob { name } => admin::DeleteJobRequest { name }.encode_to_vec(),
        Request::DeleteDataset { dataset } => {
            let dataset_id = dataset.as_str().to_owned();
            admin::DeleteDatasetRequest { dataset_id }.encode_to_vec()
        }
        Request::RemoveWorker { address } => admin::RemoveWorkerRequest { address }.encode_to_vec(),
        other => panic!("administration does not ask {other:?}"),
    }
}

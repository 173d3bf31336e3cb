//! Requests as clients and workers put them on the wire: messages made here, field by field, and
//! never by the code that is tested.

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{
    ClientHeartbeat, Compression, DatasetMetadata, GetOrCreateJob, RegisterDataset, Request,
    ShardingPolicy, TargetWorkers, TransferServer, WorkerHeartbeat,
};
use rondo_proto::tf::data as wire;
use rondo_proto::{admin, convert};
use wire::processing_mode_def::ShardingPolicy as WirePolicy;

use super::graph;

/// A method's path.
macro_rules! method {
    ($name:literal) => {
        concat!("/tensorflow.data.DispatcherService/", $name)
    };
}

/// A method of the administration.
macro_rules! admin {
    ($name:literal) => {
        concat!("/rondo.v1.Admin/", $name)
    };
}

/// A request's path and message.
pub(super) fn encode(request: &Request) -> (&'static str, Bytes) {
    let found = of_datasets(request).or_else(|| of_readers(request));
    let found = found.or_else(|| of_workers(request));
    let (path, message) = found.unwrap_or_else(|| of_people(request));
    (path, message.into())
}

type Encoded = (&'static str, Vec<u8>);

fn of_datasets(request: &Request) -> Option<Encoded> {
    Some(match request {
        Request::RegisterDataset(request) => (method!("GetOrRegisterDataset"), register(request)),
        Request::GetMetadata { dataset } => {
            let dataset_id = dataset.as_str().to_owned();
            let request = wire::GetDataServiceMetadataRequest { dataset_id };
            (method!("GetDataServiceMetadata"), request.encode_to_vec())
        }
        Request::GetConfig => (method!("GetDataServiceConfig"), Vec::new()),
        Request::DisableCompression { dataset, disable } => {
            let request = wire::DisableCompressionAtRuntimeRequest {
                dataset_id: dataset.as_str().to_owned(),
                disable_compression_at_runtime: *disable,
            };
            (method!("DisableCompressionAtRuntime"), request.encode_to_vec())
        }
        Request::GetDefinition { dataset } => {
            let request = wire::GetDatasetDefRequest { dataset_id: dataset.as_str().to_owned() };
            (method!("GetDatasetDef"), request.encode_to_vec())
        }
        _ => return None,
    })
}

fn of_readers(request: &Request) -> Option<Encoded> {
    Some(match request {
        Request::GetOrCreateJob(request) => {
            (method!("GetOrCreateJob"), job_message(request).encode_to_vec())
        }
        Request::GetOrCreateIteration { job, repetition } => {
            let (job_id, repetition) = (job.get(), *repetition);
            let request = wire::GetOrCreateIterationRequest { job_id, repetition };
            (method!("GetOrCreateIteration"), request.encode_to_vec())
        }
        Request::ClientHeartbeat(request) => {
            (method!("ClientHeartbeat"), client_heartbeat(request))
        }
        Request::ReleaseClient { client } => {
            let iteration_client_id = client.get();
            let request = wire::ReleaseIterationClientRequest { iteration_client_id };
            (method!("ReleaseIterationClient"), request.encode_to_vec())
        }
        Request::MaybeRemoveTask { task, consumer_index, round } => {
            let request = wire::MaybeRemoveTaskRequest {
                task_id: task.get(),
                consumer_index: *consumer_index,
                round: *round,
            };
            (method!("MaybeRemoveTask"), request.encode_to_vec())
        }
        Request::HoldSplits(request) => {
            (convert::HOLD_SPLITS_PATH, convert::encode_hold(request).to_vec())
        }
        Request::EndReader { client, job } => {
            (convert::END_READER_PATH, convert::encode_end_reader(*client, job).to_vec())
        }
        Request::GetWorkers => (method!("GetWorkers"), Vec::new()),
        _ => return None,
    })
}

fn of_workers(request: &Request) -> Option<Encoded> {
    Some(match request {
        Request::WorkerHeartbeat(request) => {
            (method!("WorkerHeartbeat"), worker_heartbeat(request))
        }
        Request::WorkerUpdate { worker_address, progress } => {
            let update = |(task, completed): &(_, bool)| progress_of(*task, *completed);
            let updates = progress.iter().map(update).collect();
            let request =
                wire::WorkerUpdateRequest { worker_address: worker_address.clone(), updates };
            (method!("WorkerUpdate"), request.encode_to_vec())
        }
        Request::GetSplit { iteration, repetition, source, .. } => {
            let request = wire::GetSplitRequest {
                iteration_id: iteration.get(),
                repetition: *repetition,
                split_provider_index: *source,
            };
            (method!("GetSplit"), request.encode_to_vec())
        }
        _ => return None,
    })
}

fn of_people(request: &Request) -> Encoded {
    match request {
        Request::SavePosition { name, job } => {
            let request = admin::SavePositionRequest { name: name.clone(), job: job.clone() };
            (admin!("SavePosition"), request.encode_to_vec())
        }
        Request::RestorePosition { name, job, wanted } => {
            let (name, job) = (name.clone(), job.clone());
            let wanted = wanted.as_ref().map(|wanted| wire::GetOrCreateJobRequest {
                job_name: None,
                ..job_message(wanted)
            });
            let request = admin::RestorePositionRequest { name, job, wanted };
            (admin!("RestorePosition"), request.encode_to_vec())
        }
        Request::DeletePosition { name } => {
            let request = admin::DeletePositionRequest { name: name.clone() };
            (admin!("DeletePosition"), request.encode_to_vec())
        }
        Request::ListPositions => (admin!("ListPositions"), Vec::new()),
        Request::GetVersionToRead { dataset, job, position } => {
            let (job, position) = (job.as_deref(), position.as_deref());
            let (path, message) = convert::encode_version_request(dataset.as_str(), job, position);
            (path, message.to_vec())
        }
        Request::DeleteJob { name } => {
            let request = admin::DeleteJobRequest { name: name.clone() };
            (admin!("DeleteJob"), request.encode_to_vec())
        }
        Request::DeleteDataset { dataset } => {
            let request = admin::DeleteDatasetRequest { dataset_id: dataset.as_str().to_owned() };
            (admin!("DeleteDataset"), request.encode_to_vec())
        }
        Request::RemoveWorker { address } => {
            let request = admin::RemoveWorkerRequest { address: address.clone() };
            (admin!("RemoveWorker"), request.encode_to_vec())
        }
        _ => (admin!("GetStatus"), Vec::new()),
    }
}

fn progress_of(task: rondo_core::ids::TaskId, completed: bool) -> wire::TaskProgress {
    wire::TaskProgress { task_id: task.get(), completed }
}

fn register(request: &RegisterDataset) -> Vec<u8> {
    let request = wire::GetOrRegisterDatasetRequest {
        dataset: Some(graph::of(request)),
        metadata: Some(metadata(&request.metadata)),
        dataset_id: request.wished.as_ref().map(|id| id.as_str().to_owned()),
        replaces: request.replaces,
    };
    request.encode_to_vec()
}

fn metadata(of: &DatasetMetadata) -> Bytes {
    use wire::data_service_metadata::Compression as Wire;
    // A StructuredValue that is a string: datasets of equal content have equal structures.
    let text = of.encoded.get(..127).unwrap_or(&of.encoded);
    let mut spec = vec![0x6a, u8::try_from(text.len()).unwrap_or(0)];
    spec.extend_from_slice(text);
    let metadata = wire::DataServiceMetadata {
        element_spec: Some(spec.into()),
        compression: match of.compression {
            Compression::Unspecified => Wire::Unspecified,
            Compression::Off => Wire::Off,
            Compression::Snappy => Wire::Snappy,
            Compression::ForcedSnappy => Wire::ForcedSnappy,
        }
        .into(),
        cardinality: of.cardinality,
    };
    metadata.encode_to_vec().into()
}

fn job_message(request: &GetOrCreateJob) -> wire::GetOrCreateJobRequest {
    let sharding_policy = match request.sharding {
        ShardingPolicy::Off => WirePolicy::Off,
        ShardingPolicy::Dynamic => WirePolicy::Dynamic,
        ShardingPolicy::File => WirePolicy::File,
        ShardingPolicy::Data => WirePolicy::Data,
        ShardingPolicy::FileOrData => WirePolicy::FileOrData,
        ShardingPolicy::Hint => WirePolicy::Hint,
    };
    let target_workers = match request.target_workers {
        TargetWorkers::Unspecified => wire::TargetWorkers::Unspecified,
        TargetWorkers::Auto => wire::TargetWorkers::Auto,
        TargetWorkers::Any => wire::TargetWorkers::Any,
        TargetWorkers::Local => wire::TargetWorkers::Local,
    };
    wire::GetOrCreateJobRequest {
        dataset_id: request.dataset.as_str().to_owned(),
        processing_mode_def: Some(wire::ProcessingModeDef {
            sharding_policy: sharding_policy.into(),
        }),
        job_name: request.name.clone(),
        num_consumers: request.consumers,
        use_cross_trainer_cache: request.use_cross_trainer_cache,
        target_workers: target_workers.into(),
        same_dataset: request.same_dataset,
    }
}

fn client_heartbeat(request: &ClientHeartbeat) -> Vec<u8> {
    let request = wire::ClientHeartbeatRequest {
        iteration_client_id: request.client.get(),
        current_round: request.current_round,
        blocked_round: request.blocked_round,
        // A float on the wire; the times here are small.
        target_processing_time_nsec: request.target_processing_time_ns as f64,
    };
    request.encode_to_vec()
}

fn worker_heartbeat(request: &WorkerHeartbeat) -> Vec<u8> {
    let request = wire::WorkerHeartbeatRequest {
        worker_address: request.address.clone(),
        current_tasks: request.current_tasks.iter().map(|task| task.get()).collect(),
        worker_tags: request.tags.clone(),
        worker_uid: request.uid,
        transfer_servers: request.transfer_servers.iter().map(transfer_server).collect(),
    };
    request.encode_to_vec()
}

fn transfer_server(server: &TransferServer) -> wire::DataTransferServerInfo {
    wire::DataTransferServerInfo {
        protocol: server.protocol.clone(),
        address: server.address.clone(),
        compatibility_info: server.compatibility_info.clone(),
        fall_back_to_grpc_at_client_creation_time: server.fall_back_to_grpc_at_client_creation_time,
        fall_back_to_grpc_at_get_element_time: server.fall_back_to_grpc_at_get_element_time,
    }
}

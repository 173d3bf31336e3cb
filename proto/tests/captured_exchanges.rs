//! What real clients, workers and TensorFlow's own dispatcher said to each other, recorded by
//! `vectors/capture.py`: Rondo understands every request, and says what TensorFlow's dispatcher
//! said byte for byte.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::path::Path;

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{
    ClientHeartbeatReply, Definition, DeploymentMode, Reply, Request, ShardingPolicy, TaskDef,
    TaskInfo, TransferServer, WorkerHeartbeatReply,
};
use rondo_core::ids::{ClientId, DatasetId, IterationId, JobId, TaskId};
use rondo_proto::convert::{
    Decoded, Encoded, Method, PROTOCOL_VERSION, decode_request, encode_definition,
    encode_process_task, encode_reply, encode_version,
};
use rondo_proto::tf::data as wire;

struct Exchange {
    request: Bytes,
    response: Bytes,
}

fn exchanges(name: &str) -> Vec<Exchange> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let text = fs::read_to_string(folder.join(format!("{name}.txt"))).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks(2).map(|pair| Exchange {
        request: unhex(pair[0].strip_prefix("> ").unwrap()),
        response: unhex(pair[1].strip_prefix("< ").unwrap()),
    });
    let exchanges: Vec<Exchange> = pairs.collect();
    assert!(!exchanges.is_empty(), "{name}");
    exchanges
}

fn unhex(text: &str) -> Bytes {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn requests(method: Method) -> Vec<Request> {
    let decode = |exchange: &Exchange| match decode_request(method, &exchange.request).unwrap() {
        Decoded::Request(request) => request,
        other => panic!("{}: {other:?}", method.name()),
    };
    exchanges(method.name()).iter().map(decode).collect()
}

/// Checks that what TensorFlow's dispatcher meant, said by Rondo, is what it said.
fn check_replies<M: Message + Default>(method: Method, meant: impl Fn(M) -> Reply) {
    for Exchange { response, .. } in exchanges(method.name()) {
        let reply = meant(M::decode(response.clone()).unwrap());
        assert_eq!(encode_reply(reply), Encoded::Message(response), "{}", method.name());
    }
}

#[test]
fn every_request_is_understood() {
    let snapshots = [Method::Snapshot, Method::GetSnapshotSplit, Method::GetSnapshotStreams];
    for method in Method::ALL.into_iter().filter(|method| !snapshots.contains(method)) {
        for exchange in exchanges(method.name()) {
            decode_request(method, &exchange.request).unwrap();
        }
    }
}

#[test]
fn versions_agree() {
    let exchange = &exchanges("GetVersion")[0];
    assert_eq!(decode_request(Method::GetVersion, &exchange.request), Ok(Decoded::Version));
    assert_eq!(encode_version(PROTOCOL_VERSION), exchange.response);
}

#[test]
fn registrations() {
    let decoded: Vec<_> = exchanges("GetOrRegisterDataset")
        .iter()
        .map(|exchange| decode_request(Method::GetOrRegisterDataset, &exchange.request).unwrap())
        .collect();
    let mut wished = Vec::new();
    for registration in decoded {
        let Decoded::Register(registration) = registration else {
            panic!("another request");
        };
        let metadata = &registration.metadata;
        assert_eq!(metadata.cardinality, 12);
        assert!(metadata.encoded.ends_with(&[0x18, 0x0c]), "cardinality closes the metadata");
        assert!(registration.dataset_def.starts_with(&[0x0a]), "a DatasetDef is a graph");
        wished.extend(registration.wished);
    }
    assert_eq!(wished, [DatasetId::new("named")]);
    check_replies(Method::GetOrRegisterDataset, |said: wire::GetOrRegisterDatasetResponse| {
        Reply::Dataset(DatasetId::new(said.dataset_id))
    });
}

#[test]
fn questions_about_datasets() {
    check_replies(Method::GetDataServiceMetadata, |said: wire::GetDataServiceMetadataResponse| {
        Reply::Metadata(said.metadata.unwrap())
    });
    check_replies(Method::GetDataServiceConfig, |said: wire::GetDataServiceConfigResponse| {
        Reply::Config(mode(said.config.unwrap().deployment_mode))
    });
    for exchange in exchanges("GetDatasetDef") {
        let said = wire::GetDatasetDefResponse::decode(exchange.response.clone()).unwrap();
        assert_eq!(encode_definition(said.dataset_def.unwrap()), exchange.response);
    }
    check_replies(
        Method::DisableCompressionAtRuntime,
        |said: wire::DisableCompressionAtRuntimeResponse| {
            use wire::disable_compression_at_runtime_response::Response;
            Reply::Compression(match said.response.unwrap() {
                Response::CompressionDisabledAtRuntime(disabled) => Some(disabled),
                Response::NoCompressionToDisable(_) => None,
            })
        },
    );
}

fn mode(number: i32) -> DeploymentMode {
    [
        DeploymentMode::Unspecified,
        DeploymentMode::Colocated,
        DeploymentMode::Remote,
        DeploymentMode::Hybrid,
    ][usize::try_from(number).unwrap()]
}

#[test]
fn jobs() {
    let mut seen = Vec::new();
    for request in requests(Method::GetOrCreateJob) {
        let Request::GetOrCreateJob(job) = request else { panic!("another request") };
        let name = job.name.unwrap_or_else(|| "anonymous".into());
        seen.push((name, job.sharding, job.consumers, job.use_cross_trainer_cache));
    }
    // As vectors/capture.py asks for them.
    for expected in [
        ("anonymous", ShardingPolicy::Off, None, false),
        ("shared", ShardingPolicy::Dynamic, None, false),
        ("cached", ShardingPolicy::Off, None, true),
        ("rounds", ShardingPolicy::Off, Some(2), false),
    ] {
        let (name, sharding, consumers, cache) = expected;
        assert!(seen.contains(&(name.into(), sharding, consumers, cache)), "{name}: {seen:?}");
    }
    check_replies(Method::GetOrCreateJob, |said: wire::GetOrCreateJobResponse| {
        Reply::Job(JobId::new(said.job_id))
    });
}

#[test]
fn iterations_and_their_clients() {
    check_replies(Method::GetOrCreateIteration, |said: wire::GetOrCreateIterationResponse| {
        Reply::Client(ClientId::new(said.iteration_client_id))
    });
    check_replies(Method::ReleaseIterationClient, |_: wire::ReleaseIterationClientResponse| {
        Reply::ClientReleased
    });
    check_replies(Method::MaybeRemoveTask, |said: wire::MaybeRemoveTaskResponse| {
        Reply::TaskRemoved(said.removed)
    });
}

#[test]
fn client_heartbeats() {
    let mut rounds = Vec::new();
    for request in requests(Method::ClientHeartbeat) {
        let Request::ClientHeartbeat(heartbeat) = request else { panic!("another request") };
        rounds.push((heartbeat.current_round.is_some(), heartbeat.blocked_round.is_some()));
    }
    for expected in [(false, false), (true, false), (true, true)] {
        assert!(rounds.contains(&expected), "no heartbeat with rounds {expected:?}");
    }
    check_replies(Method::ClientHeartbeat, |said: wire::ClientHeartbeatResponse| {
        Reply::ClientHeartbeat(ClientHeartbeatReply {
            tasks: said.task_info.into_iter().map(task_info).collect(),
            iteration_finished: said.iteration_finished,
            block_round: said.block_round,
            deployment_mode: mode(said.deployment_mode),
        })
    });
}

fn task_info(said: wire::TaskInfo) -> TaskInfo {
    TaskInfo {
        worker_address: said.worker_address.into(),
        task: TaskId::new(said.task_id),
        iteration: IterationId::new(said.iteration_id),
        starting_round: said.starting_round,
        worker_tags: said.worker_tags.into(),
        worker_uid: said.worker_uid,
        transfer_servers: said.transfer_servers.into_iter().map(transfer_server).collect(),
    }
}

fn transfer_server(said: wire::DataTransferServerInfo) -> TransferServer {
    TransferServer {
        protocol: said.protocol,
        address: said.address,
        compatibility_info: said.compatibility_info,
        fall_back_to_grpc_at_client_creation_time: said.fall_back_to_grpc_at_client_creation_time,
        fall_back_to_grpc_at_get_element_time: said.fall_back_to_grpc_at_get_element_time,
    }
}

#[test]
fn worker_heartbeats() {
    let mut tagged = 0;
    for request in requests(Method::WorkerHeartbeat) {
        let Request::WorkerHeartbeat(heartbeat) = request else { panic!("another request") };
        assert!(heartbeat.address.starts_with("localhost:"));
        let [server] = &heartbeat.transfer_servers[..] else { panic!("not one transfer server") };
        assert_eq!((server.protocol.as_str(), heartbeat.uid), ("grpc", -1));
        if !heartbeat.tags.is_empty() {
            assert_eq!(heartbeat.tags, ["rack a", "tagged"]);
            tagged += 1;
        }
    }
    assert!(tagged > 0, "no heartbeat with tags");
    for Exchange { response, .. } in exchanges("WorkerHeartbeat") {
        let said = wire::WorkerHeartbeatResponse::decode(response.clone()).unwrap();
        let reply = WorkerHeartbeatReply {
            new_tasks: said.new_tasks.iter().map(task_def).collect(),
            tasks_to_delete: said.tasks_to_delete.iter().copied().map(TaskId::new).collect(),
        };
        let Encoded::Message(ours) = encode_reply(Reply::WorkerHeartbeat(reply)) else {
            panic!("not a message");
        };
        let said_without_paths = wire::WorkerHeartbeatResponse {
            new_tasks: said.new_tasks.into_iter().map(with_our_path).collect(),
            ..said
        };
        assert_eq!(ours, said_without_paths.encode_to_vec());
        if said_without_paths.new_tasks.iter().all(has_definition) {
            assert_eq!(ours, response);
        }
    }
}

/// The task TensorFlow's dispatcher meant, its definition being a blob if it gave a path.
fn task_def(said: &wire::TaskDef) -> TaskDef {
    let inline = match said.dataset.clone().unwrap() {
        wire::task_def::Dataset::DatasetDef(bytes) => Some(bytes),
        wire::task_def::Dataset::Path(_) => None,
    };
    let definition =
        Definition { digest: rondo_core::ids::Digest::new([0xab; 32]), size_bytes: 0, inline };
    TaskDef {
        task: TaskId::new(said.task_id),
        iteration: IterationId::new(said.iteration_id),
        dataset: DatasetId::new(said.dataset_id.as_str()),
        definition,
        worker_address: said.worker_address.as_str().into(),
        sharding: sharding(said.processing_mode_def.as_ref().unwrap().sharding_policy),
        consumers: said.num_consumers,
        split_providers: said.num_split_providers,
        workers: said.num_workers,
        worker_index: said.worker_index,
        use_cross_trainer_cache: said.use_cross_trainer_cache,
    }
}

fn sharding(number: i32) -> ShardingPolicy {
    match number {
        0 => ShardingPolicy::Off,
        1 => ShardingPolicy::Dynamic,
        3 => ShardingPolicy::Data,
        other => panic!("vectors/capture.py never asks for policy {other}"),
    }
}

fn has_definition(task: &wire::TaskDef) -> bool {
    matches!(task.dataset, Some(wire::task_def::Dataset::DatasetDef(_)))
}

fn with_our_path(mut task: wire::TaskDef) -> wire::TaskDef {
    if !has_definition(&task) {
        let path = format!("rondo:{}", "ab".repeat(32));
        task.dataset = Some(wire::task_def::Dataset::Path(path));
    }
    task
}

#[test]
fn pushed_tasks() {
    let mut policies = Vec::new();
    for Exchange { request, .. } in exchanges("ProcessTask") {
        let said = wire::ProcessTaskRequest::decode(request.clone()).unwrap().task.unwrap();
        let ours = encode_process_task(&task_def(&said));
        policies.push(said.processing_mode_def.unwrap_or_default().sharding_policy);
        let expected = wire::ProcessTaskRequest { task: Some(with_our_path(said.clone())) };
        assert_eq!(ours, expected.encode_to_vec());
        if has_definition(&said) {
            assert_eq!(ours, request);
        }
    }
    for policy in [0, 1, 3] {
        assert!(policies.contains(&policy), "no task of policy {policy}");
    }
}

#[test]
fn worker_updates() {
    for request in requests(Method::WorkerUpdate) {
        let Request::WorkerUpdate { progress, .. } = request else { panic!("another request") };
        assert!(progress.iter().all(|(task, completed)| task.get() >= 4000 && *completed));
    }
    check_replies(Method::WorkerUpdate, |_: wire::WorkerUpdateResponse| Reply::WorkerUpdated);
    check_replies(Method::GetWorkers, |said: wire::GetWorkersResponse| {
        Reply::Workers(said.workers.into_iter().map(|worker| worker.address.into()).collect())
    });
}

#[test]
fn splits() {
    check_replies(Method::GetSplit, |said: wire::GetSplitResponse| {
        let content = said.split.map(|split| split.tensor_content);
        let value = |content: Bytes| i64::from_le_bytes(content.as_ref().try_into().unwrap());
        Reply::Split(content.map(value))
    });
}

/// Measured on TensorFlow 2.21; the response's field 1 holds the tensor.
#[test]
fn a_split_is_a_scalar_of_eight_bytes() {
    for (value, low) in [(0, 0), (1, 1), (9, 9)] {
        let expected = [0x0a, 14, 8, 9, 0x12, 0, 0x22, 8, low, 0, 0, 0, 0, 0, 0, 0];
        let ours = encode_reply(Reply::Split(Some(value)));
        assert_eq!(ours, Encoded::Message(Bytes::copy_from_slice(&expected)));
    }
    let Encoded::Message(negative) = encode_reply(Reply::Split(Some(-2))) else {
        panic!("not a message");
    };
    assert_eq!(negative[8..], [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    let end = encode_reply(Reply::Split(None));
    assert_eq!(end, Encoded::Message(Bytes::from_static(&[0x10, 1])));
}

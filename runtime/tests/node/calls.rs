//! Calls of a node, as the services make them.

use bytes::Bytes;
use rondo::node::{BlobPin, Line, RunningNode};
use rondo::service::NodePort;
use rondo::store::blobs::{Blob, digest};
use rondo::transport::ConnectionId;
use rondo_core::control::{Reply, Request};
use rondo_core::dispatcher::{
    self, ClientHeartbeat, Compression, DatasetMetadata, Definition, GetOrCreateJob,
    RegisterDataset, Report, ShardingPolicy, SplitPlan, SplitSource, TargetWorkers,
    WorkerHeartbeat,
};
use rondo_core::ids::{ClientId, DatasetId, Digest, IterationId, JobId, TaskId};
use rondo_core::limits::DEFINITION_INLINE_BYTES_MAX;
use rondo_core::status::{Code, Status};

/// The connection of all calls of a test.
pub(crate) const HERE: Line = Line::of_client(ConnectionId::new(0));

pub(crate) async fn call(
    node: &RunningNode,
    request: dispatcher::Request,
) -> Result<dispatcher::Reply, Status> {
    call_on(HERE, node, request).await
}

/// A call on a connection of its own.
pub(crate) async fn call_on(
    line: Line,
    node: &RunningNode,
    request: dispatcher::Request,
) -> Result<dispatcher::Reply, Status> {
    match node.call(line, Request::Dispatcher(request)).await? {
        Reply::Dispatcher(reply) => Ok(reply),
        other => panic!("{other:?}"),
    }
}

/// Takes the expected variant out of a reply.
macro_rules! expect {
    ($node:expr, $request:expr, $variant:ident) => {
        match call($node, $request).await? {
            dispatcher::Reply::$variant(value) => Ok(value),
            other => panic!("{other:?}"),
        }
    };
}

/// Registers a dataset of `splits` splits whose definition is these bytes.
pub(crate) async fn register(
    node: &RunningNode,
    id: &str,
    bytes: Bytes,
    splits: i64,
) -> Result<DatasetId, Status> {
    let digest = digest(&bytes);
    let size_bytes = bytes.len() as u64;
    let is_blob = size_bytes > DEFINITION_INLINE_BYTES_MAX;
    let pin = match is_blob {
        true => node.put_blob(Blob::of(bytes.clone())).await?,
        false => BlobPin::none(),
    };
    let definition = Definition { digest, size_bytes, inline: (!is_blob).then_some(bytes) };
    let metadata = DatasetMetadata {
        encoded: Bytes::from_static(b"metadata"),
        structure: Digest::new([1; 32]),
        compression: Compression::Snappy,
        cardinality: splits,
    };
    let request = RegisterDataset {
        wished: Some(DatasetId::new(id)),
        definition,
        own: false,
        replaces: false,
        plan: SplitPlan::Splittable(vec![SplitSource::counting(splits)]),
        metadata,
    };
    let request = Request::Dispatcher(dispatcher::Request::RegisterDataset(request));
    match node.register(HERE, request, pin).await? {
        Reply::Dispatcher(dispatcher::Reply::Dataset(id)) => Ok(id),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn job_request(name: &str, dataset: &str) -> GetOrCreateJob {
    GetOrCreateJob {
        dataset: DatasetId::new(dataset),
        same_dataset: false,
        sharding: ShardingPolicy::Dynamic,
        name: Some(name.into()),
        consumers: None,
        use_cross_trainer_cache: false,
        target_workers: TargetWorkers::Auto,
    }
}

/// Registers dataset `data`.
pub(crate) async fn register_data(node: &RunningNode) -> Result<DatasetId, Status> {
    register(node, "data", Bytes::from_static(b"data"), 3).await
}

/// Creates a job of dataset `data`, or finds it. The first job registers the dataset.
pub(crate) async fn job(node: &RunningNode, name: &str) -> Result<JobId, Status> {
    match job_of_known_dataset(node, name).await {
        Err(status) if status.code == Code::NotFound => {
            register_data(node).await?;
            job_of_known_dataset(node, name).await
        }
        answer => answer,
    }
}

async fn job_of_known_dataset(node: &RunningNode, name: &str) -> Result<JobId, Status> {
    let request = job_request(name, "data");
    expect!(node, dispatcher::Request::GetOrCreateJob(request), Job)
}

/// Joins an iteration of a job.
pub(crate) async fn join(node: &RunningNode, job: JobId) -> Result<ClientId, Status> {
    let request = dispatcher::Request::GetOrCreateIteration { job, repetition: 0 };
    expect!(node, request, Client)
}

pub(crate) async fn split(
    node: &RunningNode,
    iteration: IterationId,
) -> Result<Option<i64>, Status> {
    let request =
        dispatcher::Request::GetSplit { iteration, repetition: 0, source: 0, asker: None };
    expect!(node, request, Split)
}

pub(crate) async fn worker_heartbeat(
    node: &RunningNode,
    address: &str,
    current_tasks: Vec<TaskId>,
) -> Result<dispatcher::WorkerHeartbeatReply, Status> {
    let request = heartbeat_request(address, current_tasks);
    expect!(node, dispatcher::Request::WorkerHeartbeat(request), WorkerHeartbeat)
}

pub(crate) fn heartbeat_request(address: &str, current_tasks: Vec<TaskId>) -> WorkerHeartbeat {
    WorkerHeartbeat {
        address: address.into(),
        current_tasks,
        tags: Vec::new(),
        uid: 7,
        transfer_servers: Vec::new(),
    }
}

pub(crate) async fn client_heartbeat(
    node: &RunningNode,
    client: ClientId,
) -> Result<dispatcher::ClientHeartbeatReply, Status> {
    let request = ClientHeartbeat {
        client,
        current_round: None,
        blocked_round: None,
        target_processing_time_ns: 0,
    };
    expect!(node, dispatcher::Request::ClientHeartbeat(request), ClientHeartbeat)
}

/// The whole durable state: what goes with the process is left out.
pub(crate) async fn report(node: &RunningNode) -> Result<Report, Status> {
    let report: Result<Report, Status> = expect!(node, dispatcher::Request::Report, Report);
    let mut report = report?;
    for worker in &mut report.workers {
        (worker.silent_ms, worker.lost) = (None, false);
    }
    for client in &mut report.clients {
        client.silent_ms = None;
    }
    for iteration in &mut report.iterations {
        iteration.round = None;
    }
    Ok(report)
}

/// The names of the jobs, in order of creation.
pub(crate) async fn job_names(node: &RunningNode) -> Vec<String> {
    let jobs = report(node).await.unwrap().jobs;
    jobs.into_iter().map(|job| job.name).collect()
}

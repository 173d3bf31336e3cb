//! The services over real loopback gRPC, with a node that answers from a script.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![cfg(not(madsim))]

use std::collections::BTreeMap;
use std::future::{pending, ready};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;
use rondo::node::{BlobPin, Line};
use rondo::service::{
    AdminService, DispatcherService, HealthService, JournalStatus, NodePort, NodeSlot, Router,
    ServerInfo,
};
use rondo::store::blobs::Blob;
use rondo::transport::budget::Budget;
use rondo::transport::grpc_client::GrpcClient;
use rondo::transport::{
    BoxFuture, Call, ConnectionId, RequestMemory, ServerConfig, Service, Transport, listener, serve,
};
use rondo_core::control::{Health, Reply, Request};
use rondo_core::coordination;
use rondo_core::dispatcher::{self, Definition, Report, TaskInfo, WorkerReport};
use rondo_core::ids::{DatasetId, Digest, IterationId, TaskId};
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{GET_STATUS_PATH, HEALTH_CHECK_PATH, Method};
use rondo_proto::health::{HealthCheckRequest, HealthCheckResponse};
use rondo_proto::{admin, tf};

const SOON: Duration = Duration::from_secs(20);

/// Remembers registrations and blobs, in the order in which they came.
#[derive(Default)]
struct FakeNode {
    unhealthy: bool,
    blobs: Mutex<BTreeMap<Digest, Bytes>>,
    registered: Mutex<Vec<dispatcher::RegisterDataset>>,
    askers: Mutex<Vec<Option<String>>>,
    /// The dataset that is registered, and what was asked about others without their graphs.
    known: Option<&'static str>,
    looked: Mutex<Vec<String>>,
    /// The tasks that clients are told of.
    tasks: Mutex<Arc<[TaskInfo]>>,
}

impl FakeNode {
    fn answer(&self, request: dispatcher::Request) -> Result<dispatcher::Reply, Status> {
        use dispatcher::Request as Asked;
        match request {
            Asked::RegisterDataset(request) => {
                if request.definition.inline.is_none() {
                    let blobs = self.blobs.lock().unwrap();
                    assert!(blobs.contains_key(&request.definition.digest), "blob comes first");
                }
                self.registered.lock().unwrap().push(request);
                Ok(dispatcher::Reply::Dataset(DatasetId::new("1000")))
            }
            Asked::GetRegistered { dataset, metadata } => {
                self.looked.lock().unwrap().push(dataset.to_string());
                match self.known {
                    _ if metadata.cardinality == -9 => Err(other_structure()),
                    Some(known) if known == dataset.as_str() => {
                        Ok(dispatcher::Reply::Dataset(dataset))
                    }
                    _ => Ok(dispatcher::Reply::NotRegistered),
                }
            }
            Asked::GetDefinition { .. } => {
                let registered = self.registered.lock().unwrap();
                let definition: Definition = registered[0].definition.clone();
                Ok(dispatcher::Reply::Definition(definition))
            }
            Asked::GetMetadata { dataset } => {
                Err(Status::new(Code::NotFound, format!("Dataset id {dataset} not found")))
            }
            Asked::Report => Ok(dispatcher::Reply::Report(Report {
                workers: vec![WorkerReport {
                    address: "worker:1".into(),
                    uid: 7,
                    tags: vec!["tag".into()],
                    tasks: 3,
                    silent_ms: Some(5),
                    lost: false,
                }],
                ..Report::default()
            })),
            Asked::WorkerHeartbeat(_) => Ok(dispatcher::Reply::WorkerHeartbeat(Default::default())),
            Asked::ClientHeartbeat(_) => {
                Ok(dispatcher::Reply::ClientHeartbeat(dispatcher::ClientHeartbeatReply {
                    tasks: self.tasks.lock().unwrap().clone(),
                    iteration_finished: false,
                    block_round: None,
                    deployment_mode: dispatcher::DeploymentMode::Unspecified,
                }))
            }
            Asked::GetSplit { asker, .. } => {
                let asker = asker.map(|asker| asker.to_string());
                self.askers.lock().unwrap().push(asker);
                Ok(dispatcher::Reply::Split(None))
            }
            other => panic!("not in the script: {other:?}"),
        }
    }
}

impl NodePort for FakeNode {
    fn register(
        &self,
        _: Line,
        request: Request,
        _: BlobPin,
    ) -> BoxFuture<'_, Result<Reply, Status>> {
        let reply = match request {
            Request::Dispatcher(request) => self.answer(request).map(Reply::Dispatcher),
            Request::Coordination(coordination::Request::Report) => Ok(Reply::Coordination(
                coordination::Reply::Report(coordination::Report::default()),
            )),
            Request::Coordination(other) => panic!("not in the script: {other:?}"),
        };
        Box::pin(ready(reply))
    }

    fn put_blob(&self, blob: Blob) -> BoxFuture<'_, Result<BlobPin, Status>> {
        self.blobs.lock().unwrap().insert(blob.digest(), blob.bytes().clone());
        Box::pin(ready(Ok(BlobPin::none())))
    }

    fn get_blob(&self, digest: Digest) -> BoxFuture<'_, Result<Bytes, Status>> {
        let blob = self.blobs.lock().unwrap().get(&digest).cloned();
        Box::pin(ready(blob.ok_or_else(|| Status::new(Code::DataLoss, "no blob"))))
    }

    fn health(&self) -> Health {
        if self.unhealthy {
            return Health::RefusingUpdates("the disk is full".into());
        }
        Health::Serving
    }

    fn journal_status(&self) -> JournalStatus {
        JournalStatus { store: "sled".into(), durable_lsn: 41, next_lsn: 42, ..Default::default() }
    }

    fn halted(&self) -> BoxFuture<'_, String> {
        Box::pin(pending())
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(ready(Ok(())))
    }
}

fn other_structure() -> Status {
    Status::new(Code::InvalidArgument, "another structure")
}

struct Server {
    address: String,
    client: GrpcClient,
    slot: NodeSlot,
}

impl Server {
    /// A server whose node has not started.
    fn start() -> Self {
        let listener = listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let slot = NodeSlot::new();
        let server = ServerInfo {
            version: "1.2.3",
            listen_address: address.clone(),
            started: Instant::now(),
        };
        let router = Router::new()
            .with("tensorflow.data.DispatcherService", DispatcherService::new(slot.clone(), 9))
            .with("rondo.v1.Admin", AdminService::new(slot.clone(), server))
            .with(
                "grpc.health.v1.Health",
                HealthService::new(slot.clone(), vec!["rondo.v1.Admin"]),
            );
        tokio::spawn(serve(listener, Arc::new(router), ServerConfig::default(), pending()));
        Self { address, client: GrpcClient::new(), slot }
    }

    fn with(node: FakeNode) -> (Self, Arc<FakeNode>) {
        let (server, node) = (Self::start(), Arc::new(node));
        server.slot.fill(node.clone());
        (server, node)
    }

    async fn call(&self, path: &'static str, message: impl Message) -> Result<Bytes, Status> {
        let message = message.encode_to_vec().into();
        self.client.unary(&self.address, path, message, SOON).await
    }

    async fn raw(&self, path: &'static str, message: &'static [u8]) -> Result<Bytes, Status> {
        self.client.unary(&self.address, path, Bytes::from_static(message), SOON).await
    }

    async fn health(&self, service: &str) -> Result<i32, Status> {
        let request = HealthCheckRequest { service: service.into() };
        let answer = self.call(HEALTH_CHECK_PATH, request).await?;
        Ok(HealthCheckResponse::decode(answer).unwrap().status)
    }
}

#[tokio::test]
async fn the_version_is_answered_before_anything_else_is_ready() {
    let server = Server::start();
    assert_eq!(server.raw(Method::GetVersion.path(), b"").await.unwrap(), &b"\x08\x09"[..]);
}

#[tokio::test]
async fn other_methods_are_unavailable_until_the_node_is_ready() {
    let server = Server::start();
    for method in [Method::GetWorkers, Method::GetDataServiceConfig, Method::GetSplit] {
        let status = server.raw(method.path(), b"").await.unwrap_err();
        assert_eq!(status.code, Code::Unavailable, "{method:?}");
        assert!(status.message.contains("has not started yet"), "{status}");
    }
    let status = server.raw(GET_STATUS_PATH, b"").await.unwrap_err();
    assert_eq!(status.code, Code::Unavailable);
}

#[tokio::test]
async fn malformed_bytes_are_an_invalid_argument() {
    let (server, _) = Server::with(FakeNode::default());
    for path in [Method::GetSplit.path(), HEALTH_CHECK_PATH, GET_STATUS_PATH] {
        let status = server.raw(path, b"\x0a\xff").await.unwrap_err();
        assert_eq!(status.code, Code::InvalidArgument, "{path}: {status}");
    }
}

#[tokio::test]
async fn unknown_methods_are_unimplemented_by_name() {
    let (server, _) = Server::with(FakeNode::default());
    for path in [
        "/tensorflow.data.DispatcherService/Nope",
        "/rondo.v1.Admin/Nope",
        "/grpc.health.v1.Health/Watch",
        "/tensorflow.data.WorkerService/GetElement",
        "/nonsense",
    ] {
        let status = server.raw(path, b"").await.unwrap_err();
        assert_eq!(status.code, Code::Unimplemented, "{path}");
        assert!(status.message.contains(path), "{status}");
    }
}

#[tokio::test]
async fn snapshots_are_unimplemented_and_say_so() {
    let (server, _) = Server::with(FakeNode::default());
    for method in [Method::Snapshot, Method::GetSnapshotSplit, Method::GetSnapshotStreams] {
        let status = server.raw(method.path(), b"").await.unwrap_err();
        assert_eq!(status.code, Code::Unimplemented);
        assert!(status.message.contains("snapshot"), "{status}");
    }
}

#[tokio::test]
async fn health_follows_the_node() {
    let server = Server::start();
    assert_eq!(server.health("").await, Ok(2), "NOT_SERVING before the start");
    let (server, _) = Server::with(FakeNode::default());
    assert_eq!(server.health("").await, Ok(1));
    assert_eq!(server.health("rondo.v1.Admin").await, Ok(1));
    assert_eq!(server.health("other").await.unwrap_err().code, Code::NotFound);
    let (server, _) = Server::with(FakeNode { unhealthy: true, ..FakeNode::default() });
    assert_eq!(server.health("").await, Ok(2));
}

#[tokio::test]
async fn the_nodes_refusals_arrive_as_they_are() {
    let (server, _) = Server::with(FakeNode::default());
    let request = tf::data::GetDataServiceMetadataRequest { dataset_id: "77".into() };
    let status = server.call(Method::GetDataServiceMetadata.path(), request).await.unwrap_err();
    assert_eq!(status, Status::new(Code::NotFound, "Dataset id 77 not found"));
}

/// A `DatasetDef` whose graph is one node that holds so many bytes of constant.
fn dataset_def(constant_bytes: usize) -> Bytes {
    let field = |tag: u8, value: &[u8]| {
        let mut bytes = vec![tag << 3 | 2];
        prost::encoding::encode_varint(value.len() as u64, &mut bytes);
        bytes.extend_from_slice(value);
        bytes
    };
    let tensor = [&[0x08, 0x07][..], &field(4, &vec![b'x'; constant_bytes])].concat();
    let attribute = [field(1, b"value"), field(2, &field(8, &tensor))].concat();
    let node = [field(1, b"c"), field(2, b"Const"), field(5, &attribute)].concat();
    field(1, &field(1, &node)).into()
}

async fn register(constant_bytes: usize) -> (Server, Arc<FakeNode>, Bytes) {
    let (server, node) = Server::with(FakeNode::default());
    let dataset = dataset_def(constant_bytes);
    let request = tf::data::GetOrRegisterDatasetRequest {
        dataset: Some(dataset.clone()),
        ..Default::default()
    };
    let answer = server.call(Method::GetOrRegisterDataset.path(), request).await.unwrap();
    let answer = tf::data::GetOrRegisterDatasetResponse::decode(answer).unwrap();
    assert_eq!(answer.dataset_id, "1000");
    (server, node, dataset)
}

async fn definition(server: &Server) -> Bytes {
    let request = tf::data::GetDatasetDefRequest { dataset_id: "1000".into() };
    let answer = server.call(Method::GetDatasetDef.path(), request).await.unwrap();
    tf::data::GetDatasetDefResponse::decode(answer).unwrap().dataset_def.unwrap()
}

#[tokio::test]
async fn a_small_definition_goes_with_the_request() {
    let (server, node, dataset) = register(100).await;
    assert_eq!(node.registered.lock().unwrap()[0].definition.inline, Some(dataset.clone()));
    assert!(node.blobs.lock().unwrap().is_empty());
    assert_eq!(definition(&server).await, dataset);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_definition_is_a_blob_kept_before_the_node_hears_of_it() {
    let (server, node, dataset) = register(8 << 20).await;
    assert_eq!(node.registered.lock().unwrap()[0].definition.inline, None);
    assert_eq!(node.blobs.lock().unwrap().len(), 1);
    assert!(definition(&server).await == dataset);
}

#[tokio::test]
async fn a_graph_that_is_none_is_refused() {
    let (server, node) = Server::with(FakeNode::default());
    let request = tf::data::GetOrRegisterDatasetRequest {
        dataset: Some(Bytes::from_static(b"\xff\xff\xff")),
        ..Default::default()
    };
    let path = Method::GetOrRegisterDataset.path();
    let status = server.call(path, request).await.unwrap_err();
    assert_eq!(status.code, Code::InvalidArgument, "{status}");
    assert!(node.registered.lock().unwrap().is_empty());
}

/// Registers a graph under the id `mine`, and says what was answered and what the node got.
async fn register_as_mine(
    known: Option<&'static str>,
    dataset: Bytes,
    cardinality: i64,
) -> (Result<String, Status>, Arc<FakeNode>) {
    let (server, node) = Server::with(FakeNode { known, ..FakeNode::default() });
    let metadata = tf::data::DataServiceMetadata { cardinality, ..Default::default() };
    let request = tf::data::GetOrRegisterDatasetRequest {
        dataset: Some(dataset),
        dataset_id: Some("mine".into()),
        metadata: Some(metadata.encode_to_vec().into()),
        ..Default::default()
    };
    let answer = server.call(Method::GetOrRegisterDataset.path(), request).await;
    let id = answer
        .map(|answer| tf::data::GetOrRegisterDatasetResponse::decode(answer).unwrap().dataset_id);
    (id, node)
}

/// What of a registration's graph was hashed: it comes to the node or its blobs with its hash.
fn hashed(node: &FakeNode) -> usize {
    node.blobs.lock().unwrap().len() + node.registered.lock().unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_under_an_id_that_is_taken_is_not_hashed() {
    for bytes in [10, 1 << 20] {
        let (id, node) = register_as_mine(Some("mine"), dataset_def(bytes), 4).await;
        assert_eq!((id, hashed(&node)), (Ok("mine".into()), 0), "{bytes} bytes");
        let (id, node) = register_as_mine(Some("mine"), dataset_def(bytes), -9).await;
        assert_eq!((id, hashed(&node)), (Err(other_structure()), 0), "{bytes} bytes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_under_a_free_id_is_registered() {
    let (id, node) = register_as_mine(Some("other"), dataset_def(1 << 20), 4).await;
    assert_eq!((id, hashed(&node)), (Ok("1000".into()), 2));
    assert_eq!(*node.looked.lock().unwrap(), ["mine"]);
}

/// Two pipelines of Rondo's own under one id must be the same, so their definitions are compared.
#[tokio::test]
async fn a_pipeline_of_rondos_own_is_hashed_under_an_id_that_is_taken_too() {
    let own = admin::Dataset { version: 1, splits: 3, ..Default::default() };
    let own = rondo_proto::dataset::encode_definition(&own);
    let (_, node) = register_as_mine(Some("mine"), own, 4).await;
    assert!(node.registered.lock().unwrap()[0].own);
    assert!(node.looked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_graph_that_is_none_is_refused_under_an_id_that_is_taken_too() {
    let malformed = Bytes::from_static(b"\xff\xff\xff");
    let (taken, node) = register_as_mine(Some("mine"), malformed.clone(), 4).await;
    let (free, _) = register_as_mine(None, malformed, 4).await;
    assert_eq!(taken.as_ref().unwrap_err().code, Code::InvalidArgument, "{taken:?}");
    assert_eq!(taken, free);
    assert!(node.looked.lock().unwrap().is_empty(), "refused first");
}

#[tokio::test]
async fn the_status_brings_everything_together() {
    let (server, _) = Server::with(FakeNode { unhealthy: true, ..FakeNode::default() });
    let answer = server.call(GET_STATUS_PATH, admin::GetStatusRequest {}).await.unwrap();
    let answer = admin::GetStatusResponse::decode(answer).unwrap();
    let process = answer.server.unwrap();
    assert_eq!(process.version, "1.2.3");
    assert_eq!(process.listen_address, server.address);
    assert!(!process.healthy);
    assert!(process.reason.contains("the disk is full"), "{}", process.reason);
    let journal = answer.journal.unwrap();
    assert_eq!((journal.durable_lsn, journal.next_lsn), (41, 42));
    assert_eq!(answer.dispatcher.unwrap().workers[0].address, "worker:1");
}

/// So many tasks of one iteration.
fn tasks(len: i64) -> Arc<[TaskInfo]> {
    let task = |number: i64| TaskInfo {
        worker_address: format!("worker{number}:5000").into(),
        task: TaskId::new(number),
        iteration: IterationId::new(2000),
        starting_round: 0,
        worker_tags: Arc::default(),
        worker_uid: -1,
        transfer_servers: Arc::default(),
    };
    (0..len).map(task).collect()
}

#[tokio::test]
async fn clients_of_an_iteration_share_one_encoded_list_of_tasks() {
    let (slot, node) = (NodeSlot::new(), Arc::new(FakeNode::default()));
    slot.fill(node.clone());
    let service = DispatcherService::new(slot, 9);
    let heartbeat = async || {
        let call = Call {
            path: Method::ClientHeartbeat.path().to_owned(),
            message: Bytes::new(),
            peer: SocketAddr::from(([127, 0, 0, 1], 9)),
            connection: ConnectionId::new(1),
            worker: None,
            memory: RequestMemory::default(),
            budget: Budget::new(1 << 30, 512 << 20),
        };
        service.unary(call).await.unwrap()
    };
    for len in [5000, 5001] {
        *node.tasks.lock().unwrap() = tasks(len);
        let (one, other) = (heartbeat().await, heartbeat().await);
        assert_eq!(one.as_ptr(), other.as_ptr(), "encoded twice");
        let told = tf::data::ClientHeartbeatResponse::decode(one).unwrap();
        assert_eq!(told.task_info.len() as i64, len);
        assert_eq!(told.task_info[len as usize - 1].task_id, len - 1);
    }
}

/// TensorFlow's workers do not say who they are when they ask for splits.
#[tokio::test]
async fn whoever_asks_for_splits_is_known_by_the_connection() {
    let (server, node) = Server::with(FakeNode::default());
    let heartbeat = |client: GrpcClient, address: &'static str| {
        let heartbeat = tf::data::WorkerHeartbeatRequest {
            worker_address: address.into(),
            ..Default::default()
        };
        let message = heartbeat.encode_to_vec().into();
        let path = Method::WorkerHeartbeat.path();
        let address = server.address.clone();
        async move { client.unary(&address, path, message, SOON).await }
    };
    let split = |client: GrpcClient| {
        let message = tf::data::GetSplitRequest::default().encode_to_vec().into();
        let path = Method::GetSplit.path();
        let address = server.address.clone();
        async move { client.unary(&address, path, message, SOON).await }
    };
    // One connection each.
    let (one, other) = (GrpcClient::new(), GrpcClient::new());
    split(one.clone()).await.unwrap();
    heartbeat(one.clone(), "w:1").await.unwrap();
    heartbeat(other.clone(), "w:2").await.unwrap();
    split(one.clone()).await.unwrap();
    split(other.clone()).await.unwrap();
    heartbeat(one.clone(), "w:3").await.unwrap();
    split(one).await.unwrap();
    let known = |address: &str| Some(address.to_owned());
    let askers = node.askers.lock().unwrap().clone();
    assert_eq!(askers, [None, known("w:1"), known("w:2"), None]);
}

/// The state keeps copies of the parts that it needs, so that the request's memory can go.
#[tokio::test]
async fn what_is_registered_is_no_part_of_the_request() {
    let node = Arc::new(FakeNode::default());
    let slot = NodeSlot::new();
    slot.fill(node.clone());
    let service = DispatcherService::new(slot, 9);
    let metadata = tf::data::DataServiceMetadata { cardinality: 4, ..Default::default() };
    let request = tf::data::GetOrRegisterDatasetRequest {
        dataset: Some(dataset_def(100)),
        metadata: Some(metadata.encode_to_vec().into()),
        ..Default::default()
    };
    let message: Bytes = request.encode_to_vec().into();
    let call = Call {
        path: Method::GetOrRegisterDataset.path().to_owned(),
        message: message.clone(),
        peer: SocketAddr::from(([127, 0, 0, 1], 1)),
        connection: ConnectionId::new(1),
        worker: None,
        memory: RequestMemory::default(),
        budget: Budget::new(1 << 30, 512 << 20),
    };
    service.unary(call).await.unwrap();
    let registered = node.registered.lock().unwrap().pop().unwrap();
    let kept = [registered.definition.inline.unwrap(), registered.metadata.encoded];
    let request = message.as_ptr_range();
    for bytes in kept {
        assert!(!bytes.is_empty() && !request.contains(&bytes.as_ptr()), "{bytes:?}");
    }
}

/// An answer with a large definition counts in the memory for large messages until it has left.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_definition_has_its_share_of_the_memory_while_it_is_under_way() {
    const BYTES: u64 = 1 << 20;
    let (slot, node) = (NodeSlot::new(), Arc::new(FakeNode::default()));
    slot.fill(node.clone());
    let budget = Budget::new(8 * BYTES, 4 * BYTES);
    let service = DispatcherService::new(slot, 9);
    let ask = async |method: Method, message: Vec<u8>| {
        let call = Call {
            path: method.path().to_owned(),
            message: message.into(),
            peer: SocketAddr::from(([127, 0, 0, 1], 1)),
            connection: ConnectionId::new(1),
            worker: None,
            memory: RequestMemory::default(),
            budget: budget.clone(),
        };
        service.unary(call).await.unwrap()
    };
    let request = tf::data::GetOrRegisterDatasetRequest {
        dataset: Some(dataset_def(BYTES as usize)),
        ..Default::default()
    };
    ask(Method::GetOrRegisterDataset, request.encode_to_vec()).await;
    let request = tf::data::GetDatasetDefRequest { dataset_id: "1000".into() };
    let answer = ask(Method::GetDatasetDef, request.encode_to_vec()).await;
    let soon = Duration::from_millis(50);
    let more = async |bytes| tokio::time::timeout(soon, budget.acquire(bytes)).await.is_ok();
    // A message above the pool takes the turn: then only the pool is left.
    let _turn = budget.acquire(u64::MAX).await;
    assert!(more(BYTES).await && !more(2 * BYTES).await);
    drop(answer);
    assert!(more(4 * BYTES).await);
}

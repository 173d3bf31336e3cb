//! A server with its namespaces, and clients of either dialect with connections of their own.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use rondo::clock::Clock;
use rondo::memory::Ceiling;
use rondo::node::{Line, NodeConfig, RunningNode, Surroundings, start_in_memory, start_over};
use rondo::service::{CoordinationService, NodePort, NodeSlot, RelayService, Router};
use rondo::store::{DataDirectory, RealDisk, StoreConfig, StoreKind, Wanted};
use rondo::transport::budget::Budget;
use rondo::transport::{
    BoxFuture, ConnectionId, MessageStream, ServerConfig, Transport, listener, serve,
};
use rondo_core::control;
use rondo_core::coordination::{self, NamespaceConfig};
use rondo_core::dispatcher;
use rondo_core::status::Status;
use rondo_core::time::Duration as Span;
use rondo_proto::tf::distributed_runtime::GrpcPayloadContainer;
use rondo_proto::{admin, tf, xla};
use tokio::sync::oneshot;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};

/// How long a test waits for what must happen.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Memory for large answers under way, in bytes.
const INFLIGHT_BYTES_MAX: u64 = 1 << 30;

/// A server with a port for each namespace.
pub(crate) struct World {
    pub(crate) node: Arc<RunningNode>,
    addresses: Vec<String>,
    stops: Vec<oneshot::Sender<()>>,
    served: Vec<tokio::task::JoinHandle<()>>,
}

/// The settings of a namespace of two tasks.
pub(crate) fn pair() -> NamespaceConfig {
    NamespaceConfig { tasks: Some(2), ..NamespaceConfig::named("default") }
}

fn surroundings(namespaces: Vec<NamespaceConfig>, ceiling: Ceiling) -> Surroundings {
    Surroundings {
        machines: control::Config {
            dispatcher: dispatcher::Config::default(),
            coordination: coordination::Config { namespaces },
        },
        node: NodeConfig::default(),
        transport: Arc::new(NoTransport),
        clock: Clock::start(),
        ceiling,
    }
}

impl World {
    /// In memory.
    pub(crate) fn start(namespaces: &[NamespaceConfig]) -> Self {
        Self::start_within(namespaces, INFLIGHT_BYTES_MAX)
    }

    /// In memory, with a bound on large answers under way.
    pub(crate) fn start_within(namespaces: &[NamespaceConfig], inflight_bytes_max: u64) -> Self {
        let budget = Budget::new(inflight_bytes_max, inflight_bytes_max / 2);
        Self::in_memory(namespaces, budget)
    }

    /// In memory, below a ceiling that the test moves.
    pub(crate) fn start_below(namespaces: &[NamespaceConfig], ceiling: Ceiling) -> Self {
        let budget = Budget::below(ceiling, INFLIGHT_BYTES_MAX, INFLIGHT_BYTES_MAX / 2);
        Self::in_memory(namespaces, budget)
    }

    fn in_memory(namespaces: &[NamespaceConfig], budget: Budget) -> Self {
        let node =
            start_in_memory(surroundings(namespaces.to_vec(), budget.ceiling().clone())).unwrap();
        Self::over(node, namespaces, budget)
    }

    /// Over a directory.
    pub(crate) async fn durable(path: &std::path::Path, namespaces: &[NamespaceConfig]) -> Self {
        let wanted = Wanted {
            store: Some(StoreKind::Segment),
            release: "test".into(),
            pid: std::process::id(),
        };
        let directory = DataDirectory::open(RealDisk::shared(), path, &wanted).await.unwrap();
        let bounds = StoreConfig { free_space_reserve_bytes: 1 << 20, ..StoreConfig::default() };
        let surroundings = surroundings(namespaces.to_vec(), Ceiling::none());
        let node = start_over(directory, &bounds, surroundings).await.unwrap();
        let budget = Budget::new(INFLIGHT_BYTES_MAX, INFLIGHT_BYTES_MAX / 2);
        Self::over(node, namespaces, budget)
    }

    fn over(node: RunningNode, namespaces: &[NamespaceConfig], budget: Budget) -> Self {
        let (slot, node) = (NodeSlot::new(), Arc::new(node));
        slot.fill(node.clone());
        let mut world = Self { node, addresses: Vec::new(), stops: Vec::new(), served: Vec::new() };
        for namespace in namespaces {
            let listener = listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
            world.addresses.push(listener.local_addr().unwrap().to_string());
            let service = CoordinationService::new(slot.clone(), namespace, 4096);
            let service = Arc::new(service);
            let relays =
                RelayService::new(slot.clone(), namespace.name.clone(), Arc::clone(&service));
            let names = [
                "tensorflow.CoordinationService",
                "xla.coordination.CoordinationService",
                "rondo.v1.Coordination",
            ];
            let router = Router::new().with_names(&names, service).with("rondo.v1.Relay", relays);
            let (stop, stopped) = oneshot::channel::<()>();
            let stopped = async { stopped.await.unwrap_or(()) };
            let config = ServerConfig {
                shutdown_grace: Duration::from_millis(50),
                budget: budget.clone(),
                ..ServerConfig::default()
            };
            let served = serve(listener, Arc::new(router), config, stopped);
            world.served.push(tokio::spawn(served));
            world.stops.push(stop);
        }
        world
    }

    /// Closes all connections, then the node, in order.
    pub(crate) async fn stop(self) {
        drop(self.stops);
        for served in self.served {
            served.await.unwrap();
        }
        self.node.shutdown().await.unwrap();
    }

    /// A client of the first namespace.
    pub(crate) async fn client(&self) -> Client {
        self.client_of(0).await
    }

    /// Where the first namespace is served, `host:port`.
    pub(crate) fn address(&self) -> &str {
        &self.addresses[0]
    }

    /// A client of one of the namespaces, by its place in the list.
    pub(crate) async fn client_of(&self, namespace: usize) -> Client {
        Client::of(&self.addresses[namespace]).await
    }

    /// How many calls wait in the first namespace.
    async fn waiting(&self) -> u64 {
        let request = control::Request::Coordination(coordination::Request::Report);
        match self.node.call(Line::of_client(ConnectionId::new(0)), request).await.unwrap() {
            control::Reply::Coordination(coordination::Reply::Report(report)) => {
                report.namespaces.first().map_or(0, |namespace| namespace.waiting_calls)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Waits until so many calls wait in the first namespace.
    pub(crate) async fn until_waiting(&self, calls: u64) {
        self.until(|waiting| waiting == calls).await;
    }

    /// Waits until at least so many calls wait in the first namespace.
    pub(crate) async fn until_at_least_waiting(&self, calls: u64) {
        self.until(|waiting| waiting >= calls).await;
    }

    async fn until(&self, enough: impl Fn(u64) -> bool) {
        let began = std::time::Instant::now();
        loop {
            let waiting = self.waiting().await;
            if enough(waiting) {
                return;
            }
            assert!(began.elapsed() < SOON, "{waiting} calls wait");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// A connection.
#[derive(Clone)]
pub(crate) struct Client {
    channel: Channel,
    gzip: bool,
}

impl Client {
    /// To this address.
    pub(crate) async fn of(address: &str) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let endpoint = endpoint.initial_stream_window_size(16 << 20);
        Self { channel: endpoint.connect().await.unwrap(), gzip: false }
    }

    /// The same, sending compressed messages.
    pub(crate) fn compressing(&self) -> Self {
        Self { gzip: true, ..self.clone() }
    }

    /// Calls a method of dialect T.
    pub(crate) async fn t<R: Message + Default>(
        &self,
        method: &str,
        request: impl Message,
    ) -> Result<R, tonic::Status> {
        self.call(&format!("/tensorflow.CoordinationService/{method}"), request).await
    }

    /// Calls a method of dialect X.
    pub(crate) async fn x<R: Message + Default>(
        &self,
        method: &str,
        request: impl Message,
    ) -> Result<R, tonic::Status> {
        self.call(&format!("/xla.coordination.CoordinationService/{method}"), request).await
    }

    /// Calls a method of our own.
    pub(crate) async fn rondo<R: Message + Default>(
        &self,
        method: &str,
        request: impl Message,
    ) -> Result<R, tonic::Status> {
        self.call(&format!("/rondo.v1.Coordination/{method}"), request).await
    }

    /// Watches a key from a revision on.
    pub(crate) async fn watch(
        &self,
        key: &str,
        from_revision: Option<u64>,
    ) -> Result<Watch, tonic::Status> {
        let request =
            admin::WatchKeysRequest { key: key.into(), from_revision, ..Default::default() };
        let request = tonic::Request::new(Bytes::from(request.encode_to_vec()));
        let path = "/rondo.v1.Coordination/WatchKeys".parse().unwrap();
        let answers = self.grpc().await.server_streaming(request, path, Raw).await?;
        Ok(Watch(answers.into_inner()))
    }

    async fn grpc(&self) -> tonic::client::Grpc<Channel> {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone())
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        if self.gzip {
            grpc = grpc.send_compressed(tonic::codec::CompressionEncoding::Gzip);
        }
        grpc.ready().await.unwrap();
        grpc
    }

    async fn call<R: Message + Default>(
        &self,
        path: &str,
        request: impl Message,
    ) -> Result<R, tonic::Status> {
        let mut grpc = self.grpc().await;
        let request = tonic::Request::new(Bytes::from(request.encode_to_vec()));
        let answer = grpc.unary(request, path.parse().unwrap(), Raw).await?;
        Ok(R::decode(answer.into_inner()).unwrap())
    }

    /// Registers a task in dialect X and says in which life.
    pub(crate) async fn register_x(&self, task: i32, incarnation: u64) -> u64 {
        let request = xla::RegisterTaskRequest { incarnation, source_task_id: task };
        let answer: xla::RegisterTaskResponse = self.x("RegisterTask", request).await.unwrap();
        answer.service_incarnation
    }

    /// Registers a task in dialect T and says in which life.
    pub(crate) async fn register_t(&self, task: i32, incarnation: u64) -> u64 {
        let source_task = Some(named(task));
        let request = tf::RegisterTaskRequest { incarnation, source_task };
        let answer: tf::RegisterTaskResponse = self.t("RegisterTask", request).await.unwrap();
        answer.leader_incarnation
    }

    /// Inserts a key in dialect T.
    pub(crate) async fn insert(&self, key: &str, value: &[u8]) -> Result<(), tonic::Status> {
        let value = Bytes::copy_from_slice(value);
        let kv = Some(tf::KeyValueEntry { key: key.into(), value });
        let request = tf::InsertKeyValueRequest { kv, allow_overwrite: false };
        self.t::<tf::InsertKeyValueResponse>("InsertKeyValue", request).await.map(|_| ())
    }

    /// Reads a key in dialect T, waiting for it.
    pub(crate) async fn get(&self, key: &str) -> Result<Bytes, tonic::Status> {
        let request = tf::GetKeyValueRequest { key: key.into() };
        let answer: tf::GetKeyValueResponse = self.t("GetKeyValue", request).await?;
        Ok(answer.kv.unwrap().value)
    }
}

/// A watched key. Dropping it ends the watch.
pub(crate) struct Watch(tonic::Streaming<Bytes>);

impl Watch {
    /// What is told next.
    pub(crate) async fn next(&mut self) -> Result<admin::WatchKeysResponse, tonic::Status> {
        let answer = soon(self.0.message()).await?.expect("a watch ends with a status");
        Ok(admin::WatchKeysResponse::decode(answer).unwrap())
    }
}

/// A task of dialect T.
pub(crate) fn named(task: i32) -> tf::CoordinatedTask {
    tf::CoordinatedTask { job_name: "jax_worker".into(), task_id: task, recoverable: false }
}

/// Who asks in dialect X, in this life.
pub(crate) fn in_life(life: u64) -> Option<xla::Incarnations> {
    Some(xla::Incarnations { service_incarnation: life, ..Default::default() })
}

/// Both tasks of a pair, registered in dialect X, and their life.
pub(crate) async fn both_x(world: &World) -> ([Client; 2], u64) {
    let clients = [world.client().await, world.client().await];
    let (life, other) =
        soon(async { tokio::join!(clients[0].register_x(0, 100), clients[1].register_x(1, 101)) })
            .await;
    assert_eq!(life, other);
    (clients, life)
}

/// Waits for what must happen.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, what).await.expect("did not happen")
}

/// The payloads beside a refusal, by the last part of their keys.
pub(crate) fn payloads(status: &tonic::Status) -> Vec<(String, Bytes)> {
    let container = GrpcPayloadContainer::decode(status.details()).unwrap();
    let short = |(key, payload): (String, Bytes)| {
        let name = key.strip_prefix("type.googleapis.com/tensorflow.").unwrap().to_owned();
        (name, payload)
    };
    container.payloads.into_iter().map(short).collect()
}

/// A span of so many milliseconds.
pub(crate) const fn ms(count: u64) -> Span {
    Span::from_millis(count)
}

struct NoTransport;

impl Transport for NoTransport {
    fn unary(
        &self,
        _: &str,
        _: &'static str,
        _: Bytes,
        _: Duration,
    ) -> BoxFuture<'static, Result<Bytes, Status>> {
        Box::pin(std::future::pending())
    }

    fn streaming(&self, _: &str, _: &'static str, _: Bytes) -> MessageStream {
        MessageStream::written(|_| std::future::pending())
    }
}

/// Hands messages on as they are.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = tonic::Status;

    fn encode(&mut self, message: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), tonic::Status> {
        out.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = tonic::Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, tonic::Status> {
        Ok(Some(source.copy_to_bytes(source.remaining())))
    }
}

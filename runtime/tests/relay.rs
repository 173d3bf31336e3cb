//! A relay over real loopback gRPC, between clients and a server that the tests kill.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![cfg(not(madsim))]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use rondo::clock::Clock;
use rondo::entropy::Entropy;
use rondo::relay::{Front, Upstream, start};
use rondo::transport::budget::Budget;
use rondo::transport::grpc_client::GrpcClient;
use rondo::transport::{BoxFuture, Call, ServerConfig, Service, Transport, listener, serve};
use rondo_core::ids::RelayId;
use rondo_core::relay::{Config, Forwarding, Refused};
use rondo_core::stamp::Stamp;
use rondo_core::status::{Code, Status};
use rondo_core::time;
use rondo_proto::admin::GetStatusRequest;
use rondo_proto::convert::{
    self, GET_STATUS_PATH, HEALTH_CHECK_PATH, RELAY_FORWARD_PATH, RELAY_HELLO_PATH,
};
use rondo_proto::health::health_check_response::ServingStatus;
use rondo_proto::health::{HealthCheckRequest, HealthCheckResponse};
use rondo_proto::xla;
use tokio::task::JoinHandle;

const SOON: Duration = Duration::from_secs(30);
const LIFE: u64 = 77;
const REGISTER: &str = "/xla.coordination.CoordinationService/RegisterTask";
const HEARTBEAT: &str = "/xla.coordination.CoordinationService/Heartbeat";
const POLL: &str = "/xla.coordination.CoordinationService/PollForError";
const INSERT: &str = "/xla.coordination.CoordinationService/InsertKeyValue";
const TRY_GET: &str = "/xla.coordination.CoordinationService/TryGetKeyValue";

/// A server that remembers what must not happen twice, across its deaths.
#[derive(Default)]
struct Server {
    /// Insertions by their marks, and how often each came.
    came: Mutex<BTreeMap<(u64, u64), u32>>,
    polls: AtomicU32,
    /// How often a poll came.
    polled: AtomicU32,
    /// Whether the next reading of a key breaks the connection.
    breaks: AtomicBool,
    /// Whether it is about to die: it takes calls, and answers none.
    mute: AtomicBool,
}

impl Server {
    async fn forwarded(&self, call: Forwarding) -> Result<Bytes, Refused> {
        match &*call.path {
            REGISTER | HEARTBEAT => Ok(life()),
            POLL => {
                self.polled.fetch_add(1, Ordering::SeqCst);
                let _gone = Waits::on(&self.polls);
                std::future::pending().await
            }
            INSERT => {
                let Stamp { relay, sequence, .. } = call.stamp.expect("an insertion has a mark");
                *self.came.lock().unwrap().entry((relay.get(), sequence)).or_default() += 1;
                Ok(Bytes::new())
            }
            _ => Err(Refused {
                code: Code::NotFound,
                message: format!("from {}", call.peer),
                details: Bytes::from_static(b"\x0a\x00"),
            }),
        }
    }
}

impl Service for Server {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(async move {
            match &*call.path {
                RELAY_HELLO_PATH => Ok(convert::encode_hello_reply("test")),
                RELAY_FORWARD_PATH => {
                    let (_, _, call) = convert::decode_forward(&call.message)?;
                    if &*call.path == TRY_GET && self.breaks.swap(false, Ordering::SeqCst) {
                        return Err(Status::new(Code::Unavailable, "connection reset"));
                    }
                    let answer = self.forwarded(call).await;
                    if self.mute.load(Ordering::SeqCst) {
                        std::future::pending::<()>().await;
                    }
                    Ok(convert::encode_forwarded(answer))
                }
                path => Err(Status::new(Code::Unimplemented, format!("no method {path} here"))),
            }
        })
    }
}

/// A call as long as it waits.
struct Waits<'a>(&'a AtomicU32);

impl<'a> Waits<'a> {
    fn on(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn life() -> Bytes {
    xla::HeartbeatResponse { service_incarnation: LIFE }.encode_to_vec().into()
}

/// Serves on an address until it is killed.
fn serve_on(address: SocketAddr, service: Arc<dyn Service>) -> (SocketAddr, JoinHandle<()>) {
    let listener = listener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    let serving = serve(listener, service, ServerConfig::default(), std::future::pending());
    (address, tokio::spawn(serving))
}

fn anywhere() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

async fn kill(serving: JoinHandle<()>) {
    serving.abort();
    assert!(serving.await.unwrap_err().is_cancelled());
}

/// A relay for a server, and its address.
fn relay_for(upstream: SocketAddr, patience_ms: u64) -> String {
    let mut config = Config::of(upstream.to_string());
    config.patience = time::Duration::from_millis(patience_ms);
    let way = Upstream {
        address: upstream.to_string(),
        namespace: String::new(),
        relay: RelayId::new(5),
        connect: Arc::new(|| Arc::new(GrpcClient::new())),
    };
    let handle = start(config, way, Clock::start(), Entropy::from_seed(7));
    serve_on(
        anywhere(),
        Arc::new(Front::new(handle, upstream.to_string().into(), Budget::new(1 << 30, 1 << 29))),
    )
    .0
    .to_string()
}

async fn call(
    client: &GrpcClient,
    relay: &str,
    path: &'static str,
    message: impl Message,
) -> Result<Bytes, Status> {
    client.unary(relay, path, message.encode_to_vec().into(), SOON).await
}

fn heartbeat() -> xla::HeartbeatRequest {
    xla::HeartbeatRequest { incarnation: 9, source_task_id: 0, ..Default::default() }
}

fn insert(key: &str) -> xla::InsertKeyValueRequest {
    let kv = xla::KeyValueEntry { key: key.into(), value: Bytes::from_static(b"v") };
    xla::InsertKeyValueRequest { kv: Some(kv), ..Default::default() }
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_answers_probes_and_says_whom_to_ask_for_the_rest() {
    let upstream = anywhere();
    let (client, relay) = (GrpcClient::new(), relay_for(upstream, 1000));
    for service in ["", "tensorflow.CoordinationService"] {
        let request = HealthCheckRequest { service: service.into() };
        let answer = call(&client, &relay, HEALTH_CHECK_PATH, request).await;
        let answer = HealthCheckResponse::decode(answer.unwrap()).unwrap();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    let other = HealthCheckRequest { service: "rondo.v1.Admin".into() };
    let refused = call(&client, &relay, HEALTH_CHECK_PATH, other).await.unwrap_err();
    assert_eq!(refused.code, Code::NotFound);
    let refused = call(&client, &relay, GET_STATUS_PATH, GetStatusRequest {}).await.unwrap_err();
    assert_eq!(refused.code, Code::Unimplemented);
    let text = format!("this is a relay for the processes of a job. Ask its server, {upstream}");
    assert!(refused.message.contains(&text), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_do_not_notice_that_the_server_dies_and_comes_back() {
    let server = Arc::new(Server::default());
    let (address, serving) = serve_on(anywhere(), server.clone());
    let relay = relay_for(address, 600_000);
    let client = GrpcClient::new();
    let register = xla::RegisterTaskRequest { incarnation: 9, source_task_id: 0 };
    assert_eq!(call(&client, &relay, REGISTER, register).await, Ok(life()));
    let polling = tokio::spawn({
        let (client, relay) = (client.clone(), relay.clone());
        async move { call(&client, &relay, POLL, xla::PollForErrorRequest::default()).await }
    });
    until("the poll waits at the server", || server.polls.load(Ordering::SeqCst) == 1).await;

    server.mute.store(true, Ordering::SeqCst);
    let inserting = tokio::spawn({
        let (client, relay) = (client.clone(), relay.clone());
        async move { call(&client, &relay, INSERT, insert("k")).await }
    });
    until("the insertion is done", || !server.came.lock().unwrap().is_empty()).await;
    kill(serving).await;
    assert_eq!(call(&client, &relay, HEARTBEAT, heartbeat()).await, Ok(life()), "in its place");
    assert!(!polling.is_finished() && !inserting.is_finished());

    server.mute.store(false, Ordering::SeqCst);
    let (_, _serving) = serve_on(address, server.clone());
    assert_eq!(inserting.await.unwrap(), Ok(Bytes::new()));
    until("the poll waits again", || server.polls.load(Ordering::SeqCst) == 1).await;
    assert!(!polling.is_finished());
    let came: Vec<u32> = server.came.lock().unwrap().values().copied().collect();
    assert_eq!(came, [2], "twice, with one mark");
    assert_eq!(call(&client, &relay, HEARTBEAT, heartbeat()).await, Ok(life()));
    polling.abort();
    until("the poll is taken back", || server.polls.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_says_passes_as_it_is() {
    let (address, _serving) = serve_on(anywhere(), Arc::new(Server::default()));
    let relay = relay_for(address, 600_000);
    let client = GrpcClient::new();
    let request = xla::TryGetKeyValueRequest { key: "k".into(), ..Default::default() };
    let status = call(&client, &relay, TRY_GET, request).await.unwrap_err();
    assert_eq!(status.code, Code::NotFound);
    assert!(status.message.starts_with("from 127.0.0.1:"), "{status}");
    let elsewhere = call(&client, &relay, "/tensorflow.data.DispatcherService/GetSplit", ());
    assert_eq!(elsewhere.await.unwrap_err().code, Code::Unimplemented);
    let broken = client.unary(&relay, HEARTBEAT, Bytes::from_static(b"\xff"), SOON).await;
    let broken = broken.unwrap_err();
    assert_eq!(broken.code, Code::InvalidArgument);
    assert!(!broken.message.contains("Ask its server"), "{broken}");
}

/// A proxy may break one call of a connection only. The relay then gives up all of the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_a_connection_that_is_given_up_do_not_stay_at_the_server() {
    let server = Arc::new(Server::default());
    let (address, _serving) = serve_on(anywhere(), server.clone());
    let relay = relay_for(address, 600_000);
    let client = GrpcClient::new();
    let polling = tokio::spawn({
        let (client, relay) = (client.clone(), relay.clone());
        async move { call(&client, &relay, POLL, xla::PollForErrorRequest::default()).await }
    });
    until("the poll waits at the server", || server.polls.load(Ordering::SeqCst) == 1).await;
    server.breaks.store(true, Ordering::SeqCst);
    let request = xla::TryGetKeyValueRequest { key: "k".into(), ..Default::default() };
    let status = call(&client, &relay, TRY_GET, request).await.unwrap_err();
    assert_eq!(status.code, Code::NotFound, "{status}");
    until("the poll comes again", || server.polled.load(Ordering::SeqCst) == 2).await;
    until("the first poll is gone", || server.polls.load(Ordering::SeqCst) == 1).await;
    assert!(!polling.is_finished());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patience_has_an_end_and_the_reason_is_told() {
    let nobody = std::net::TcpListener::bind(anywhere()).unwrap().local_addr().unwrap();
    let relay = relay_for(nobody, 300);
    let status = call(&GrpcClient::new(), &relay, INSERT, insert("k")).await.unwrap_err();
    assert_eq!(status.code, Code::Unavailable);
    for part in [&*nobody.to_string(), "away for", "--upstream-patience", "refused"] {
        assert!(status.message.contains(part), "{part} in {status}");
    }
}

/// Some other gRPC server.
struct Other;

impl Service for Other {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        let text = format!("no method {} here", call.path);
        Box::pin(std::future::ready(Err(Status::new(Code::Unimplemented, text))))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_kind_of_server_is_told_apart() {
    let (address, _serving) = serve_on(anywhere(), Arc::new(Other));
    let relay = relay_for(address, 300);
    let status = call(&GrpcClient::new(), &relay, INSERT, insert("k")).await.unwrap_err();
    assert_eq!(status.code, Code::Unavailable);
    assert!(status.message.contains("no method /rondo.v1.Relay/Hello here"), "{status}");
}

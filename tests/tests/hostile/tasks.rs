//! What hostile tasks get from the coordination service of the real binary: the right status within the
//! bounds, while a task of another job on the same server notices nothing.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use rondo::transport::Transport;
use rondo::transport::grpc_client::GrpcClient;
use rondo_core::status::{Code, Status};
use rondo_proto::{admin, tf, xla};
use rondo_tests::neighbour::Neighbour;
use rondo_tests::relay::Relay;
use rondo_tests::server::{Options, Server};
use tokio::task::JoinSet;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest that a heartbeat of somebody else may take, in a debug build on a busy machine.
const NOTICED: Duration = Duration::from_secs(3);

/// A job of two tasks in a namespace of its own, and a neighbour in another.
struct Bed {
    what: &'static str,
    // Before the server that it talks to.
    neighbour: Neighbour,
    server: Server,
    address: String,
}

impl Bed {
    fn start(what: &'static str) -> Self {
        let options = Options::store("segment").flag("--tasks=1").flag("--namespace=job=0:2");
        let server = Server::start(&options);
        let line = server.log();
        let place = line.split("namespace job on ").nth(1).unwrap();
        let address = place.split(')').next().unwrap().to_owned();
        let neighbour = Neighbour::beside(&server.address());
        Self { what, neighbour, server, address }
    }

    /// Asserts that the neighbour went on all the time.
    fn assert_unnoticed(mut self) {
        let longest = self.neighbour.longest_beat();
        let resident = self.server.resident_kib() / 1024;
        println!("{}: longest heartbeat beside {longest:.1?}, {resident} MiB", self.what);
        assert!(longest < NOTICED, "{}: {longest:?}", self.what);
    }

    fn client(&self) -> Client {
        Client { grpc: GrpcClient::new(), address: Arc::from(&*self.address) }
    }

    /// Both tasks of the job, each on a connection of its own, and their life.
    async fn both(&self) -> ([Client; 2], u64) {
        let clients = [self.client(), self.client()];
        let (life, other) = tokio::join!(clients[0].register(0, 100), clients[1].register(1, 101));
        assert_eq!(life, other);
        (clients, life.unwrap())
    }
}

/// A connection.
#[derive(Clone)]
struct Client {
    grpc: GrpcClient,
    address: Arc<str>,
}

macro_rules! t {
    ($method:literal) => {
        concat!("/tensorflow.CoordinationService/", $method)
    };
}

macro_rules! x {
    ($method:literal) => {
        concat!("/xla.coordination.CoordinationService/", $method)
    };
}

impl Client {
    async fn call<R: Message + Default>(
        &self,
        path: &'static str,
        request: impl Message,
    ) -> Result<R, Status> {
        let message = request.encode_to_vec().into();
        let answer = self.grpc.unary(&self.address, path, message, PATIENCE).await?;
        Ok(R::decode(answer).unwrap())
    }

    async fn register(&self, task: i32, incarnation: u64) -> Result<u64, Status> {
        let request = tf::RegisterTaskRequest { incarnation, source_task: Some(named(task)) };
        let answer: tf::RegisterTaskResponse = self.call(t!("RegisterTask"), request).await?;
        Ok(answer.leader_incarnation)
    }

    async fn beat(&self, task: i32, incarnation: u64) -> Result<u64, Status> {
        let request = tf::HeartbeatRequest { incarnation, source_task: Some(named(task)) };
        let answer: tf::HeartbeatResponse = self.call(t!("Heartbeat"), request).await?;
        Ok(answer.leader_incarnation)
    }

    async fn insert(&self, key: &str, value: Bytes) -> Result<(), Status> {
        let kv = Some(tf::KeyValueEntry { key: key.into(), value });
        let request = tf::InsertKeyValueRequest { kv, allow_overwrite: false };
        self.call::<tf::InsertKeyValueResponse>(t!("InsertKeyValue"), request).await.map(drop)
    }

    async fn get(&self, key: &str) -> Result<Bytes, Status> {
        let request = tf::GetKeyValueRequest { key: key.into() };
        let answer: tf::GetKeyValueResponse = self.call(t!("GetKeyValue"), request).await?;
        Ok(answer.kv.unwrap().value)
    }

    async fn find(&self, key: &str) -> Result<Bytes, Status> {
        let request = tf::TryGetKeyValueRequest { key: key.into() };
        let answer: tf::TryGetKeyValueResponse = self.call(t!("TryGetKeyValue"), request).await?;
        Ok(answer.kv.unwrap().value)
    }
}

fn named(task: i32) -> tf::CoordinatedTask {
    tf::CoordinatedTask { job_name: "jax_worker".into(), task_id: task, recoverable: false }
}

fn in_life(life: u64) -> Option<xla::Incarnations> {
    Some(xla::Incarnations { service_incarnation: life, ..Default::default() })
}

fn assert_refused<T: std::fmt::Debug>(result: Result<T, Status>, code: Code, text: &str) {
    let status = result.unwrap_err();
    assert_eq!(status.code, code, "{status}");
    assert!(status.message.contains(text), "{text:?} is not in {status}");
}

/// Each of these ends the process of JAX's own server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_three_requests_that_end_jaxs_server() {
    let bed = Bed::start("three requests");
    let ([client, _], life) = bed.both().await;
    let version_number = 1 << 40;
    let watch = xla::WatchTasksRequest { incarnations: in_life(life), version_number };
    let watched = client.call::<xla::WatchTasksResponse>(x!("WatchTasks"), watch).await;
    assert_refused(watched, Code::InvalidArgument, &version_number.to_string());
    let come = xla::BarrierRequest {
        incarnations: in_life(life),
        barrier_id: "b".into(),
        barrier_timeout_in_ms: 50,
        source_task_id: 2,
        ..Default::default()
    };
    let came = client.call::<xla::BarrierResponse>(x!("Barrier"), come).await;
    assert_refused(came, Code::InvalidArgument, "2");
    let stranger = tf::CoordinatedTask { job_name: "other".into(), ..named(0) };
    let state = tf::GetTaskStateRequest { source_task: vec![named(0), stranger] };
    let state = client.call::<tf::GetTaskStateResponse>(t!("GetTaskState"), state).await;
    assert_refused(state, Code::InvalidArgument, "other");
    assert_eq!(client.beat(0, 100).await, Ok(life));
    bed.assert_unnoticed();
}

/// Dialect T: who sends heartbeats for another run of a task is told, and the job hears of it; what
/// comes of unknown tasks harms nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_of_other_runs_and_of_nobody() {
    let bed = Bed::start("wrong heartbeats");
    let ([client, other], life) = bed.both().await;
    for task in [2, -1, i32::MAX, i32::MIN] {
        assert_refused(client.beat(task, 100).await, Code::InvalidArgument, &task.to_string());
        assert_refused(client.register(task, 7).await, Code::InvalidArgument, &task.to_string());
    }
    assert_eq!(client.beat(0, 100).await, Ok(life));
    let polling = tokio::spawn({
        let client = client.clone();
        async move {
            let request = tf::PollForErrorRequest { source_task: Some(named(0)) };
            client.call::<tf::PollForErrorResponse>(t!("PollForError"), request).await
        }
    });
    // The poll must wait before there is something to tell.
    tokio::time::sleep(Duration::from_millis(500)).await;
    for incarnation in [0, 102, u64::MAX] {
        let beat = other.beat(1, incarnation).await.unwrap_err();
        assert_eq!(beat.code, Code::Aborted, "{beat}");
    }
    let told = tokio::time::timeout(PATIENCE, polling).await.unwrap().unwrap().unwrap_err();
    assert_eq!(told.code, Code::Aborted, "{told}");
    assert_refused(other.beat(1, 101).await, Code::Aborted, "");
    // Task 0 did nothing wrong, and goes on.
    assert_eq!(client.beat(0, 100).await, Ok(life));
    bed.assert_unnoticed();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twins_of_a_task_and_a_task_twice_in_a_list() {
    let bed = Bed::start("twins");
    let ([client, other], life) = bed.both().await;
    let twice = tf::BarrierRequest {
        barrier_id: "twice".into(),
        barrier_timeout_in_ms: 60_000,
        tasks: vec![named(0), named(1), named(1)],
        source_task: Some(named(0)),
        counter: 0,
    };
    let came = client.call::<tf::BarrierResponse>(t!("Barrier"), twice).await;
    assert_refused(came, Code::InvalidArgument, "1");
    // The same run again is no twin.
    assert_eq!(other.register(1, 101).await, Ok(life));
    assert_refused(other.register(1, 5).await, Code::Aborted, "");
    bed.assert_unnoticed();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_and_revisions_of_the_future() {
    let bed = Bed::start("the future");
    let ([client, _], life) = bed.both().await;
    for (number, counter) in [i64::MAX, 1, -1, i64::MIN].into_iter().enumerate() {
        let barrier_id = format!("b/{number}");
        let come = tf::BarrierRequest {
            barrier_id: barrier_id.clone(),
            barrier_timeout_in_ms: 60_000,
            source_task: Some(named(0)),
            counter,
            ..Default::default()
        };
        let came = client.call::<tf::BarrierResponse>(t!("Barrier"), come).await;
        assert_refused(came, Code::Internal, &barrier_id);
    }
    let request = admin::WatchKeysRequest { from_revision: Some(u64::MAX), ..Default::default() };
    let path = "/rondo.v1.Coordination/WatchKeys";
    let message = request.encode_to_vec().into();
    let told = client.grpc.streaming(&client.address, path, message).next().await;
    assert_refused(told, Code::InvalidArgument, &u64::MAX.to_string());
    assert_eq!(client.beat(0, 100).await, Ok(life));
    bed.assert_unnoticed();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_any_text() {
    let bed = Bed::start("odd keys");
    let ([client, _], _) = bed.both().await;
    let keys = ["a\0b", "a\0", "\0", "../../escape", "a/../b", "\u{1F980}", "k\u{fffd}", " ", ""];
    for key in keys {
        // Long enough for a file of its own.
        let value = Bytes::from([key.as_bytes(), &[7; 100_000]].concat());
        client.insert(key, value.clone()).await.unwrap();
        assert!(client.get(key).await.unwrap() == value, "{key:?}");
    }
    for absent in ["a", "\0\0", "escape", "b"] {
        assert_refused(client.find(absent).await, Code::NotFound, "");
    }
    let long = "k".repeat(4097);
    assert_refused(client.insert(&long, Bytes::new()).await, Code::InvalidArgument, "4097");
    let outside = bed.server.data().parent().unwrap().to_owned();
    assert!(!outside.join("escape").exists() && !outside.parent().unwrap().join("escape").exists());
    bed.assert_unnoticed();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_64_mib_directly_and_through_a_relay() {
    const VALUE_BYTES: usize = 64 << 20;
    let bed = Bed::start("64 MiB");
    let ([client, _], _) = bed.both().await;
    let relay = Relay::start(&bed.address);
    let behind = Client { address: Arc::from(relay.address()), ..bed.client() };
    let value = |byte| Bytes::from(vec![byte; VALUE_BYTES]);
    client.insert("large/direct", value(1)).await.unwrap();
    behind.insert("large/relayed", value(2)).await.unwrap();
    for (key, byte) in [("large/direct", 1), ("large/relayed", 2)] {
        for reader in [&client, &behind] {
            assert!(reader.get(key).await.unwrap() == value(byte), "{key} is another one");
        }
    }
    bed.assert_unnoticed();
}

/// A client that opens 10,000 blocking gets on one connection, directly and through a relay: most
/// are refused by the bound's name, the others wait, and its own heartbeats find room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_blocking_gets() {
    const CALLS: usize = 10_000;
    for (what, relayed) in [("10,000 gets", false), ("10,000 gets behind a relay", true)] {
        let bed = Bed::start(what);
        let ([client, other], life) = bed.both().await;
        let relay = relayed.then(|| Relay::start(&bed.address));
        let greedy = match &relay {
            Some(relay) => Client { address: Arc::from(relay.address()), ..bed.client() },
            None => client.clone(),
        };
        let mut gets = JoinSet::new();
        for _ in 0..CALLS {
            let greedy = greedy.clone();
            gets.spawn(async move { greedy.get("k").await });
        }
        let (mut there, mut refused) = (0, 0);
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_secs(2) {
            assert_eq!(other.beat(1, 101).await, Ok(life));
            assert_eq!(greedy.beat(0, 100).await, Ok(life));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        other.insert("k", Bytes::from_static(b"there")).await.unwrap();
        while let Some(got) = gets.join_next().await {
            match got.unwrap() {
                Ok(value) => {
                    assert_eq!(value, "there");
                    there += 1;
                }
                Err(status) => {
                    assert_eq!(status.code, Code::ResourceExhausted, "{status}");
                    refused += 1;
                }
            }
        }
        println!("{what}: {there} answered, {refused} refused");
        assert!(there >= 1000 && refused >= 1000 && there + refused == CALLS);
        bed.assert_unnoticed();
    }
}

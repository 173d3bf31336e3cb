//! Very many workers: all are told of a new epoch's tasks by pushes, without waiting for heartbeats.
//!
//! `RONDO_WORKERS` is the number of workers (1,500, more than are told at once).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::collections::BTreeSet;
use std::env;
use std::future::{pending, ready};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;
use rondo::transport::grpc_client::GrpcClient;
use rondo::transport::{BoxFuture, Call, ServerConfig, Service, Transport, listener, serve};
use rondo_core::status::Status;
use rondo_proto::convert::{Method, PROCESS_TASK_PATH};
use rondo_proto::tf::data as wire;
use rondo_proto::tf::data::data_service_metadata::Compression;
use rondo_tests::graph;
use rondo_tests::server::{Options, Server};

const WORKERS: usize = 1500;
const EPOCHS: i64 = 3;
/// Heartbeats under way at once.
const AT_ONCE: usize = 64;
/// How long all workers may take to be told, in a debug build on a busy machine: pushes end after 5 s.
const PATIENCE: Duration = Duration::from_secs(6);
const CALL_PATIENCE: Duration = Duration::from_secs(60);

/// All the workers: one listener for all addresses of the loopback device.
#[derive(Default)]
struct Workers {
    told: Mutex<BTreeSet<String>>,
}

impl Service for Workers {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        assert_eq!(call.path, PROCESS_TASK_PATH);
        let request = wire::ProcessTaskRequest::decode(call.message).unwrap();
        let address = request.task.unwrap().worker_address;
        self.told.lock().unwrap().insert(address);
        Box::pin(ready(Ok(Bytes::new())))
    }
}

impl Workers {
    /// Starts so many workers; with their addresses.
    fn start(workers: usize) -> (Arc<Self>, Vec<String>) {
        let listener = listener::bind(SocketAddr::from(([0, 0, 0, 0], 0))).unwrap();
        let port = listener.local_addr().unwrap().port();
        let these = Arc::new(Self::default());
        let config = ServerConfig { connections_max: workers + 16, ..ServerConfig::default() };
        let service: Arc<dyn Service> = these.clone();
        tokio::spawn(serve(listener, service, config, pending()));
        let address = |worker: usize| {
            format!("127.{}.{}.{}:{port}", 1 + (worker >> 16), worker >> 8 & 255, worker & 255)
        };
        (these, (0..workers).map(address).collect())
    }

    /// Forgets who was told; how many were.
    fn take_told(&self) -> usize {
        std::mem::take(&mut *self.told.lock().unwrap()).len()
    }

    /// Waits until so many workers were told; how many were.
    async fn all_told(&self, workers: usize) -> usize {
        let began = Instant::now();
        loop {
            let told = self.told.lock().unwrap().len();
            if told >= workers || began.elapsed() > PATIENCE {
                return told;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[derive(Clone)]
struct Dispatcher {
    client: GrpcClient,
    address: String,
}

impl Dispatcher {
    async fn call<R: Message + Default>(&self, method: Method, request: &impl Message) -> R {
        let message = request.encode_to_vec().into();
        let answer = self.client.unary(&self.address, method.path(), message, CALL_PATIENCE).await;
        R::decode(answer.unwrap()).unwrap()
    }

    async fn heartbeats(&self, workers: &[String]) {
        let parts = workers.chunks(workers.len().div_ceil(AT_ONCE)).map(<[String]>::to_vec);
        let beats = parts.map(|workers| {
            let this = self.clone();
            tokio::spawn(async move {
                for worker_address in workers {
                    let request =
                        wire::WorkerHeartbeatRequest { worker_address, ..Default::default() };
                    let _: wire::WorkerHeartbeatResponse =
                        this.call(Method::WorkerHeartbeat, &request).await;
                }
            })
        });
        for beats in beats.collect::<Vec<_>>() {
            beats.await.unwrap();
        }
    }

    async fn job(&self) -> i64 {
        let metadata = graph::metadata(Compression::Off, 10).encode_to_vec().into();
        let request = wire::GetOrRegisterDatasetRequest {
            dataset: Some(graph::range(0, 10, 1)),
            metadata: Some(metadata),
            ..Default::default()
        };
        let registered: wire::GetOrRegisterDatasetResponse =
            self.call(Method::GetOrRegisterDataset, &request).await;
        let request = rondo_tests::dispatcher::job(
            &registered.dataset_id,
            None,
            wire::processing_mode_def::ShardingPolicy::Off,
        );
        let job: wire::GetOrCreateJobResponse = self.call(Method::GetOrCreateJob, &request).await;
        job.job_id
    }

    async fn epoch(&self, job_id: i64, repetition: i64) -> i64 {
        let request = wire::GetOrCreateIterationRequest { job_id, repetition };
        let answer: wire::GetOrCreateIterationResponse =
            self.call(Method::GetOrCreateIteration, &request).await;
        answer.iteration_client_id
    }

    /// How many tasks a client is told of.
    async fn tasks(&self, client: i64) -> usize {
        let request =
            wire::ClientHeartbeatRequest { iteration_client_id: client, ..Default::default() };
        let answer: wire::ClientHeartbeatResponse =
            self.call(Method::ClientHeartbeat, &request).await;
        answer.task_info.len()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_workers_are_told_of_a_new_epoch() {
    let number = env::var("RONDO_WORKERS").map_or(WORKERS, |workers| workers.parse().unwrap());
    let most = rondo::descriptors::raise().unwrap_or(u64::MAX);
    let needed = 3 * number as u64;
    assert!(
        most >= needed,
        "{number} workers need {needed} open files; `ulimit -Hn` allows {most}"
    );
    let server = Server::start(&Options::store("segment"));
    let (workers, addresses) = Workers::start(number);
    let dispatcher = Dispatcher { client: GrpcClient::new(), address: server.address() };
    let began = Instant::now();
    dispatcher.heartbeats(&addresses).await;
    println!("{number} workers registered: {:.1?}", began.elapsed());
    let job = dispatcher.job().await;
    for epoch in 0..EPOCHS {
        workers.take_told();
        let (began, used) = (Instant::now(), server.processor_time());
        let join = dispatcher.epoch(job, epoch);
        let ((client, answered), told) =
            tokio::join!(async { (join.await, began.elapsed()) }, workers.all_told(number));
        let all = began.elapsed();
        let used = server.processor_time() - used;
        let resident = server.resident_kib() / 1024;
        println!(
            "epoch {epoch}: the reader was answered after {answered:.1?}, {told} workers told \
             after {all:.1?}, the server used {used:.1?}, {resident} MiB resident"
        );
        assert_eq!(told, number);
        assert_eq!(dispatcher.tasks(client).await, number);
    }
}

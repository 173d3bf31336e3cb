//! A server in this process, stopped by a signal to this process. One test only, since a signal
//! reaches every server of a process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![cfg(not(madsim))]

use std::future::{pending, ready};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rondo::config::{Bounds, Config, Listen, Storage};
use rondo::node::{BlobPin, Line};
use rondo::serve::{ServeError, run};
use rondo::service::{JournalStatus, NodePort};
use rondo::store::blobs::Blob;
use rondo::transport::grpc_client::GrpcClient;
use rondo::transport::{BoxFuture, Transport};
use rondo_core::control::{Health, Reply, Request};
use rondo_core::ids::{Digest, Lsn};
use rondo_core::status::{Code, Status};

const GET_WORKERS: &str = "/tensorflow.data.DispatcherService/GetWorkers";
const SOON: Duration = Duration::from_secs(20);

/// Answers nothing, and remembers whether it was closed in order.
#[derive(Default)]
struct ParkingNode {
    asked: AtomicBool,
    closed: AtomicBool,
    halts: bool,
}

impl NodePort for ParkingNode {
    fn register(&self, _: Line, _: Request, _: BlobPin) -> BoxFuture<'_, Result<Reply, Status>> {
        self.asked.store(true, Ordering::SeqCst);
        Box::pin(pending())
    }

    fn put_blob(&self, _: Blob) -> BoxFuture<'_, Result<BlobPin, Status>> {
        Box::pin(pending())
    }

    fn get_blob(&self, _: Digest) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(pending())
    }

    fn health(&self) -> Health {
        Health::Serving
    }

    fn journal_status(&self) -> JournalStatus {
        JournalStatus::memory(Lsn::NONE)
    }

    fn halted(&self) -> BoxFuture<'_, String> {
        if self.halts {
            return Box::pin(ready("a sync failed".into()));
        }
        Box::pin(pending())
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), String>> {
        self.closed.store(true, Ordering::SeqCst);
        Box::pin(ready(Ok(())))
    }
}

fn config(port: u16) -> Config {
    Config {
        listen: Listen { host: "localhost".into(), port },
        insecure: false,
        storage: Storage::Memory,
        dispatcher: rondo_core::dispatcher::Config::default(),
        coordination: rondo_core::coordination::Config::default(),
        namespace_ports: Vec::new(),
        rendezvous: None,
        protocol_version: 9,
        bounds: Bounds {
            message_bytes_max: 1 << 20,
            memory_bytes_max: None,
            inflight_bytes_max: 1 << 20,
            connections_max: 10,
            calls_per_connection_max: 10,
            shared_memory_bytes_max: 0,
            queue_calls_max: 10,
            batch_calls_max: 10,
            shutdown_grace: Duration::from_millis(50),
        },
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

async fn serve(node: Arc<ParkingNode>, port: u16) -> Result<(), ServeError> {
    let node: Arc<dyn NodePort> = node;
    let ended = run(config(port), |_, _, _| ready(Ok(node)));
    tokio::time::timeout(SOON, ended).await.expect("still serving")
}

#[tokio::test]
async fn a_server_stops_as_asked_and_as_it_must() {
    let halting = Arc::new(ParkingNode { halts: true, ..ParkingNode::default() });
    let halted = serve(halting.clone(), free_port()).await.unwrap_err();
    assert!(matches!(&halted, ServeError::Halted(reason) if reason == "a sync failed"), "{halted}");
    assert!(!halting.closed.load(Ordering::SeqCst), "a halted journal is left alone");

    let (node, port) = (Arc::new(ParkingNode::default()), free_port());
    let served = tokio::spawn(serve(node.clone(), port));
    let client = GrpcClient::new();
    let parked = loop {
        let call = client.unary(&format!("127.0.0.1:{port}"), GET_WORKERS, Bytes::new(), SOON);
        let call = tokio::spawn(call);
        tokio::time::sleep(Duration::from_millis(20)).await;
        if node.asked.load(Ordering::SeqCst) {
            break call;
        }
    };
    let us = std::process::id().to_string();
    assert!(Command::new("kill").args(["-TERM", &us]).status().unwrap().success());
    served.await.unwrap().unwrap();
    assert_eq!(parked.await.unwrap().unwrap_err().code, Code::Unavailable);
    assert!(node.closed.load(Ordering::SeqCst));
}

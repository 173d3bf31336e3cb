//! Workers with a rendezvous each, and who they are to each other.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rondo::clock::Clock;
use rondo::rendezvous::{
    Config, FrameAndIter, Key, RendezvousManager, RendezvousService, Session, Settings, Ways,
};
use rondo::service::Router;
use rondo::transport::{Client, ServerConfig, Service, Transport, listener, serve};
use rondo_core::ids::StepId;
use rondo_core::status::Status;
use rondo_proto::convert::{SERVICE_RENDEZVOUS, SERVICE_WORKER};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub(crate) const STEP: StepId = StepId::new(7);
/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

/// A worker, as long as it lives.
pub(crate) struct Worker {
    pub(crate) manager: RendezvousManager,
    pub(crate) address: String,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<()>>,
}

/// A place to listen at, and its address.
pub(crate) fn place() -> (TcpListener, String) {
    let listener = listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

pub(crate) fn name(task: u32) -> String {
    format!("/job:w/replica:0/task:{task}")
}

pub(crate) fn device(task: u32) -> String {
    format!("{}/device:CPU:0", name(task))
}

pub(crate) const fn incarnation(task: u32) -> u64 {
    0x5eed_0000 + task as u64
}

/// An edge from one worker to another.
pub(crate) fn key(from: u32, to: u32, edge: &str) -> Key {
    Key::create(&device(from), incarnation(from), &device(to), edge, FrameAndIter::default())
        .unwrap()
}

pub(crate) fn config(task: u32) -> Config {
    Config {
        devices: BTreeMap::from([("/device:CPU:0".to_owned(), incarnation(task))]),
        session: Some(Session { worker_name: name(task).into() }),
        entropy: u64::from(task) << 32 | 0xabc,
        ..Config::default()
    }
}

impl Worker {
    /// A worker without peers.
    pub(crate) fn alone(config: Config) -> Self {
        let (listener, _) = place();
        Self::start(listener, config, &[])
    }

    /// A worker that serves what it has, and knows these peers.
    pub(crate) fn start(listener: TcpListener, config: Config, peers: &[(u32, &str)]) -> Self {
        Self::serving(listener, config, peers, |service| service)
    }

    /// As [`Worker::start`], with something between its callers and its service.
    pub(crate) fn serving<S: Service>(
        listener: TcpListener,
        machine: Config,
        peers: &[(u32, &str)],
        between: impl FnOnce(RendezvousService) -> S,
    ) -> Self {
        let server = ServerConfig { shutdown_grace: Duration::ZERO, ..ServerConfig::default() };
        Self::within(server, listener, (machine, peers), between)
    }

    /// A worker whose tensors go over connections, even to others on its host.
    pub(crate) fn distant(listener: TcpListener, machine: Config) -> Self {
        let server = ServerConfig {
            shutdown_grace: Duration::ZERO,
            shared_memory_bytes_max: 0,
            ..ServerConfig::default()
        };
        Self::within(server, listener, (machine, &[]), |service| service)
    }

    fn within<S: Service>(
        server: ServerConfig,
        listener: TcpListener,
        (machine, peers): (Config, &[(u32, &str)]),
        between: impl FnOnce(RendezvousService) -> S,
    ) -> Self {
        let peers = peers.iter().map(|(task, address)| (name(*task), (*address).to_owned()));
        let settings = Settings { machine, peers: peers.collect() };
        let ways = Ways::default();
        let manager = RendezvousManager::start(settings, Clock::start(), ways).unwrap();
        let service = between(RendezvousService::new(manager.clone()));
        let router = Router::new().with_names(&[SERVICE_WORKER, SERVICE_RENDEZVOUS], service);
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel();
        let stopped = async { stopped.await.unwrap_or(()) };
        let served = tokio::spawn(serve(listener, Arc::new(router), server, stopped));
        Self { manager, address, stop: Some(stop), served: Some(served) }
    }

    /// Ends, and with it all connections to it.
    pub(crate) async fn end(mut self) {
        drop(self.stop.take());
        self.served.take().unwrap().await.unwrap();
    }

    /// Calls a method, as any program could.
    pub(crate) async fn call(
        &self,
        path: &'static str,
        message: impl Into<Bytes>,
    ) -> Result<Bytes, Status> {
        let call = Client::new().unary(&self.address, path, message.into(), LONG);
        call.await
    }

    /// Until nothing is held and nobody waits.
    pub(crate) async fn is_empty(&self) {
        eventually(|| {
            let report = self.manager.report();
            (report.held.tensors, report.held.bytes, report.waiting, report.kept) == (0, 0, 0, 0)
        })
        .await;
    }

    /// Until so many calls wait.
    pub(crate) async fn has_waiting(&self, count: usize) {
        eventually(|| self.manager.report().waiting == count).await;
    }
}

/// Two workers that know each other.
pub(crate) fn pair() -> (Worker, Worker) {
    pair_of(config(0), config(1))
}

pub(crate) fn pair_of(first: Config, second: Config) -> (Worker, Worker) {
    let (places, addresses): (Vec<_>, Vec<_>) = [place(), place()].into_iter().unzip();
    let mut places = places.into_iter();
    let first = Worker::start(places.next().unwrap(), first, &[(1, &addresses[1])]);
    let second = Worker::start(places.next().unwrap(), second, &[(0, &addresses[0])]);
    (first, second)
}

/// Waits until something is so.
pub(crate) async fn eventually(mut is_so: impl FnMut() -> bool) {
    in_time(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// What comes of something that must not take for ever.
pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("it takes too long")
}

//! A data directory, and nodes that live and die over it.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rondo::clock::Clock;
use rondo::memory::Ceiling;
use rondo::node::{NodeConfig, NodeStartError, RunningNode, Surroundings, start_over};
use rondo::service::NodePort;
use rondo::store::{
    BoxFuture, DataDirectory, DirectoryError, Disk, RealDisk, StoreConfig, StoreKind, Wanted,
};
use rondo::transport::{MessageStream, Transport};
use rondo_core::dispatcher;
use rondo_core::status::{Code, Status};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use super::faulty_disk::FaultyDisk;
use super::model_disk::ModelDisk;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A data directory and how to open it.
pub(crate) struct World {
    pub(crate) path: PathBuf,
    pub(crate) kind: StoreKind,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) store: StoreConfig,
    pub(crate) node: NodeConfig,
    pub(crate) dispatcher: dispatcher::Config,
    _kept: Option<TempDir>,
}

impl World {
    /// On the computer's disk.
    pub(crate) fn new(kind: StoreKind) -> Self {
        Self::on(RealDisk::shared(), kind)
    }

    fn on(disk: Arc<dyn Disk>, kind: StoreKind) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { path: dir.path().join("data"), _kept: Some(dir), ..Self::at("/data", disk, kind) }
    }

    fn at(path: &str, disk: Arc<dyn Disk>, kind: StoreKind) -> Self {
        Self {
            path: path.into(),
            kind,
            disk,
            store: StoreConfig {
                preallocate_bytes: 64 << 10,
                free_space_reserve_bytes: 1 << 20,
                ..StoreConfig::default()
            },
            node: NodeConfig::default(),
            dispatcher: dispatcher::Config::default(),
            _kept: None,
        }
    }

    /// Plain files on a disk that fails when told to.
    pub(crate) fn faulty() -> (Self, Arc<FaultyDisk>) {
        let disk = Arc::new(FaultyDisk::over(RealDisk::shared()));
        (Self::on(disk.clone(), StoreKind::Segment), disk)
    }

    /// Plain files on a disk in memory.
    pub(crate) fn model(disk: &ModelDisk) -> Self {
        Self::at("/data", Arc::new(disk.clone()), StoreKind::Segment)
    }

    /// Opens the directory, waiting until whoever had it a moment ago has let it go.
    pub(crate) async fn open(&self) -> DataDirectory {
        let wanted =
            Wanted { store: Some(self.kind), release: "test".into(), pid: std::process::id() };
        let start = Instant::now();
        loop {
            match DataDirectory::open(self.disk.clone(), &self.path, &wanted).await {
                Err(DirectoryError::Locked { .. }) if start.elapsed() < PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                other => return other.unwrap(),
            }
        }
    }

    /// Starts a node.
    pub(crate) async fn start(&self) -> Result<RunningNode, NodeStartError> {
        let surroundings = Surroundings {
            machines: self.dispatcher.clone().into(),
            node: self.node,
            transport: Arc::new(NoTransport),
            clock: Clock::start(),
            ceiling: Ceiling::none(),
        };
        start_over(self.open().await, &self.store, surroundings).await
    }
}

/// A node with a runtime of its own, so that both can be dropped as in a crash.
pub(crate) struct Life {
    runtime: Runtime,
    pub(crate) node: Arc<RunningNode>,
}

impl Life {
    pub(crate) fn begin(world: &World) -> Self {
        Self::try_begin(world).unwrap()
    }

    pub(crate) fn try_begin(world: &World) -> Result<Self, NodeStartError> {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let node = Arc::new(runtime.block_on(world.start())?);
        Ok(Self { runtime, node })
    }

    /// Does something while the node runs, which it does at no other time.
    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let limited = async { tokio::time::timeout(PATIENCE, work).await };
        self.runtime.block_on(limited).expect("a test that hangs")
    }

    /// Ends the node where it stands.
    pub(crate) fn crash(self) {
        drop(self.runtime);
    }

    /// Ends the node in an orderly way.
    pub(crate) fn stop(self) {
        self.run(self.node.shutdown()).unwrap();
    }
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Workers that nobody reaches.
struct NoTransport;

impl Transport for NoTransport {
    fn unary(
        &self,
        _: &str,
        _: &'static str,
        _: Bytes,
        _: Duration,
    ) -> BoxFuture<'static, Result<Bytes, Status>> {
        Box::pin(async { Err(Status::new(Code::Unavailable, "nobody there")) })
    }

    fn streaming(&self, _: &str, _: &'static str, _: Bytes) -> MessageStream {
        MessageStream::written(|_| std::future::pending())
    }
}

/// Makes each named behaviour a test of each store.
macro_rules! for_each_store {
    ($($name:ident),* $(,)?) => {
        mod segment {
            $(#[test] fn $name() {
                super::$name($crate::world::World::new(rondo::store::StoreKind::Segment));
            })*
        }
        mod sled {
            $(#[test] fn $name() {
                super::$name($crate::world::World::new(rondo::store::StoreKind::Sled));
            })*
        }
    };
}
pub(crate) use for_each_store;

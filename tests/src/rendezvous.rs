//! Rondo's rendezvous in the test's own process, as task 1 of two whose other is TensorFlow's.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rondo::clock::Clock;
use rondo::rendezvous::{
    Args, Config, Delivery, Key, Receive, RemoteRendezvous, RendezvousManager, RendezvousService,
    Session, Settings, Tensor, Ways,
};
use rondo::transport::{ServerConfig, listener, serve};
use rondo_core::ids::StepId;
use rondo_core::rendezvous::Report;
use rondo_core::status::Status;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::peer::{Peer, Port, TASK_0, TASK_1, key};
use crate::tensorflow;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(120);
/// The incarnation of its CPU.
const INCARNATION: u64 = 0xfedc_ba98_7654_3210;

/// The rendezvous, which serves until it is dropped.
pub struct Rondo {
    /// Its Rust API.
    pub manager: RendezvousManager,
    address: String,
    runtime: Runtime,
}

impl Rondo {
    /// Starts one, and TensorFlow's worker, which know each other; `None` after saying why there is no
    /// TensorFlow.
    ///
    /// # Panics
    /// When either does not start.
    pub fn beside_tensorflow() -> Option<(Self, Peer)> {
        let python = tensorflow::python()?;
        let port = Port::keep();
        let rondo = Self::start(&port.address(), PATIENCE);
        let peer = Peer::start_at(python, port, rondo.address(), &[]);
        Some((rondo, peer))
    }

    /// Starts one that knows task 0 at this address, `host:port`, and lets it be away for so long.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(other: &str, patience: Duration) -> Self {
        let machine = Config {
            devices: [("/device:CPU:0".into(), INCARNATION)].into(),
            session: Some(session()),
            patience: rondo_core::time::Duration::from_millis(patience.as_millis() as u64),
            entropy: INCARNATION,
            ..Config::default()
        };
        let settings = Settings { machine, peers: [(TASK_0.into(), other.into())].into() };
        let runtime = Runtime::new().expect("there are threads");
        let guard = runtime.enter();
        let manager = RendezvousManager::start(settings, Clock::start(), Ways::default());
        let manager = manager.expect("the settings are right");
        let listener = listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let service = Arc::new(RendezvousService::new(manager.clone()));
        let served = serve(listener, service, ServerConfig::default(), std::future::pending());
        runtime.spawn(served);
        drop(guard);
        Self { manager, address, runtime }
    }

    /// Where it listens, `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The key of a tensor that it sends to task 0.
    pub fn key(&self, edge: &str) -> Key {
        parsed(&key(TASK_1, INCARNATION, TASK_0, edge))
    }

    /// What a graph of TensorFlow's is told that receives a tensor from here along one edge, and sends
    /// it back along another.
    pub fn received(&self, edge: &str, dtype: i32, back: &str) -> Value {
        json!({"edge": edge, "dtype": dtype, "incarnation": INCARNATION, "back": back})
    }

    /// What TensorFlow's worker is told that asks for a tensor here, through grpcio.
    pub fn asked(&self, step: i64, edge: &str) -> Value {
        let key = self.key(edge);
        json!({
            "do": "recv", "address": self.address, "step": step, "key": key.text(), "request": 0,
        })
    }

    /// A step, which knows that it is task 1's.
    ///
    /// # Panics
    /// When there is no room for it.
    pub fn step(&self, step: i64) -> RemoteRendezvous {
        let step = self.manager.find(StepId::new(step)).expect("there is room for a step");
        step.initialize(&session()).expect("it is of this worker");
        step
    }

    /// Waits for what must happen.
    ///
    /// # Panics
    /// When it does not.
    pub fn wait<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime.block_on(async {
            tokio::time::timeout(PATIENCE, what).await.expect("it did not happen")
        })
    }

    /// Waits for a tensor.
    ///
    /// # Errors
    /// Why it does not come.
    pub fn receive(&self, receive: Receive) -> Result<Delivery<Tensor>, Status> {
        self.wait(receive)
    }

    /// Asks for a tensor of TensorFlow's, and waits for it.
    ///
    /// # Panics
    /// When it does not come, or comes of a branch that was not taken.
    pub fn receive_from(&self, step: &RemoteRendezvous, peer: &Peer, edge: &str) -> Tensor {
        let received = self.receive(step.recv_async(&parsed(&peer.key(edge)), Args::default()));
        let delivery = received.unwrap_or_else(|refused| panic!("{edge}: {refused}"));
        assert!(!delivery.value.is_dead, "{edge}");
        delivery.value.tensor
    }

    /// Once the steps are cleaned up at both, nothing is left here.
    ///
    /// # Panics
    /// When something is.
    pub fn assert_nothing_left(&self, peer: &Peer, steps: &[i64]) {
        for address in [peer.address(), self.address.clone()] {
            for step in steps {
                let command = json!({"do": "cleanup", "address": address, "step": step});
                peer.call(&command).expect("it is always done");
            }
        }
        let report = self.manager.report();
        let held = report.held;
        assert_eq!((report.steps, report.waiting, held.tensors, held.bytes), (0, 0, 0, 0));
    }

    /// Waits until it reports what is wanted.
    ///
    /// # Panics
    /// When it never does.
    pub fn until(&self, wanted: impl Fn(&Report) -> bool) {
        let began = Instant::now();
        while !wanted(&self.manager.report()) {
            let report = self.manager.report();
            assert!(began.elapsed() < PATIENCE, "it stays at {report:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Says that it is task 1.
pub fn session() -> Session {
    Session { worker_name: TASK_1.into() }
}

/// A key of this text.
///
/// # Panics
/// When it is none.
pub fn parsed(text: &str) -> Key {
    Key::parse(text).expect("a key")
}

/// Hands over a tensor.
///
/// # Panics
/// When it is refused.
pub fn send(step: &RemoteRendezvous, key: &Key, tensor: Tensor) {
    step.send(key, Args::default(), tensor, false).expect("there is room");
}

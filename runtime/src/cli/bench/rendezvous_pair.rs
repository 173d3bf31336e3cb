//! Two workers in this process, each on threads of its own: one holds tensors, the other receives them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rondo_core::element::{Dtype, Shape, Tensor};
use rondo_core::ids::StepId;
use rondo_core::status::Status;
use rondo_core::time;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::super::exit::Failure;
use super::process::Process;
use super::read::rate;
use super::rendezvous::{IN_FLIGHT, LARGE_BYTES, SMALL_BYTES, other};
use crate::clock::Clock;
use crate::rendezvous::{
    Args, Config, FrameAndIter, Key, RemoteRendezvous, RendezvousManager, RendezvousService,
    Session, Settings, Ways,
};
use crate::transport::{
    BoxFuture, Call, Client, MessageWriter, ServerConfig, Service, Transport, serve,
};

/// Who holds tensors, and who receives them.
const WORKERS: [&str; 2] = ["/job:bench/replica:0/task:0", "/job:bench/replica:0/task:1"];
const INCARNATION: u64 = 7890;
/// The path of a call that is answered with as many bytes as a small tensor has.
const BARE_PATH: &str = "/rondo.bench/Bare";
const DEADLINE: Duration = Duration::from_secs(30);
/// Tensors that are held while memory is looked at.
const HELD: usize = 16;

/// The two workers.
pub(super) struct Pair {
    holder: RendezvousManager,
    receiver: RendezvousManager,
    address: String,
    client: Arc<dyn Transport>,
    receiving: Runtime,
    /// Kept as long as it serves.
    _holding: Runtime,
}

/// Answers bare calls, and whatever else is asked as the rendezvous does.
struct Front {
    rendezvous: RendezvousService,
    answer: Bytes,
}

impl Service for Front {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        if call.path == BARE_PATH {
            let answer = self.answer.clone();
            return Box::pin(async move { Ok(answer) });
        }
        self.rendezvous.unary(call)
    }

    fn streaming_paths(&self) -> Vec<&'static str> {
        self.rendezvous.streaming_paths()
    }

    fn streaming(&self, call: Call, to: MessageWriter) -> BoxFuture<'_, Result<(), Status>> {
        self.rendezvous.streaming(call, to)
    }

    fn cut(&self, path: &str) -> Status {
        self.rendezvous.cut(path)
    }
}

impl Pair {
    /// Starts both.
    ///
    /// # Errors
    /// When there are no threads, or no port.
    pub(super) fn start() -> Result<Self, Failure> {
        let (holding, receiving) = (pool()?, pool()?);
        let ways = Ways::default;
        let within = holding.enter();
        let holder = begin(0, BTreeMap::new(), ways())?;
        drop(within);
        let listener =
            holding.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).map_err(other)?;
        let address = listener.local_addr().as_ref().map(SocketAddr::to_string).map_err(other)?;
        let rendezvous = RendezvousService::new(holder.clone());
        let front = Front { rendezvous, answer: vec![7; SMALL_BYTES].into() };
        let never = std::future::pending();
        holding.spawn(serve(listener, Arc::new(front), ServerConfig::default(), never));
        let [from, _] = WORKERS;
        let peers = BTreeMap::from([(from.to_owned(), address.clone())]);
        let within = receiving.enter();
        let receiver = begin(1, peers, ways())?;
        drop(within);
        let client: Arc<dyn Transport> = Arc::new(Client::new());
        Ok(Self { holder, receiver, address, client, receiving, _holding: holding })
    }

    /// Receives so many small tensors, one after the other: how long each takes.
    pub(super) fn small(&self, count: u32) -> Result<Vec<Duration>, Failure> {
        let tensor = tensor(vec![7; SMALL_BYTES].into())?;
        let (step, keys) = self.held(count, || Ok(tensor.clone()))?;
        let received = self.receiving.block_on(self.receiving.spawn(async move {
            let mut times = Vec::with_capacity(keys.len());
            for key in keys {
                let began = Instant::now();
                step.recv_async(&key, Args::default()).await.map_err(other)?;
                times.push(began.elapsed());
            }
            Ok(times)
        }));
        self.clean_up();
        received.map_err(other)?
    }

    /// Makes so many calls, one after the other, that are answered with as many bytes.
    pub(super) fn calls(&self, count: u32) -> Result<Vec<Duration>, Failure> {
        let (client, address) = (Arc::clone(&self.client), self.address.clone());
        let called = self.receiving.block_on(self.receiving.spawn(async move {
            let mut times = Vec::new();
            for _ in 0..count {
                let (began, asked) = (Instant::now(), Bytes::from_static(&[0; 192]));
                client.unary(&address, BARE_PATH, asked, DEADLINE).await.map_err(other)?;
                times.push(began.elapsed());
            }
            Ok(times)
        }));
        called.map_err(other)?
    }

    /// Receives so many large tensors, some at once: bytes a second.
    pub(super) fn large(&self, count: u32) -> Result<f64, Failure> {
        // All of them share their memory: it is their way that is measured.
        let tensor = tensor(vec![7; LARGE_BYTES].into())?;
        let (step, keys) = self.held(count, || Ok(tensor.clone()))?;
        let began = Instant::now();
        self.receive_all(step, keys)?;
        let bytes = u64::from(count).saturating_mul(LARGE_BYTES as u64);
        let rate = rate(bytes, began.elapsed().as_secs_f64());
        self.clean_up();
        Ok(rate)
    }

    /// Bytes in RAM for tensors that are held and received, and the bytes of those: all that are held,
    /// and once more those on their way.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(super) fn memory(&self) -> Result<(f64, f64), Failure> {
        let before = Process::this().resident_bytes().unwrap_or(0);
        let count = u32::try_from(HELD).unwrap_or(u32::MAX);
        let (step, keys) = self.held(count, || tensor(vec![7; LARGE_BYTES].into()))?;
        let most = Arc::new(std::sync::Mutex::new(0));
        let watching = {
            let most = Arc::clone(&most);
            self.receiving.spawn(async move {
                loop {
                    let now = Process::this().resident_bytes().unwrap_or(0);
                    if let Ok(mut most) = most.lock() {
                        *most = now.max(*most);
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
        };
        let received = self.receive_all(step, keys);
        watching.abort();
        self.clean_up();
        received?;
        let most = most.lock().map_or(0, |most| *most);
        let live = (HELD + IN_FLIGHT) * LARGE_BYTES;
        Ok((most.saturating_sub(before) as f64, live as f64))
    }

    /// Sends tensors that nobody has asked for: the receiver's step, and their keys.
    fn held(
        &self,
        count: u32,
        tensor: impl Fn() -> Result<Tensor, Failure>,
    ) -> Result<(RemoteRendezvous, Vec<Key>), Failure> {
        let step = StepId::new(1);
        let (from, to) = (self.holder.find(step), self.receiver.find(step));
        let (from, to) = (from.map_err(other)?, to.map_err(other)?);
        let mut keys = Vec::new();
        for number in 0..count {
            let [source, destination] = WORKERS.map(|worker| format!("{worker}/device:CPU:0"));
            let edge = format!("edge_{number}");
            let at = FrameAndIter::default();
            let key = Key::create(&source, INCARNATION, &destination, &edge, at).map_err(other)?;
            from.send(&key, Args::default(), tensor()?, false).map_err(other)?;
            keys.push(key);
        }
        Ok((to, keys))
    }

    /// Receives tensors, some at once.
    fn receive_all(&self, step: RemoteRendezvous, keys: Vec<Key>) -> Result<(), Failure> {
        let received = self.receiving.block_on(self.receiving.spawn(async move {
            let (mut keys, mut under_way) = (keys.into_iter(), JoinSet::new());
            loop {
                while under_way.len() < IN_FLIGHT
                    && let Some(key) = keys.next()
                {
                    under_way.spawn(step.recv_async(&key, Args::default()));
                }
                let Some(received) = under_way.join_next().await else {
                    return Ok(());
                };
                let bytes = received.map_err(other)?.map_err(other)?.value.bytes;
                if bytes != LARGE_BYTES as u64 {
                    return Err(other(format!("a tensor of {bytes} bytes was received")));
                }
            }
        }));
        received.map_err(other)?
    }

    fn clean_up(&self) {
        self.holder.cleanup_all();
        self.receiver.cleanup_all();
    }
}

fn pool() -> Result<Runtime, Failure> {
    super::super::threads::pool(Some(2))
}

fn begin(
    index: usize,
    peers: BTreeMap<String, String>,
    ways: Ways,
) -> Result<RendezvousManager, Failure> {
    let worker_name = WORKERS.get(index).copied().unwrap_or_default().into();
    let machine = Config {
        devices: BTreeMap::from([("/device:CPU:0".to_owned(), INCARNATION)]),
        session: Some(Session { worker_name }),
        step_expiry: Some(time::Duration::from_secs(3600)),
        entropy: index as u64,
        // Most of those that are held share their memory.
        step_bytes_max: u64::MAX,
        bytes_max: u64::MAX,
        ..Config::default()
    };
    RendezvousManager::start(Settings { machine, peers }, Clock::start(), ways).map_err(other)
}

fn tensor(bytes: Bytes) -> Result<Tensor, Failure> {
    let shape = Shape::list(bytes.len() as u64).map_err(other)?;
    Tensor::fixed(Dtype::Uint8, shape, bytes).map_err(other)
}

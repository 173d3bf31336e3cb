//! An exchange of several processes' worth, on threads of this one.

use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use rondo::exchange::{Error, Exchange, Scheduler, Settings, Tensor, Ways};
use rondo::tensor::{Region, TensorBuffer};
use rondo_core::exchange::membership::Sizes;
use rondo_core::exchange::{
    Config, Handler, InstanceRank, Key, Role, ScalarType, TensorInfo, WorkerRank, scheduler,
};

/// How long what shall happen may take.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Goes on waiting, whatever happens.
pub(crate) fn always() -> bool {
    true
}

/// A scheduler, and what processes need to know of it.
pub(crate) struct Bed {
    pub(crate) scheduler: Scheduler,
    pub(crate) sizes: Sizes,
    pub(crate) ways: Ways,
    pub(crate) config: Config,
}

/// TCP alone, Unix sockets, shared memory.
pub(crate) fn all_ways() -> [Ways; 3] {
    [
        Ways { unix: false, shared_bytes: 0 },
        Ways { unix: true, shared_bytes: 0 },
        Ways { unix: false, shared_bytes: 16 << 20 },
    ]
}

impl Bed {
    pub(crate) fn new(workers: u32, servers: u32, group: u32, ways: Ways) -> Self {
        Self::with(workers, servers, group, ways, Config::default())
    }

    pub(crate) fn with(workers: u32, servers: u32, group: u32, ways: Ways, config: Config) -> Self {
        let settings = scheduler::Settings { config: config.clone(), ..Default::default() };
        let scheduler = Scheduler::start(settings, "127.0.0.1", 0, false).unwrap();
        Self { scheduler, sizes: Sizes { workers, servers, group }, ways, config }
    }

    /// The settings of a process.
    pub(crate) fn settings(&self, role: Role, rank: u32) -> Settings {
        Settings {
            rank: Some(InstanceRank::new(rank)),
            ways: self.ways,
            config: self.config.clone(),
            join_timeout: Some(SOON),
            ..Settings::new(role, self.sizes, self.scheduler.address())
        }
    }

    /// Starts all of them: workers, and servers.
    pub(crate) fn start(&self) -> (Vec<Exchange>, Vec<Exchange>) {
        let begin = |role: Role| -> Vec<JoinHandle<Result<Exchange, Error>>> {
            let all = (0..self.sizes.instances(role)).map(|rank| self.settings(role, rank));
            all.map(|it| std::thread::spawn(move || Exchange::start(it, &mut always))).collect()
        };
        let (workers, servers) = (begin(Role::Worker), begin(Role::Server));
        let all = |begun: Vec<JoinHandle<Result<Exchange, Error>>>| {
            begun.into_iter().map(|it| it.join().unwrap().unwrap()).collect()
        };
        (all(workers), all(servers))
    }
}

/// Has each of these do something at once.
pub(crate) fn at_once<R: Send>(
    all: &[Exchange],
    what: impl Fn(usize, &Exchange) -> R + Sync,
) -> Vec<R> {
    std::thread::scope(|scope| {
        let what = &what;
        let begun = all.iter().enumerate().map(|(at, it)| scope.spawn(move || what(at, it)));
        let begun: Vec<_> = begun.collect();
        begun.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

/// A list of numbers as a tensor to push.
pub(crate) fn numbers(key: u64, values: &[f32]) -> Tensor {
    let bytes: Bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor { key: Key::new(key), info: list(values.len()), payload: Region::from(bytes).into() }
}

/// Room for a list of numbers.
pub(crate) fn room(key: u64, length: usize) -> Tensor {
    Tensor { key: Key::new(key), info: list(length), payload: Region::allocate(4 * length).into() }
}

/// A list of so many numbers.
pub(crate) fn list(length: usize) -> TensorInfo {
    TensorInfo::new(ScalarType::Float, &[length as i64]).unwrap()
}

/// The numbers in memory.
pub(crate) fn values(buffer: &TensorBuffer) -> Vec<f32> {
    let bytes = buffer.to_host().unwrap().to_vec();
    bytes.chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect()
}

/// Begins a request. Tests leave its memory alone until it is complete.
pub(crate) fn begin(
    worker: &Exchange,
    pushes: Vec<Tensor>,
    pulls: Vec<Tensor>,
) -> Result<Handler, Error> {
    // SAFETY: as above.
    unsafe { worker.exchange(pushes, pulls) }
}

/// Begins a request of which too many pulls are ignored.
pub(crate) fn begin_push_pull(
    worker: &Exchange,
    pushes: Vec<Tensor>,
    pulls: Vec<Tensor>,
) -> Result<Handler, Error> {
    // SAFETY: as in `begin`.
    unsafe { worker.push_pull(pushes, pulls) }
}

/// Has pushes land in this memory, which tests leave alone.
pub(crate) fn register(
    server: &Exchange,
    buffer: impl Into<TensorBuffer>,
    workers: Vec<WorkerRank>,
    keys: Vec<Key>,
) -> Result<(), Error> {
    // SAFETY: as above.
    unsafe { server.register_recv_buffer(buffer, workers, keys) }
}

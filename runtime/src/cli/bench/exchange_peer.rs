//! The processes that `rondo bench exchange` starts: one worker or server each.

use std::collections::VecDeque;
use std::io::Write;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use rondo_core::exchange::membership::Sizes;
use rondo_core::exchange::message::Scope;
use rondo_core::exchange::worker::Since;
use rondo_core::exchange::{
    Handler, InstanceRank, Key, Mask, Role, ScalarType, TensorInfo, WorkerRank,
};
use serde::{Deserialize, Serialize};

use super::super::exit::Failure;
use super::rendezvous::other;
use crate::exchange::{Exchange, Settings, Tensor, Ways};
use crate::tensor::cuda::{Cuda, CudaSettings, Ordinal};
use crate::tensor::{Region, TensorBuffer};

/// Shared memory of a link, in bytes: several of the largest tensors.
const SHARED_BYTES: u64 = 256 << 20;
/// How long a process waits for others.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a process plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    Worker,
    Server,
}

/// What carries tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Way {
    Tcp,
    Unix,
    Shm,
}

/// What a process does.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct PeerArgs {
    #[arg(long)]
    pub(super) part: Part,
    #[arg(long)]
    pub(super) rank: u32,
    #[arg(long)]
    pub(super) workers: u32,
    #[arg(long)]
    pub(super) servers: u32,
    #[arg(long)]
    pub(super) scheduler: String,
    #[arg(long)]
    pub(super) way: Way,
    /// Bytes that are pushed to each server in a request.
    #[arg(long)]
    pub(super) push_bytes: usize,
    /// Bytes that are pulled from each.
    #[arg(long)]
    pub(super) pull_bytes: usize,
    /// Requests.
    #[arg(long)]
    pub(super) count: u32,
    /// Requests that are under way at once.
    #[arg(long)]
    pub(super) ahead: u32,
    /// Microseconds to look for what is waited for before sleeping.
    #[arg(long)]
    pub(super) spin_us: u64,
    /// Whether tensors are on the first GPU.
    #[arg(long)]
    pub(super) gpu: bool,
}

/// What a worker found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Found {
    /// Microseconds of each request, from first to last.
    pub(super) times_us: Vec<f64>,
    /// Seconds of all.
    pub(super) seconds: f64,
}

fn always() -> bool {
    true
}

/// Plays its part, and prints what it found.
pub(super) fn run(args: &PeerArgs) -> Result<(), Failure> {
    let PeerArgs { workers, servers, .. } = *args;
    let role = match args.part {
        Part::Worker => Role::Worker,
        Part::Server => Role::Server,
    };
    let ways = match args.way {
        Way::Tcp => Ways { unix: false, shared_bytes: 0 },
        Way::Unix => Ways { unix: true, shared_bytes: 0 },
        Way::Shm => Ways { unix: false, shared_bytes: SHARED_BYTES },
    };
    let cuda = match args.gpu {
        true => Some(Cuda::load(CudaSettings::default()).map_err(other)?),
        false => None,
    };
    let settings = Settings {
        cuda,
        rank: Some(InstanceRank::new(args.rank)),
        ways,
        spin: Duration::from_micros(args.spin_us),
        join_timeout: Some(PATIENCE),
        ..Settings::new(role, Sizes { workers, servers, group: 1 }, args.scheduler.clone())
    };
    let exchange = Exchange::start(settings, &mut always).map_err(other)?;
    let found = match args.part {
        Part::Server => serve(&exchange, args).map(|()| None),
        Part::Worker => work(&exchange, args).map(Some),
    }?;
    exchange.stop(Some(PATIENCE), &mut always).map_err(other)?;
    let Some(found) = found else { return Ok(()) };
    let line = serde_json::to_string(&found).map_err(other)?;
    std::io::stdout().write_all(line.as_bytes()).map_err(other)
}

fn serve(exchange: &Exchange, args: &PeerArgs) -> Result<(), Failure> {
    let info = info(args.pull_bytes)?;
    let answer = memory(exchange, args.pull_bytes)?;
    for key in (0..u64::from(args.ahead)).filter(|_| args.gpu) {
        for worker in (0..args.workers).map(WorkerRank::new) {
            let slot = memory(exchange, args.push_bytes)?;
            let keys = vec![Key::new(key)];
            // SAFETY: nobody else uses the slot.
            unsafe { exchange.register_recv_buffer(slot, vec![worker], keys) }.map_err(other)?;
        }
    }
    for _ in 0..args.count {
        for unit in exchange.get_batch(&mut always).map_err(other)? {
            let tensors = match args.pull_bytes {
                0 => Vec::new(),
                _ => vec![(info, answer.clone())],
            };
            exchange.respond(unit.handler, tensors).map_err(other)?;
        }
    }
    Ok(())
}

fn work(exchange: &Exchange, args: &PeerArgs) -> Result<Found, Failure> {
    let slots: Vec<Slot> =
        (0..args.ahead).map(|at| Slot::new(at.into(), exchange, args)).collect::<Result<_, _>>()?;
    let mut found = Found::default();
    let mut began = Instant::now();
    let mut under_way: VecDeque<(Instant, Handler)> = VecDeque::new();
    let warm_up = args.count / 10;
    for (number, slot) in (0..args.count).zip(slots.iter().cycle()) {
        if under_way.len() >= slots.len() {
            finish(exchange, &mut under_way, &mut found)?;
        }
        if number == warm_up {
            while !under_way.is_empty() {
                finish(exchange, &mut under_way, &mut found)?;
            }
            found.times_us.clear();
            exchange
                .barrier(Mask::WORKERS, Scope::Instance, Some(PATIENCE), &mut always)
                .map_err(other)?;
            began = Instant::now();
        }
        let at = Instant::now();
        let (pushes, pulls) = (slot.pushes.clone(), slot.pulls.clone());
        // SAFETY: a slot is used again only when its request is complete.
        let handler = unsafe { exchange.exchange(pushes, pulls) }.map_err(other)?;
        under_way.push_back((at, handler));
    }
    while !under_way.is_empty() {
        finish(exchange, &mut under_way, &mut found)?;
    }
    found.seconds = began.elapsed().as_secs_f64();
    Ok(found)
}

fn finish(
    exchange: &Exchange,
    under_way: &mut VecDeque<(Instant, Handler)>,
    found: &mut Found,
) -> Result<(), Failure> {
    if let Some((began, handler)) = under_way.pop_front() {
        exchange.wait(handler, Some(PATIENCE), Since::Call, &mut always).map_err(other)?;
        found.times_us.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(())
}

/// Tensors of one request at a time.
struct Slot {
    pushes: Vec<Tensor>,
    pulls: Vec<Tensor>,
}

impl Slot {
    fn new(key: u64, exchange: &Exchange, args: &PeerArgs) -> Result<Self, Failure> {
        let tensor = |bytes: usize| {
            let payload = memory(exchange, bytes)?;
            info(bytes).map(|info| Tensor { key: Key::new(key), info, payload })
        };
        let pulls = match args.pull_bytes {
            0 => Vec::new(),
            bytes => (0..args.servers).map(|_| tensor(bytes)).collect::<Result<_, _>>()?,
        };
        Ok(Self { pushes: vec![tensor(args.push_bytes)?], pulls })
    }
}

/// Memory for a tensor, on the first GPU if the exchange has any.
fn memory(exchange: &Exchange, bytes: usize) -> Result<TensorBuffer, Failure> {
    let content = Region::allocate(bytes);
    // Pages that nobody has touched would be another memory.
    // SAFETY: nobody else has it yet.
    unsafe { content.write(0, &vec![7; bytes]) };
    let Some(cuda) = exchange.cuda() else { return Ok(content.into()) };
    let memory = cuda.allocate(Ordinal(0), bytes).map_err(other)?;
    memory.fill(content).map_err(other)?;
    Ok(memory.into())
}

fn info(bytes: usize) -> Result<TensorInfo, Failure> {
    let length = i64::try_from(bytes).map_err(other)?;
    TensorInfo::new(ScalarType::Byte, &[length]).map_err(other)
}

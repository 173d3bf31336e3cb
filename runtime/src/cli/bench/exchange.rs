//! `rondo bench exchange`: tensors pushed and pulled between processes, beside bare connections and copies
//! of memory.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use clap::Args;
use rondo_core::exchange::membership::Sizes;
use rondo_core::exchange::scheduler::Settings;
use serde::Serialize;

use super::super::exit::Failure;
use super::exchange_figures;
use super::exchange_gloo::Gloo;
use super::exchange_gpu;
use super::exchange_peer::{Found, Way};
use super::output::Format;
use super::read::rate;
use super::rendezvous::other;
use crate::exchange::Scheduler;

/// How much to exchange.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct ExchangeArgs {
    /// Requests of 4 KiB in a round, one after the other; fewer of what is larger
    #[arg(long, value_name = "COUNT", default_value_t = 5000,
          value_parser = clap::value_parser!(u32).range(500..=1_000_000))]
    small: u32,

    /// Microseconds for which those that spin look for what they wait for before they sleep
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 100)]
    spin_us: u64,

    /// Rounds; the middle of each figure is told
    #[arg(long, value_name = "COUNT", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// A Python that has torch, of which two processes send and receive as many bytes by
    /// torch.distributed with gloo [default: not compared]
    #[arg(long, value_name = "PYTHON")]
    gloo: Option<PathBuf>,

    /// Form of the figures
    #[arg(long, value_name = "FORM", default_value = "table")]
    format: Format,
}

/// What each round brought.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Rounds {
    /// Microseconds of 4 KiB pushed and pulled: the middle, and the 99th of 100.
    pub(super) small_us: Vec<(f64, f64)>,
    /// The same by processes that spin.
    pub(super) small_spinning_us: Vec<(f64, f64)>,
    /// The same through shared memory, or its socket.
    pub(super) small_shared_us: Vec<(f64, f64)>,
    /// 4 KiB there and back over a bare connection.
    pub(super) small_bare_us: Vec<(f64, f64)>,
    /// 4 KiB there and back by gloo.
    pub(super) small_gloo_us: Vec<(f64, f64)>,
    /// The same of 1 MiB.
    pub(super) medium_gloo_us: Vec<(f64, f64)>,
    /// 1 MiB pushed and pulled.
    pub(super) medium_us: Vec<(f64, f64)>,
    /// The same through shared memory.
    pub(super) medium_shared_us: Vec<(f64, f64)>,
    /// 1 MiB there and back over a bare connection.
    pub(super) medium_bare_us: Vec<(f64, f64)>,
    /// Bytes a second of 16 MiB pushed through shared memory.
    pub(super) shared: Vec<f64>,
    /// Bytes a second copied in memory.
    pub(super) copied: Vec<f64>,
    /// Bytes a second of 256 KiB pushed and pulled, four requests ahead: 1 worker and 1 server, over all.
    pub(super) one: Vec<f64>,
    /// 2 and 2.
    pub(super) two: Vec<f64>,
    /// 8 and 8.
    pub(super) eight: Vec<f64>,
    /// From GPU to GPU.
    pub(super) gpu: exchange_gpu::Rounds,
}

/// An exchange that is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) sizes: (u32, u32),
    pub(super) way: Way,
    pub(super) push_bytes: usize,
    pub(super) pull_bytes: usize,
    pub(super) count: u32,
    pub(super) ahead: u32,
    pub(super) spin_us: u64,
    /// Whether tensors are on GPUs.
    pub(super) gpu: bool,
}

/// Measures, and prints what was found.
pub(super) fn run(args: &ExchangeArgs) -> Result<(), Failure> {
    let mut rounds = Rounds { gpu: exchange_gpu::Rounds::find(), ..Rounds::default() };
    let folder = tempfile::tempdir().map_err(other)?;
    let gloo = args.gloo.as_ref().map(|python| Gloo::start(python, folder.path()));
    let mut gloo = gloo.transpose()?;
    for _ in 0..args.rounds {
        rounds.add(args, gloo.as_mut())?;
    }
    args.format.print_rounds(&rounds, exchange_figures::table)
}

impl Rounds {
    fn add(&mut self, args: &ExchangeArgs, gloo: Option<&mut Gloo>) -> Result<(), Failure> {
        const SMALL: usize = 4 << 10;
        const MEDIUM: usize = 1 << 20;
        let (small, medium) = (args.small, args.small / 10);
        let one = Case {
            sizes: (1, 1),
            way: Way::Tcp,
            push_bytes: SMALL,
            pull_bytes: SMALL,
            count: small,
            ahead: 1,
            spin_us: 0,
            gpu: false,
        };
        self.small_us.push(one.spread()?);
        self.small_bare_us.push(there_and_back(SMALL, small).map_err(other)?);
        self.small_spinning_us.push(Case { spin_us: args.spin_us, ..one }.spread()?);
        self.small_shared_us.push(Case { way: Way::Shm, ..one }.spread()?);
        let larger = Case { push_bytes: MEDIUM, pull_bytes: MEDIUM, count: medium, ..one };
        self.medium_us.push(larger.spread()?);
        self.medium_shared_us.push(Case { way: Way::Shm, ..larger }.spread()?);
        self.medium_bare_us.push(there_and_back(MEDIUM, medium).map_err(other)?);
        if let Some(gloo) = gloo {
            self.small_gloo_us.push(gloo.there_and_back(SMALL, small)?);
            self.medium_gloo_us.push(gloo.there_and_back(MEDIUM, medium)?);
        }
        let large = Case {
            way: Way::Shm,
            push_bytes: 16 << 20,
            pull_bytes: 0,
            count: medium,
            ahead: 2,
            ..one
        };
        self.shared.push(large.rate()?);
        self.copied.push(copied(16 << 20, medium));
        let many = Case { push_bytes: 256 << 10, pull_bytes: 256 << 10, ahead: 4, ..one };
        let many = |each: u32, count: u32| Case { sizes: (each, each), count, ..many };
        self.one.push(many(1, small).rate()?);
        self.two.push(many(2, small / 4).rate()?);
        self.eight.push(many(8, small / 50).rate()?);
        self.gpu.add(Case { gpu: true, ..large })
    }
}

impl Case {
    /// The middle and the 99th of 100 of what requests take.
    fn spread(self) -> Result<(f64, f64), Failure> {
        let found = self.run()?;
        Ok(spread(found.into_iter().flat_map(|it| it.times_us).collect()))
    }

    /// Bytes a second, over all workers and servers.
    pub(super) fn rate(self) -> Result<f64, Failure> {
        let found = self.run()?;
        let slowest = found.iter().map(|it| it.seconds).fold(0.0, f64::max);
        let requests = found.iter().map(|it| it.times_us.len() as u64).sum::<u64>();
        let (_, servers) = self.sizes;
        let bytes = (self.push_bytes as u64).saturating_add(self.pull_bytes as u64);
        Ok(rate(requests.saturating_mul(bytes).saturating_mul(servers.into()), slowest))
    }

    /// What each worker found.
    fn run(self) -> Result<Vec<Found>, Failure> {
        let (workers, servers) = self.sizes;
        let sizes = Some(Sizes { workers, servers, group: 1 });
        let settings = Settings { sizes, ..Settings::default() };
        let scheduler = Scheduler::start(settings, "127.0.0.1", 0, false).map_err(other)?;
        let mut processes = Vec::new();
        for rank in 0..servers {
            processes.push(self.start("server", rank, &scheduler)?);
        }
        for rank in 0..workers {
            processes.push(self.start("worker", rank, &scheduler)?);
        }
        let mut found = Vec::new();
        for Process(mut child) in processes {
            let mut said = String::new();
            if let Some(mut out) = child.stdout.take() {
                out.read_to_string(&mut said).map_err(other)?;
            }
            let ended = child.wait().map_err(other)?;
            if !ended.success() {
                return Err(other(format!("a process of the exchange ended with {ended}")));
            }
            if !said.is_empty() {
                found.push(serde_json::from_str(&said).map_err(other)?);
            }
        }
        Ok(found)
    }

    fn start(self, part: &str, rank: u32, scheduler: &Scheduler) -> Result<Process, Failure> {
        let (workers, servers) = self.sizes;
        let way = match self.way {
            Way::Tcp => "tcp",
            Way::Unix => "unix",
            Way::Shm => "shm",
        };
        let mut command = Command::new(std::env::current_exe().map_err(other)?);
        command.args(["bench", "exchange-peer"]).stdout(Stdio::piped()).stdin(Stdio::null());
        let mut set = |name: &str, value: String| {
            command.arg(format!("--{name}={value}"));
        };
        set("part", part.to_owned());
        set("rank", rank.to_string());
        set("workers", workers.to_string());
        set("servers", servers.to_string());
        set("scheduler", scheduler.address().to_owned());
        set("way", way.to_owned());
        set("push-bytes", self.push_bytes.to_string());
        set("pull-bytes", self.pull_bytes.to_string());
        set("count", self.count.to_string());
        set("ahead", self.ahead.to_string());
        set("spin-us", self.spin_us.to_string());
        if self.gpu {
            command.arg("--gpu");
        }
        command.spawn().map(Process).map_err(other)
    }
}

/// A process, which does not outlive this one's failure.
struct Process(Child);

/// The middle and the 99th of 100 of times.
fn spread(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    let at = |part: usize| times.get(times.len().saturating_sub(1) * part / 100).copied();
    (at(50).unwrap_or(f64::NAN), at(99).unwrap_or(f64::NAN))
}

/// Microseconds that so many bytes take there and back between threads that block.
fn there_and_back(bytes: usize, count: u32) -> std::io::Result<(f64, f64)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let other_end = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept()?;
        peer.set_nodelay(true)?;
        let mut buffer = vec![0; bytes];
        for _ in 0..count {
            peer.read_exact(&mut buffer)?;
            peer.write_all(&buffer)?;
        }
        Ok::<(), std::io::Error>(())
    });
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let (sent, mut received) = (vec![7; bytes], vec![0; bytes]);
    let mut times = Vec::new();
    for _ in 0..count {
        let began = Instant::now();
        stream.write_all(&sent)?;
        stream.read_exact(&mut received)?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    match other_end.join() {
        Ok(ended) => ended.map(|()| spread(times)),
        Err(_) => Err(std::io::Error::other("the other end is gone")),
    }
}

/// Bytes a second of copies from memory to memory.
fn copied(bytes: usize, count: u32) -> f64 {
    let (from, mut to) = (vec![7_u8; bytes], vec![0_u8; bytes]);
    let began = Instant::now();
    for _ in 0..count {
        std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from));
    }
    rate((bytes as u64).saturating_mul(count.into()), began.elapsed().as_secs_f64())
}

//! `rondo bench coordination`.

use std::sync::Arc;

use clap::Args;
use rondo_core::limits::COORDINATION_TASKS_MAX;

use super::super::exit::Failure;
use super::super::units::{Span, span};
use super::connected::{self, Connected};
use super::coordination_speech::Dialect;
use super::coordination_workload::{Job, Workload};
use super::figures::{Figures, Measured, Round};
use super::load::{self, Calls, Shape};
use super::rounds::{self, RoundsArgs};
use super::target::{Target, unreachable};
use super::{barriers, etcd};

/// More calls than a round makes.
const CALLS_MAX: u64 = 10_000_000;

/// What to measure, and how.
#[derive(Args, Clone, Debug, PartialEq)]
pub(in crate::cli) struct CoordinationArgs {
    /// The coordination service to measure, on a loopback address
    #[arg(long, env = "RONDO_SERVER", value_name = "HOST:PORT", default_value = "127.0.0.1:5050")]
    server: String,

    /// A coordination service to measure beside it, in turn with it
    #[arg(long, value_name = "HOST:PORT")]
    beside: Option<String>,

    /// An etcd to measure beside them, in turn with them
    #[arg(long, value_name = "HOST:PORT")]
    etcd: Option<String>,

    /// Process of the first service [default: the one that listens on its port]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    /// Process of the second one [default: the one that listens on its port]
    #[arg(long, value_name = "PID", requires = "beside")]
    beside_pid: Option<u32>,

    /// Process of the etcd [default: the one that listens on its port]
    #[arg(long, value_name = "PID", requires = "etcd")]
    etcd_pid: Option<u32>,

    /// What is spoken to both services
    #[arg(long, value_name = "DIALECT", default_value = "x")]
    dialect: Dialect,

    /// Tasks of the job on each service, as it was started with
    #[arg(long, value_name = "COUNT", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(1..=COORDINATION_TASKS_MAX as i64))]
    tasks: u32,

    /// Kinds of load, comma-separated
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_values = ["heartbeat", "try-get", "insert", "insert-one", "increment", "directory",
                          "barrier", "timeout"]
    )]
    workload: Vec<Workload>,

    /// How often each task sends a heartbeat in the workload `connected`
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = span(10..=600_000))]
    period: Span,

    #[command(flatten)]
    load: RoundsArgs,
}

/// A server under measurement.
struct Measurand {
    target: Target,
    kind: Kind,
}

/// What it is.
enum Kind {
    /// A coordination service, with the job that registered there.
    Service(Job),
    /// An etcd.
    Etcd,
}

/// What was found so far.
#[derive(Default)]
struct Found {
    measured: Vec<Measured>,
    connected: Vec<Connected>,
}

/// Measures and prints.
pub(super) fn run(args: &CoordinationArgs) -> Result<(), Failure> {
    args.load.format.print(measure(args))
}

async fn measure(args: &CoordinationArgs) -> Result<Figures, Failure> {
    let mut measurands = find(args).await?;
    let mut found = Found::default();
    for workload in rounds::in_order(&args.workload) {
        match workload {
            Workload::Connected => measure_connected(args, &mut measurands, &mut found).await?,
            _ => found.measured.extend(measure_workload(args, workload, &mut measurands).await?),
        }
    }
    let servers = measurands.iter().map(|measurand| measurand.target.server()).collect();
    Ok(Figures::of(servers, found.measured).with_connected(found.connected))
}

/// Finds all servers, and registers the tasks.
async fn find(args: &CoordinationArgs) -> Result<Vec<Measurand>, Failure> {
    let services = [(Some(&args.server), args.pid), (args.beside.as_ref(), args.beside_pid)];
    let mut measurands = Vec::new();
    for (address, pid) in services {
        let Some(address) = address else { continue };
        let target = Target::find(address, pid)?;
        let address = target.address();
        let job = Job::register(address, args.dialect, args.tasks).await;
        let kind = Kind::Service(job.map_err(|error| unreachable(address, &error))?);
        measurands.push(Measurand { target, kind });
    }
    if let Some(address) = &args.etcd {
        measurands
            .push(Measurand { target: Target::find(address, args.etcd_pid)?, kind: Kind::Etcd });
    }
    Ok(measurands)
}

impl Measurand {
    /// Makes the server ready for a workload; `None` when it has nothing like it.
    async fn prepare(&mut self, workload: Workload) -> Result<Option<Arc<dyn Calls>>, Failure> {
        let address = self.target.address();
        let prepared = match &mut self.kind {
            Kind::Service(job) => job.prepare(workload).await.map(Some),
            Kind::Etcd => etcd::prepare(address, workload).await,
        };
        prepared.map_err(|error| unreachable(address, &error))
    }

    async fn round(
        &mut self,
        workload: Workload,
        calls: Arc<dyn Calls>,
        shape: Shape,
        tasks: u32,
    ) -> Result<Round, Failure> {
        if workload == Workload::Barrier {
            let lay = |address, first| barriers::lay(address, calls, shape, tasks, first);
            // Numbers are rounded up to multiples of the tasks.
            return self.target.round(shape.calls_max.saturating_mul(2), lay).await;
        }
        let lay = |address, first| load::lay(address, calls, shape, first);
        self.target.round(shape.calls_max, lay).await
    }
}

/// Lays one kind of load on all servers that have it, round by round in turn.
async fn measure_workload(
    args: &CoordinationArgs,
    workload: Workload,
    measurands: &mut [Measurand],
) -> Result<Vec<Measured>, Failure> {
    let mut under_way = Vec::new();
    for measurand in measurands {
        if let Some(calls) = measurand.prepare(workload).await? {
            let measured = Measured::new(workload.name(), measurand.target.address());
            under_way.push((measurand, calls, measured));
        }
    }
    let shape = args.shape(workload);
    for _ in 0..args.load.rounds {
        for (measurand, calls, measured) in &mut under_way {
            let round = measurand.round(workload, Arc::clone(calls), shape, args.tasks);
            measured.rounds.push(round.await?);
        }
    }
    Ok(under_way.into_iter().map(|(_, _, measured)| measured).collect())
}

/// Connects each task to each service, one service after the other.
async fn measure_connected(
    args: &CoordinationArgs,
    measurands: &mut [Measurand],
    found: &mut Found,
) -> Result<(), Failure> {
    let period = args.period.std();
    for measurand in measurands {
        let Some(calls) = measurand.prepare(Workload::Connected).await? else { continue };
        let target = &mut measurand.target;
        let (connected, round) = connected::measure(target, calls, args.tasks, period).await?;
        let mut measured = Measured::new(Workload::Connected.name(), target.address());
        measured.rounds.push(round);
        found.measured.push(measured);
        found.connected.push(connected);
    }
    Ok(())
}

impl CoordinationArgs {
    fn shape(&self, workload: Workload) -> Shape {
        let shape = self.load.shape(CALLS_MAX);
        match workload {
            Workload::InsertOne => Shape { connections: 1, streams: 1, ..shape },
            _ => shape,
        }
    }
}

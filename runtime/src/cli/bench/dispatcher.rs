//! `rondo bench dispatcher`.

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::super::exit::{Exit, Failure};
use super::figures::{Figures, Measured, Round, Server};
use super::load::{self, Calls, Shape};
use super::process::Process;
use super::workload::{Subject, Workload};

/// What to measure, and how.
#[derive(Args, Clone, Debug, PartialEq)]
pub(in crate::cli) struct DispatcherArgs {
    /// The dispatcher to measure, on a loopback address
    #[arg(long, env = "RONDO_SERVER", value_name = "HOST:PORT", default_value = "127.0.0.1:5050")]
    server: String,

    /// A dispatcher to measure beside it, in turn with it
    #[arg(long, value_name = "HOST:PORT")]
    beside: Option<String>,

    /// Process of the first dispatcher [default: the one that listens on its port]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    /// Process of the second one [default: the one that listens on its port]
    #[arg(long, value_name = "PID", requires = "beside")]
    beside_pid: Option<u32>,

    /// Kinds of load, comma-separated
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_values = ["version", "heartbeat", "client-heartbeat", "get-split",
                          "register-1mib", "register-1mib-again", "heartbeat-200"]
    )]
    workload: Vec<Workload>,

    /// Connections to each dispatcher
    #[arg(long, value_name = "COUNT", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    connections: u32,

    /// Calls under way on each connection
    #[arg(long, value_name = "COUNT", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    streams: u32,

    /// How long one round on one dispatcher takes, in ms
    #[arg(long, value_name = "MS", default_value_t = 3000,
          value_parser = clap::value_parser!(u64).range(10..=600_000))]
    round_ms: u64,

    /// Rounds of each workload on each dispatcher
    #[arg(long, value_name = "COUNT", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Form of the figures
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Tables
    Table,
    /// One JSON object, with each round's figures
    Json,
}

/// A dispatcher under measurement.
struct Target {
    address: SocketAddr,
    process: Process,
    subject: Subject,
    resident_before_bytes: u64,
    /// Calls are numbered through all rounds, so that no two registrations are alike.
    next_serial: u64,
}

/// Measures and prints.
pub(super) fn run(args: &DispatcherArgs) -> Result<(), Failure> {
    let mut targets = vec![Target::find(&args.server, args.pid)?];
    if let Some(beside) = &args.beside {
        targets.push(Target::find(beside, args.beside_pid)?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Other, error))?;
    let figures = runtime.block_on(measure(args, &mut targets))?;
    let text = match args.output {
        Output::Table => figures.tables(),
        Output::Json => {
            let text = serde_json::to_string_pretty(&figures);
            text.map_err(|error| Failure::new(Exit::Other, error))? + "\n"
        }
    };
    let printed = std::io::stdout().write_all(text.as_bytes());
    printed.map_err(|error| Failure::new(Exit::Other, error))
}

async fn measure(args: &DispatcherArgs, targets: &mut [Target]) -> Result<Figures, Failure> {
    let mut workloads = args.workload.clone();
    workloads.sort_unstable();
    workloads.dedup();
    let mut measured = Vec::new();
    for workload in workloads {
        measured.extend(measure_workload(args, workload, targets).await?);
    }
    let servers = targets.iter().map(Target::server).collect();
    Ok(Figures::of(servers, measured))
}

/// Lays one kind of load on all dispatchers, round by round in turn.
async fn measure_workload(
    args: &DispatcherArgs,
    workload: Workload,
    targets: &mut [Target],
) -> Result<Vec<Measured>, Failure> {
    let mut measured = Vec::new();
    let mut calls = Vec::new();
    for target in targets.iter_mut() {
        let prepared = target.subject.prepare(workload).await;
        calls.push(prepared.map_err(|text| Failure::new(Exit::Other, text))?);
        measured.push(Measured {
            workload: workload.name(),
            server: target.address.to_string(),
            rounds: Vec::new(),
        });
    }
    let shape = Shape {
        connections: args.connections,
        streams: args.streams,
        duration: Duration::from_millis(args.round_ms),
        calls_max: workload.calls_max(),
    };
    for _ in 0..args.rounds {
        for ((target, calls), measured) in targets.iter_mut().zip(&calls).zip(&mut measured) {
            measured.rounds.push(target.round(calls.clone(), shape).await?);
        }
    }
    Ok(measured)
}

impl Target {
    fn find(address: &str, pid: Option<u32>) -> Result<Self, Failure> {
        let usage = |text| Failure::new(Exit::Usage, text);
        let found = address.to_socket_addrs();
        let found = found.map_err(|error| usage(format!("{address:?}: {error}")))?;
        let loopback = found.into_iter().find(|found| found.ip().is_loopback());
        let address = loopback.ok_or_else(|| {
            usage(format!(
                "{address:?} is no loopback address: only this machine's own servers are measured"
            ))
        })?;
        let process = pid.map(Process::of).or_else(|| Process::listening_on(address.port()));
        let process = process.ok_or_else(|| {
            let text = format!("no process of yours listens on {address}; --pid names another");
            Failure::new(Exit::Unreachable, text)
        })?;
        let gone = || usage(format!("there is no process {}", process.pid()));
        Ok(Self {
            address,
            process,
            subject: Subject::new(address),
            resident_before_bytes: process.resident_bytes().ok_or_else(gone)?,
            next_serial: 0,
        })
    }

    async fn round(
        &mut self,
        calls: std::sync::Arc<dyn Calls>,
        shape: Shape,
    ) -> Result<Round, Failure> {
        let before = (self.cpu()?, Process::this().cpu().unwrap_or_default());
        let outcome = load::lay(self.address, calls, shape, self.next_serial).await;
        let outcome = outcome.map_err(|error| {
            Failure::new(Exit::Unreachable, format!("{}: {error}", self.address))
        })?;
        let after = (self.cpu()?, Process::this().cpu().unwrap_or_default());
        self.next_serial = self.next_serial.saturating_add(shape.calls_max);
        if let Some(refusal) = &outcome.refusal {
            let text = format!(
                "{} refused {} calls, the first with {refusal}",
                self.address, outcome.refused
            );
            return Err(Failure::new(Exit::Other, text));
        }
        let server = after.0.saturating_sub(before.0);
        let generator = after.1.saturating_sub(before.1);
        Ok(Round::of(&outcome, server, generator))
    }

    fn cpu(&self) -> Result<Duration, Failure> {
        let gone = || {
            let text = format!("{} (process {}) is gone", self.address, self.process.pid());
            Failure::new(Exit::Unreachable, text)
        };
        self.process.cpu().ok_or_else(gone)
    }

    fn server(&self) -> Server {
        Server {
            address: self.address.to_string(),
            pid: self.process.pid(),
            resident_before_bytes: self.resident_before_bytes,
            resident_after_bytes: self.process.resident_bytes().unwrap_or_default(),
        }
    }
}

//! `rondo bench dispatcher`.

use std::sync::Arc;

use clap::Args;

use super::super::exit::{Exit, Failure};
use super::figures::{Figures, Measured};
use super::load;
use super::rounds::{self, RoundsArgs};
use super::target::Target;
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
                          "register-1mib", "register-1mib-again", "register-1mib-known",
                          "heartbeat-200"]
    )]
    workload: Vec<Workload>,

    #[command(flatten)]
    load: RoundsArgs,
}

/// A dispatcher under measurement.
struct Measurand {
    target: Target,
    subject: Subject,
}

impl Measurand {
    fn find(address: &str, pid: Option<u32>) -> Result<Self, Failure> {
        let target = Target::find(address, pid)?;
        let subject = Subject::new(target.address());
        Ok(Self { target, subject })
    }
}

/// Measures and prints.
pub(super) fn run(args: &DispatcherArgs) -> Result<(), Failure> {
    let mut measurands = vec![Measurand::find(&args.server, args.pid)?];
    if let Some(beside) = &args.beside {
        measurands.push(Measurand::find(beside, args.beside_pid)?);
    }
    args.load.format.print(async { measure(args, &mut measurands).await })
}

async fn measure(args: &DispatcherArgs, measurands: &mut [Measurand]) -> Result<Figures, Failure> {
    let mut measured = Vec::new();
    for workload in rounds::in_order(&args.workload) {
        measured.extend(measure_workload(args, workload, measurands).await?);
    }
    let servers = measurands.iter().map(|measurand| measurand.target.server()).collect();
    Ok(Figures::of(servers, measured))
}

/// Lays one kind of load on all dispatchers, round by round in turn.
async fn measure_workload(
    args: &DispatcherArgs,
    workload: Workload,
    measurands: &mut [Measurand],
) -> Result<Vec<Measured>, Failure> {
    let mut measured = Vec::new();
    let mut calls = Vec::new();
    for Measurand { target, subject } in measurands.iter_mut() {
        let prepared = subject.prepare(workload).await;
        calls.push(prepared.map_err(|text| Failure::new(Exit::Other, text))?);
        measured.push(Measured::new(workload.name(), target.address()));
    }
    let shape = args.load.shape(workload.calls_max());
    for _ in 0..args.load.rounds {
        for ((measurand, calls), measured) in measurands.iter_mut().zip(&calls).zip(&mut measured) {
            let lay = |address, first| load::lay(address, Arc::clone(calls), shape, first);
            measured.rounds.push(measurand.target.round(shape.calls_max, lay).await?);
        }
    }
    Ok(measured)
}

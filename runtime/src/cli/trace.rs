//! `rondo trace`: what the processes of an exchange know of their requests, for Perfetto.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use rondo_core::exchange::NodeId;
use rondo_core::status::{Code, Status};

use super::exit::{Exit, Failure, of_status};
use super::journal::say;
use super::table::Table;
use super::units::Span;
use crate::config::Listen;
use crate::exchange::{Recorded, Recording, RecordingBounds};

/// Whose traces, and where to.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct TraceArgs {
    /// The scheduler of the exchange
    #[arg(
        long,
        env = "RONDO_EXCHANGE_SCHEDULER",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:5052"
    )]
    scheduler: Listen,

    /// The file to write; - is the standard output. A file that exists is replaced once the new one is
    /// complete, and stays as it is if that fails
    #[arg(long, short, value_name = "FILE", default_value = "rondo-trace.json")]
    output: PathBuf,

    /// Ways of requests of each worker, the latest; as many as it keeps at most (traces_max, 4096)
    #[arg(long, value_name = "COUNT", default_value_t = 1 << 12,
          value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    passages_max: u64,

    /// How long it may take altogether
    #[arg(long, value_name = "SPAN", default_value = "10s")]
    timeout: Span,
}

/// Collects traces, writes them, and shows how well clocks are known.
pub(super) fn trace(args: &TraceArgs) -> Result<(), Failure> {
    let timeout = args.timeout.std();
    let bounds = RecordingBounds { passages_max: args.passages_max, timeout };
    let recording = Recording::of_everybody(&args.scheduler.to_string(), bounds);
    let recording = recording.map_err(|status| failed(&status))?;
    let shown = render(&recording);
    // The standard output may be a file that others have written to: it is not replaced.
    if [Path::new("-"), Path::new("/dev/stdout")].contains(&args.output.as_path()) {
        let unwritable = |error: io::Error| Failure::new(Exit::Other, error);
        recording.write(&mut io::stdout().lock()).map_err(unwritable)?;
        return io::stderr().write_all(shown.as_bytes()).map_err(unwritable);
    }
    let path = args.output.display();
    recording.save(&args.output).map_err(|error| {
        let text = format!("the trace cannot be written to {path} (--output): {error}");
        Failure::new(Exit::Other, text)
    })?;
    let passages = recording.passages();
    say(&format!(
        "{shown}\n{passages} ways of requests are in {path}: open it at https://ui.perfetto.dev"
    ))
}

fn failed(status: &Status) -> Failure {
    let exit = match status.code {
        Code::FailedPrecondition => Exit::Unhealthy,
        _ => of_status(status),
    };
    Failure::new(exit, &status.message)
}

/// Who is in it, and how far each clock is ahead of the scheduler's.
fn render(recording: &Recording) -> String {
    let columns = [
        "process",
        "host",
        "clock ahead",
        "within",
        "round trip",
        "compared with",
        "ways",
        "left out",
    ];
    let processes: Vec<&Recorded> = recording.processes.values().collect();
    let table = Table::new("clocks", &columns, true).fill(&processes, usize::MAX, |it| row(it));
    let silent = recording.processes.values().filter_map(|process| {
        let status = process.refused.as_ref()?;
        Some(format!("{} {} says nothing: {status}\n", process.role, process.rank))
    });
    std::iter::once(table.to_string()).chain(silent).collect()
}

fn row(process: &Recorded) -> Vec<String> {
    let unknown = || "-".to_owned();
    let offset = process.clock.map(|clock| clock.offset);
    vec![
        format!("{} {}", process.role, process.rank),
        process.host.to_string(),
        offset.map_or_else(unknown, |it| format!("{:+.1} us", it.nanos as f64 / 1e3)),
        offset.map_or_else(unknown, |it| micros(it.error_nanos)),
        process.round_trip_nanos.map_or_else(unknown, micros),
        process.clock.map_or_else(unknown, |clock| compared_with(clock.by)),
        process.passages.len().to_string(),
        process.left_out.to_string(),
    ]
}

fn micros(nanos: u64) -> String {
    format!("{:.1} us", nanos as f64 / 1e3)
}

fn compared_with(node: NodeId) -> String {
    match node.role() {
        Some(role) if node != NodeId::SCHEDULER => format!("{role} {}", node.rank()),
        _ => "scheduler".into(),
    }
}

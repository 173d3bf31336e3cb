//! The command line.

mod ask;
mod bench;
mod cluster;
mod coordination_args;
mod dataset;
mod demo;
mod exchange;
mod exit;
mod former;
mod from_cluster;
mod job;
mod journal;
mod journal_compact;
mod journal_inspect;
mod journal_verify;
mod known_workers;
mod layers;
mod line_rate;
mod local;
mod log;
mod memory_max;
mod namespace;
mod plain;
mod position;
mod print_config;
mod progress;
mod read;
mod relay;
mod rendezvous_args;
mod resolve;
mod serve;
mod serve_args;
mod state_home;
mod status;
mod status_coordination;
mod status_tables;
mod table;
mod threads;
mod trace;
mod units;
mod usage;
mod variables;
mod why;
mod why_data;
mod worker;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use bench::BenchCommand;
use cluster::ClusterArgs;
use dataset::DatasetCommand;
use demo::DemoArgs;
use exchange::ExchangeCommand;
use exit::{Exit, Failure};
use job::JobCommand;
use journal::JournalCommand;
use layers::Settings;
use namespace::NamespaceCommand;
use position::PositionCommand;
use read::ReadArgs;
use relay::RelayArgs;
use serve_args::ServeArgs;
use status::StatusArgs;
use trace::TraceArgs;
use usage::Refusal;
pub use variables::mistyped as mistyped_variables;
use why::WhyArgs;
use worker::WorkerArgs;

/// The control plane of a distributed machine-learning job in one binary.
///
/// Point unmodified programs at it: `rondo serve` is a dispatcher for tf.data service clients and
/// workers, and the coordination service of JAX processes, and survives its own death.
#[derive(Parser, Debug)]
#[command(name = "rondo", version, propagate_version = true, after_help = exit_statuses())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Read a small table through a server and workers that are killed on the way, and prove that
    /// nothing was lost
    ///
    /// Starts a server and three workers on this machine, reads with two consumers, kills a worker
    /// and then the server with SIGKILL in the midst of it, and starts them again. At the end it
    /// shows that every record came exactly once, and how long consumers waited for each crash.
    Demo(DemoArgs),
    /// Run a server
    ///
    /// Every setting is taken from its flag, else from its environment variable, else from the YAML
    /// file given with --config (key: the flag's name with underscores), else from its default.
    /// SIGTERM or SIGINT stops the server in an orderly way; a second one stops it at once.
    Serve(Box<ServeArgs>),
    /// Stand between the processes of this machine and a server that may go away for a while
    ///
    /// Unmodified processes dial it on loopback. Their waiting calls are kept while the server is
    /// killed, restarted or upgraded, their heartbeats are answered meanwhile, and what must not
    /// happen twice happens once. For JAX: pass coordinator_address=<the address in --listen> to
    /// jax.distributed.initialize in every process of this machine, and set
    /// JAX_COORDINATOR_BIND_ADDRESS=127.0.0.1:0, so that process 0 leaves the address alone.
    Relay(Box<RelayArgs>),
    /// Read datasets of Rondo's own for consumers, TensorFlow's among them
    ///
    /// Registers at a dispatcher, reads the files of the datasets it is given tasks of, and serves
    /// their elements. SIGTERM or SIGINT stops it once what it has taken is handed out; a second one
    /// stops it at once. Settings are taken as `rondo serve` takes them. `list` and `remove` are about
    /// the workers that a server knows.
    Worker(Box<WorkerArgs>),
    /// Run a process of an exchange of tensors between workers and servers
    #[command(subcommand)]
    Exchange(ExchangeCommand),
    /// Write what the processes of an exchange know of their latest requests, for Perfetto
    ///
    /// Asks all who take part, by way of their scheduler, and writes JSON of Chrome's trace event
    /// format: who sent what when, how long it was on the way, and how long the server took. Clocks of
    /// different hosts are made one, the scheduler's; how well that is known is shown, and is in the
    /// file (otherData).
    Trace(TraceArgs),
    /// Say which cluster this process is in, what place it has there, and who told
    ///
    /// Looks at what launchers leave behind (TF_CONFIG, torchrun, Open MPI, Slurm, SageMaker, Kubeflow,
    /// Kubernetes, TPUs, Compute Engine), takes the first that is there, and says why not the others.
    /// Nothing is changed anywhere.
    Cluster(Box<ClusterArgs>),
    /// Show what a running server does
    Status(StatusArgs),
    /// Say why a job is not moving: who is missing, since when, where, and who waits
    Why(WhyArgs),
    /// Show and reset the jobs that a server coordinates
    #[command(subcommand)]
    Namespace(NamespaceCommand),
    /// Register datasets of Rondo's own, and show what is registered
    #[command(subcommand)]
    Dataset(DatasetCommand),
    /// Show and delete the jobs that read datasets
    #[command(subcommand)]
    Job(JobCommand),
    /// Read a job: count, print or write its records
    ///
    /// With `-o FILE` and reading by split, FILE holds each acknowledged record exactly once: after a
    /// crash the same command goes on with it. FILE.rondo keeps how much of FILE is acknowledged.
    Read(Box<ReadArgs>),
    /// Remember how far jobs have been read, and go back there
    #[command(subcommand)]
    Position(PositionCommand),
    /// Look at the journal of a data directory that no server uses
    #[command(subcommand)]
    Journal(JournalCommand),
    /// Measure running servers of this machine
    #[command(subcommand)]
    Bench(BenchCommand),
}

impl Command {
    /// Whether it keeps a log. Its warnings go there.
    const fn logs(&self) -> bool {
        match self {
            Self::Serve(args) => !args.print_config,
            Self::Worker(args) => !args.asks_a_server(),
            Self::Relay(_) | Self::Exchange(_) => true,
            _ => false,
        }
    }
}

fn exit_statuses() -> String {
    let lines =
        Exit::ALL.iter().map(|(exit, meaning)| format!("\n  {:<3}  {meaning}", exit.number()));
    std::iter::once("Exit status:".to_owned()).chain(lines).collect()
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    let parsed = parse(std::env::args_os().collect());
    // A command that logs does both when its log has begun. A wrong command line may want the setting that
    // a mistyped variable was to give.
    let warns = match &parsed {
        Ok((cli, _)) => !cli.command.logs(),
        Err(Refusal::Clap(error)) => error.use_stderr(),
        Err(Refusal::Failure(_)) => true,
    };
    if warns {
        crate::descriptors::raise();
        variables::warn();
    }
    let ended = match parsed {
        Ok((Cli { command: Command::Demo(args) }, _)) => demo::demo(&args),
        Ok((Cli { command: Command::Serve(args) }, settings)) => serve::serve(&args, &settings),
        Ok((Cli { command: Command::Relay(args) }, settings)) => relay::relay(&args, &settings),
        Ok((Cli { command: Command::Worker(args) }, settings)) => worker::worker(&args, &settings),
        Ok((Cli { command: Command::Exchange(command) }, _)) => exchange::exchange(&command),
        Ok((Cli { command: Command::Trace(args) }, _)) => trace::trace(&args),
        Ok((Cli { command: Command::Cluster(args) }, _)) => cluster::cluster(&args),
        Ok((Cli { command: Command::Status(args) }, _)) => status::status(&args),
        Ok((Cli { command: Command::Why(args) }, _)) => why::why(&args),
        Ok((Cli { command: Command::Namespace(command) }, _)) => namespace::namespace(&command),
        Ok((Cli { command: Command::Dataset(command) }, _)) => dataset::dataset(&command),
        Ok((Cli { command: Command::Job(command) }, _)) => job::job(&command),
        Ok((Cli { command: Command::Read(args) }, settings)) => read::read(&args, &settings),
        Ok((Cli { command: Command::Position(command) }, _)) => position::position(&command),
        Ok((Cli { command: Command::Journal(command) }, _)) => journal::journal(&command),
        Ok((Cli { command: Command::Bench(command) }, _)) => bench::bench(&command),
        Err(Refusal::Clap(error)) => return usage::print(&error),
        Err(Refusal::Failure(failure)) => Err(failure),
    };
    ended.map_or_else(|failure| print_failure(&failure), |()| Exit::Ok.into())
}

/// Reads the command line, the environment, the configuration file and what the cluster tells; for what
/// takes these, with where each setting comes from.
fn parse(arguments: Vec<OsString>) -> Result<(Cli, Settings), Refusal> {
    let mut command = Cli::command();
    let mut arguments = former::arguments(&command, arguments);
    let matched = command.try_get_matches_from_mut(&arguments);
    let mut matched = matched.map_err(|error| usage::refusal(error, &command, &arguments))?;
    let mut settings = Settings::new();
    let layered = matched.subcommand().filter(|(_, given)| given.subcommand().is_none());
    let layered = match layered {
        Some((name @ ("serve" | "relay" | "worker" | "read"), given)) => {
            settings = layers::settings(command.find_subcommand(name).unwrap_or(&command), given);
            Some(name.to_owned())
        }
        _ => None,
    };
    let (added, variables) = former::from_environment(&command, &matched, &mut settings);
    if !added.is_empty() {
        arguments.extend(added);
        let source = format!("the environment's {}", variables.join(", "));
        matched = reread(&command, &arguments, &source)?;
    }
    if let Some(name) = layered {
        let given = matched.subcommand_matches(&name).unwrap_or(&matched);
        let path = given.try_get_one::<String>("config").ok().flatten().cloned();
        if let Some(path) = path {
            let added = layers::add_file(&mut settings, &path, &name).map_err(Refusal::Failure)?;
            arguments.extend(added);
            matched = reread(&command, &arguments, &format!("configuration file {path}"))?;
        }
        let added = from_cluster::fill(&name, &mut settings).map_err(Refusal::Failure)?;
        if !added.is_empty() {
            arguments.extend(added);
            matched = reread(&command, &arguments, "what the cluster tells")?;
        }
    }
    Ok((Cli::from_arg_matches(&matched)?, settings))
}

/// Reads the arguments again, those of a file or the cluster among them.
fn reread(
    command: &clap::Command,
    arguments: &[OsString],
    source: &str,
) -> Result<ArgMatches, Refusal> {
    command.clone().try_get_matches_from(arguments).map_err(|error| {
        let reason = usage::first_line(&error);
        Refusal::Failure(Failure::new(Exit::Usage, format!("{source}: {reason}")))
    })
}

fn print_failure(failure: &Failure) -> ExitCode {
    // A terminal that is gone cannot be told so.
    let _ = writeln!(std::io::stderr(), "error: {}", failure.text);
    failure.exit.into()
}

//! `rondo worker`.

use std::sync::Arc;

use clap::{ArgAction, Args};
use rondo_core::worker as core_worker;

use super::exit::{Exit, Failure};
use super::from_cluster::{FromCluster, told};
use super::known_workers::{KnownWorkersCommand, known_workers};
use super::layers::Settings;
use super::serve::exit_of;
use super::serve_args::LogArgs;
use super::units::{Span, size, span};
use super::{log, threads};
use crate::allocator;
use crate::config::Listen;
use crate::descriptors;
use crate::transport::budget::Budget;
use crate::transport::{ServerConfig, of_one_address};
use crate::worker::{Config, Pipelines, WorkerError, machine, run};

/// Threads that make elements, unless their number is said.
const THREADS_MAX: usize = 16;

/// Memory for long requests under way, beside the longest one, in bytes. Few requests to a worker are long.
const REQUESTS_BYTES_MAX: u64 = 64 << 20;

/// Connections of each slot, however few files the process may open.
const CONNECTIONS_MIN: usize = 8;

/// Settings of workers. Each can also stand in the environment (see `env`), or in a YAML file as
/// `key: value`, the key being the flag's name with underscores.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct WorkerArgs {
    #[command(subcommand)]
    known: Option<KnownWorkersCommand>,

    /// Read settings from this YAML file; flags and environment come before it
    #[arg(long, env = "RONDO_WORKER_CONFIG", value_name = "FILE")]
    config: Option<String>,

    /// The server to work for
    #[arg(long, env = "RONDO_SERVER", value_name = "HOST:PORT")]
    server: Option<Listen>,

    /// Address to listen on; port 0 lets the system choose. Further slots listen on the ports behind
    /// it
    #[arg(
        long,
        env = "RONDO_WORKER_LISTEN",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:0"
    )]
    listen: Listen,

    /// What consumers and the server call this worker; %port% stands for its port [default: the
    /// host of --listen, and the port]
    #[arg(long, env = "RONDO_WORKER_ADDRESS", value_name = "HOST:PORT")]
    address: Option<String>,

    /// Allow an address that other machines can reach without TLS
    #[arg(long, env = "RONDO_INSECURE", value_name = "BOOL", action = ArgAction::Set,
          num_args = 0..=1, default_value_t = false, default_missing_value = "true")]
    insecure: bool,

    /// Tags that the server shows to consumers
    #[arg(long = "tag", id = "tag", env = "RONDO_WORKER_TAGS", value_name = "TAG",
          value_delimiter = ',', value_parser = clap::builder::NonEmptyStringValueParser::new())]
    tags: Vec<String>,

    /// Workers in this process, each with a port and an address of its own
    #[arg(long, env = "RONDO_WORKER_SLOTS", value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    slots: u16,

    /// Time between two heartbeats
    #[arg(long, env = "RONDO_WORKER_HEARTBEAT_INTERVAL", value_name = "SPAN",
          default_value = "5s", value_parser = span(10..=3_600_000))]
    heartbeat_interval: Span,

    /// How long the server may be away until a task that needs it fails
    #[arg(long, env = "RONDO_WORKER_SERVER_TIMEOUT", value_name = "SPAN", default_value = "1h")]
    server_timeout: Span,

    /// Memory for elements that are ready before anybody asks, of all tasks of a slot together
    #[arg(long, env = "RONDO_WORKER_BUFFER_SIZE", value_name = "SIZE", default_value = "256MiB",
          value_parser = size(..))]
    buffer_size: u64,

    /// Memory for elements that a task keeps for trainers that share it
    #[arg(long, env = "RONDO_WORKER_CACHE_SIZE", value_name = "SIZE", default_value = "1GiB",
          value_parser = size(..))]
    cache_size: u64,

    /// Memory for long messages to readers on the same host, 64 MiB for each of their connections;
    /// 0: they take the connection
    #[arg(long, env = "RONDO_WORKER_SHARED_MEMORY_SIZE_MAX", value_name = "SIZE",
          default_value = "1GiB", value_parser = size(..))]
    shared_memory_size_max: u64,

    /// Calls of consumers that wait at once, of each slot. A connection may have as many as it leaves free,
    /// and eight in any case
    #[arg(long, env = "RONDO_WORKER_CALLS_MAX", value_name = "COUNT", default_value_t = 65_536,
          value_parser = clap::value_parser!(u32).range(1..))]
    calls_max: u32,

    /// How long consumers may take to fetch the elements of splits that were taken, once the worker
    /// was asked to stop
    #[arg(long, env = "RONDO_WORKER_DRAIN_TIMEOUT", value_name = "SPAN", default_value = "20s")]
    drain_timeout: Span,

    /// How long to serve on after the last element has left
    #[arg(
        long,
        env = "RONDO_WORKER_SHUTDOWN_QUIET_PERIOD",
        value_name = "SPAN",
        default_value = "0"
    )]
    shutdown_quiet_period: Span,

    /// Threads [default: one for each processor, 2 to 16]
    #[arg(long, env = "RONDO_WORKER_THREADS", value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: Option<u32>,

    #[command(flatten)]
    from_cluster: FromCluster,

    #[command(flatten)]
    log: LogArgs,
}

impl WorkerArgs {
    /// Whether this is a command to a server rather than a worker.
    pub(super) const fn asks_a_server(&self) -> bool {
        self.known.is_some()
    }

    fn resolve(&self) -> Result<Config, Failure> {
        // The file may name it, so that clap cannot ask for it.
        let dispatcher = self.server.as_ref().ok_or_else(|| {
            let text = "--server HOST:PORT is missing: the server that this worker works for";
            Failure::new(Exit::Usage, text)
        })?;
        Ok(Config {
            dispatcher: dispatcher.to_string(),
            listen: self.listen.clone(),
            address: self.named_address()?,
            insecure: self.insecure,
            tags: self.tags.clone(),
            slots: self.slots,
            worker: core_worker::Config {
                heartbeat_interval: self.heartbeat_interval.0,
                dispatcher_timeout: self.server_timeout.0,
                buffer_bytes: self.buffer_size,
                cache_bytes: self.cache_size,
                calls_max: usize::try_from(self.calls_max).unwrap_or(usize::MAX),
                drain_timeout: self.drain_timeout.0,
                ..machine()
            },
            quiet_period: self.shutdown_quiet_period.std(),
            server: self.server_config(),
        })
    }

    fn server_config(&self) -> ServerConfig {
        let config = ServerConfig::default();
        let wanted = config.connections_max;
        let allowed = format!("the {wanted} that a worker may have");
        let connections_max = descriptors::allowed(usize::from(self.slots), wanted, &allowed);
        let connections_max = connections_max.max(CONNECTIONS_MIN);
        let longest = config.message_bytes_max;
        let budget = Budget::new(longest.saturating_add(REQUESTS_BYTES_MAX), longest);
        ServerConfig {
            budget,
            connections_max,
            connections_of_address_max: of_one_address(connections_max),
            shared_memory_bytes_max: self.shared_memory_size_max,
            ..config
        }
    }

    /// The address with `%port%` in it, where each slot has one of its own.
    fn named_address(&self) -> Result<String, Failure> {
        let usage = |text| Err(Failure::new(Exit::Usage, text));
        let host = self.listen.host.as_str();
        let Some(address) = &self.address else {
            if ["0.0.0.0", "::"].contains(&host) {
                return usage(format!(
                    "--listen {} says no name by which others reach this worker: give one, such as \
                     --address {}:%port%",
                    self.listen, "worker-0.example"
                ));
            }
            let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
            return Ok(format!("{host}:%port%"));
        };
        let has_port = address.contains("%port%");
        if self.slots > 1 && !has_port {
            return usage(format!(
                "--address {address:?} names one worker, and --slots {} are to run: let %port% \
                 stand for the port",
                self.slots
            ));
        }
        let named = address.replacen("%port%", "1", 1);
        if let Err(error) = named.parse::<Listen>() {
            return usage(format!("--address {address:?}: {error}"));
        }
        Ok(address.clone())
    }
}

/// Works until it is asked to stop, or carries out a command about workers that a server knows.
pub(super) fn worker(args: &WorkerArgs, settings: &Settings) -> Result<(), Failure> {
    if let Some(command) = &args.known {
        return known_workers(command);
    }
    log::start(&args.log)?;
    let config = args.resolve()?;
    if let Some(told) = told(settings) {
        tracing::info!("{told}");
    }
    allocator::keep_for_batches();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let fitting = u32::try_from(processors.clamp(2, THREADS_MAX)).ok();
    let runtime = threads::pool(args.threads.or(fitting))?;
    let datasets = Arc::new(Pipelines::from_environment());
    let outcome = runtime.block_on(run(config, datasets));
    outcome.map_err(|error| match &error {
        WorkerError::Serve(serve) => Failure::new(exit_of(serve), error),
        WorkerError::Refused { .. } => Failure::new(Exit::Other, error),
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::cli::{Cli, Command, parse};

    #[test]
    fn the_bound_of_waiting_calls_is_set() {
        let calls_max = |flags: &[&str]| {
            let arguments = ["rondo", "worker", "--server=127.0.0.1:1", "--listen=127.0.0.1:0"];
            let arguments = arguments.iter().chain(flags).map(OsString::from);
            let parsed = parse(arguments.collect());
            let Ok((Cli { command: Command::Worker(args) }, _)) = parsed else {
                panic!("not worker")
            };
            args.resolve().unwrap().worker.calls_max
        };
        assert_eq!(calls_max(&["--calls-max=7"]), 7);
        assert_eq!(calls_max(&[]), super::machine().calls_max);
    }
}

//! The settings of `rondo serve`: one flag, one environment variable and one YAML key each.

use std::str::FromStr;

use clap::{ArgAction, Args, ValueEnum};
use rondo_core::dispatcher::DeploymentMode;
use rondo_core::limits::IDS_ABOVE_MAX;

use super::coordination_args::CoordinationArgs;
use super::from_cluster::FromCluster;
use super::memory_max::MemoryMax;
use super::rendezvous_args::RendezvousArgs;
use super::units::{Span, SpanOrNever, size};
use crate::config::Listen;
use crate::store::StoreKind;

/// Settings of a server. Each can also stand in the environment (see `env`), or in a YAML file as
/// `key: value`, the key being the flag's name with underscores.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct ServeArgs {
    /// Read settings from this YAML file; flags and environment come before it
    #[arg(long, env = "RONDO_CONFIG", value_name = "FILE")]
    pub(super) config: Option<String>,

    /// Print every setting with where it comes from, and exit
    #[arg(long)]
    pub(super) print_config: bool,

    /// Address to listen on; port 0 lets the system choose
    #[arg(
        long,
        env = "RONDO_LISTEN",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:5050",
        help_heading = "Network"
    )]
    pub(super) listen: Listen,

    /// Port to listen on, in place of the one in --listen
    #[arg(long, env = "RONDO_PORT", value_name = "PORT", help_heading = "Network")]
    pub(super) port: Option<u16>,

    /// Allow an address that other machines can reach without TLS: everybody who reaches it can read
    /// and change everything
    #[arg(long, env = "RONDO_INSECURE", value_name = "BOOL", action = ArgAction::Set,
          num_args = 0..=1, default_value_t = false, default_missing_value = "true",
          help_heading = "Network")]
    pub(super) insecure: bool,

    /// Longest request accepted (a registered graph holds its constants)
    #[arg(long, env = "RONDO_MESSAGE_SIZE_MAX", value_name = "SIZE", default_value = "512MiB",
          value_parser = size(1024..=4_294_967_295), help_heading = "Network")]
    pub(super) message_size_max: u64,

    /// Memory that the process may have beside what it shares with clients; auto: a quarter of what the
    /// machine or the container has; none: no bound. A server that has so much refuses new work. One whose
    /// state takes half of it refuses what makes the state larger
    #[arg(long, env = "RONDO_MEMORY_MAX", value_name = "SIZE", default_value = "auto",
          value_parser = MemoryMax::read, help_heading = "Network")]
    pub(super) memory_max: MemoryMax,

    /// Memory for requests and answers above 64 KiB under way; more wait their turn
    #[arg(long, env = "RONDO_INFLIGHT_SIZE_MAX", value_name = "SIZE", default_value = "1GiB",
          value_parser = size(1024..), help_heading = "Network")]
    pub(super) inflight_size_max: u64,

    /// Open connections of each address that is listened on; more are refused. One client address may
    /// have three quarters of them
    #[arg(long, env = "RONDO_CONNECTIONS_MAX", value_name = "COUNT", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1..), help_heading = "Network")]
    pub(super) connections_max: u32,

    /// Calls under way on one connection; above it, the client waits
    #[arg(long, env = "RONDO_CALLS_PER_CONNECTION_MAX", value_name = "COUNT",
          default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..),
          help_heading = "Network")]
    pub(super) calls_per_connection_max: u32,

    /// Memory for long messages to clients on the same host, 64 MiB for each of their connections;
    /// 0: they take the connection
    #[arg(long, env = "RONDO_SHARED_MEMORY_SIZE_MAX", value_name = "SIZE", default_value = "1GiB",
          value_parser = size(..), help_heading = "Network")]
    pub(super) shared_memory_size_max: u64,

    /// Threads that serve connections; what takes long has others [default: one for every four
    /// processors, 1 to 4]
    #[arg(long, env = "RONDO_THREADS", value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=256), help_heading = "Network")]
    pub(super) threads: Option<u32>,

    /// How long calls under way may take once the server was asked to stop
    #[arg(
        long,
        env = "RONDO_SHUTDOWN_GRACE",
        value_name = "SPAN",
        default_value = "2s",
        help_heading = "Network"
    )]
    pub(super) shutdown_grace: Span,

    /// Wire protocol; only grpc
    #[arg(long, env = "RONDO_PROTOCOL", value_name = "NAME", default_value = "grpc",
          value_parser = ["grpc"], help_heading = "Network")]
    pub(super) protocol: String,

    /// Directory of the journal [default: $XDG_STATE_HOME/rondo, else ~/.local/state/rondo]
    #[arg(long, env = "RONDO_DATA", value_name = "DIR", help_heading = "Storage")]
    pub(super) data: Option<String>,

    /// How the journal is kept on disk [default: as it is there; sled in a new directory]
    #[arg(long, env = "RONDO_STORE", value_name = "KIND", help_heading = "Storage")]
    pub(super) store: Option<StoreArg>,

    /// Whether state survives a restart; false keeps it in memory only, and --data is not used
    #[arg(long, env = "RONDO_FAULT_TOLERANT", value_name = "BOOL", action = ArgAction::Set,
          num_args = 0..=1, default_value_t = true, default_missing_value = "true",
          help_heading = "Storage")]
    pub(super) fault_tolerant: bool,

    /// Free disk space below which changes are refused; reads go on
    #[arg(long, env = "RONDO_FREE_SPACE_RESERVE", value_name = "SIZE", default_value = "256MiB",
          value_parser = size(..=1 << 50), help_heading = "Storage")]
    pub(super) free_space_reserve: u64,

    /// Size at which a segment of the journal is closed and compacted into a snapshot
    #[arg(long, env = "RONDO_SEGMENT_SIZE_MAX", value_name = "SIZE", default_value = "8MiB",
          value_parser = size(4096..=1 << 30), help_heading = "Storage")]
    pub(super) segment_size_max: u64,

    /// Listings of the state that wait for their turn; more are refused. Other calls wait in the lines of
    /// their connections
    #[arg(long, env = "RONDO_QUEUE_CALLS_MAX", value_name = "COUNT", default_value_t = 4096,
          value_parser = clap::value_parser!(u32).range(1..=1 << 20), help_heading = "Storage")]
    pub(super) queue_calls_max: u32,

    /// Most calls taken in one turn, which ends after 2 ms
    #[arg(long, env = "RONDO_BATCH_CALLS_MAX", value_name = "COUNT", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=1 << 20), help_heading = "Storage")]
    pub(super) batch_calls_max: u32,

    /// Workers that may register, comma-separated: host:port, host, or host:%port%; empty admits
    /// any. Static sharding (FILE, DATA, …) needs it
    #[arg(
        long,
        env = "RONDO_WORKER_ADDRESSES",
        value_name = "LIST",
        default_value = "",
        help_heading = "Dispatcher"
    )]
    pub(super) worker_addresses: WorkerAddresses,

    /// Where workers run: unspecified, colocated, remote or hybrid (or TensorFlow's number, 0 to 3)
    #[arg(
        long,
        env = "RONDO_DEPLOYMENT_MODE",
        value_name = "MODE",
        default_value = "unspecified",
        help_heading = "Dispatcher"
    )]
    pub(super) deployment_mode: DeploymentModeArg,

    /// Time between two rounds of maintenance (expired clients, unused iterations); 0 is the
    /// default
    #[arg(
        long,
        env = "RONDO_JOB_GC_CHECK_INTERVAL",
        value_name = "SPAN",
        default_value = "10m",
        help_heading = "Dispatcher"
    )]
    pub(super) job_gc_check_interval: Span,

    /// How long an iteration without clients is kept; 0 is the default, -1 switches
    /// maintenance off altogether, as in TensorFlow
    #[arg(
        long,
        env = "RONDO_JOB_GC_TIMEOUT",
        value_name = "SPAN",
        default_value = "5m",
        allow_negative_numbers = true,
        help_heading = "Dispatcher"
    )]
    pub(super) job_gc_timeout: SpanOrNever,

    /// How long a named job without iterations is kept, and that its repetitions are finished with
    /// it; 0 keeps it for ever
    #[arg(
        long,
        env = "RONDO_NAMED_JOB_RETENTION",
        value_name = "SPAN",
        default_value = "1d",
        help_heading = "Dispatcher"
    )]
    pub(super) named_job_retention: Span,

    /// How long a dataset without jobs is kept; 0 keeps it for ever
    #[arg(
        long,
        env = "RONDO_DATASET_RETENTION",
        value_name = "SPAN",
        default_value = "7d",
        help_heading = "Dispatcher"
    )]
    pub(super) dataset_retention: Span,

    /// How long an iteration with dynamic sharding that nobody reads any more, and that is not finished,
    /// is kept; 0 keeps it for ever. Who comes back later is told that it was abandoned
    #[arg(
        long,
        env = "RONDO_ABANDONED_ITERATION_RETENTION",
        value_name = "SPAN",
        default_value = "7d",
        help_heading = "Dispatcher"
    )]
    pub(super) abandoned_iteration_retention: Span,

    /// How long a lost worker without tasks is kept; 0 keeps it for ever
    #[arg(
        long,
        env = "RONDO_LOST_WORKER_RETENTION",
        value_name = "SPAN",
        default_value = "1d",
        help_heading = "Dispatcher"
    )]
    pub(super) lost_worker_retention: Span,

    /// Ids of a new journal begin above this number; without it, above one drawn at random, so that clients
    /// of a lost journal are not taken for present ones. 0 begins at TensorFlow's ids
    #[arg(
        long,
        env = "RONDO_IDS_ABOVE",
        value_name = "NUMBER",
        value_parser = clap::value_parser!(i64).range(0..=IDS_ABOVE_MAX),
        help_heading = "Dispatcher"
    )]
    pub(super) ids_above: Option<i64>,

    /// Whether iterations with dynamic sharding are collected after --job-gc-timeout too
    #[arg(long, env = "RONDO_GC_DYNAMIC_SHARDING_JOBS", value_name = "BOOL",
          action = ArgAction::Set, num_args = 0..=1, default_value_t = false,
          default_missing_value = "true", help_heading = "Dispatcher")]
    pub(super) gc_dynamic_sharding_jobs: bool,

    /// How long a client may be silent after its first heartbeat; 0 is the default
    #[arg(
        long,
        env = "RONDO_CLIENT_TIMEOUT",
        value_name = "SPAN",
        default_value = "5m",
        help_heading = "Dispatcher"
    )]
    pub(super) client_timeout: Span,

    /// How long a client that holds splits may be silent before others get them; 0 is the
    /// default
    #[arg(
        long,
        env = "RONDO_READER_TIMEOUT",
        value_name = "SPAN",
        default_value = "30s",
        help_heading = "Dispatcher"
    )]
    pub(super) reader_timeout: Span,

    /// How long a client may take to its first heartbeat; 0 is the default
    #[arg(
        long,
        env = "RONDO_CLIENT_FIRST_HEARTBEAT_TIMEOUT",
        value_name = "SPAN",
        default_value = "10m",
        help_heading = "Dispatcher"
    )]
    pub(super) client_first_heartbeat_timeout: Span,

    /// How long a worker may be silent before it is lost and its tasks end, but at least
    /// three of its own recent heartbeat intervals; 0 is the default, -1 never loses one, as
    /// TensorFlow
    #[arg(
        long,
        env = "RONDO_WORKER_TIMEOUT",
        value_name = "SPAN",
        default_value = "1m",
        allow_negative_numbers = true,
        help_heading = "Dispatcher"
    )]
    pub(super) worker_timeout: SpanOrNever,

    /// Whether splits of a lost worker are handed out again under dynamic sharding, so that no
    /// element is missed, but some may be read twice
    #[arg(long, env = "RONDO_REISSUE_LOST_SPLITS", value_name = "BOOL",
          action = ArgAction::Set, num_args = 0..=1, default_value_t = false,
          default_missing_value = "true", help_heading = "Dispatcher")]
    pub(super) reissue_lost_splits: bool,

    /// How long a consumer waits for the others to agree on removing a task; 0 is the
    /// default
    #[arg(
        long,
        env = "RONDO_REMOVAL_TIMEOUT",
        value_name = "SPAN",
        default_value = "10s",
        help_heading = "Dispatcher"
    )]
    pub(super) removal_timeout: Span,

    /// Version answered to GetVersion; TensorFlow 2.21's clients want 9
    #[arg(
        long,
        env = "RONDO_PROTOCOL_VERSION",
        value_name = "NUMBER",
        default_value_t = 9,
        help_heading = "Dispatcher"
    )]
    pub(super) protocol_version: i64,

    /// Accepted for TensorFlow's sake; snapshots are not offered yet
    #[arg(
        long,
        env = "RONDO_WORKER_MAX_CONCURRENT_SNAPSHOTS",
        value_name = "COUNT",
        default_value_t = 0,
        help_heading = "Dispatcher"
    )]
    pub(super) worker_max_concurrent_snapshots: u64,

    #[command(flatten)]
    pub(super) from_cluster: FromCluster,

    #[command(flatten)]
    pub(super) coordination: CoordinationArgs,

    #[command(flatten)]
    pub(super) rendezvous: RendezvousArgs,

    #[command(flatten)]
    pub(super) log: LogArgs,
}

/// How to log.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct LogArgs {
    /// Form of the log on stderr
    #[arg(
        long,
        env = "RONDO_LOG",
        value_name = "FORM",
        default_value = "human",
        help_heading = "Logging"
    )]
    pub(super) log: LogForm,

    /// Least important messages to log
    #[arg(long, env = "RONDO_LOG_LEVEL", value_name = "LEVEL", default_value = "info",
          value_parser = ["error", "warn", "info", "debug", "trace"], help_heading = "Logging")]
    pub(super) log_level: String,

    /// Log levels by module, such as `info,rondo::transport=debug`, in place of --log-level
    #[arg(long, env = "RONDO_LOG_FILTER", value_name = "FILTER", help_heading = "Logging")]
    pub(super) log_filter: Option<String>,
}

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogForm {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// [`StoreKind`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum StoreArg {
    /// sled databases
    Sled,
    /// plain files
    Segment,
}

impl From<StoreArg> for StoreKind {
    fn from(store: StoreArg) -> Self {
        match store {
            StoreArg::Sled => Self::Sled,
            StoreArg::Segment => Self::Segment,
        }
    }
}

/// A comma-separated list of workers; may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WorkerAddresses(pub(super) Vec<String>);

impl FromStr for WorkerAddresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let entry = |entry: &str| match entry.trim() {
            "" => Err(format!("{text:?} has an empty entry")),
            entry if entry.contains(char::is_whitespace) => {
                Err(format!("the entry {entry:?} contains a space"))
            }
            entry => Ok(entry.to_owned()),
        };
        text.split(',').map(entry).collect::<Result<_, _>>().map(Self)
    }
}

/// [`DeploymentMode`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeploymentModeArg(pub(super) DeploymentMode);

impl FromStr for DeploymentModeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mode = match text.to_ascii_lowercase().as_str() {
            "0" | "unspecified" => DeploymentMode::Unspecified,
            "1" | "colocated" => DeploymentMode::Colocated,
            "2" | "remote" => DeploymentMode::Remote,
            "3" | "hybrid" => DeploymentMode::Hybrid,
            _ => {
                return Err("not one of unspecified, colocated, remote, hybrid, 0, 1, 2, 3".into());
            }
        };
        Ok(Self(mode))
    }
}

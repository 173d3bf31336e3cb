//! The settings of `rondo serve`: one flag, one environment variable and one YAML key each.

use std::str::FromStr;

use clap::{ArgAction, Args, ValueEnum};
use rondo_core::dispatcher::DeploymentMode;
use rondo_core::limits::IDS_ABOVE_MAX;

use super::coordination_args::CoordinationArgs;
use super::from_cluster::FromCluster;
use super::rendezvous_args::RendezvousArgs;
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

    /// Allow an address that other machines can reach without TLS: whoever reaches it can read and
    /// change everything
    #[arg(long, env = "RONDO_INSECURE", value_name = "BOOL", action = ArgAction::Set,
          num_args = 0..=1, default_value_t = false, default_missing_value = "true",
          help_heading = "Network")]
    pub(super) insecure: bool,

    /// Longest request accepted, in bytes (a registered graph holds its constants)
    #[arg(long, env = "RONDO_MESSAGE_BYTES_MAX", value_name = "BYTES", default_value_t = 512 << 20,
          value_parser = clap::value_parser!(u64).range(1024..=4_294_967_295),
          help_heading = "Network")]
    pub(super) message_bytes_max: u64,

    /// Memory for requests and answers above 64 KiB under way, in bytes; more wait their turn
    #[arg(long, env = "RONDO_INFLIGHT_BYTES_MAX", value_name = "BYTES", default_value_t = 1 << 30,
          value_parser = clap::value_parser!(u64).range(1024..), help_heading = "Network")]
    pub(super) inflight_bytes_max: u64,

    /// Open connections; above it, new ones wait
    #[arg(long, env = "RONDO_CONNECTIONS_MAX", value_name = "COUNT", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1..), help_heading = "Network")]
    pub(super) connections_max: u32,

    /// Calls under way on one connection; above it, the client waits
    #[arg(long, env = "RONDO_CALLS_PER_CONNECTION_MAX", value_name = "COUNT",
          default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..),
          help_heading = "Network")]
    pub(super) calls_per_connection_max: u32,

    /// Memory for long messages to clients on the same host, in bytes, 64 MiB for each of their
    /// connections; 0: they take the connection
    #[arg(long, env = "RONDO_SHARED_MEMORY_BYTES_MAX", value_name = "BYTES",
          default_value_t = 1 << 30, help_heading = "Network")]
    pub(super) shared_memory_bytes_max: u64,

    /// Threads that serve connections; what takes long has others [default: one for every four
    /// processors, 1 to 4]
    #[arg(long, env = "RONDO_THREADS", value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=256), help_heading = "Network")]
    pub(super) threads: Option<u32>,

    /// How long calls under way may take once the server was asked to stop, in ms
    #[arg(
        long,
        env = "RONDO_SHUTDOWN_GRACE_MS",
        value_name = "MS",
        default_value_t = 2000,
        help_heading = "Network"
    )]
    pub(super) shutdown_grace_ms: u64,

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

    /// Free disk space below which changes are refused, in MiB; reads go on
    #[arg(long, env = "RONDO_FREE_SPACE_RESERVE_MB", value_name = "MIB", default_value_t = 256,
          value_parser = clap::value_parser!(u64).range(..=1 << 30), help_heading = "Storage")]
    pub(super) free_space_reserve_mb: u64,

    /// Size at which a segment of the journal is closed and compacted into a snapshot, in bytes
    #[arg(long, env = "RONDO_SEGMENT_BYTES_MAX", value_name = "BYTES", default_value_t = 8 << 20,
          value_parser = clap::value_parser!(u64).range(4096..=1 << 30), help_heading = "Storage")]
    pub(super) segment_bytes_max: u64,

    /// Calls waiting for their turn; above it, callers wait
    #[arg(long, env = "RONDO_QUEUE_CALLS_MAX", value_name = "COUNT", default_value_t = 4096,
          value_parser = clap::value_parser!(u32).range(1..=1 << 20), help_heading = "Storage")]
    pub(super) queue_calls_max: u32,

    /// Calls taken in one turn, whose updates become durable together
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

    /// Time between two rounds of maintenance (expired clients, unused iterations), in ms; 0 is the
    /// default
    #[arg(
        long,
        env = "RONDO_JOB_GC_CHECK_INTERVAL_MS",
        value_name = "MS",
        default_value_t = 600_000,
        help_heading = "Dispatcher"
    )]
    pub(super) job_gc_check_interval_ms: u64,

    /// How long an iteration without clients is kept, in ms; 0 is the default, negative switches
    /// maintenance off altogether, as in TensorFlow
    #[arg(
        long,
        env = "RONDO_JOB_GC_TIMEOUT_MS",
        value_name = "MS",
        default_value_t = 300_000,
        allow_negative_numbers = true,
        help_heading = "Dispatcher"
    )]
    pub(super) job_gc_timeout_ms: i64,

    /// How long a named job without iterations is kept, and that its repetitions are finished with
    /// it, in ms; 0 keeps it for ever
    #[arg(
        long,
        env = "RONDO_NAMED_JOB_RETENTION_MS",
        value_name = "MS",
        default_value_t = 86_400_000,
        help_heading = "Dispatcher"
    )]
    pub(super) named_job_retention_ms: u64,

    /// How long a dataset without jobs is kept, in ms; 0 keeps it for ever
    #[arg(
        long,
        env = "RONDO_DATASET_RETENTION_MS",
        value_name = "MS",
        default_value_t = 604_800_000,
        help_heading = "Dispatcher"
    )]
    pub(super) dataset_retention_ms: u64,

    /// How long an iteration with dynamic sharding that nobody reads any more, and that is not finished,
    /// is kept, in ms; 0 keeps it for ever. Who comes back later is told that it was abandoned
    #[arg(
        long,
        env = "RONDO_ABANDONED_ITERATION_RETENTION_MS",
        value_name = "MS",
        default_value_t = 604_800_000,
        help_heading = "Dispatcher"
    )]
    pub(super) abandoned_iteration_retention_ms: u64,

    /// How long a lost worker without tasks is kept, in ms; 0 keeps it for ever
    #[arg(
        long,
        env = "RONDO_LOST_WORKER_RETENTION_MS",
        value_name = "MS",
        default_value_t = 86_400_000,
        help_heading = "Dispatcher"
    )]
    pub(super) lost_worker_retention_ms: u64,

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

    /// Whether iterations with dynamic sharding are collected after --job-gc-timeout-ms too
    #[arg(long, env = "RONDO_GC_DYNAMIC_SHARDING_JOBS", value_name = "BOOL",
          action = ArgAction::Set, num_args = 0..=1, default_value_t = false,
          default_missing_value = "true", help_heading = "Dispatcher")]
    pub(super) gc_dynamic_sharding_jobs: bool,

    /// How long a client may be silent after its first heartbeat, in ms; 0 is the default
    #[arg(
        long,
        env = "RONDO_CLIENT_TIMEOUT_MS",
        value_name = "MS",
        default_value_t = 300_000,
        help_heading = "Dispatcher"
    )]
    pub(super) client_timeout_ms: u64,

    /// How long a client that holds splits may be silent before others get them, in ms; 0 is the
    /// default
    #[arg(
        long,
        env = "RONDO_READER_TIMEOUT_MS",
        value_name = "MS",
        default_value_t = 30_000,
        help_heading = "Dispatcher"
    )]
    pub(super) reader_timeout_ms: u64,

    /// How long a client may take to its first heartbeat, in ms; 0 is the default
    #[arg(
        long,
        env = "RONDO_CLIENT_FIRST_HEARTBEAT_TIMEOUT_MS",
        value_name = "MS",
        default_value_t = 600_000,
        help_heading = "Dispatcher"
    )]
    pub(super) client_first_heartbeat_timeout_ms: u64,

    /// How long a worker may be silent before it is lost and its tasks end, in ms, but at least
    /// three of its own recent heartbeat intervals; 0 is the default, negative never loses one, as
    /// TensorFlow
    #[arg(
        long,
        env = "RONDO_WORKER_TIMEOUT_MS",
        value_name = "MS",
        default_value_t = 60_000,
        allow_negative_numbers = true,
        help_heading = "Dispatcher"
    )]
    pub(super) worker_timeout_ms: i64,

    /// Whether splits of a lost worker are handed out again under dynamic sharding, so that no
    /// element is missed, but some may be read twice
    #[arg(long, env = "RONDO_REISSUE_LOST_SPLITS", value_name = "BOOL",
          action = ArgAction::Set, num_args = 0..=1, default_value_t = false,
          default_missing_value = "true", help_heading = "Dispatcher")]
    pub(super) reissue_lost_splits: bool,

    /// How long a consumer waits for the others to agree on removing a task, in ms; 0 is the
    /// default
    #[arg(
        long,
        env = "RONDO_REMOVAL_TIMEOUT_MS",
        value_name = "MS",
        default_value_t = 10_000,
        help_heading = "Dispatcher"
    )]
    pub(super) removal_timeout_ms: u64,

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

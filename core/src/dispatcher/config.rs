//! What an operator may set, with TensorFlow's defaults (`DispatcherConfig`).

use alloc::string::String;
use alloc::vec::Vec;

use super::types::DeploymentMode;
use crate::limits::{
    CLIENTS_MAX, DATASETS_MAX, EXPIRIES_PER_STEP_MAX, ITERATIONS_MAX, JOBS_MAX, PARKED_CALLS_MAX,
    POSITION_SOURCES_MAX, POSITIONS_MAX, TASKS_MAX, WORKERS_MAX,
};
use crate::time::Duration;

/// The dispatcher's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whether state survives a restart. Without it, the text for an unknown client says so.
    pub fault_tolerant: bool,
    /// Workers that may register, as `host:port`, `host` or `host:%port%`; empty admits any.
    pub worker_addresses: Vec<String>,
    /// Told to clients.
    pub deployment_mode: DeploymentMode,
    /// Time between two rounds of maintenance.
    pub job_gc_check_interval: Duration,
    /// How long an iteration is kept without clients; `None` switches maintenance off, as a
    /// negative value does in TensorFlow.
    pub job_gc_timeout: Option<Duration>,
    /// How long a client may be silent after its first heartbeat.
    pub client_timeout: Duration,
    /// How long a client may take to its first heartbeat after it joined.
    pub client_first_heartbeat_timeout: Duration,
    /// How long a client that holds splits may be silent before others get them.
    pub reader_timeout: Duration,
    /// How long a worker may be silent before it counts as lost, if its heartbeats let one expect
    /// more of it; `None` if no worker ever does.
    pub worker_timeout: Option<Duration>,
    /// Whether splits of a lost worker are handed out again, as far as one knows that it had them.
    /// Elements may then be read twice.
    pub reissue_lost_splits: bool,
    /// How long a named job without iterations is kept, and with it what is known of its finished
    /// repetitions; `None` keeps it for ever. An anonymous one is kept for the GC timeout.
    pub named_job_retention: Option<Duration>,
    /// How long a dataset without jobs is kept; `None` keeps it for ever.
    pub dataset_retention: Option<Duration>,
    /// Whether iterations with dynamic sharding are collected too, after the GC timeout.
    pub gc_dynamic_sharding_jobs: bool,
    /// How long an unfinished iteration with dynamic sharding is kept without clients if it is not
    /// collected sooner; its repetition is abandoned then. `None` keeps it for ever.
    pub abandoned_iteration_retention: Option<Duration>,
    /// How long a lost worker without tasks is kept; `None` keeps it for ever.
    pub lost_worker_retention: Option<Duration>,
    /// How long a consumer waits for the others to agree on removing a task.
    pub removal_timeout: Duration,
    /// The number above which a new journal's ids begin, from 0 to
    /// [`IDS_ABOVE_MAX`](crate::limits::IDS_ABOVE_MAX); `None` draws one.
    /// A client of a journal that is lost is then not taken for one of the journal that follows it.
    pub ids_above: Option<i64>,
    /// How much is kept at once.
    pub bounds: Bounds,
}

/// How much the dispatcher keeps at once, and does in one step. What is there already when a bound
/// is lowered stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Datasets.
    pub datasets: usize,
    /// Jobs.
    pub jobs: usize,
    /// Iterations.
    pub iterations: usize,
    /// Clients of iterations.
    pub clients: usize,
    /// Tasks.
    pub tasks: usize,
    /// Workers.
    pub workers: usize,
    /// Named positions, and job names that wait at a restored one.
    pub positions: usize,
    /// Sources of splits in one named position, over all its repetitions.
    pub position_sources: usize,
    /// Calls that wait for other consumers.
    pub waiting_calls: usize,
    /// Expiries carried out in one step; the rest follows in the next steps at the same time.
    pub expiries_per_step: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            datasets: DATASETS_MAX,
            jobs: JOBS_MAX,
            iterations: ITERATIONS_MAX,
            clients: CLIENTS_MAX,
            tasks: TASKS_MAX,
            workers: WORKERS_MAX,
            positions: POSITIONS_MAX,
            position_sources: POSITION_SOURCES_MAX,
            waiting_calls: PARKED_CALLS_MAX,
            expiries_per_step: EXPIRIES_PER_STEP_MAX,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            fault_tolerant: true,
            worker_addresses: Vec::new(),
            deployment_mode: DeploymentMode::Unspecified,
            job_gc_check_interval: Duration::from_secs(600),
            job_gc_timeout: Some(Duration::from_secs(300)),
            client_timeout: Duration::from_secs(300),
            client_first_heartbeat_timeout: Duration::from_secs(600),
            reader_timeout: Duration::from_secs(30),
            worker_timeout: Some(Duration::from_secs(60)),
            reissue_lost_splits: false,
            named_job_retention: Some(Duration::from_secs(24 * 3600)),
            dataset_retention: Some(Duration::from_secs(7 * 24 * 3600)),
            gc_dynamic_sharding_jobs: false,
            abandoned_iteration_retention: Some(Duration::from_secs(7 * 24 * 3600)),
            lost_worker_retention: Some(Duration::from_secs(24 * 3600)),
            removal_timeout: Duration::from_secs(10),
            ids_above: Some(0),
            bounds: Bounds::default(),
        }
    }
}

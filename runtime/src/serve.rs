//! `rondo serve` from settings to the end of the process.

mod doors;
mod rendezvous;
pub(crate) mod signals;

use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use rondo_core::control;

use self::doors::Doors;
pub(crate) use self::doors::check_exposure;
use self::signals::Signals;
use crate::clock::Clock;
use crate::config::{Bounds, Config, Listen, Storage};
use crate::memory::{self, Ceiling};
use crate::node::{self, NodeConfig, NodeStartError, Surroundings};
use crate::service::{JournalStatus, NodePort, NodeSlot};
#[cfg(not(madsim))]
use crate::store::RealDisk;
use crate::store::{DataDirectory, DirectoryError, Disk, StoreConfig, Wanted};
use crate::transport::budget::Budget;
use crate::transport::listener::BindError;
use crate::transport::{Client, Transport};

/// Rondo's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used, or another server uses it.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// An acknowledged record of the journal is lost.
    #[error("{0}")]
    JournalDamaged(String),
    /// A later release wrote the data directory.
    #[error("{0}")]
    LaterRelease(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl From<NodeStartError> for StartError {
    fn from(error: NodeStartError) -> Self {
        match error.is_damage() {
            true => Self::JournalDamaged(error.to_string()),
            false if error.is_of_later_release() => Self::LaterRelease(error.to_string()),
            false => Self::Other(error.to_string()),
        }
    }
}

/// Why a server ends other than as asked.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] BindError),
    /// The name to listen on has no address.
    #[error("cannot find the address of {listen}: {reason}")]
    Resolve {
        /// What was to be listened on.
        listen: Listen,
        /// Why it was not found.
        reason: String,
    },
    /// Anybody could reach the server, and it does not defend itself.
    #[error(
        "{0} can be reached by other machines, and there is no TLS: whoever reaches it could read \
         and change everything. Listen on a loopback address such as 127.0.0.1, or say --insecure \
         if the network is trusted"
    )]
    Exposed(SocketAddr),
    /// The rendezvous is not set up as it must be.
    #[error("the rendezvous cannot be hosted: {0}")]
    Rendezvous(String),
    /// The node does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The node stopped itself.
    #[error("stopped to keep every promise made: {0}")]
    Halted(String),
    /// The last changes could not be made durable at the end.
    #[error("stopped, but not in an orderly way: {0}")]
    Shutdown(String),
    /// Signals cannot be listened to.
    #[error("cannot listen for signals: {0}")]
    Signals(std::io::Error),
}

/// What a server runs on, and the sizes that no setting names.
#[derive(Clone)]
pub struct Machine {
    /// The disk its directory is on.
    pub disk: Arc<dyn Disk>,
    /// Its clock.
    pub clock: Clock,
    /// The process's number.
    pub pid: u32,
    /// Sizes of its files; what settings name is taken from them.
    pub store: StoreConfig,
    /// Bounds of its node; what settings name is taken from them.
    pub node: NodeConfig,
    /// Who watches its node.
    #[cfg(madsim)]
    pub watch: Arc<dyn node::Watch>,
}

impl Machine {
    /// The one this process runs on.
    #[cfg(not(madsim))]
    pub fn this() -> Self {
        Self {
            disk: RealDisk::shared(),
            clock: Clock::start(),
            pid: std::process::id(),
            store: StoreConfig::default(),
            node: NodeConfig::default(),
        }
    }
}

/// Opens the journal, recovers the state, and starts the node that answers from it.
///
/// # Errors
/// [`StartError`].
pub async fn start_node(
    config: &Config,
    machine: Machine,
    transport: Arc<dyn Transport>,
    ceiling: Ceiling,
) -> Result<Arc<dyn NodePort>, StartError> {
    let surroundings = Surroundings {
        machines: control::Config {
            dispatcher: config.dispatcher.clone(),
            coordination: config.coordination.clone(),
        },
        node: node_config(config, machine.node),
        transport,
        clock: machine.clock,
        ceiling,
        #[cfg(madsim)]
        watch: machine.watch,
    };
    let node = match &config.storage {
        Storage::Memory => node::start_in_memory(surroundings)?,
        Storage::Directory { path, store, free_space_reserve_bytes, segment_bytes_max } => {
            let release = format!("rondo {VERSION}");
            let wanted = Wanted { store: *store, release, pid: machine.pid };
            let directory = DataDirectory::open(machine.disk, path, &wanted).await?;
            let bounds = StoreConfig {
                free_space_reserve_bytes: *free_space_reserve_bytes,
                segment_bytes_max: *segment_bytes_max,
                ..machine.store
            };
            node::start_over(directory, &bounds, surroundings).await?
        }
    };
    Ok(Arc::new(node))
}

/// Serves until a signal asks to stop, or the node stops itself.
///
/// # Errors
/// [`ServeError`].
pub async fn run<S, F>(config: Config, start: S) -> Result<(), ServeError>
where
    S: FnOnce(Config, Arc<dyn Transport>, Ceiling) -> F,
    F: Future<Output = Result<Arc<dyn NodePort>, StartError>>,
{
    let mut signals = Signals::listen().map_err(ServeError::Signals)?;
    let doors = Doors::open(&config).await?;
    let place = (doors.address().to_owned(), doors.namespaces());
    let slot = NodeSlot::new();
    let budget = budget(&config.bounds);
    let hosted = config.rendezvous.as_ref();
    let rendezvous = hosted.map(|settings| rendezvous::start(settings, budget.ceiling()));
    let ceiling = budget.ceiling().clone();
    let start = |config, transport| start(config, transport, ceiling);
    let servers = doors.serve(&config, &slot, rendezvous.transpose()?, budget);
    let outcome = tokio::select! {
        biased;
        () = signals.first() => Ok(()),
        outcome = start_and_watch(&config, start, &slot, &place) => outcome,
    };
    let in_order = async {
        servers.stop().await;
        finish(&slot, outcome).await
    };
    tokio::select! {
        biased;
        outcome = in_order => outcome,
        never = signals.second() => match never {},
    }
}

/// The memory for messages, below the ceiling of all memory.
fn budget(bounds: &Bounds) -> Budget {
    let ceiling = memory::watched("the server", bounds.memory_bytes_max);
    Budget::below(ceiling, bounds.inflight_bytes_max, bounds.message_bytes_max)
}

async fn start_and_watch<S, F>(
    config: &Config,
    start: S,
    slot: &NodeSlot,
    place: &(String, String),
) -> Result<(), ServeError>
where
    S: FnOnce(Config, Arc<dyn Transport>) -> F,
    F: Future<Output = Result<Arc<dyn NodePort>, StartError>>,
{
    let node = start(config.clone(), Arc::new(Client::new())).await?;
    slot.fill(Arc::clone(&node));
    announce(config, place, &node.journal_status());
    Err(ServeError::Halted(node.halted().await))
}

/// Closes the journal in order, unless the node has stopped itself before.
async fn finish(slot: &NodeSlot, outcome: Result<(), ServeError>) -> Result<(), ServeError> {
    outcome?;
    let Ok(node) = slot.node() else { return Ok(()) };
    node.shutdown().await.map_err(ServeError::Shutdown)?;
    tracing::info!("stopped");
    Ok(())
}

fn node_config(config: &Config, bounds: NodeConfig) -> NodeConfig {
    let calls_per_connection = config.bounds.calls_per_connection_max;
    let calls_per_connection = usize::try_from(calls_per_connection).unwrap_or(usize::MAX);
    NodeConfig {
        // A client that withdraws a call may make the next one before the node hears of it.
        line_calls_max: calls_per_connection.saturating_mul(2).max(bounds.line_calls_max),
        queue_calls_max: config.bounds.queue_calls_max,
        batch_calls_max: config.bounds.batch_calls_max,
        ..bounds
    }
}

/// Tells whoever started the process that it is ready: one line on stdout.
fn announce(config: &Config, (address, namespaces): &(String, String), journal: &JournalStatus) {
    let place = match &config.storage {
        Storage::Memory => "memory only".to_owned(),
        Storage::Directory { path, .. } => {
            format!("data {}, store {}", path.display(), journal.store)
        }
    };
    #[cfg(not(madsim))]
    let mut out = std::io::stdout();
    #[cfg(madsim)]
    let mut out = std::io::sink();
    let line = writeln!(out, "rondo {VERSION} ready on {address} ({place}{namespaces})");
    if let Err(error) = line.and_then(|()| out.flush()) {
        tracing::debug!(%error, "nobody reads stdout");
    }
}

//! `rondo serve` from settings to the end of the process.

mod signals;

use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

use self::signals::Signals;
use crate::clock::Clock;
use crate::config::{Config, Listen, Storage};
use crate::node::{self, NodeConfig, NodeStartError, Surroundings};
use crate::service::{
    AdminService, DispatcherService, HealthService, JournalStatus, NodePort, NodeSlot, Router,
    ServerInfo,
};
#[cfg(not(madsim))]
use crate::store::RealDisk;
use crate::store::{DataDirectory, DirectoryError, Disk, StoreConfig, Wanted};
use crate::transport::budget::Budget;
use crate::transport::listener::{BindError, bind};
use crate::transport::{Client, ServerConfig, Transport, serve};

/// Rondo's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

const DISPATCHER: &str = "tensorflow.data.DispatcherService";
const ADMIN: &str = "rondo.v1.Admin";
const HEALTH: &str = "grpc.health.v1.Health";

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used, or another server uses it.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// An acknowledged record of the journal is lost.
    #[error("{0}")]
    JournalDamaged(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl From<NodeStartError> for StartError {
    fn from(error: NodeStartError) -> Self {
        match error.is_damage() {
            true => Self::JournalDamaged(error.to_string()),
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
) -> Result<Arc<dyn NodePort>, StartError> {
    let surroundings = Surroundings {
        dispatcher: config.dispatcher.clone(),
        node: node_config(config, machine.node),
        transport,
        clock: machine.clock,
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
    S: FnOnce(Config, Arc<dyn Transport>) -> F,
    F: Future<Output = Result<Arc<dyn NodePort>, StartError>>,
{
    let mut signals = Signals::listen().map_err(ServeError::Signals)?;
    let listener = listen(&config).await?;
    let address = address_of(&listener, &config.listen);
    let slot = NodeSlot::new();
    let budget = Budget::new(config.bounds.inflight_bytes_max);
    let router = router(&config, &slot, &address, &budget);
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async { stopped.await.unwrap_or(()) };
    let serving = serve(listener, Arc::new(router), server_config(&config, budget), stopped);
    let serving = tokio::spawn(serving);
    let outcome = tokio::select! {
        biased;
        () = signals.first() => Ok(()),
        outcome = start_and_watch(&config, start, &slot, &address) => outcome,
    };
    let in_order = async {
        drop(stop);
        if serving.await.is_err() {
            tracing::error!("the listener's task panicked");
        }
        finish(&slot, outcome).await
    };
    tokio::select! {
        biased;
        outcome = in_order => outcome,
        never = signals.second() => match never {},
    }
}

async fn start_and_watch<S, F>(
    config: &Config,
    start: S,
    slot: &NodeSlot,
    address: &str,
) -> Result<(), ServeError>
where
    S: FnOnce(Config, Arc<dyn Transport>) -> F,
    F: Future<Output = Result<Arc<dyn NodePort>, StartError>>,
{
    let node = start(config.clone(), Arc::new(Client::new())).await?;
    slot.fill(Arc::clone(&node));
    announce(config, address, &node.journal_status());
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

async fn listen(config: &Config) -> Result<TcpListener, ServeError> {
    let Listen { host, port } = &config.listen;
    let not_found = |reason| ServeError::Resolve { listen: config.listen.clone(), reason };
    let found = tokio::net::lookup_host((host.as_str(), *port)).await;
    let addresses: Vec<SocketAddr> = found.map_err(|error| not_found(error.to_string()))?.collect();
    // Where a name has addresses of both kinds, IPv4 is what most peers can reach.
    let address = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    let address = *address.ok_or_else(|| not_found("the name has no address".into()))?;
    check_exposure(address, config.insecure)?;
    #[cfg(madsim)]
    return Ok(bind(address).await?);
    #[cfg(not(madsim))]
    Ok(bind(address)?)
}

fn check_exposure(address: SocketAddr, insecure: bool) -> Result<(), ServeError> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    if !insecure {
        return Err(ServeError::Exposed(address));
    }
    tracing::warn!(%address, "no TLS: whoever reaches this address can read and change everything");
    Ok(())
}

fn address_of(listener: &TcpListener, wanted: &Listen) -> String {
    listener.local_addr().map_or_else(|_| wanted.to_string(), |address| address.to_string())
}

fn router(config: &Config, slot: &NodeSlot, address: &str, budget: &Budget) -> Router {
    let server = ServerInfo {
        version: VERSION,
        listen_address: address.to_owned(),
        started: Instant::now(),
    };
    let dispatcher = DispatcherService::new(slot.clone(), config.protocol_version, budget.clone());
    Router::new()
        .with(DISPATCHER, dispatcher)
        .with(ADMIN, AdminService::new(slot.clone(), server))
        .with(HEALTH, HealthService::new(slot.clone(), &[DISPATCHER, ADMIN, HEALTH]))
}

fn node_config(config: &Config, bounds: NodeConfig) -> NodeConfig {
    NodeConfig {
        queue_calls_max: config.bounds.queue_calls_max,
        batch_calls_max: config.bounds.batch_calls_max,
        ..bounds
    }
}

fn server_config(config: &Config, budget: Budget) -> ServerConfig {
    ServerConfig {
        message_bytes_max: config.bounds.message_bytes_max,
        budget,
        connections_max: config.bounds.connections_max,
        calls_per_connection_max: config.bounds.calls_per_connection_max,
        shutdown_grace: config.bounds.shutdown_grace,
        ..ServerConfig::default()
    }
}

/// Tells whoever started the process that it is ready: one line on stdout.
fn announce(config: &Config, address: &str, journal: &JournalStatus) {
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
    let line = writeln!(out, "rondo {VERSION} ready on {address} ({place})");
    if let Err(error) = line.and_then(|()| out.flush()) {
        tracing::debug!(%error, "nobody reads stdout");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_goes_without_a_word() {
        for address in ["127.0.0.1:1", "127.1.2.3:1", "[::1]:1"] {
            assert!(check_exposure(address.parse().unwrap(), false).is_ok());
        }
        for address in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1"] {
            let address = address.parse().unwrap();
            let error = check_exposure(address, false).unwrap_err();
            assert!(error.to_string().contains("--insecure"), "{error}");
            assert!(check_exposure(address, true).is_ok());
        }
    }
}

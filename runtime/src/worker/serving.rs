//! `rondo worker` from settings to the end of the process.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rondo_core::dispatcher::TransferServer;
use rondo_core::limits::RECORDS_PROTOCOL;
use rondo_core::status::Status;
use rondo_core::worker;
use rondo_proto::convert::{PROTOCOL_VERSION, SERVICE_RECORDS, WorkerIdentity};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::datasets::Datasets;
use super::driver::{Handle, Told, start};
use super::front::Front;
use super::upstream::Upstream;
use crate::clock::Clock;
use crate::config::Listen;
use crate::entropy::Entropy;
use crate::serve::signals::Signals;
use crate::serve::{ServeError, VERSION, check_exposure};
use crate::service::Router;
use crate::transport::listener::bind;
use crate::transport::{Client, ServerConfig, serve};

/// The service that consumers call.
const SERVICE: &str = "tensorflow.data.WorkerService";
/// What stands for the port in an address.
const PORT: &str = "%port%";
/// The version of [`RECORDS_PROTOCOL`] that a worker serves.
const RECORDS_VERSION: &[u8] = b"1";

/// Everything `rondo worker` needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The dispatcher's address, `host:port`.
    pub dispatcher: String,
    /// Where consumers reach it; further workers listen on the ports behind it, unless it is 0.
    pub listen: Listen,
    /// What others call it: `host:port`, where `%port%` stands for the port it listens on.
    pub address: String,
    /// Whether a listener that other machines can reach may go without TLS.
    pub insecure: bool,
    /// Its tags.
    pub tags: Vec<String>,
    /// How many workers, each with a port and a name of its own.
    pub slots: u16,
    /// The machine's settings, but for the address.
    pub worker: worker::Config,
    /// How long to serve on after the last element has left.
    pub quiet_period: Duration,
    /// What is taken on from consumers at most.
    pub server: ServerConfig,
}

/// Why workers end otherwise than as asked.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// A worker cannot listen.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The dispatcher refuses a worker.
    #[error("the dispatcher at {dispatcher} refuses the worker {address}: {status}")]
    Refused {
        /// The dispatcher.
        dispatcher: String,
        /// The worker.
        address: String,
        /// What it says.
        status: Status,
    },
}

/// Works until a signal asks to stop, or a dispatcher refuses.
///
/// # Errors
/// [`WorkerError`].
pub async fn run(config: Config, datasets: Arc<dyn Datasets>) -> Result<(), WorkerError> {
    let mut signals = Signals::listen().map_err(ServeError::Signals)?;
    let (ended, mut endings) = mpsc::unbounded_channel();
    let mut slots = Vec::new();
    for slot in 0..config.slots {
        slots.push(Slot::start(&config, slot, Arc::clone(&datasets), ended.clone()).await?);
    }
    let outcome = tokio::select! {
        biased;
        () = signals.first() => Ok(()),
        Some(error) = endings.recv() => Err(error),
    };
    let in_order = async {
        slots.iter().for_each(|slot| slot.handle.stop());
        for slot in slots {
            if slot.serving.await.is_err() {
                tracing::error!("a worker's task panicked");
            }
        }
    };
    tokio::select! {
        biased;
        () = in_order => {}
        never = signals.second() => match never {},
    }
    tracing::info!("stopped");
    outcome
}

/// One of the process's workers.
struct Slot {
    handle: Handle,
    serving: JoinHandle<()>,
}

impl Slot {
    async fn start(
        config: &Config,
        slot: u16,
        datasets: Arc<dyn Datasets>,
        ended: mpsc::UnboundedSender<WorkerError>,
    ) -> Result<Self, WorkerError> {
        let (listener, port) = open(config, slot).await?;
        let address: Arc<str> = config.address.replacen(PORT, &port.to_string(), 1).into();
        let machine = worker::Config { address: Arc::clone(&address), ..config.worker.clone() };
        let mut entropy = Entropy::from_system().map_err(|error| {
            ServeError::Halted(format!("the operating system gives no randomness: {error}"))
        })?;
        let upstream = Upstream {
            address: config.dispatcher.as_str().into(),
            identity: Arc::new(identity(&address, &config.tags, uid(&mut entropy))),
            transport: Arc::new(Client::of_worker(&address)),
        };
        let surroundings = (Clock::start(), entropy);
        let (handle, told) = start(machine, upstream, Arc::clone(&datasets), surroundings);
        let front = Arc::new(Front::new(handle.clone(), datasets, Arc::clone(&address)));
        let router = Router::new().with_names(&[SERVICE, SERVICE_RECORDS], front);
        say(&format!("worker listening on port {port} as {address} for {}", config.dispatcher));
        let place = (config.dispatcher.clone(), address, config.quiet_period);
        let stopped = until_stopped(told, place, ended);
        let serving = serve(listener, Arc::new(router), config.server.clone(), stopped);
        Ok(Self { handle, serving: tokio::spawn(serving) })
    }
}

/// Tells how the worker is until it has stopped.
async fn until_stopped(
    mut told: mpsc::UnboundedReceiver<Told>,
    (dispatcher, address, quiet_period): (String, Arc<str>, Duration),
    ended: mpsc::UnboundedSender<WorkerError>,
) {
    while let Some(told) = told.recv().await {
        match told {
            Told::Registered => {
                say(&format!("worker ready on {address} (registered at {dispatcher})"));
            }
            Told::Failed(status) => {
                let address = address.to_string();
                // Whoever listened has ended.
                let _ = ended.send(WorkerError::Refused { dispatcher, address, status });
                return;
            }
            Told::Drained(0) => break,
            Told::Drained(left_behind) => {
                tracing::warn!(
                    worker = %address, left_behind,
                    "stopped with elements of its splits that nobody fetched in time"
                );
                break;
            }
        }
    }
    tokio::time::sleep(quiet_period).await;
}

/// What tells a process from the one before it at the same address: the dispatcher then knows that
/// what the former one had taken is lost. Not negative, as -1 is no uid.
fn uid(entropy: &mut Entropy) -> i64 {
    i64::try_from(entropy.next() >> 1).unwrap_or(0)
}

/// What a worker tells the dispatcher of itself; a uid of -1 tells nothing.
pub fn identity(address: &str, tags: &[String], uid: i64) -> WorkerIdentity {
    let transfer_server = |protocol: &str, version: &'static [u8]| TransferServer {
        protocol: protocol.to_owned(),
        address: address.to_owned(),
        compatibility_info: version.into(),
        fall_back_to_grpc_at_client_creation_time: true,
        fall_back_to_grpc_at_get_element_time: true,
    };
    WorkerIdentity {
        address: address.to_owned(),
        tags: tags.to_vec(),
        uid,
        transfer_servers: vec![
            transfer_server("grpc", b""),
            transfer_server(RECORDS_PROTOCOL, RECORDS_VERSION),
        ],
    }
}

/// The machine's settings for a worker that gets its address from its port.
pub fn machine() -> worker::Config {
    worker::Config::of("", PROTOCOL_VERSION)
}

async fn open(config: &Config, slot: u16) -> Result<(TcpListener, u16), ServeError> {
    let port = match config.listen.port {
        0 => 0,
        first => first.saturating_add(slot),
    };
    let listen = Listen { port, ..config.listen.clone() };
    let not_found = |reason| ServeError::Resolve { listen: listen.clone(), reason };
    let found = tokio::net::lookup_host((listen.host.as_str(), port)).await;
    let addresses: Vec<SocketAddr> = found.map_err(|error| not_found(error.to_string()))?.collect();
    let address = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    let address = *address.ok_or_else(|| not_found("the name has no address".into()))?;
    check_exposure(address, config.insecure)?;
    #[cfg(madsim)]
    let listener = bind(address).await?;
    #[cfg(not(madsim))]
    let listener = bind(address)?;
    let bound = listener.local_addr().map_or(port, |address| address.port());
    Ok((listener, bound))
}

/// Tells whoever started the process.
fn say(what: &str) {
    #[cfg(not(madsim))]
    let mut out = std::io::stdout();
    #[cfg(madsim)]
    let mut out = std::io::sink();
    let line = writeln!(out, "rondo {VERSION} {what}");
    if let Err(error) = line.and_then(|()| out.flush()) {
        tracing::debug!(%error, "nobody reads stdout");
    }
}

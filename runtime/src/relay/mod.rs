//! Drives the relay: takes clients' calls on loopback, carries them to the server, and brings the
//! answers back. It decides nothing.

mod driver;
mod front;
mod upstream;

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use rondo_core::relay;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub use self::driver::{Handle, start};
pub use self::front::Front;
pub use self::upstream::Upstream;
use crate::clock::Clock;
use crate::config::Listen;
use crate::entropy::Entropy;
use crate::serve::signals::Signals;
use crate::serve::{ServeError, VERSION, check_exposure};
use crate::transport::budget::Budget;
use crate::transport::listener::bind;
use crate::transport::{Client, ServerConfig, Transport, serve};

/// Everything `rondo relay` needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients reach it.
    pub listen: Listen,
    /// Whether a listener that other machines can reach may go without TLS.
    pub insecure: bool,
    /// The namespace; empty for the one whose port the server's address is.
    pub namespace: String,
    /// The machine's settings, the server's address among them.
    pub relay: relay::Config,
    /// What is taken on from clients at most.
    pub server: ServerConfig,
    /// The memory for long answers to clients.
    pub answers: Budget,
}

/// Relays until a signal asks to stop.
///
/// # Errors
/// [`ServeError`].
pub async fn run(config: Config) -> Result<(), ServeError> {
    let mut signals = Signals::listen().map_err(ServeError::Signals)?;
    let listener = open(&config).await?;
    let address = listener.local_addr().map_or(config.listen.to_string(), |at| at.to_string());
    let mut entropy = Entropy::from_system().map_err(|error| {
        ServeError::Halted(format!("the operating system gives no randomness: {error}"))
    })?;
    let upstream = Upstream {
        address: config.relay.upstream.to_string(),
        namespace: config.namespace.clone(),
        relay: rondo_core::ids::RelayId::new(entropy.next().max(1)),
        connect: Arc::new(|| Arc::new(Client::new()) as Arc<dyn Transport>),
    };
    let at: Arc<str> = upstream.address.as_str().into();
    let handle = start(config.relay.clone(), upstream, Clock::start(), entropy);
    announce(&address, &config.relay.upstream);
    let front = Arc::new(Front::new(handle.clone(), at, config.answers));
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async { stopped.await.unwrap_or(()) };
    // In a task of its own the listener has turns between those of the connections.
    let mut serving = tokio::spawn(serve(listener, front, config.server, stopped));
    tokio::select! {
        biased;
        () = signals.first() => {}
        _ = &mut serving => {
            return Err(ServeError::Halted("the listener's task panicked".to_owned()));
        }
    }
    handle.stop();
    drop(stop);
    tokio::select! {
        biased;
        served = serving => {
            if served.is_err() {
                tracing::error!("the listener's task panicked");
            }
        }
        never = signals.second() => match never {},
    }
    tracing::info!("stopped");
    Ok(())
}

async fn open(config: &Config) -> Result<TcpListener, ServeError> {
    let Listen { host, port } = &config.listen;
    let not_found = |reason| ServeError::Resolve { listen: config.listen.clone(), reason };
    let found = tokio::net::lookup_host((host.as_str(), *port)).await;
    let addresses: Vec<SocketAddr> = found.map_err(|error| not_found(error.to_string()))?.collect();
    let address = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    let address = *address.ok_or_else(|| not_found("the name has no address".into()))?;
    check_exposure(address, config.insecure)?;
    #[cfg(madsim)]
    return Ok(bind(address).await?);
    #[cfg(not(madsim))]
    Ok(bind(address)?)
}

/// Tells whoever started the process that it is ready, and how to use it.
fn announce(address: &str, upstream: &str) {
    #[cfg(not(madsim))]
    let mut out = std::io::stdout();
    #[cfg(madsim)]
    let mut out = std::io::sink();
    let line = writeln!(
        out,
        "rondo {VERSION} relay ready on {address} for {upstream}\n\
         JAX: jax.distributed.initialize(coordinator_address=\"{address}\", ...) in every process of \
         this machine, with JAX_COORDINATOR_BIND_ADDRESS=127.0.0.1:0 in the environment"
    );
    if let Err(error) = line.and_then(|()| out.flush()) {
        tracing::debug!(%error, "nobody reads stdout");
    }
}

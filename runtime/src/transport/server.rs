//! A server of any kind: takes connections up to a bound, and lets go of them in order at the end.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
#[cfg(not(madsim))]
use tokio::sync::Semaphore;
#[cfg(not(madsim))]
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::answering::FLUSH_MAX;
#[cfg(not(madsim))]
use super::connection::connection;
use super::phase::{Phase, PhaseReceiver, PhaseSender, phases};
use super::places::{Full, Places};
#[cfg(madsim)]
use super::sim_accept::Backlog;
#[cfg(madsim)]
use super::sim_server::connection;
#[cfg(madsim)]
use super::sim_tasks::JoinSet;
#[cfg(not(madsim))]
use super::turned_away::{TURNED_AWAY_MAX, turn_away};
#[cfg(not(madsim))]
use super::turns::end_turn;
use super::{ConnectionId, ServerConfig, Service};
#[cfg(not(madsim))]
use crate::arena::Allowance;

/// Pause after the system refused to accept (out of file descriptors, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections that the server accepts until those that are open have their turns.
#[cfg(not(madsim))]
const ACCEPTS_OF_TURN: u32 = 2;

/// Time between two warnings about new connections.
const WARNING_PAUSE: Duration = Duration::from_secs(60);

/// What all connections share.
pub(super) struct Shared {
    pub(super) service: Arc<dyn Service>,
    pub(super) config: ServerConfig,
    pub(super) phase: PhaseReceiver,
    streaming_paths: Vec<&'static str>,
    #[cfg(not(madsim))]
    pub(super) near: Allowance,
}

impl Shared {
    /// Whether calls to this path are answered with streams.
    pub(super) fn is_streaming(&self, path: &str) -> bool {
        self.streaming_paths.contains(&path)
    }
}

/// A connection as long as it is open.
pub(super) struct Open {
    pub(super) id: ConnectionId,
    service: Arc<dyn Service>,
}

impl Open {
    /// The next connection.
    pub(super) fn new(shared: &Shared) -> Self {
        let number = shared.config.connections.fetch_add(1, Ordering::Relaxed);
        Self { id: ConnectionId::new(number), service: Arc::clone(&shared.service) }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.service.closed(self.id);
    }
}

/// Serves `service` on `listener` until `shutdown` completes, then lets calls under way finish
/// within the grace, refuses the rest with UNAVAILABLE, and returns.
pub async fn serve(
    listener: TcpListener,
    service: Arc<dyn Service>,
    config: ServerConfig,
    shutdown: impl Future<Output = ()> + Send,
) {
    let (phase_sender, phase) = phases();
    let grace = config.shutdown_grace;
    let streaming_paths = service.streaming_paths();
    #[cfg(not(madsim))]
    let near = Allowance::new(config.shared_memory_bytes_max);
    let shared = Arc::new(Shared {
        service,
        config,
        phase,
        streaming_paths,
        #[cfg(not(madsim))]
        near,
    });
    let mut connections = JoinSet::new();
    tokio::select! {
        biased;
        () = shutdown => {}
        () = accept_all(&listener, &shared, &mut connections) => {}
    }
    drop(listener);
    drain(&phase_sender, &mut connections, grace).await;
}

async fn drain(phase: &PhaseSender, connections: &mut JoinSet<()>, grace: Duration) {
    phase.advance(Phase::Draining);
    if tokio::time::timeout(grace, join_all(connections)).await.is_err() {
        phase.advance(Phase::Cutting);
        if tokio::time::timeout(FLUSH_MAX, join_all(connections)).await.is_err() {
            tracing::warn!(connections = connections.len(), "connections did not close; cut");
        }
    }
    connections.shutdown().await;
}

async fn join_all(connections: &mut JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

/// Accepts for ever. A connection above the bound is told so and closed: a client that only waited would not
/// know why.
async fn accept_all(listener: &TcpListener, shared: &Arc<Shared>, connections: &mut JoinSet<()>) {
    let mut doorman = Doorman::new(&shared.config);
    #[cfg(madsim)]
    let mut listener = Backlog::new(listener, &shared.config.accepting);
    #[cfg(not(madsim))]
    let mut accepts_left = ACCEPTS_OF_TURN;
    loop {
        while connections.try_join_next().is_some() {}
        #[cfg(not(madsim))]
        if accepts_left == 0 {
            accepts_left = ACCEPTS_OF_TURN;
            end_turn().await;
        }
        #[cfg(not(madsim))]
        {
            accepts_left = accepts_left.saturating_sub(1);
        }
        match listener.accept().await {
            Ok((stream, peer)) => match doorman.places.take(peer.ip()) {
                Ok(place) => {
                    connections.spawn(connection(Arc::clone(shared), stream, peer, Some(place)));
                }
                Err(full) => doorman.refuse(stream, full, connections),
            },
            Err(error) => {
                doorman.warn(&format!("cannot accept a connection: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Knows how many connections there may be, and says now and then that there are too many.
struct Doorman {
    places: Places,
    #[cfg(not(madsim))]
    turned_away: Arc<Semaphore>,
    /// When it said something last.
    warned: Option<Instant>,
}

impl Doorman {
    fn new(config: &ServerConfig) -> Self {
        Self {
            places: Places::new(config.connections_max, config.connections_of_address_max),
            #[cfg(not(madsim))]
            turned_away: Arc::new(Semaphore::new(TURNED_AWAY_MAX)),
            warned: None,
        }
    }

    fn refuse(&mut self, stream: TcpStream, full: Full, connections: &mut JoinSet<()>) {
        self.warn(&match full {
            Full::All(bound) => {
                format!("connections at their bound of {bound} (--connections-max): more are refused")
            }
            Full::Address(bound) => format!(
                "one address has {bound} connections, three quarters of --connections-max: more of it are \
                 refused"
            ),
        });
        #[cfg(not(madsim))]
        if let Ok(place) = Arc::clone(&self.turned_away).try_acquire_owned() {
            connections.spawn(turn_away(stream, full, place));
        }
        #[cfg(madsim)]
        drop((stream, full, connections));
    }

    /// Warns, unless it did so a moment ago: strangers decide how often there is a reason.
    fn warn(&mut self, text: &str) {
        if self.warned.is_none_or(|warned| warned.elapsed() >= WARNING_PAUSE) {
            self.warned = Some(Instant::now());
            tracing::warn!("{text}");
        }
    }
}

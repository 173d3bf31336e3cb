//! A server of any kind: takes connections up to a bound, and lets go of them in order at the end.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
#[cfg(not(madsim))]
use tokio::task::JoinSet;

use super::answering::FLUSH_MAX;
#[cfg(not(madsim))]
use super::connection::connection;
#[cfg(not(madsim))]
use super::near::Allowance;
use super::phase::{Phase, PhaseReceiver, PhaseSender, phases};
#[cfg(madsim)]
use super::sim_server::connection;
#[cfg(madsim)]
use super::sim_tasks::JoinSet;
use super::{ConnectionId, ServerConfig, Service};

/// Pause after the system refused to accept (out of file descriptors, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What all connections share.
pub(super) struct Shared {
    pub(super) service: Arc<dyn Service>,
    pub(super) config: ServerConfig,
    pub(super) phase: PhaseReceiver,
    streaming_paths: Vec<&'static str>,
    connections: AtomicU64,
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
        let number = shared.connections.fetch_add(1, Ordering::Relaxed);
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
    let connections = AtomicU64::new(0);
    #[cfg(not(madsim))]
    let near = Allowance::new(config.shared_memory_bytes_max);
    let shared = Arc::new(Shared {
        service,
        config,
        phase,
        streaming_paths,
        connections,
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

/// Accepts for ever.
async fn accept_all(listener: &TcpListener, shared: &Arc<Shared>, connections: &mut JoinSet<()>) {
    let slots = Arc::new(Semaphore::new(shared.config.connections_max.min(Semaphore::MAX_PERMITS)));
    loop {
        let slot = free_slot(&slots, shared.config.connections_max).await;
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => {
                connections.spawn(connection(Arc::clone(shared), stream, peer, slot));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn free_slot(slots: &Arc<Semaphore>, bound: usize) -> Option<OwnedSemaphorePermit> {
    if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
        return Some(slot);
    }
    tracing::warn!(bound, "connections at their bound (--connections-max); new ones wait");
    Arc::clone(slots).acquire_owned().await.ok()
}

//! A server on a loopback port of its own, for tests.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{ServerConfig, Service, listener, serve};

/// A server under way, and what answers there.
pub(super) struct Running<S> {
    pub(super) address: String,
    pub(super) service: Arc<S>,
    pub(super) served: JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
}

impl<S: Service + Default + 'static> Running<S> {
    pub(super) fn start(config: ServerConfig) -> Self {
        let listener = listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let service = Arc::new(S::default());
        let (stop, stopped) = oneshot::channel();
        let shutdown = async { stopped.await.unwrap_or(()) };
        let served = tokio::spawn(serve(listener, service.clone(), config, shutdown));
        Self { address, service, served, stop: Some(stop) }
    }

    pub(super) fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }
}

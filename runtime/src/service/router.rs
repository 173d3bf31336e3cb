//! Finds the service for a call.

use std::sync::Arc;

use bytes::Bytes;
use rondo_core::status::{Code, Status};

use crate::transport::{BoxFuture, Call, ConnectionId, MessageWriter, Service};

/// Hands each call to the service its path names.
#[derive(Clone, Default)]
pub struct Router {
    /// Services by their full name, such as `grpc.health.v1.Health`.
    services: Vec<(&'static str, Arc<dyn Service>)>,
}

impl Router {
    /// A router that knows no service.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the service of this full name.
    #[must_use]
    pub fn with(mut self, name: &'static str, service: impl Service) -> Self {
        self.services.push((name, Arc::new(service)));
        self
    }

    /// Adds a service under several full names.
    #[must_use]
    pub fn with_names(mut self, names: &[&'static str], service: impl Service) -> Self {
        let service: Arc<dyn Service> = Arc::new(service);
        self.services.extend(names.iter().map(|name| (*name, service.clone())));
        self
    }

    fn find(&self, path: &str) -> Option<&dyn Service> {
        let (name, _method) = path.strip_prefix('/')?.split_once('/')?;
        let found = self.services.iter().find(|(known, _)| *known == name)?;
        Some(found.1.as_ref())
    }
}

impl Service for Router {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        match self.find(&call.path) {
            Some(service) => service.unary(call),
            None => Box::pin(std::future::ready(Err(unknown(&call.path)))),
        }
    }

    fn streaming_paths(&self) -> Vec<&'static str> {
        self.services.iter().flat_map(|(_, service)| service.streaming_paths()).collect()
    }

    fn streaming(&self, call: Call, to: MessageWriter) -> BoxFuture<'_, Result<(), Status>> {
        match self.find(&call.path) {
            Some(service) => service.streaming(call, to),
            None => Box::pin(std::future::ready(Err(unknown(&call.path)))),
        }
    }

    fn closed(&self, connection: ConnectionId) {
        for (_, service) in &self.services {
            service.closed(connection);
        }
    }

    fn details(&self, path: &str, status: &Status) -> Bytes {
        self.find(path).map_or_else(Bytes::new, |service| service.details(path, status))
    }

    fn cut(&self, path: &str) -> Status {
        self.find(path).map_or_else(|| unknown(path), |service| service.cut(path))
    }
}

/// The refusal of a method that nobody offers.
pub(super) fn unknown(path: &str) -> Status {
    Status::new(Code::Unimplemented, format!("no method {path} here"))
}

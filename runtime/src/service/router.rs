//! Finds the service for a call.

use std::sync::Arc;

use bytes::Bytes;
use rondo_core::status::{Code, Status};

use crate::transport::{BoxFuture, Call, ConnectionId, Service};

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

    fn closed(&self, connection: ConnectionId) {
        for (_, service) in &self.services {
            service.closed(connection);
        }
    }
}

/// The refusal of a method that nobody offers.
pub(super) fn unknown(path: &str) -> Status {
    Status::new(Code::Unimplemented, format!("no method {path} here"))
}

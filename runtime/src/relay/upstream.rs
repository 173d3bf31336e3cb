//! The way to the server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rondo_core::ids::RelayId;
use rondo_core::relay::{Forwarding, Link, Refused};
use rondo_core::status::Status;
use rondo_proto::convert::{self, RELAY_FORWARD_PATH, RELAY_HELLO_PATH};

use crate::transport::Transport;

/// How long the server may take to say that it is there.
const HELLO_PATIENCE: Duration = Duration::from_secs(5);
/// Calls wait for as long as their clients do.
const WITHOUT_DEADLINE: Duration = Duration::from_secs(3600 * 24 * 365);

/// Where the server is, and how connections to it are made.
#[derive(Clone)]
pub struct Upstream {
    /// Its address, `host:port`.
    pub address: String,
    /// The namespace asked for; empty for the port's own.
    pub namespace: String,
    /// How this relay calls itself.
    pub relay: RelayId,
    /// Makes a connection of its own.
    pub connect: Arc<dyn Fn() -> Arc<dyn Transport> + Send + Sync>,
}

impl Upstream {
    /// Asks the server whether it is there, on a connection of its own.
    ///
    /// # Errors
    /// Why it is not.
    pub(super) async fn reach(&self, link: Link) -> Result<Arc<dyn Transport>, Status> {
        let transport = (self.connect)();
        let hello = convert::encode_hello(self.relay, link, &self.namespace);
        transport.unary(&self.address, RELAY_HELLO_PATH, hello, HELLO_PATIENCE).await?;
        Ok(transport)
    }

    /// Carries one call to the server.
    ///
    /// # Errors
    /// Why there is no answer of the service.
    pub(super) async fn forward(
        &self,
        transport: &dyn Transport,
        link: Link,
        call: Forwarding,
    ) -> Result<Result<Bytes, Refused>, Status> {
        let message = convert::encode_forward(self.relay, link, call);
        let answer =
            transport.unary(&self.address, RELAY_FORWARD_PATH, message, WITHOUT_DEADLINE).await?;
        convert::decode_forwarded(&answer)
    }
}

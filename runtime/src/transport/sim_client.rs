//! Calls going out over simulated connections: one per address, opened when first needed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rondo_core::status::{Code, Status};

use super::sim_connection::{Connection, Outgoing};
use super::{BoxFuture, MessageStream, Transport};

/// Longest life of a stream.
const STREAM_MAX: Duration = Duration::from_secs(3600 * 24 * 365);

/// Makes calls to any number of addresses.
#[derive(Clone, Default)]
pub struct SimClient {
    connections: Arc<Mutex<BTreeMap<String, Connection>>>,
}

impl SimClient {
    /// A client without connections.
    pub fn new() -> Self {
        Self::default()
    }

    fn connection(&self, address: &str) -> Result<Connection, Status> {
        let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        if port.is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
            let text = format!("{address:?} is not an address of the form host:port");
            return Err(Status::new(Code::InvalidArgument, text));
        }
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|_, connection| !connection.is_closed());
        let open = || Connection::open(address);
        Ok(connections.entry(address.to_owned()).or_insert_with(open).clone())
    }
}

impl Transport for SimClient {
    fn unary(
        &self,
        address: &str,
        path: &'static str,
        message: Bytes,
        deadline: Duration,
    ) -> BoxFuture<'static, Result<Bytes, Status>> {
        let connection = self.connection(address);
        Box::pin(async move {
            let call = Outgoing { path, worker: None, tag: 0, message, deadline };
            connection?.call(call).await
        })
    }

    fn streaming(&self, address: &str, path: &'static str, message: Bytes) -> MessageStream {
        let connection = self.connection(address);
        MessageStream::written(|to| async move {
            let call = Outgoing { path, worker: None, tag: 0, message, deadline: STREAM_MAX };
            connection?.stream(call, to).await
        })
    }
}

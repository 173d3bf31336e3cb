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
    /// The worker that calls.
    worker: Option<String>,
}

impl SimClient {
    /// A client without connections.
    pub fn new() -> Self {
        Self::default()
    }

    /// A client of the worker at this address, which each of its calls names.
    pub fn of_worker(address: &str) -> Self {
        Self { worker: Some(address.to_owned()), ..Self::default() }
    }

    /// A client whose streams carry records of workers: here as all others.
    pub fn of_reader() -> Self {
        Self::default()
    }

    /// A client whose streams carry tensors: here as all others.
    pub fn of_tensors(_place: fn(&[u8]) -> usize) -> Self {
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
        let (connection, worker) = (self.connection(address), self.worker.clone());
        Box::pin(async move {
            let call = Outgoing { path, worker, tag: 0, message, deadline };
            connection?.call(call).await
        })
    }

    fn streaming(&self, address: &str, path: &'static str, message: Bytes) -> MessageStream {
        let (connection, worker) = (self.connection(address), self.worker.clone());
        MessageStream::written(|to| async move {
            let call = Outgoing { path, worker, tag: 0, message, deadline: STREAM_MAX };
            connection?.stream(call, to).await
        })
    }
}

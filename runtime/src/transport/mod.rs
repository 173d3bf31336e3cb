//! Calls as bytes: a method's path, metadata, and an encoded message. gRPC carries them in
//! production, and connections of their own what is long; the simulated network carries them under
//! `--cfg madsim`.

mod answering;
pub mod budget;
#[cfg(not(madsim))]
mod bulk_client;
#[cfg(not(madsim))]
mod bulk_kept;
#[cfg(test)]
#[cfg(not(madsim))]
mod bulk_random;
#[cfg(not(madsim))]
mod bulk_server;
#[cfg(test)]
#[cfg(not(madsim))]
mod bulk_tests;
#[cfg(not(madsim))]
mod bulk_wire;
#[cfg(not(madsim))]
mod connection;
pub(crate) mod exposure;
#[cfg(test)]
#[cfg(not(madsim))]
mod feed;
#[cfg(not(madsim))]
mod frames;
#[cfg(not(madsim))]
pub mod gate;
#[cfg(test)]
#[cfg(not(madsim))]
mod gate_tests;
#[cfg(not(madsim))]
pub mod grpc_client;
#[cfg(not(madsim))]
mod grpc_frame;
#[cfg(not(madsim))]
mod grpc_head;
#[cfg(not(madsim))]
mod grpc_messages;
#[cfg(test)]
#[cfg(not(madsim))]
mod grpc_random;
#[cfg(test)]
#[cfg(not(madsim))]
mod grpc_running;
#[cfg(not(madsim))]
mod grpc_server;
#[cfg(test)]
#[cfg(not(madsim))]
mod grpc_tests;
#[cfg(not(madsim))]
mod intake;
#[cfg(not(madsim))]
mod keepalive;
#[cfg(not(madsim))]
mod leaving;
pub mod listener;
mod messages;
#[cfg(not(madsim))]
mod near;
mod phase;
mod places;
mod server;
#[cfg(madsim)]
mod sim_accept;
#[cfg(madsim)]
mod sim_client;
#[cfg(madsim)]
mod sim_connection;
#[cfg(madsim)]
mod sim_frame;
#[cfg(madsim)]
mod sim_server;
#[cfg(madsim)]
mod sim_tasks;
#[cfg(madsim)]
mod sim_wire;
#[cfg(test)]
#[cfg(not(madsim))]
mod stream_tests;
#[cfg(not(madsim))]
mod streams;
#[cfg(not(madsim))]
pub(crate) mod turned_away;
#[cfg(not(madsim))]
mod turns;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rondo_core::status::{Code, Status};

use self::budget::{Budget, Share};

pub(crate) use self::answering::contain_panic;
pub use self::answering::{ServerConfig, UNREAD_MAX, of_one_address};
#[cfg(not(madsim))]
pub use self::bulk_wire::Place;
#[cfg(not(madsim))]
pub use self::grpc_client::GrpcClient as Client;
pub use self::messages::{MessageStream, MessageWriter};
pub(crate) use self::places::network;
pub use self::server::serve;
#[cfg(madsim)]
pub use self::{
    sim_accept::Accepting,
    sim_client::SimClient as Client,
    sim_connection::{Connection, Outgoing},
    sim_server::tag_of_call,
};

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The metadata in which a worker names itself by its address.
pub const WORKER_METADATA: &str = "rondo-worker";

/// What the text of a status begins with when a call failed because no connection could be made.
const CANNOT_REACH: &str = "cannot reach ";

/// Whether a call failed because no connection could be made: then its request never left.
pub fn is_unreached(status: &Status) -> bool {
    status.code == Code::Unavailable && status.message.starts_with(CANNOT_REACH)
}

/// A connection, by a number that no other has in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

impl ConnectionId {
    /// The connection of this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// One call as it arrives.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method's path, such as `/tensorflow.data.DispatcherService/GetSplit`.
    pub path: String,
    /// The encoded request.
    pub message: Bytes,
    /// The peer's address.
    pub peer: SocketAddr,
    /// The connection it came on.
    pub connection: ConnectionId,
    /// The worker that calls, if it names itself.
    pub worker: Option<String>,
    /// The memory that the request takes.
    pub memory: RequestMemory,
    /// The memory that long answers on its connection take.
    pub budget: Budget,
}

/// The memory that a request takes. It goes back when the call has ended, or before, when nobody needs the
/// request any more: a call may wait for days.
#[derive(Clone, Debug, Default)]
pub struct RequestMemory(Arc<Mutex<Option<Share>>>);

impl RequestMemory {
    /// The memory of a request that takes this share.
    pub fn new(share: Share) -> Self {
        Self(Arc::new(Mutex::new(Some(share))))
    }

    /// Gives the memory back. The request must be gone.
    pub fn release(&self) {
        let share = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(share);
    }
}

/// Answers calls. Dropping the future cancels the call.
pub trait Service: Send + Sync + 'static {
    /// Answers one unary call with an encoded response.
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>>;

    /// The paths of the methods that are answered with streams.
    fn streaming_paths(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Answers one call to such a method by writing encoded responses.
    fn streaming(&self, call: Call, _to: MessageWriter) -> BoxFuture<'_, Result<(), Status>> {
        let text = format!("{} is not answered with a stream", call.path);
        Box::pin(std::future::ready(Err(Status::new(Code::Unimplemented, text))))
    }

    /// Hears that a connection is closed: no more calls come on it.
    fn closed(&self, _connection: ConnectionId) {}

    /// What stands beside a refusal of a call to `path`, for programs: the encoded trailer
    /// `grpc-status-details-bin`, or nothing.
    fn details(&self, _path: &str, _status: &Status) -> Bytes {
        Bytes::new()
    }

    /// How a call to `path` that is under way ends when the server cuts it.
    fn cut(&self, _path: &str) -> Status {
        Status::new(Code::Unavailable, "the server is shutting down")
    }
}

impl<S: Service + ?Sized> Service for Arc<S> {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        S::unary(self, call)
    }

    fn streaming_paths(&self) -> Vec<&'static str> {
        S::streaming_paths(self)
    }

    fn streaming(&self, call: Call, to: MessageWriter) -> BoxFuture<'_, Result<(), Status>> {
        S::streaming(self, call, to)
    }

    fn closed(&self, connection: ConnectionId) {
        S::closed(self, connection);
    }

    fn details(&self, path: &str, status: &Status) -> Bytes {
        S::details(self, path, status)
    }

    fn cut(&self, path: &str) -> Status {
        S::cut(self, path)
    }
}

/// Makes calls.
pub trait Transport: Send + Sync + 'static {
    /// Calls the method at `path` of the peer at `address` (`host:port`), giving up after
    /// `deadline`. Dropping the future cancels the call.
    fn unary(
        &self,
        address: &str,
        path: &'static str,
        message: Bytes,
        deadline: Duration,
    ) -> BoxFuture<'static, Result<Bytes, Status>>;

    /// Calls the method at `path` of the peer at `address` (`host:port`), which answers with a
    /// stream. Nothing is sent before a message is asked for. Dropping the stream cancels the call.
    fn streaming(&self, address: &str, path: &'static str, message: Bytes) -> MessageStream;
}

//! What happens to a worker, and what it asks its driver to do.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::exchange::ids::{Handler, ServerRank};
use crate::exchange::membership::Membership;
use crate::exchange::message::{Tensor, ToServer, ToWorker};
use crate::exchange::refusal::{PeerLost, Refusal};
use crate::ids::{CallId, ConnectionId, Incarnation};
use crate::time::{Duration, Time};

/// From when on a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// From when the request was made, as StepMesh does.
    Request,
    /// From now on.
    Call,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Input<T> {
    /// Who takes part. Older ones than the one known are ignored.
    Membership(Membership),
    /// There is a connection, as [`Effect::Connect`] asked.
    Connected {
        /// The server.
        server: ServerRank,
        /// The run of it that was asked for.
        incarnation: Incarnation,
        /// Names the connection.
        connection: ConnectionId,
    },
    /// There is none.
    NotConnected {
        /// The server.
        server: ServerRank,
        /// The run of it that was asked for.
        incarnation: Incarnation,
        /// Why not.
        why: Arc<str>,
    },
    /// A connection is over, and nothing is read from it any more. Comes after [`Effect::Close`] too.
    Disconnected {
        /// The connection.
        connection: ConnectionId,
        /// Why.
        why: Arc<str>,
    },
    /// A server says something.
    Message {
        /// The connection.
        connection: ConnectionId,
        /// When the transport had all of it.
        received: Time,
        /// What it says.
        message: ToWorker<T>,
    },
    /// Push tensors to all servers, and pull others from them.
    Exchange {
        /// Names the call.
        call: CallId,
        /// What every server gets.
        pushes: Vec<Tensor<T>>,
        /// Where answers go: as many for each server, those of server 0 first.
        pulls: Vec<Tensor<T>>,
        /// Whether pulls beyond a whole number for each server are ignored, as StepMesh does; they are
        /// refused otherwise.
        ignores_rest: bool,
    },
    /// Wait until a request is complete.
    Wait {
        /// Names the call.
        call: CallId,
        /// The request, by its first handler, which is known no more when this succeeds; or one of its
        /// other handlers.
        handler: Handler,
        /// How long at most; `None` for as long as it takes.
        timeout: Option<Duration>,
        /// From when on.
        since: Since,
    },
    /// Nobody will wait for a request, and nothing more is written to where it pulls to.
    Abandon {
        /// The request, by its first handler.
        handler: Handler,
    },
    /// Nobody waits for this call any more.
    Cancel {
        /// The call.
        call: CallId,
    },
    /// The worker stops: who waits is told, connections are closed.
    Stop,
    /// Time has passed. Early and repeated ticks do nothing.
    Tick,
}

/// How a request ended well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Complete {
    /// Servers that it did without, which the policy allows: what is pulled from them is as it was.
    pub missing: Vec<PeerLost>,
}

/// What a worker asks of its driver, to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<T> {
    /// Connect to a server, and report [`Input::Connected`] or [`Input::NotConnected`].
    Connect {
        /// The server.
        server: ServerRank,
        /// The run of it.
        incarnation: Incarnation,
        /// Where it is, the best way first.
        addresses: Vec<Arc<str>>,
        /// The host it runs on.
        host: Arc<str>,
    },
    /// Say something to a server.
    Send {
        /// The connection.
        connection: ConnectionId,
        /// What.
        message: ToServer<T>,
    },
    /// Close a connection at once, whatever of what was said has not left, and report
    /// [`Input::Disconnected`]: until then who waits for what is written from it is not told.
    Close {
        /// The connection.
        connection: ConnectionId,
    },
    /// The answer to [`Input::Exchange`].
    Started {
        /// The call.
        call: CallId,
        /// The first of the request's handlers.
        result: Result<Handler, Refusal>,
    },
    /// What was pulled has come. If it was read to its destination, the two are the same memory.
    Fill {
        /// Where it goes: a payload of [`Input::Exchange`].
        destination: T,
        /// Where it is: a payload of the answer.
        source: T,
    },
    /// The answer to [`Input::Wait`].
    Waited {
        /// The call.
        call: CallId,
        /// The answer.
        result: Result<Complete, Refusal>,
    },
    /// Something worth a log line or a counter.
    Observe(Event),
}

/// Something worth a log line or a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A server is lost.
    Lost(PeerLost),
    /// A server is there, for the first time or again.
    Ready {
        /// The server.
        server: ServerRank,
        /// Its run.
        incarnation: Incarnation,
    },
    /// A server does not take this worker.
    Rejected {
        /// The server.
        server: ServerRank,
        /// What it says.
        why: Arc<str>,
    },
    /// A server does not keep to the protocol; the connection is closed.
    Protocol {
        /// The server.
        server: ServerRank,
        /// What it did.
        what: Arc<str>,
    },
}

/// Where what arrives is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landing<T> {
    /// To these, one for each tensor. Nobody is told that the request is over before the answer is
    /// reported, or that its connection is.
    At(Vec<T>),
    /// Nowhere: it is read and dropped, and reported with whatever payload there is.
    Nowhere,
}

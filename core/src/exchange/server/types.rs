//! What happens to a server, and what it asks its driver to do.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::exchange::ids::{Key, RequestNumber, UnitHandler, WorkerRank};
use crate::exchange::info::TensorInfo;
use crate::exchange::membership::Membership;
use crate::exchange::message::{Pull, Tensor, ToServer, ToWorker};
use crate::exchange::refusal::{PeerLost, Refusal};
use crate::ids::{CallId, ConnectionId, Incarnation};
use crate::time::{Duration, Time};

/// What a batch may do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partial {
    /// Nothing: it has a unit of each worker.
    Never,
    /// When its time is over, workers that have sent none; but for all of them.
    AtDeadline,
    /// Workers that do not take part at present; but for all of them.
    UpMembersOnly,
}

/// What answers a unit: one tensor for each that it pulls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answering<T> {
    /// The unit.
    pub unit: UnitHandler,
    /// What is pulled: descriptions and memory. Keys are those of the request.
    pub tensors: Vec<(TensorInfo, T)>,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Input<T> {
    /// Who takes part. Older ones than the one known are ignored.
    Membership(Membership),
    /// A peer has connected and has said nothing yet. The server closes the connection if no worker
    /// introduces itself there within `heartbeat_timeout`.
    Connected {
        /// The connection.
        connection: ConnectionId,
    },
    /// A worker says something; the first time, on a new connection.
    Message {
        /// The connection.
        connection: ConnectionId,
        /// When the transport had all of it.
        received: Time,
        /// What it says.
        message: ToServer<T>,
    },
    /// A request has arrived that [`super::Server::land`] had no place for; its tensors were dropped.
    NotTaken {
        /// The connection.
        connection: ConnectionId,
        /// Its number.
        number: RequestNumber,
        /// What it acknowledges.
        acknowledged: Vec<RequestNumber>,
        /// Why not; `None` if it came before.
        refusal: Option<Refusal>,
    },
    /// A connection is over, and nothing is read from it any more. Comes after [`Effect::Close`] too.
    Disconnected {
        /// The connection.
        connection: ConnectionId,
        /// Why.
        why: Arc<str>,
    },
    /// A batch is wanted: one unit of each worker. What was given out before and owes no answer is
    /// released.
    GetBatch {
        /// Names the call.
        call: CallId,
        /// How long it waits; `None` for as long as it takes.
        timeout: Option<Duration>,
        /// What it may do without.
        partial: Partial,
    },
    /// Units are answered: all of them, or none if anything is wrong.
    Respond {
        /// Names the call.
        call: CallId,
        /// The units, each once.
        answers: Vec<Answering<T>>,
    },
    /// What a unit pushed is not read any more, before it is answered.
    Release {
        /// Names the call.
        call: CallId,
        /// The unit.
        unit: UnitHandler,
    },
    /// Memory where pushes land: as many equal slots as workers and keys are named.
    RegisterBuffer {
        /// Names the call.
        call: CallId,
        /// The memory.
        buffer: T,
        /// Its size in bytes.
        bytes: u64,
        /// Whose pushes land in each slot.
        workers: Vec<WorkerRank>,
        /// Under which key.
        keys: Vec<Key>,
    },
    /// Nobody waits for this call any more.
    Cancel {
        /// The call.
        call: CallId,
    },
    /// The server stops: who waits is told, connections are closed.
    Stop,
    /// Time has passed. Early and repeated ticks do nothing.
    Tick,
}

/// All that one worker sent in one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit<T> {
    /// Names it when it is answered.
    pub handler: UnitHandler,
    /// Who sent it.
    pub worker: WorkerRank,
    /// What was pushed.
    pub tensors: Vec<Tensor<T>>,
    /// What is pulled.
    pub pulls: Vec<Pull>,
}

/// What a server asks of its driver, to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<T> {
    /// Say something to a worker.
    Send {
        /// The connection.
        connection: ConnectionId,
        /// What.
        message: ToWorker<T>,
    },
    /// Close a connection after what was said, and report [`Input::Disconnected`].
    Close {
        /// The connection.
        connection: ConnectionId,
    },
    /// The answer to [`Input::GetBatch`].
    Batch {
        /// The call.
        call: CallId,
        /// Units in the order of their workers' ranks.
        result: Result<Vec<Unit<T>>, Refusal>,
    },
    /// The answer to [`Input::Respond`], [`Input::Release`] and [`Input::RegisterBuffer`].
    Done {
        /// The call.
        call: CallId,
        /// The answer. That a unit's worker is lost is said when all others are answered.
        result: Result<(), Refusal>,
    },
    /// Something worth a log line or a counter.
    Observe(Event),
}

/// Something worth a log line or a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A worker is lost.
    Lost(PeerLost),
    /// A worker is there, for the first time or again.
    Ready {
        /// The worker.
        worker: WorkerRank,
        /// Its run.
        incarnation: Incarnation,
    },
    /// A worker that introduced itself was rejected.
    Rejected {
        /// The worker, as it says.
        worker: WorkerRank,
        /// Why.
        why: Arc<str>,
    },
    /// A worker's connection broke.
    Away {
        /// The worker.
        worker: WorkerRank,
        /// Why.
        why: Arc<str>,
    },
    /// A request was refused.
    Refused {
        /// The worker.
        worker: WorkerRank,
        /// Why.
        refusal: Refusal,
    },
    /// Somebody does not keep to the protocol; the connection is closed.
    Protocol {
        /// What was done.
        what: Arc<str>,
    },
}

/// Where a tensor is to be written that a worker pushes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place<T> {
    /// In this part of a registered buffer.
    Slot {
        /// The buffer.
        buffer: T,
        /// Where in it, in bytes.
        offset: u64,
    },
    /// In memory of its own, of its size.
    Allocate,
}

/// Where the tensors of a request are to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landing<T> {
    /// Here, one for each tensor that is pushed. Nobody else writes or reads there before the request
    /// is reported, or that its connection is over.
    At(Vec<Place<T>>),
    /// Nowhere: they are read and dropped, and [`Input::NotTaken`] is reported with the reason.
    Nowhere(Option<Refusal>),
}

//! What is refused, and why: typed, for programs; and as a status, for the wire and for people.

mod text;

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::ids::{Handler, InstanceRank, Key, ServerRank, UnitHandler, WorkerRank};
use super::info::InfoError;
use super::role::Role;
use crate::ids::Incarnation;
use crate::status::{Code, Status};
use crate::time::Duration;

/// Which list of a request a tensor stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What is pushed.
    Push,
    /// What is pulled.
    Pull,
}

impl fmt::Display for Side {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Push => "push",
            Self::Pull => "pull",
        })
    }
}

/// A process that is needed is not there any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerLost {
    /// Its role.
    pub role: Role,
    /// Its rank among those of its role.
    pub rank: InstanceRank,
    /// Its run.
    pub incarnation: Incarnation,
    /// Where it was; empty for who has no address.
    pub address: Arc<str>,
    /// How it was noticed.
    pub why: Arc<str>,
}

/// Something is not done, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Tensors and keys are lists of the same length.
    Lists {
        /// Which lists.
        side: Side,
        /// How many tensors.
        tensors: usize,
        /// How many keys.
        keys: usize,
    },
    /// A tensor that cannot be exchanged.
    Tensor {
        /// The list it stands in.
        side: Side,
        /// Where, from 0.
        index: usize,
        /// Its key.
        key: Key,
        /// What is wrong with it.
        error: InfoError,
    },
    /// A tensor whose values do not lie one after the other.
    NotContiguous {
        /// The list it stands in.
        side: Side,
        /// Where, from 0.
        index: usize,
        /// Its key.
        key: Key,
    },
    /// A request of no tensors.
    Empty,
    /// Pulls are not a whole number for each server.
    Pulls {
        /// How many there are.
        pulls: usize,
        /// How many servers.
        servers: u32,
    },
    /// More tensors than one request may have.
    TooManyTensors {
        /// How many there are.
        tensors: usize,
        /// How many there may be.
        max: usize,
    },
    /// More bytes than one request may have.
    RequestTooLarge {
        /// Which tensors.
        side: Side,
        /// How many bytes they are for one server.
        bytes: u64,
        /// How many they may be.
        max: u64,
    },
    /// Nobody waits for requests that were made.
    TooManyHandlers {
        /// How many there may be.
        max: usize,
    },
    /// Too many calls wait.
    TooManyCalls {
        /// How many may.
        max: usize,
    },
    /// The process does not know yet who takes part.
    NoMembership,
    /// The process is stopping.
    Stopped,
    /// Nobody wants to know any more how the request ends.
    Abandoned {
        /// The request.
        handler: Handler,
    },
    /// No such request, or it was waited for before.
    UnknownHandler {
        /// What was asked for.
        handler: Handler,
        /// The next request's.
        next: Handler,
    },
    /// Answers did not come in time. The request stays open.
    Late {
        /// The request.
        handler: Handler,
        /// How long was waited.
        after: Duration,
        /// Whose answers are missing.
        missing: Vec<ServerRank>,
    },
    /// A process is lost that is needed.
    PeerLost(PeerLost),
    /// A server does not take the request.
    Refused {
        /// The server.
        server: ServerRank,
        /// What it says.
        status: Status,
    },
    /// An answer is of another size than the tensor it is for.
    AnswerDiffers {
        /// The server that answered.
        server: ServerRank,
        /// Which of its pulls, from 0.
        index: usize,
        /// The pull's key.
        key: Key,
        /// Its size in bytes.
        bytes: u64,
        /// The size in bytes of what it is for.
        wanted: u64,
    },
    /// No unit has this handler.
    UnknownUnit {
        /// What was asked for.
        unit: UnitHandler,
        /// The next unit's.
        next: UnitHandler,
    },
    /// The unit has not been given out.
    NotGivenOut {
        /// The unit.
        unit: UnitHandler,
    },
    /// The unit was answered before, or given up.
    AnsweredBefore {
        /// The unit.
        unit: UnitHandler,
    },
    /// A unit is answered with as many tensors as it pulls.
    AnswerCount {
        /// The unit.
        unit: UnitHandler,
        /// How many tensors there are.
        tensors: usize,
        /// How many it pulls.
        pulls: usize,
    },
    /// A tensor of an answer is of another size than the one pulled.
    AnswerSize {
        /// The unit.
        unit: UnitHandler,
        /// Which tensor, from 0.
        index: usize,
        /// Its key.
        key: Key,
        /// Its size in bytes.
        bytes: u64,
        /// The size in bytes of what is pulled.
        wanted: u64,
    },
    /// Units and their tensors are lists of the same length.
    AnswerLists {
        /// How many units.
        units: usize,
        /// How many tensors, or offsets.
        tensors: usize,
    },
    /// The rows that answer a unit are not in the buffer.
    Rows {
        /// The unit.
        unit: UnitHandler,
        /// The first of them.
        first: u64,
        /// How many.
        rows: u64,
        /// How many the buffer has.
        has: u64,
    },
    /// Not every member has sent a unit in time.
    NoBatch {
        /// How long was waited.
        after: Duration,
        /// Of whom none came.
        missing: Vec<WorkerRank>,
    },
    /// What is pushed does not fit where it is to go.
    SlotTooSmall {
        /// The key.
        key: Key,
        /// Who pushes.
        worker: WorkerRank,
        /// The slot's size in bytes.
        slot: u64,
        /// How many bytes are pushed.
        pushed: u64,
    },
    /// A slot is registered that is in use, or was registered before.
    SlotTaken {
        /// The key.
        key: Key,
        /// Whose pushes go there.
        worker: WorkerRank,
    },
    /// A buffer cannot be cut into equal slots.
    Chunks {
        /// The buffer's size in bytes.
        bytes: u64,
        /// How many worker ranks are named.
        workers: usize,
        /// How many keys.
        keys: usize,
    },
    /// A worker sends more than it was told that there is room for.
    NoCredit {
        /// The worker.
        worker: WorkerRank,
        /// The key that is pushed once more than it may be; `None` if all requests are too many or too
        /// large.
        key: Option<Key>,
        /// Requests that are not over, or those of the key.
        requests: usize,
        /// Bytes of those that are not released, with this one.
        bytes: u64,
    },
    /// No worker has this rank.
    NoWorker {
        /// The rank.
        worker: WorkerRank,
        /// How many workers there are.
        workers: u32,
    },
    /// Too many slots.
    TooManySlots {
        /// How many there may be.
        max: usize,
    },
    /// The other side says what nobody says who keeps to the protocol.
    Protocol(String),
}

impl Refusal {
    /// The code that says of what kind it is.
    pub fn code(&self) -> Code {
        match self {
            Self::TooManyTensors { .. }
            | Self::RequestTooLarge { .. }
            | Self::TooManyHandlers { .. }
            | Self::TooManyCalls { .. }
            | Self::NoCredit { .. }
            | Self::TooManySlots { .. } => Code::ResourceExhausted,
            Self::NoMembership
            | Self::NotGivenOut { .. }
            | Self::AnsweredBefore { .. }
            | Self::SlotTaken { .. } => Code::FailedPrecondition,
            Self::Stopped | Self::Abandoned { .. } => Code::Cancelled,
            Self::UnknownHandler { .. } | Self::UnknownUnit { .. } => Code::NotFound,
            Self::Late { .. } | Self::NoBatch { .. } => Code::DeadlineExceeded,
            Self::PeerLost(_) => Code::Unavailable,
            Self::Refused { status, .. } => status.code,
            Self::Protocol(_) => Code::Internal,
            // What is wrong whatever the state.
            _ => Code::InvalidArgument,
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code(), format!("{refusal}"))
    }
}

impl core::error::Error for Refusal {}

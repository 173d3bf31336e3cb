//! What processes of an exchange say to each other. Bytes of tensors are no part of it: of each tensor
//! stands here its description and a payload `T`, which is whatever the driver knows its memory by.
//!
//! A connection delivers in order and each message once, or breaks. A process that connects says first
//! who it is: `Hello` to a server, `Register` to the scheduler; nothing else is heard before that.

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::ids::{
    BarrierNumber, InstanceIndex, InstanceRank, Key, MembershipVersion, NodeId, RequestNumber,
    TraceNumber, WorkerRank,
};
use super::info::TensorInfo;
use super::membership::{Membership, Sizes};
use super::passage::{Page, Traces};
use super::refusal::PeerLost;
use super::role::{Mask, Role};
use super::stamps::Stamps;
use crate::ids::Incarnation;
use crate::status::{Code, Status};

/// A tensor under its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor<T> {
    /// Its key.
    pub key: Key,
    /// Its type, shape and size.
    pub info: TensorInfo,
    /// Its memory.
    pub payload: T,
}

/// A tensor that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    /// Its key.
    pub key: Key,
    /// What the answer must be as large as.
    pub info: TensorInfo,
}

/// What a worker says to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToServer<T> {
    /// Who it is. The first message of a connection.
    Hello(Hello),
    /// All pushes and pulls of one request to this server.
    Request(Request<T>),
    /// The answers to these requests have arrived and need not be kept.
    Acknowledge {
        /// The requests.
        numbers: Vec<RequestNumber>,
    },
}

/// How a worker introduces itself to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Its group among the workers.
    pub worker: WorkerRank,
    /// Its index in the group: the server's is the same.
    pub index: InstanceIndex,
    /// Its run.
    pub incarnation: Incarnation,
    /// The latest membership it knows.
    pub version: MembershipVersion,
    /// The run of the server that it means; another one is of no use to it.
    pub server: Incarnation,
    /// Counts the connections of its run to that run, from 1. One that was begun before another that was
    /// heard of is of no use: what it says is past.
    pub attempt: u64,
    /// Requests to that run of which it does not know yet that they are over, in ascending order. What
    /// is kept of others is not needed any more.
    pub open: Vec<RequestNumber>,
}

/// What a worker asks of one server at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<T> {
    /// Follows that of the request before. One that came before is dropped.
    pub number: RequestNumber,
    /// Requests whose answers have arrived, as in [`ToServer::Acknowledge`].
    pub acknowledged: Vec<RequestNumber>,
    /// What is pushed.
    pub pushes: Vec<Tensor<T>>,
    /// What is pulled.
    pub pulls: Vec<Pull>,
    /// The first two of the stamps.
    pub stamps: Stamps,
}

impl<T> Request<T> {
    /// Whether it is one push or one pull alone. Such a push is not over when it has arrived, but when
    /// it is answered.
    pub const fn is_single(&self) -> bool {
        self.pushes.len().saturating_add(self.pulls.len()) == 1
    }

    /// Whether the server's application must answer it. Otherwise it may.
    pub const fn owes_answer(&self) -> bool {
        self.is_single() || !self.pulls.is_empty()
    }

    /// Bytes of what is pushed, all together.
    pub fn bytes(&self) -> u64 {
        self.pushes.iter().fold(0, |sum, push| push.info.bytes().saturating_add(sum))
    }
}

/// What a server says to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToWorker<T> {
    /// The answer to `Hello`. What is known of the open requests follows.
    Welcome(Welcome),
    /// The other answer to `Hello`: the connection is of no use.
    Rejected(Status),
    /// All pushes of a request have arrived; the request is not a single push.
    Pushed {
        /// The request.
        number: RequestNumber,
        /// The stamps up to the sixth.
        stamps: Stamps,
    },
    /// What was pulled; nothing, if it answers a push alone. The request's memory on the server is free.
    Answer(Answer<T>),
    /// The server does not take the request, or gave it up. Its memory there is free.
    Refused {
        /// The request.
        number: RequestNumber,
        /// Why.
        status: Status,
    },
    /// The server is done with what was pushed: its keys may be pushed again.
    Released {
        /// The request.
        number: RequestNumber,
    },
}

/// How a server answers a worker's `Hello`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The server's run.
    pub incarnation: Incarnation,
    /// The last request of this run of the worker that has arrived; 0 if none has. Those after it must
    /// be sent again.
    pub received: RequestNumber,
    /// How much the worker may send ahead.
    pub credits: Credits,
}

/// How much a worker may have on a server at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    /// Requests that are not over: answered as far as they must be, and released.
    pub requests: u32,
    /// Bytes of what they push.
    pub bytes: u64,
    /// Of these requests, those that push a tensor of the same key.
    pub per_key: u32,
}

/// What a server answers to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// The request.
    pub number: RequestNumber,
    /// One for each pull, in their order.
    pub tensors: Vec<Tensor<T>>,
    /// The stamps up to the sixth.
    pub stamps: Stamps,
}

/// What a process says to the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToScheduler {
    /// Who it is. The first message of a connection, also after a break.
    Register(Register),
    /// It lives.
    Heartbeat {
        /// The latest membership it knows; 0 if none.
        version: MembershipVersion,
    },
    /// It waits for others.
    Barrier(Barrier),
    /// It waits at a barrier no longer, unless that is over.
    Withdraw {
        /// As asked.
        number: BarrierNumber,
    },
    /// It is done, and says nothing more.
    Leave,
    /// It only looks on. The first message of a connection, instead of `Register`.
    Observe,
    /// Who looks on wants traces of a process. One question at a time.
    AskTraces(AskTraces),
    /// A process' answer to [`ToMember::AskTraces`].
    Traces {
        /// As asked.
        number: TraceNumber,
        /// What it knows.
        page: Page,
    },
}

/// Traces of a process are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskTraces {
    /// Tells the questions of one connection apart.
    pub number: TraceNumber,
    /// The role of the process.
    pub role: Role,
    /// Its rank.
    pub rank: InstanceRank,
    /// Passages with greater numbers are wanted.
    pub after: u64,
}

/// How a process introduces itself to the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Server or worker.
    pub role: Role,
    /// The rank it wants; `None` for any.
    pub rank: Option<InstanceRank>,
    /// Its run.
    pub incarnation: Incarnation,
    /// Where it can be reached, the best way first.
    pub addresses: Vec<Arc<str>>,
    /// Its host.
    pub host: Arc<str>,
    /// How many it believes there are.
    pub sizes: Sizes,
    /// The latest membership it knows, from which a scheduler that was restarted learns.
    pub known: Option<Arc<Membership>>,
    /// How many barriers have been passed, as far as it knows, by mask and scope; from that, too, a
    /// scheduler learns that was restarted.
    pub passed: Vec<Passed>,
    /// Where it waits, as far as it knows: at one barrier of each mask and scope at most.
    pub waiting: Vec<Barrier>,
}

/// How many barriers of a mask and scope everybody has come to and passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Who met.
    pub mask: Mask,
    /// Who counted.
    pub scope: Scope,
    /// How often.
    pub count: u64,
}

/// Who counts at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Every process of the mask.
    Instance = 1,
    /// One process of each group of the mask. Who asked is released.
    Group = 2,
}

impl Scope {
    /// The number on the wire.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The scope with this number.
    pub const fn of_number(number: i32) -> Option<Self> {
        match number {
            1 => Some(Self::Instance),
            2 => Some(Self::Group),
            _ => None,
        }
    }
}

/// A process waits until others have come as far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// Tells those of one process apart: what is sent again has the number it had.
    pub number: BarrierNumber,
    /// Who meets.
    pub mask: Mask,
    /// Who counts.
    pub scope: Scope,
}

/// What the scheduler says to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToMember {
    /// The answer to `Register`, as soon as all that there are have come.
    Assigned {
        /// The process' number.
        node: NodeId,
        /// Its rank among those of its role.
        rank: InstanceRank,
        /// Who takes part.
        membership: Arc<Membership>,
        /// How many barriers have been passed so far: those of masks and scopes that are not named, none.
        passed: Vec<Passed>,
    },
    /// The other answer to `Register`, and the last word to a process that is given up.
    Rejected(Status),
    /// Who takes part has changed.
    Membership(Arc<Membership>),
    /// The answer to `Heartbeat`.
    Heard {
        /// The present membership.
        version: MembershipVersion,
    },
    /// A barrier is over.
    BarrierDone {
        /// As asked.
        number: BarrierNumber,
        /// How many barriers of its mask and scope have been passed now, if all came; or why they did not.
        result: Result<u64, Failure>,
    },
    /// The answer to `Leave`.
    Left,
    /// Somebody wants traces of this process.
    AskTraces {
        /// Tells the questions of one connection apart.
        number: TraceNumber,
        /// Passages with greater numbers are wanted.
        after: u64,
    },
    /// The answer to [`ToScheduler::AskTraces`].
    Traces {
        /// As asked.
        number: TraceNumber,
        /// What the process knows, or why it does not say.
        result: Result<Traces, Status>,
    },
}

/// Why a process does not get from the scheduler what it asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Somebody is lost who is needed.
    PeerLost(PeerLost),
    /// Anything else.
    Refused(Status),
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::PeerLost(lost) => Self::new(Code::Unavailable, lost.to_string()),
            Failure::Refused(status) => status,
        }
    }
}

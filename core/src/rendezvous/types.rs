//! What happens to a rendezvous, and what it asks its driver to do.

use alloc::string::String;
use alloc::sync::Arc;

use super::key::Key;
use crate::ids::{CallId, RequestId, StepId};
use crate::status::{Code, Status};
use crate::time::Duration;

/// What one side says of its memory. It means something within one worker only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Args {
    /// The stream, or whatever else orders work on the device; 0 where there is none.
    pub device_context: u64,
    /// Whether the tensor is, or is wanted, in the host's memory although the device is none.
    pub on_host: bool,
    /// Whether a GPU can reach that memory by itself.
    pub gpu_compatible: bool,
    /// Whether a network card can.
    pub nic_compatible: bool,
}

/// What passes from a sender to a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value<T> {
    /// The tensor.
    pub tensor: T,
    /// Bytes that count for it while it is held.
    pub bytes: u64,
    /// Whether it comes of a branch that was not taken: then the tensor has no meaning.
    pub is_dead: bool,
}

/// What a receiver gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<T> {
    /// The tensor.
    pub value: Value<T>,
    /// What its sender said.
    pub sent: Args,
    /// What the receiver said.
    pub received: Args,
}

/// A worker as it takes part in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its name: `/job:NAME/replica:N/task:N`.
    pub worker_name: Arc<str>,
}

/// What a request from another worker says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Tells requests apart; 0 tells nothing.
    pub request: RequestId,
    /// Whether what answers it is kept until the client says that it has it, whatever the settings say:
    /// so it can ask again.
    pub keeps: bool,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Input<T> {
    /// Find a step, or begin it: it will be initialised.
    Find {
        /// Names the call.
        call: CallId,
        /// The step.
        step: StepId,
    },
    /// A step's rendezvous learns which worker it is of. What came before is carried out now.
    Initialize {
        /// Names the call.
        call: CallId,
        /// The step.
        step: StepId,
        /// The worker.
        session: Session,
    },
    /// A tensor is produced.
    Send {
        /// Names the call.
        call: CallId,
        /// The step.
        step: StepId,
        /// The key.
        key: Key,
        /// What the sender says of its memory.
        args: Args,
        /// The tensor.
        value: Value<T>,
        /// Whether the sender waits where there is no room; it is refused otherwise.
        waits: bool,
    },
    /// A tensor is wanted here, from wherever its key says.
    Recv {
        /// Names the call.
        call: CallId,
        /// The step.
        step: StepId,
        /// The key.
        key: Key,
        /// What the receiver says of its memory.
        args: Args,
        /// How long it waits; `None` for as long as it takes.
        timeout: Option<Duration>,
    },
    /// A tensor of this worker is wanted, by another worker or in its place.
    RecvLocal {
        /// Names the call.
        call: CallId,
        /// The step.
        step: StepId,
        /// The key.
        key: Key,
        /// How long it is waited for; `None` for as long as it takes.
        timeout: Option<Duration>,
        /// What another worker says of its request; `None` if somebody here asks.
        asked: Option<Asked>,
    },
    /// Another worker has what answered its request.
    MarkRecvFinished {
        /// The request.
        request: RequestId,
    },
    /// Nobody waits for this call any more.
    Cancel {
        /// The call.
        call: CallId,
    },
    /// A tensor came from another worker.
    Fetched {
        /// The call for which it was fetched.
        call: CallId,
        /// The tensor.
        value: Value<T>,
    },
    /// A tensor did not come from another worker.
    NotFetched {
        /// The call for which it was to be fetched.
        call: CallId,
        /// Why not.
        failure: Failure,
    },
    /// A step cannot go on.
    Abort {
        /// The step.
        step: StepId,
        /// Why.
        status: Status,
    },
    /// A step is over.
    Cleanup {
        /// The step.
        step: StepId,
    },
    /// All steps are over: the worker ends.
    CleanupAll,
    /// Time has passed. Early and repeated ticks do nothing.
    Tick,
}

/// Why a tensor was not fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The other worker says so.
    Refused(Status),
    /// There was no way to it, or the way broke. The request may be made again.
    Away(Status),
    /// As [`Failure::Away`], but the tensor may have been given out, and who gave it out does not keep
    /// it.
    Lost(Status),
}

/// What a rendezvous asks of its driver, to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<T> {
    /// The answer to [`Input::Find`] and to [`Input::Initialize`].
    Done {
        /// The call.
        call: CallId,
        /// The answer.
        result: Result<(), Status>,
    },
    /// The answer to a sender.
    Sent {
        /// The call.
        call: CallId,
        /// The answer: whether the tensor was taken on.
        result: Result<(), Status>,
    },
    /// The answer to a receiver.
    Received {
        /// The call.
        call: CallId,
        /// The answer.
        result: Result<Delivery<T>, Status>,
    },
    /// Fetch a tensor from another worker, without a deadline, and report [`Input::Fetched`] or
    /// [`Input::NotFetched`].
    Fetch {
        /// The call.
        call: CallId,
        /// The step.
        step: StepId,
        /// The key.
        key: Key,
        /// The worker: `/job:NAME/replica:N/task:N`.
        worker: Arc<str>,
        /// The id under which to ask: that of the last time if this is not the first.
        request: RequestId,
    },
    /// Fetch it no more.
    Withdraw {
        /// The call.
        call: CallId,
    },
    /// Something worth a log line or a counter.
    Observe(Event),
}

/// Something worth a log line or a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A step ended before it was cleaned up.
    StepAborted {
        /// The step.
        step: StepId,
        /// Why.
        status: Status,
    },
    /// A step was given up because nothing happened with it.
    StepExpired {
        /// The step.
        step: StepId,
        /// Tensors that nobody had received.
        tensors: usize,
        /// Their bytes.
        bytes: u64,
        /// Calls that waited.
        waiting: usize,
    },
    /// A sender was refused for want of room.
    NoRoom {
        /// The step.
        step: StepId,
        /// The bytes of its tensor.
        bytes: u64,
    },
    /// A request came a second time.
    Repeated {
        /// The request.
        request: RequestId,
        /// Whether it was answered as the first time.
        is_answered: bool,
    },
    /// A tensor is fetched again because its worker was away.
    FetchedAgain {
        /// The step.
        step: StepId,
        /// The worker.
        worker: Arc<str>,
        /// Why it was not fetched.
        reason: String,
    },
}

/// What the text of a status begins with that only follows from another one: of several of a step, such
/// a one tells nothing.
const DERIVED: &str = "[_Derived_]";

/// Marks a status as following from another one. Once is enough.
pub fn derived(mut status: Status) -> Status {
    if !is_derived(&status) {
        status.message.insert_str(0, DERIVED);
    }
    status
}

/// Whether a status only follows from another one.
pub fn is_derived(status: &Status) -> bool {
    status.message.starts_with(DERIVED)
}

/// Of the statuses of one step the one to show: the first that does not only follow from another one.
pub fn merged<'a>(statuses: impl IntoIterator<Item = &'a Status>) -> Option<&'a Status> {
    let mut first = None;
    for status in statuses {
        if !is_derived(status) {
            return Some(status);
        }
        first.get_or_insert(status);
    }
    first
}

/// The status that a step ends with: those of who gives up follow from why.
pub(super) fn ending(status: Status) -> Status {
    match status.code {
        Code::Cancelled | Code::Aborted => derived(status),
        _ => status,
    }
}

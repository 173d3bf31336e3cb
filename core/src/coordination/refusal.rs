//! Every reason for which the coordination service refuses a request, with its gRPC code, its text
//! and what stands beside it. Clients decide by code and payload whether to try again, whether to
//! give up, and which instance of a barrier comes next; libraries look for beginnings of texts.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::types::{Fault, code_name};
use crate::ids::ServiceIncarnation;
use crate::limits::STATUS_TEXT_BYTES_MAX;
use crate::memory::NoMemory;
use crate::status::{Code, Detail, Status};

/// Why a request is refused. Tasks stand in it as their dialect names them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such namespace.
    #[error("there is no namespace named {0:?}; it needs a --namespace flag of the server")]
    UnknownNamespace(Arc<str>),
    /// The request is meant for another life (dialect X).
    #[error(
        "the request is meant for service incarnation {asked}, but the service has incarnation {}",
        ours.get()
    )]
    OtherService {
        /// The one asked for.
        asked: ServiceIncarnation,
        /// The present one.
        ours: ServiceIncarnation,
    },
    /// The request is meant for another life (no dialect X).
    #[error("the job that registered here as life {asked} is over; the present life is {ours}")]
    OtherLife {
        /// The one the connection belongs to.
        asked: ServiceIncarnation,
        /// The present one.
        ours: ServiceIncarnation,
    },
    /// A new life began while the call waited.
    #[error("the namespace began a new life, {ours}, while the call waited")]
    LifeEnded {
        /// The new one.
        ours: ServiceIncarnation,
    },
    /// No such task.
    #[error("Unexpected task {asked} with task={task}; tasks are {expected}")]
    UnknownTask {
        /// What for.
        asked: &'static str,
        /// The task.
        task: String,
        /// Which there are.
        expected: String,
    },
    /// The size said differs from the size known.
    #[error("the registration says that the job has {asked} tasks; it has {known}")]
    OtherSize {
        /// The size said.
        asked: u32,
        /// What is right.
        known: String,
    },
    /// The task is none of the job whose size was learnt from its registrations.
    #[error(
        "{task} is none of the {size} tasks that have registered; a job of another size can register \
         once these have left or are given up"
    )]
    OtherJob {
        /// The task.
        task: String,
        /// The size that was learnt.
        size: u32,
    },
    /// The number of tasks is not known yet.
    #[error("the number of tasks is not known before all have registered; give --tasks to know it")]
    SizeUnknown,
    /// A newer registration of the same task waits instead.
    #[error("{task} registered again while this registration waited")]
    RegisteredAgain {
        /// The task.
        task: String,
    },
    /// The task is there under another incarnation.
    #[error(
        "{task} is connected with incarnation {known}, and this is incarnation {asked}: the \
         process was started twice, or has restarted"
    )]
    OtherIncarnation {
        /// The task.
        task: String,
        /// The one that is there.
        known: u64,
        /// The one that speaks.
        asked: u64,
    },
    /// The incarnation belongs to a life that is over.
    #[error("incarnation {asked} of {task} belongs to a job that is over")]
    FormerIncarnation {
        /// The task.
        task: String,
        /// The one that speaks.
        asked: u64,
    },
    /// The task is in error already.
    #[error("{task} is already in error: {fault}")]
    InError {
        /// The task.
        task: String,
        /// Its error.
        fault: Arc<Fault>,
    },
    /// The task is not there.
    #[error("{task} must be registered and connected first")]
    MustRegister {
        /// The task.
        task: String,
    },
    /// Polling needs a task that is there.
    #[error("{task} cannot poll for errors: {reason}")]
    CannotPoll {
        /// The task.
        task: String,
        /// What is wrong.
        reason: String,
    },
    /// A newer poll of the same task waits instead.
    #[error("{task} polls for errors anew")]
    PolledAgain {
        /// The task.
        task: String,
    },
    /// The task left; it polls no more.
    #[error("{task} has disconnected and polls for errors no more")]
    PollEnded {
        /// The task.
        task: String,
    },
    /// The error that all who poll are told.
    #[error("{}", .0.message)]
    Spread(Arc<Fault>),
    /// Only a task that is there reports errors.
    #[error("{task} is not connected and cannot report an error")]
    CannotReport {
        /// The task.
        task: String,
    },
    /// No code of an error.
    #[error("error_code is {0}; codes of errors are 1 to 16")]
    NoErrorCode(i32),
    /// The task has left already.
    #[error("FAILED_PRECONDITION: {task} is already disconnected")]
    AlreadyLeft {
        /// The task.
        task: String,
    },
    /// A task that is not there cannot be reset.
    #[error("{task} is already disconnected")]
    NothingToReset {
        /// The task.
        task: String,
    },
    /// Agents serve that method.
    #[error("coordination agent is uninitialized: this is a service without an agent")]
    NoAgent,
    /// A version that has not come yet.
    #[error("version_number is {asked}, the newest version is {newest}")]
    FutureVersion {
        /// The version asked with.
        asked: i64,
        /// The newest.
        newest: i64,
    },
    /// Who asks for living tasks must be one of those asked for.
    #[error("{task} is not among the tasks it asks for")]
    NotAmongAsked {
        /// The task.
        task: String,
    },
    /// A barrier's instance failed, or the call does not fit it.
    #[error("{}", fault.message)]
    Barrier {
        /// The barrier.
        id: Arc<str>,
        /// Its instance.
        counter: i64,
        /// What went wrong.
        fault: Arc<Fault>,
    },
    /// A newer call of the same task waits at the barrier instead.
    #[error("{task} came to barrier {id} again")]
    CameAgain {
        /// The task.
        task: String,
        /// The barrier.
        id: Arc<str>,
    },
    /// The key is there.
    #[error("Config key {0} already exists.")]
    KeyExists(String),
    /// The key is not there.
    #[error("Config key {0} not found.")]
    NoKey(String),
    /// The value is no number, or would become none.
    #[error("cannot increment key {key} by {increment}: {reason}")]
    CannotIncrement {
        /// The key as asked.
        key: String,
        /// By how much.
        increment: i64,
        /// What is wrong.
        reason: String,
    },
    /// The key has changed since.
    #[error("key {key} has revision {found}, not {asked}")]
    OtherRevision {
        /// The key as asked.
        key: String,
        /// Its revision; 0 if it is not there.
        found: u64,
        /// The one asked for.
        asked: u64,
    },
    /// A revision that has not come yet.
    #[error("the watch begins at revision {asked}, the newest revision is {newest}")]
    FutureRevision {
        /// The revision asked with.
        asked: u64,
        /// The newest.
        newest: u64,
    },
    /// A key cannot die with a task that is not there.
    #[error("{task} is not connected: no key can be leased to it")]
    NoLease {
        /// The task.
        task: String,
    },
    /// Something is longer than its bound.
    #[error("{what} has {found} bytes; the bound is {bound}")]
    TooLong {
        /// What.
        what: &'static str,
        /// How long it is.
        found: u64,
        /// How long it may be.
        bound: u64,
    },
    /// A bound is reached.
    #[error("too many {what}: the bound is {bound}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The bound.
        bound: u64,
    },
    /// The process has no memory for more.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// The relay said that it has the result.
    #[error("relay {relay} has acknowledged request {sequence} already")]
    Acknowledged {
        /// The relay.
        relay: u64,
        /// The request.
        sequence: u64,
    },
    /// The relay used the number for something else.
    #[error("relay {relay} sent another request as number {sequence} before")]
    OtherRequest {
        /// The relay.
        relay: u64,
        /// The request.
        sequence: u64,
    },
    /// The journal takes no records at present.
    #[error("the journal takes no updates at present: {0}; retry later")]
    JournalRefuses(Arc<str>),
    /// A record did not fit the state: a defect. The node stops.
    #[error("the coordination service stopped because of a defect: {0}")]
    Defect(String),
}

impl Refusal {
    /// The gRPC code that goes with it.
    pub fn code(&self) -> Code {
        match self {
            Self::UnknownNamespace(_) | Self::NoKey(_) => Code::NotFound,
            Self::OtherService { .. } | Self::AlreadyLeft { .. } | Self::NoAgent => Code::Internal,
            Self::OtherLife { .. }
            | Self::LifeEnded { .. }
            | Self::OtherIncarnation { .. }
            | Self::FormerIncarnation { .. }
            | Self::OtherJob { .. }
            | Self::InError { .. } => Code::Aborted,
            Self::UnknownTask { .. }
            | Self::OtherSize { .. }
            | Self::MustRegister { .. }
            | Self::NoErrorCode(_)
            | Self::FutureVersion { .. }
            | Self::FutureRevision { .. }
            | Self::NotAmongAsked { .. }
            | Self::TooLong { .. }
            | Self::OtherRequest { .. } => Code::InvalidArgument,
            Self::RegisteredAgain { .. } | Self::KeyExists(_) => Code::AlreadyExists,
            Self::PolledAgain { .. } | Self::PollEnded { .. } | Self::CameAgain { .. } => {
                Code::Cancelled
            }
            Self::Spread(fault) | Self::Barrier { fault, .. } => fault.code,
            Self::SizeUnknown
            | Self::CannotPoll { .. }
            | Self::CannotReport { .. }
            | Self::NothingToReset { .. }
            | Self::CannotIncrement { .. }
            | Self::OtherRevision { .. }
            | Self::NoLease { .. }
            | Self::Acknowledged { .. } => Code::FailedPrecondition,
            Self::TooMany { .. } | Self::NoMemory(_) => Code::ResourceExhausted,
            Self::JournalRefuses(_) | Self::Defect(_) => Code::Unavailable,
        }
    }

    /// What stands beside code and text. Without the service's own mark a client takes the refusal
    /// for a broken way to the service, and registers again.
    fn details(&self) -> Vec<Detail> {
        match self {
            Self::UnknownNamespace(_)
            | Self::NotAmongAsked { .. }
            | Self::CameAgain { .. }
            | Self::KeyExists(_)
            | Self::TooMany { .. }
            | Self::NoMemory(_)
            | Self::JournalRefuses(_)
            | Self::Defect(_) => Vec::new(),
            Self::OtherService { ours, .. } | Self::LifeEnded { ours } => {
                [Detail::SERVICE, Detail::ServiceMismatch { incarnation: *ours }].into()
            }
            Self::Spread(fault) => [fault.detail()].into(),
            Self::Barrier { id, counter, fault } => {
                [fault.detail(), Detail::Barrier { id: id.clone(), counter: *counter }].into()
            }
            _ => [Detail::SERVICE].into(),
        }
    }
}

/// What a text that was cut ends with.
const CUT: &str = " [cut]";

/// Cuts a text to what a header can carry.
pub(super) fn cut(mut text: String) -> String {
    if text.len() > STATUS_TEXT_BYTES_MAX {
        let room = STATUS_TEXT_BYTES_MAX.saturating_sub(CUT.len());
        let end = (0..=room).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push_str(CUT);
    }
    text
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        use alloc::string::ToString;
        Self::new(refusal.code(), cut(refusal.to_string())).with(refusal.details())
    }
}

/// How texts quote a code with its message.
pub(super) fn quoted(code: Code, message: &str) -> String {
    alloc::format!("{}: {message}", code_name(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = "ä".repeat(STATUS_TEXT_BYTES_MAX);
        let status = Status::from(Refusal::NoKey(long));
        assert!(status.message.len() <= STATUS_TEXT_BYTES_MAX);
        assert!(status.message.len() > STATUS_TEXT_BYTES_MAX - 4);
        assert!(status.message.ends_with("ä [cut]"), "{}", &status.message[3000..]);
        assert_eq!(cut("short".into()), "short");
    }

    #[test]
    fn a_barriers_error_names_instance_and_service() {
        let fault = Arc::new(Fault::new(Code::DeadlineExceeded, "Barrier timed out."));
        let status = Status::from(Refusal::Barrier { id: "b".into(), counter: 3, fault });
        let barrier = Detail::Barrier { id: "b".into(), counter: 3 };
        assert_eq!(status.details, [Detail::SERVICE, barrier]);
        assert_eq!(status.code, Code::DeadlineExceeded);
    }
}

//! The kinds of the rendezvous' refusals, told by code and by the fixed beginning that clients of
//! TensorFlow know them by.

use rondo_core::status::{Code, Status};

/// A refusal that needs a reason of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The key names a device of another run of this worker.
    OtherRun,
    /// The request was made before.
    Repeated,
    /// The step was cleaned up.
    CleanedUp,
    /// The key's source or destination is another worker.
    Foreign,
    /// The key's source is no device of this worker.
    NoDevice,
    /// The request's id is that of a request for another tensor.
    OtherRequest,
    /// Too many answers are kept.
    TooMuchKept,
}

impl Kind {
    /// The kind of a refusal, if it is one of these.
    pub(super) fn of(status: &Status) -> Option<Self> {
        let begins = |text: &str| status.message.starts_with(text);
        Some(match status.code {
            Code::Aborted if begins("RecvTensor expects a different device incarnation: ") => {
                Self::OtherRun
            }
            Code::Aborted
                if begins("The same RecvTensor (GrpcWorker) request was received twice. ") =>
            {
                Self::Repeated
            }
            Code::Aborted if begins("Cleanup ") => Self::CleanedUp,
            Code::InvalidArgument if begins("Invalid rendezvous key (") => Self::Foreign,
            Code::InvalidArgument if begins("the request_id ") => Self::OtherRequest,
            Code::InvalidArgument => Self::NoDevice,
            Code::ResourceExhausted if begins("answers of ") => Self::TooMuchKept,
            _ => return None,
        })
    }
}

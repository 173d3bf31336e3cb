//! Refusals of a worker as TensorFlow's workers tell them to each other: what programs are to know stands
//! beside the text, in the trailer `grpc-status-details-bin`.

use bytes::Bytes;
use prost::Message;
use rondo_core::rendezvous::{derived, is_derived};
use rondo_core::status::{Code, Detail, Status};

use crate::tf::distributed_runtime::GrpcPayloadContainer;

/// What is said beside the text, without a content of its own.
const DERIVED: &str = "type.googleapis.com/tensorflow.DerivedStatus";
const POSSIBLY_RESTARTED: &str =
    "type.googleapis.com/tensorflow.distributed_runtime.WorkerPossiblyRestarted";
/// What the core's texts begin with: of statuses that only follow from others, and of keys of an earlier
/// run of the worker.
const MARK: &str = "[_Derived_]";
const OTHER_INCARNATION: &str = "RecvTensor expects a different device incarnation";
/// What those are told who wait in a step that is over. TensorFlow takes that for what only follows.
const OVER: [&str; 2] = ["Cleanup ", "Shutdown"];

/// A refusal as it leaves: with nothing in its text that is meant for programs.
pub fn encode_worker_refusal(status: Status) -> Status {
    let Status { code, mut message, mut details } = status;
    let begins = |with: &str| code == Code::Aborted && message.starts_with(with);
    let payload = if message.starts_with(MARK) || OVER.into_iter().any(begins) {
        Some(DERIVED)
    } else {
        begins(OTHER_INCARNATION).then_some(POSSIBLY_RESTARTED)
    };
    if let Some(text) = message.strip_prefix(MARK) {
        message = text.to_owned();
    }
    details.extend(payload.map(|url| {
        let payloads = [(url.to_owned(), Bytes::new())].into();
        Detail::Encoded(GrpcPayloadContainer { payloads }.encode_to_vec().into())
    }));
    Status { code, message, details }
}

/// A refusal as it came. What is not understood of what stands beside its text is left out.
pub fn decode_worker_refusal(status: Status) -> Status {
    let Status { code, message, details } = status;
    let follows = details.into_iter().any(|detail| match detail {
        Detail::Encoded(trailer) => {
            let container = GrpcPayloadContainer::decode(trailer).unwrap_or_default();
            container.payloads.contains_key(DERIVED)
        }
        _ => false,
    });
    let status = Status::new(code, message);
    if follows && !is_derived(&status) { derived(status) } else { status }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observed from TensorFlow 2.21.0.
    const TRAILER: &[u8] = b"\n0\n,type.googleapis.com/tensorflow.DerivedStatus\x12\x00";
    const RESTARTED: &[u8] = b"\nN\nJtype.googleapis.com/tensorflow.distributed_runtime.\
        WorkerPossiblyRestarted\x12\x00";

    /// An empty payload may be written or left out: it reads the same.
    fn beside(status: &Status) -> GrpcPayloadContainer {
        match status.details.as_slice() {
            [] => GrpcPayloadContainer::default(),
            [Detail::Encoded(trailer)] => payloads(trailer),
            other => panic!("{other:?}"),
        }
    }

    fn payloads(trailer: &[u8]) -> GrpcPayloadContainer {
        GrpcPayloadContainer::decode(trailer).unwrap()
    }

    #[test]
    fn what_only_follows_says_so_as_tensorflow_does() {
        let refusals = [
            (derived(Status::new(Code::Cancelled, "RecvAsync is cancelled.")), TRAILER),
            (derived(Status::new(Code::Aborted, "the step is over")), TRAILER),
            (Status::new(Code::Aborted, "Cleanup 7"), TRAILER),
            (Status::new(Code::Aborted, "Shutdown"), TRAILER),
            (Status::new(Code::Aborted, format!("{OTHER_INCARNATION}: 1 vs. 2.")), RESTARTED),
            (Status::new(Code::Aborted, "The same request was received twice."), &[]),
            (Status::new(Code::Internal, "Cleanup 7"), &[]),
        ];
        for (refusal, trailer) in refusals {
            let text = refusal.message.trim_start_matches(MARK).to_owned();
            let told = encode_worker_refusal(refusal.clone());
            assert_eq!((told.code, &told.message), (refusal.code, &text));
            assert_eq!(beside(&told), payloads(trailer), "{told}");
            let heard = decode_worker_refusal(told);
            assert_eq!(is_derived(&heard), trailer == TRAILER, "{heard}");
            assert_eq!((heard.code, heard.message.ends_with(&text)), (refusal.code, true));
        }
    }

    #[test]
    fn what_is_not_understood_is_left_out() {
        for trailer in [&b"nonsense"[..], b"", RESTARTED] {
            let told = Detail::Encoded(Bytes::from_static(trailer));
            let heard = decode_worker_refusal(Status::new(Code::Internal, "broken").with([told]));
            assert_eq!(heard, Status::new(Code::Internal, "broken"));
        }
    }
}

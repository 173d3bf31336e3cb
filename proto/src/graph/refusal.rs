//! Refusals to split, in the words of TensorFlow where it has any: clients look for them.

use rondo_core::limits::SOURCES_MAX;
use rondo_core::status::{Code, Status};

use super::error::GraphError;

/// Why a graph gives no sources.
#[derive(Debug)]
pub(super) enum Stop {
    /// The bytes are no message.
    Malformed(GraphError),
    /// The message is fine, the dataset in it cannot be split.
    Refused(Status),
}

impl From<GraphError> for Stop {
    fn from(error: GraphError) -> Self {
        Self::Malformed(error)
    }
}

/// Refuses to split, with the code and text for whoever asks for splits.
pub(super) fn refused(code: Code, message: impl Into<String>) -> Stop {
    Stop::Refused(Status::new(code, message))
}

/// A name for a text: readable whatever its bytes, and of bounded length.
pub(super) fn shown(name: &[u8]) -> String {
    const SHOWN_MAX: usize = 200;
    let cut = name.get(..SHOWN_MAX).unwrap_or(name);
    let ellipsis = if cut.len() < name.len() { "..." } else { "" };
    format!("{}{ellipsis}", String::from_utf8_lossy(cut))
}

/// More sources than a plan may have.
pub(super) fn too_many_sources() -> Stop {
    let text = format!("Cannot split a dataset of more than {SOURCES_MAX} sources");
    refused(Code::ResourceExhausted, text)
}

/// A dataset node that does not have the input it should.
pub(super) fn wrong_input(dataset: &[u8], problem: &str) -> Stop {
    let name = shown(dataset);
    let text = format!("Cannot create split providers: dataset '{name}' {problem}");
    refused(Code::InvalidArgument, text)
}

/// `snapshot`: its reader may take the place of its input.
pub(super) fn snapshot() -> Stop {
    refused(Code::Unimplemented, "Splitting is not implemented for snapshot datasets.")
}

/// Loading a snapshot.
pub(super) fn snapshot_chunks() -> Stop {
    refused(
        Code::Unimplemented,
        "Splitting is not implemented for a snapshot that is read while it may still be written. \
         Use a sharding policy other than DYNAMIC.",
    )
}

/// A dataset with no input dataset, or with several, that cannot be split itself.
pub(super) fn not_unary(op: &str, arity: usize) -> Stop {
    let op = shown(op.as_bytes());
    let text = format!(
        "Cannot create split providers for dataset of type {op}, because the dataset is not unary \
         (instead having arity {arity}), and no custom implementation of `MakeSplitProvider` is \
         defined."
    );
    refused(Code::Unimplemented, text)
}

/// An op that does not say what it reads.
pub(super) fn opaque(op: &str) -> Stop {
    let op = shown(op.as_bytes());
    let text = format!(
        "Cannot create split providers for dataset of type {op}, because the dataset implements \
         neither `InputDatasets` nor `MakeSplitProvider`."
    );
    refused(Code::Unimplemented, text)
}

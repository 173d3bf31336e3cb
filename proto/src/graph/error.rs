//! What is wrong with bytes that should be a message.

use rondo_core::status::{Code, Status};
use thiserror::Error;

use crate::dataset::DATASET_VERSION;

/// Bytes that are not the protobuf message they should be.
///
/// Offsets count bytes from the start of the outermost message named.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GraphError {
    /// A field is longer than the message that holds it.
    #[error(
        "the {message} is cut short: the field at byte {offset} needs {needed} bytes, {left} are left"
    )]
    Truncated {
        /// The outermost message.
        message: &'static str,
        /// Where the field starts.
        offset: usize,
        /// Bytes the field says it has.
        needed: u64,
        /// Bytes there are.
        left: usize,
    },
    /// A variable-length integer does not end, or has more than 64 bits.
    #[error(
        "the {message} is malformed: the integer at byte {offset} does not end within 10 bytes"
    )]
    BadVarint {
        /// The outermost message.
        message: &'static str,
        /// Where the integer starts.
        offset: usize,
    },
    /// A field tag with a number or a wire type that protobuf does not have.
    #[error(
        "the {message} is malformed: {tag} at byte {offset} is no field tag (field {}, wire type {})",
        .tag >> 3, .tag & 7
    )]
    BadTag {
        /// The outermost message.
        message: &'static str,
        /// Where the tag stands.
        offset: usize,
        /// The tag.
        tag: u64,
    },
    /// Messages or groups nested more deeply than protobuf's own readers allow.
    #[error("the {message} is nested too deeply: more than {depth_max} levels at byte {offset}")]
    TooDeep {
        /// The outermost message.
        message: &'static str,
        /// Where the level too many starts.
        offset: usize,
        /// Levels allowed.
        depth_max: usize,
    },
    /// A dataset of Rondo's own that another Rondo made.
    #[error(
        "the dataset is of version {version}; this Rondo knows versions from 1 to {DATASET_VERSION}"
    )]
    DatasetVersion {
        /// Its version.
        version: u32,
    },
    /// A dataset of Rondo's own that is not as it should be.
    #[error("the RondoDataset is malformed: {problem}")]
    Dataset {
        /// What is wrong, and what would be right.
        problem: String,
    },
}

impl From<GraphError> for Status {
    fn from(error: GraphError) -> Self {
        let code = match &error {
            // What is newer may be right; what is damaged is not.
            GraphError::DatasetVersion { .. } => Code::FailedPrecondition,
            _ => Code::InvalidArgument,
        };
        Self::new(code, error.to_string())
    }
}

//! Why a data directory cannot be used.

use super::StoreError;
use super::directory::{FORMAT, FORMAT_FILE, StoreKind};

/// A data directory cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Its name stands for something else.
    #[error("data directory {path} is not a directory")]
    NotADirectory {
        /// The directory.
        path: String,
    },
    /// It cannot be created, because nothing is there to create it in.
    #[error("data directory {path} does not exist, and neither does the directory it would be in")]
    NoParent {
        /// The directory.
        path: String,
    },
    /// The system does not let us write.
    #[error("data directory {path} cannot be written to: {reason}")]
    Unwritable {
        /// The directory.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// It is used for something else.
    #[error(
        "data directory {path} has no file {FORMAT_FILE}, but it has {found}: it is not Rondo's and \
         will not be touched. Name an empty directory, or one that does not exist"
    )]
    Foreign {
        /// The directory.
        path: String,
        /// What is in it.
        found: String,
    },
    /// A later release created it.
    #[error("data directory {path} has format {found}, this release uses format {FORMAT}")]
    Newer {
        /// The directory.
        path: String,
        /// Its format.
        found: u32,
    },
    /// Its journal is of another kind than was asked for.
    #[error(
        "data directory {path} keeps its journal in store \"{found}\", but \"{asked}\" was asked for"
    )]
    OtherStore {
        /// The directory.
        path: String,
        /// The kind it has.
        found: StoreKind,
        /// The kind asked for.
        asked: StoreKind,
    },
    /// Another server uses it.
    #[error("data directory {path} is used by another server: {holder}")]
    Locked {
        /// The directory.
        path: String,
        /// What stands in the lock file, such as `pid 42`.
        holder: String,
    },
    /// Something is missing from it or wrong with it.
    #[error("data directory {path} is damaged: {reason}")]
    Damaged {
        /// The directory.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// Anything else.
    #[error(transparent)]
    Failed(#[from] StoreError),
}

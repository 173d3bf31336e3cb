//! What goes wrong with data: which file, where in it, and what.

use rondo_core::status::{Code, Status};
use thiserror::Error;

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DataError {
    /// The pipeline cannot be what was meant.
    #[error("the pipeline is wrong: {what}")]
    Pipeline {
        /// What is wrong in it, and what would be right.
        what: String,
    },
    /// Written by a newer Rondo.
    #[error("the {what} is of version {found}; this Rondo knows versions up to {known}")]
    Newer {
        /// What it is.
        what: &'static str,
        /// Its version.
        found: u64,
        /// The newest version known here.
        known: u32,
    },
    /// The bytes of a dataset's definition are not what they should be.
    #[error("the dataset's definition is damaged: {what}")]
    Definition {
        /// What is wrong in them.
        what: String,
    },
    /// A pattern that no file fits.
    #[error("no file fits {pattern}")]
    NoFiles {
        /// The pattern.
        pattern: String,
    },
    /// A file that is not there.
    #[error("{file} does not exist")]
    Missing {
        /// The file.
        file: String,
    },
    /// A file that holds something else than it should.
    #[error("{file} is corrupt at {unit} {offset}: {what}")]
    Corrupt {
        /// The file.
        file: String,
        /// What is counted: `byte`, or `byte … of its decompressed content`, or `row`.
        unit: &'static str,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A file of another form than its source is for.
    #[error("{file} is no {wanted} file: {found}")]
    OtherForm {
        /// The file.
        file: String,
        /// The form that its source is for.
        wanted: &'static str,
        /// The form that its first bytes show.
        found: String,
    },
    /// A file that is another one than when the dataset was registered.
    #[error(
        "{file} has changed since the dataset was registered: it was {planned}, now it is {found}; \
         register the dataset again, under another id or with --replace"
    )]
    Changed {
        /// The file.
        file: String,
        /// Its size and version then.
        planned: String,
        /// Its size and version now.
        found: String,
    },
    /// Files whose records have different columns.
    #[error("{file} has other columns than {first}: {what}")]
    Mixed {
        /// The file.
        file: String,
        /// The first one.
        first: String,
        /// What is different.
        what: String,
    },
    /// A column that is not there.
    #[error("{operation} names the column {column:?}; there are {there}")]
    NoColumn {
        /// What names it.
        operation: &'static str,
        /// The column.
        column: String,
        /// Those that are there.
        there: String,
    },
    /// A column whose values are not of the type that is needed.
    #[error("column {column:?}: {what}")]
    Type {
        /// The column.
        column: String,
        /// What does not fit.
        what: String,
    },
    /// A value that is not what is needed.
    #[error("column {column:?}, row {row} of its batch: {what}")]
    Value {
        /// The column.
        column: String,
        /// The record's place in the batch, from 0 on.
        row: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A bound is reached.
    #[error("{what}: {found}, at most {bound} are allowed ({setting})")]
    Bound {
        /// What is too much, where.
        what: String,
        /// How much.
        found: u64,
        /// The bound.
        bound: u64,
        /// Its name.
        setting: &'static str,
    },
    /// A store that cannot be read now; it may be later.
    #[error("{file} cannot be read now: {what}")]
    Unavailable {
        /// The file.
        file: String,
        /// What its store says.
        what: String,
    },
    /// A store that cannot be read.
    #[error("{file} cannot be read: {what}")]
    Store {
        /// The file.
        file: String,
        /// What its store says.
        what: String,
    },
    /// A store that does not let this process read a file.
    #[error("{file} may not be read: {what}")]
    Denied {
        /// The file.
        file: String,
        /// What its store says.
        what: String,
    },
    /// A split that the dataset does not have.
    #[error("there is no split {split}: the dataset has {splits} in each of {passes}")]
    NoSplit {
        /// The split asked for.
        split: i64,
        /// Splits of a pass.
        splits: u64,
        /// Passes, for people.
        passes: String,
    },
    /// A dataset that cannot be read the way that was asked for.
    #[error("{what}")]
    Unfit {
        /// Why.
        what: String,
    },
    /// Something that cannot be.
    #[error("internal error: {what}")]
    Internal {
        /// What.
        what: String,
    },
}

impl DataError {
    pub(crate) fn pipeline(what: impl Into<String>) -> Self {
        Self::Pipeline { what: what.into() }
    }

    pub(crate) fn definition(what: impl Into<String>) -> Self {
        Self::Definition { what: what.into() }
    }

    pub(crate) fn internal(what: impl Into<String>) -> Self {
        Self::Internal { what: what.into() }
    }

    pub(crate) fn column(column: &str, what: impl Into<String>) -> Self {
        Self::Type { column: column.to_owned(), what: what.into() }
    }

    /// The gRPC code with which it is answered. Only [`Self::Unavailable`] has one after which
    /// callers try again.
    pub const fn code(&self) -> Code {
        match self {
            Self::Pipeline { .. }
            | Self::NoColumn { .. }
            | Self::OtherForm { .. }
            | Self::Type { .. }
            | Self::Value { .. }
            | Self::NoSplit { .. } => Code::InvalidArgument,
            Self::Newer { .. } | Self::Changed { .. } | Self::Mixed { .. } | Self::Unfit { .. } => {
                Code::FailedPrecondition
            }
            Self::NoFiles { .. } | Self::Missing { .. } => Code::NotFound,
            Self::Definition { .. } | Self::Corrupt { .. } => Code::DataLoss,
            Self::Bound { .. } => Code::ResourceExhausted,
            Self::Unavailable { .. } => Code::Unavailable,
            Self::Denied { .. } => Code::PermissionDenied,
            Self::Store { .. } | Self::Internal { .. } => Code::Internal,
        }
    }

    /// Whether the same may be read later.
    pub(crate) const fn may_pass(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// What is wrong with a file's columns, said of the file.
    pub(crate) fn of(self, file: &str) -> Self {
        match self {
            Self::Type { column, what } => {
                Self::Type { column, what: format!("{what}, in {file}") }
            }
            Self::Bound { what, found, bound, setting } if !what.contains(file) => {
                Self::Bound { what: format!("{file}: {what}"), found, bound, setting }
            }
            other => other,
        }
    }

    /// The refusal with which it is answered.
    pub fn status(&self) -> Status {
        Status::new(self.code(), self.to_string())
    }
}

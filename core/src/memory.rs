//! How much memory the process has left for what its machines keep.

use alloc::sync::Arc;

/// How much memory is left, as the driver sees it. A machine refuses what takes memory that is not left, and
/// goes on with all that a running job needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// Enough: the machine's other bounds alone count.
    #[default]
    Enough,
    /// None for more state: new keys, datasets, jobs, workers and positions are refused.
    Short(Arc<str>),
    /// None at all: new iterations, clients, descriptions of devices and waits for keys are refused as well.
    /// Barriers and watches are not: a job that runs needs them, and their number has a bound of its own.
    None(Arc<str>),
}

impl Memory {
    /// Why nothing can be added to the state, if so.
    pub(crate) const fn refuses_state(&self) -> Option<&Arc<str>> {
        match self {
            Self::Enough => None,
            Self::Short(reason) | Self::None(reason) => Some(reason),
        }
    }

    /// Why nothing can be added at all, if so.
    pub(crate) const fn refuses_all(&self) -> Option<&Arc<str>> {
        match self {
            Self::Enough | Self::Short(_) => None,
            Self::None(reason) => Some(reason),
        }
    }
}

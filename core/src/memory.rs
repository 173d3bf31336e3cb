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

/// A machine refuses a request for want of memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no memory for more {what}: {reason}")]
pub struct NoMemory {
    what: &'static str,
    /// How much memory is in use, and what makes room.
    reason: Arc<str>,
}

impl Memory {
    /// Refuses more of something that stays in the state.
    ///
    /// # Errors
    /// When memory is short.
    pub(crate) fn check_state(&self, what: &'static str) -> Result<(), NoMemory> {
        match self {
            Self::Enough => Ok(()),
            Self::Short(reason) | Self::None(reason) => {
                Err(NoMemory { what, reason: reason.clone() })
            }
        }
    }

    /// Refuses more of something that running jobs need.
    ///
    /// # Errors
    /// When no memory is left.
    pub(crate) fn check_all(&self, what: &'static str) -> Result<(), NoMemory> {
        match self {
            Self::Enough | Self::Short(_) => Ok(()),
            Self::None(reason) => Err(NoMemory { what, reason: reason.clone() }),
        }
    }
}

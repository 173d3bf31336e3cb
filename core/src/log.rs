//! What every machine with a journal shares: who gives out positions, and why a record is not
//! taken.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Display;

use crate::ids::Lsn;
use crate::time::Time;

/// One step of a machine: when it happens, and where its effects go.
#[derive(Debug)]
pub struct Turn<'a, E> {
    /// Now.
    pub now: Time,
    /// Gives out positions.
    pub log: &'a mut Log,
    /// Takes the effects.
    pub out: &'a mut Vec<E>,
}

/// Gives out journal positions.
#[derive(Clone, Debug)]
pub struct Log {
    next: Lsn,
    refuses: Option<Arc<str>>,
}

impl Log {
    /// A log whose next record gets this position.
    pub const fn starting_at(next: Lsn) -> Self {
        Self { next, refuses: None }
    }

    /// The newest record's position.
    pub const fn last(&self) -> Lsn {
        Lsn::new(self.next.get().saturating_sub(1))
    }

    /// Says that no record can be taken at present, and why; `None` ends that.
    pub fn refuse(&mut self, reason: Option<Arc<str>>) {
        self.refuses = reason;
    }

    /// Why no record can be taken at present, if so.
    pub const fn refuses(&self) -> Option<&Arc<str>> {
        self.refuses.as_ref()
    }

    /// The next record's position.
    pub(crate) const fn next(&self) -> Lsn {
        self.next
    }

    /// The next position is taken.
    pub(crate) fn advance(&mut self) {
        self.next = self.next.next();
    }
}

/// A record or snapshot part does not fit the state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ApplyError(pub(crate) String);

pub(crate) fn missing(kind: &str, id: impl Display) -> ApplyError {
    ApplyError(format!("{kind} {id} does not exist"))
}

pub(crate) fn exists(kind: &str, id: impl Display) -> ApplyError {
    ApplyError(format!("{kind} {id} exists already"))
}

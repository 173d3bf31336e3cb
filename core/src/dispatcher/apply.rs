//! The only code that changes the durable state.

use alloc::string::String;

use super::record::Record;
use super::snapshot::Part;
use super::state::State;
use crate::ids::Lsn;

/// A record or snapshot part does not fit the state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ApplyError(pub String);

impl State {
    /// Applies one record.
    ///
    /// # Errors
    /// When the record names what does not exist, or creates what does.
    pub fn apply(&mut self, _lsn: Lsn, _record: &Record) -> Result<(), ApplyError> {
        Ok(())
    }
    /// Takes one part of a snapshot.
    ///
    /// # Errors
    /// When the part names what no part before it brought.
    pub fn restore(&mut self, _part: Part) -> Result<(), ApplyError> {
        Ok(())
    }
    /// The state in parts.
    pub fn parts(&self) -> alloc::vec::Vec<Part> {
        alloc::vec::Vec::new()
    }
}

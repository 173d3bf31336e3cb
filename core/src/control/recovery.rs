//! Rebuilding a node's durable state from a snapshot's parts and the records after it.

use alloc::vec::Vec;

use super::effect::{Part, Record};
use crate::dispatcher::{ApplyError, State};
use crate::ids::Lsn;

/// A node's durable state while it is rebuilt; also what builds snapshots, offline, beside a
/// serving node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recovery {
    dispatcher: State,
    applied: Lsn,
}

/// A node's durable state as the journal has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recovered {
    /// The dispatcher's.
    pub dispatcher: State,
    /// The last record in it.
    pub applied: Lsn,
}

impl Recovery {
    /// Starts with nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes on from a state that was recovered before.
    pub fn resuming(recovered: Recovered) -> Self {
        Self { dispatcher: recovered.dispatcher, applied: recovered.applied }
    }

    /// Takes the next part of a snapshot.
    ///
    /// # Errors
    /// When the part names something that no part before it brought.
    pub fn restore(&mut self, part: Part) -> Result<(), ApplyError> {
        match part {
            Part::Dispatcher(part) => self.dispatcher.restore(part),
        }
    }

    /// Says that the parts so far hold everything up to this record.
    pub fn restored_upto(&mut self, lsn: Lsn) {
        self.applied = lsn;
    }

    /// Applies the record at `lsn`, the one after the last applied.
    ///
    /// # Errors
    /// When the record does not fit the state: it was not written by this node's history.
    pub fn apply(&mut self, lsn: Lsn, record: &Record) -> Result<(), ApplyError> {
        match record {
            Record::Dispatcher(record) => self.dispatcher.apply(lsn, record)?,
        }
        self.applied = lsn;
        Ok(())
    }

    /// The dispatcher's state so far.
    pub const fn dispatcher(&self) -> &State {
        &self.dispatcher
    }

    /// The last record applied.
    pub const fn applied(&self) -> Lsn {
        self.applied
    }

    /// The state in parts, for a snapshot.
    pub fn parts(&self) -> Vec<Part> {
        self.dispatcher.parts().into_iter().map(Part::Dispatcher).collect()
    }

    /// Ends the rebuilding.
    pub fn finish(self) -> Recovered {
        Recovered { dispatcher: self.dispatcher, applied: self.applied }
    }
}

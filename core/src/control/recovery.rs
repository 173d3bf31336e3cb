//! Rebuilding a node's durable state from a snapshot's parts and the records after it.

use alloc::vec::Vec;

use super::effect::{Part, Record};
use crate::ids::Lsn;
use crate::log::ApplyError;
use crate::{coordination, dispatcher};

/// A node's durable state while it is rebuilt; also what builds snapshots, offline, beside a
/// serving node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recovery {
    dispatcher: dispatcher::State,
    coordination: coordination::State,
    applied: Lsn,
}

/// A node's durable state as the journal has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recovered {
    /// The dispatcher's.
    pub dispatcher: dispatcher::State,
    /// The coordination service's.
    pub coordination: coordination::State,
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
        let Recovered { dispatcher, coordination, applied } = recovered;
        Self { dispatcher, coordination, applied }
    }

    /// Takes the next part of a snapshot.
    ///
    /// # Errors
    /// When the part names something that no part before it brought.
    pub fn restore(&mut self, part: Part) -> Result<(), ApplyError> {
        match part {
            Part::Dispatcher(part) => self.dispatcher.restore(part),
            Part::Coordination(part) => self.coordination.restore(part),
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
            Record::Coordination(record) => self.coordination.apply(lsn, record)?,
        }
        self.applied = lsn;
        Ok(())
    }

    /// The dispatcher's state so far.
    pub const fn dispatcher(&self) -> &dispatcher::State {
        &self.dispatcher
    }

    /// The coordination service's state so far.
    pub const fn coordination(&self) -> &coordination::State {
        &self.coordination
    }

    /// The last record applied.
    pub const fn applied(&self) -> Lsn {
        self.applied
    }

    /// The state in parts, for a snapshot.
    pub fn parts(&self) -> Vec<Part> {
        self.each_part().collect()
    }

    /// The state in parts, those of the coordination service each made when it is asked for.
    pub fn each_part(&self) -> impl Iterator<Item = Part> + '_ {
        let dispatcher = self.dispatcher.parts().into_iter().map(Part::Dispatcher);
        dispatcher.chain(self.coordination.parts().map(Part::Coordination))
    }

    /// Ends the rebuilding.
    pub fn finish(self) -> Recovered {
        let Self { dispatcher, coordination, applied } = self;
        Recovered { dispatcher, coordination, applied }
    }
}

//! The durable state as the records make it, beside the node.

use std::collections::VecDeque;

use rondo_core::control::{Record, Recovered, Recovery};
use rondo_core::coordination;
use rondo_core::dispatcher::State;
use rondo_core::ids::Lsn;

use super::Seen;
use crate::checks::{Check, reached};

/// The state that all records written so far make, and those of them that may still be lost.
#[derive(Default)]
pub struct Shadow {
    live: Recovery,
    /// What a crash leaves of it: the state that the durable ones among the records make.
    kept: Recovery,
    /// Records that are not durable yet, in order.
    open: VecDeque<(Lsn, Record)>,
    durable: Lsn,
}

impl Shadow {
    /// The state that all records make.
    pub fn state(&self) -> &State {
        self.live.dispatcher()
    }

    /// The state that a crash leaves.
    pub fn durable_state(&self) -> &State {
        self.kept.dispatcher()
    }

    /// The coordination service's state that all records make.
    pub const fn coordination(&self) -> &coordination::State {
        self.live.coordination()
    }

    /// The coordination service's state that a crash leaves.
    pub const fn durable_coordination(&self) -> &coordination::State {
        self.kept.coordination()
    }

    /// The newest record.
    pub const fn last(&self) -> Lsn {
        self.live.applied()
    }

    /// How far the disk has said that the journal is durable.
    pub const fn durable(&self) -> Lsn {
        self.durable
    }

    /// The journal is another one from here on, all of it durable, and makes this state.
    pub fn replace(&mut self, state: &Recovered) {
        self.live = Recovery::resuming(state.clone());
        self.kept = Recovery::resuming(state.clone());
        self.open.clear();
        self.durable = state.applied;
    }

    /// Whether a recovered state is that of the records up to its own last one. The records behind
    /// it must lead from it to the live state.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check_prefix(&self, recovered: &Recovered) -> Result<(), String> {
        let (last, applied) = (self.last(), recovered.applied);
        if applied > last {
            return Err(format!("record {applied} was recovered, {last} was the last written"));
        }
        let first_open = self.open.front().map_or(last.next(), |(lsn, _)| *lsn);
        if applied.next() < first_open {
            // Durable ones are missing: what is there can be said to be a prefix no more.
            return Ok(());
        }
        reached(Check::Invented);
        let mut onward = Recovery::resuming(recovered.clone());
        for (lsn, record) in self.open.iter().filter(|(lsn, _)| *lsn > applied) {
            onward.apply(*lsn, record).map_err(|error| {
                format!("record {lsn} does not fit what was recovered up to {applied}: {error}")
            })?;
        }
        match onward == self.live {
            true => Ok(()),
            false => Err(format!("what was recovered up to {applied} is not what was written")),
        }
    }

    /// Before the oracles look: the order of records.
    pub(super) fn before(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Recorded { lsn, .. } if *lsn != self.last().next() => {
                Err(format!("record {lsn} was written where {} belongs", self.last().next()))
            }
            _ => Ok(()),
        }
    }

    /// After the oracles have looked, who thus see the state before a record.
    pub(super) fn after(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Recorded { lsn, record, .. } => {
                self.open.push_back((*lsn, (*record).clone()));
                self.live.apply(*lsn, record).map_err(|error| {
                    format!("record {lsn} does not fit those before it: {error}")
                })?;
            }
            Seen::Durable(upto) => {
                self.durable = self.durable.max(*upto);
                while self.open.front().is_some_and(|(lsn, _)| *lsn <= *upto) {
                    let Some((lsn, record)) = self.open.pop_front() else {
                        break;
                    };
                    self.kept.apply(lsn, &record).map_err(|error| {
                        format!("durable record {lsn} does not fit those before it: {error}")
                    })?;
                }
            }
            Seen::Recovered { state, .. } => self.replace(state),
            _ => {}
        }
        Ok(())
    }
}

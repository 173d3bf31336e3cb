//! One task of a worker.

use alloc::vec::Vec;
use bytes::Bytes;

use super::buffer::{Buffer, End};
use super::retry::Retry;
use super::runner::Runner;
use super::supply::Supply;
use super::types::{Part, RpcId, RunId, TaskDef};
use crate::ids::CallId;
use crate::time::Time;

/// How far a task's dataset is open. Nothing is done before somebody asks for an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// Nobody has asked, or it did not work.
    Closed,
    /// The dispatcher is asked for the definition.
    Definition(RpcId),
    /// The dispatcher is asked about compression.
    Compression(RpcId),
    /// The driver opens it.
    Under(RunId),
    /// It is open.
    Open(RunId),
}

/// Whether the dispatcher knows that a task is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// It is not over.
    No,
    /// It is being told.
    Telling,
    /// It was told: consumers may know. Before, they must not: one that knows asks no more, and were
    /// this process to die, the next one would never come to the end that nobody knows of.
    Told,
}

/// A task.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) def: TaskDef,
    pub(super) definition: Option<Bytes>,
    pub(super) compressed: Option<bool>,
    pub(super) opening: Opening,
    /// Calls that wait for the definition alone.
    pub(super) readers: Vec<CallId>,
    pub(super) supply: Supply,
    pub(super) ready: Buffer,
    pub(super) runner: Runner,
    /// Elements on their way to consumers.
    pub(super) leaving: usize,
    pub(super) over: Over,
    /// The dispatcher is asked about compression again.
    pub(super) retry: Option<Retry>,
}

impl Task {
    pub(super) fn new(def: TaskDef, cache_bytes: u64) -> Self {
        Self {
            definition: def.definition.clone(),
            compressed: None,
            opening: Opening::Closed,
            readers: Vec::new(),
            supply: Supply::of(def.part),
            ready: Buffer::default(),
            runner: Runner::of(&def, cache_bytes),
            leaving: 0,
            over: Over::No,
            retry: None,
            def,
        }
    }

    /// The production of its elements, if there is one.
    pub(super) const fn run(&self) -> Option<RunId> {
        match self.opening {
            Opening::Under(run) | Opening::Open(run) => Some(run),
            Opening::Closed | Opening::Definition(_) | Opening::Compression(_) => None,
        }
    }

    /// Whether it holds, or makes, elements that nobody else will: of splits it has taken.
    pub(super) fn owes(&self) -> bool {
        let makes = self.ready.end.is_none() && matches!(self.opening, Opening::Open(_));
        self.def.part == Part::Splits && (makes || !self.ready.is_empty())
    }

    /// Whether all its elements have left.
    pub(super) fn is_exhausted(&self) -> bool {
        let over = self.ready.end == Some(End::Over);
        let ends = matches!(self.runner, Runner::FirstCome(_));
        over && ends && self.ready.is_empty() && self.leaving == 0
    }

    /// When something is to be done for it though nothing happens.
    pub(super) fn deadline(&self) -> Option<Time> {
        let retry = self.retry.as_ref().and_then(Retry::at);
        [self.runner.deadline(), self.supply.retry_at(), retry].into_iter().flatten().min()
    }
}

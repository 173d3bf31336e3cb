//! How a task's elements come to its consumers.

use alloc::vec::Vec;
use bytes::Bytes;

use super::buffer::Buffer;
use super::cache::Cache;
use super::first_come::FirstCome;
use super::rounds::Rounds;
use super::types::{ElementAsk, TaskDef};
use crate::ids::CallId;
use crate::status::Status;
use crate::time::{Duration, Time};

/// How long a consumer that allows a skip waits for an element before it is sent to another task.
const SKIP_AFTER: Duration = Duration::from_millis(5);

/// What a consumer gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// An element, and what is done with it if it does not leave.
    Element(Bytes, Back),
    /// There are no more.
    End,
    /// Ask again.
    Skip,
}

/// Where an element goes that has not left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Back {
    /// To its place among those that are ready.
    Ready(u64),
    /// To the trainer that has not got it, by its place in the stream.
    Trainer(alloc::string::String, u64),
    /// Nowhere: it is kept for its consumer anyway.
    Kept,
}

/// A call and what it gets.
pub(super) type Handed = (CallId, Result<Given, Status>);

/// A way of handing out elements.
#[derive(Clone, Debug)]
pub(super) enum Runner {
    /// Each to whoever comes first.
    FirstCome(FirstCome),
    /// One to each consumer in each round.
    Rounds(Rounds),
    /// All to each trainer.
    Cache(Cache),
}

impl Runner {
    /// The way that a task wants.
    pub(super) fn of(task: &TaskDef, cache_bytes: u64) -> Self {
        match task.consumers {
            Some(consumers) => Self::Rounds(Rounds::new(task.task, consumers)),
            None if task.uses_cache => Self::Cache(Cache::new(cache_bytes)),
            None => Self::FirstCome(FirstCome::default()),
        }
    }

    /// Takes a call on, which may get something in [`Self::hand_out`].
    pub(super) fn ask(
        &mut self,
        now: Time,
        call: CallId,
        ask: ElementAsk,
        is_alone: bool,
    ) -> Result<(), Status> {
        match self {
            Self::FirstCome(runner) => {
                let skips = ask.allow_skip && !is_alone;
                runner.ask(call, skips.then(|| now.after(SKIP_AFTER)));
                Ok(())
            }
            Self::Rounds(runner) => runner.ask(call, &ask),
            Self::Cache(runner) => runner.ask(call, ask.trainer),
        }
    }

    /// Gives the calls that wait all they can get. The end is told only when it `is_told`.
    pub(super) fn hand_out(
        &mut self,
        now: Time,
        ready: &mut Buffer,
        is_told: bool,
        out: &mut Vec<Handed>,
    ) {
        match self {
            Self::FirstCome(runner) => runner.hand_out(now, ready, is_told, out),
            Self::Rounds(runner) => runner.hand_out(now, ready, out),
            Self::Cache(runner) => runner.hand_out(ready, out),
        }
    }

    /// When something happens to those that wait though nothing comes.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self {
            Self::FirstCome(runner) => runner.deadline(),
            Self::Rounds(runner) => runner.deadline(),
            Self::Cache(_) => None,
        }
    }

    /// Whether somebody waits.
    pub(super) fn is_waited_for(&self) -> bool {
        match self {
            Self::FirstCome(runner) => runner.is_waited_for(),
            Self::Rounds(runner) => runner.is_waited_for(),
            Self::Cache(runner) => runner.is_waited_for(),
        }
    }

    /// Forgets a call that waits.
    pub(super) fn cancel(&mut self, call: CallId) {
        match self {
            Self::FirstCome(runner) => runner.cancel(call),
            Self::Rounds(runner) => runner.cancel(call),
            Self::Cache(runner) => runner.cancel(call),
        }
    }

    /// Takes all calls that wait.
    pub(super) fn take_waiting(&mut self) -> Vec<CallId> {
        match self {
            Self::FirstCome(runner) => runner.take_waiting(),
            Self::Rounds(runner) => runner.take_waiting(),
            Self::Cache(runner) => runner.take_waiting(),
        }
    }

    /// How many elements must be ready at once.
    pub(super) fn needed(&self) -> usize {
        match self {
            Self::Rounds(runner) => runner.needed(),
            Self::FirstCome(_) | Self::Cache(_) => 1,
        }
    }

    /// An element has not left.
    pub(super) fn put_back(&mut self, back: Back, element: Bytes, ready: &mut Buffer) {
        match (back, self) {
            (Back::Ready(place), _) => ready.put_back(place, element),
            (Back::Trainer(trainer, place), Self::Cache(runner)) => runner.again(&trainer, place),
            (Back::Trainer(..) | Back::Kept, _) => {}
        }
    }
}

//! Elements that workers make and readers are handed: who they are, and what becomes of them.

use rondo_core::ids::{ClientId, IterationId, TaskId};
use rondo_core::status::Status;

/// A process of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkerLife {
    /// The worker's number.
    pub worker: u32,
    /// Which of its processes, from 0.
    pub life: u32,
}

/// A production of a task's elements, in all of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MadeBy {
    /// The process.
    pub by: WorkerLife,
    /// Its number for the production.
    pub run: u64,
}

/// An element, in all of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ElementId {
    /// Who has made it.
    pub made: MadeBy,
    /// Its place among all that were made there.
    pub place: u64,
    /// The task it is of.
    pub task: TaskId,
    /// The split it is of.
    pub split: u64,
    /// Its place in the split.
    pub offset: u64,
}

/// A life of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReaderLife {
    /// The reader's number.
    pub reader: u32,
    /// Which of its machines, from 1.
    pub life: u64,
}

/// What a reader counts of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Elements that it has received.
    pub records: u64,
    /// Elements that wait for its application.
    pub buffered: u64,
}

/// Something that happens to elements.
#[derive(Clone, Debug, PartialEq)]
pub enum OfElements {
    /// A worker's process begins.
    Began(WorkerLife),
    /// It is gone, with all it had.
    Ended(WorkerLife),
    /// It was handed a split for a task.
    Took(WorkerLife, TaskId, IterationId, u64),
    /// The dispatcher has told it that an iteration has no more splits.
    HeardEnd(WorkerLife, IterationId),
    /// The dispatcher has told it to drop a task.
    Dropped(WorkerLife, TaskId),
    /// It opened the dataset for a task; all of it if so.
    Opened(MadeBy, TaskId, IterationId, bool),
    /// Elements were made.
    Made(Vec<ElementId>),
    /// An element has left for whoever asked; in a round if there are any.
    Left(ElementId, Option<(i64, i64)>),
    /// An element that was to leave goes back, since nobody waits for it any more.
    PutBack(ElementId),
    /// A worker tells the dispatcher that a task is over.
    Over(WorkerLife, TaskId),
    /// Whoever asks it for an element of a task, in no round, is told that there are no more.
    ToldEnd(WorkerLife, TaskId),
    /// A worker that was asked to stop has stopped, before its time was over if so, with so many
    /// elements left.
    Stopped(WorkerLife, bool, u64),
    /// A reader's machine begins to read the job of this number.
    Joined(ReaderLife, u64),
    /// A reader's machine is asking for an element of a task, in a round if there are any.
    Fetching(ReaderLife, TaskId, Option<(i64, i64)>),
    /// A reader's machine takes an element.
    Received(ReaderLife, ElementId, Option<(i64, i64)>),
    /// It holds one that it has received while consumers vote on the task.
    Held(ReaderLife, ElementId),
    /// The task stays: it takes what it has held.
    Taken(ReaderLife, ElementId),
    /// All have given the task up: it drops what it has held.
    LetGo(ReaderLife, ElementId),
    /// It hands one to its application.
    Delivered(ReaderLife, ElementId),
    /// What it counts of itself.
    Counts(ReaderLife, Counted),
    /// It has nothing more to hand on: all was read, or why not. The dispatcher knows it by this
    /// number, if it does.
    ReadEnded(ReaderLife, Option<ClientId>, Result<(), Status>),
    /// It is gone, with all it had.
    Gone(ReaderLife),
}

impl OfElements {
    /// A number that mostly tells it from others.
    pub fn fingerprint(&self) -> u64 {
        let life = |by: &WorkerLife| u64::from(by.worker).rotate_left(32) ^ u64::from(by.life);
        let of = |id: &ElementId| life(&id.made.by) ^ id.made.run.rotate_left(48) ^ id.place;
        let reader = |of: &ReaderLife| u64::from(of.reader).rotate_left(32) ^ of.life;
        match self {
            Self::Began(by) => life(by),
            Self::Ended(by) => 1 ^ life(by).rotate_left(8),
            Self::Took(by, _, _, split) => life(by) ^ split.rotate_left(16),
            Self::HeardEnd(by, iteration) => {
                life(by) ^ iteration.get().cast_unsigned().rotate_left(24)
            }
            Self::Dropped(by, task) | Self::Over(by, task) | Self::ToldEnd(by, task) => {
                life(by) ^ task.get().cast_unsigned().rotate_left(16)
            }
            Self::Opened(made, ..) => life(&made.by) ^ made.run.rotate_left(48),
            Self::Made(ids) => ids.iter().map(of).fold(ids.len() as u64, u64::wrapping_add),
            Self::Left(id, _) => 2 ^ of(id),
            Self::PutBack(id) => 3 ^ of(id),
            Self::Stopped(by, _, left) => life(by) ^ left.rotate_left(16),
            Self::Fetching(by, task, _) => reader(by) ^ task.get().cast_unsigned(),
            Self::Received(by, id, _) => reader(by) ^ of(id).rotate_left(8),
            Self::Held(by, id) => 5 ^ reader(by) ^ of(id).rotate_left(8),
            Self::Taken(by, id) => 6 ^ reader(by) ^ of(id).rotate_left(8),
            Self::LetGo(by, id) => 7 ^ reader(by) ^ of(id).rotate_left(8),
            Self::Delivered(by, id) => reader(by) ^ of(id).rotate_left(12),
            Self::Counts(by, counted) => reader(by) ^ counted.records.rotate_left(8),
            Self::ReadEnded(by, _, result) => reader(by) ^ u64::from(result.is_ok()),
            Self::Joined(by, generation) => reader(by) ^ generation.rotate_left(16),
            Self::Gone(by) => 4 ^ reader(by),
        }
    }
}

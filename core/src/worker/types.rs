//! What happens to a worker, and what it asks its driver to do.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

use crate::ids::{CallId, ConnectionId, DatasetId, IterationId, TaskId};
use crate::status::Status;
use crate::time::Duration;

/// A call to the dispatcher, counted from 1 in each worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RpcId(pub u64);

/// One production of a task's elements from their beginning, counted from 1 in each worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunId(pub u64);

/// A task as the dispatcher tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskDef {
    /// The task.
    pub task: TaskId,
    /// Its iteration.
    pub iteration: IterationId,
    /// Its dataset.
    pub dataset: DatasetId,
    /// What the dataset is, encoded; `None` when the dispatcher must be asked.
    pub definition: Option<Bytes>,
    /// The worker's address as the dispatcher has it.
    pub worker_address: Arc<str>,
    /// Which part of the dataset is this task's.
    pub part: Part,
    /// How many consumers read in rounds; `None` when nobody does.
    pub consumers: Option<i64>,
    /// Whether elements are kept for several trainers.
    pub uses_cache: bool,
}

/// A task's part of its dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// The splits that the dispatcher hands out to it.
    Splits,
    /// What its place among the configured workers gives.
    Shard {
        /// What is divided.
        by: ShardBy,
        /// The place, from 0 on.
        index: u64,
        /// How many workers there are.
        of: u64,
    },
}

/// What is divided among workers that all have a fixed part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardBy {
    /// The files.
    File,
    /// The elements.
    Data,
    /// The files if there are enough, else the elements.
    FileOrData,
}

/// What a consumer or the dispatcher asks of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// `GetElement`.
    Element(ElementAsk),
    /// `ProcessTask`.
    Process(TaskDef),
    /// `GetWorkerTasks`.
    Tasks,
    /// The dataset of a task, to read a split of it.
    Dataset {
        /// The task.
        task: TaskId,
    },
}

/// A consumer's request for an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementAsk {
    /// The task.
    pub task: TaskId,
    /// The consumer and its round, if consumers read in rounds.
    pub round: Option<(i64, i64)>,
    /// Whether the task skipped the consumer's round before.
    pub skipped_previous_round: bool,
    /// Whether "ask again" is an answer.
    pub allow_skip: bool,
    /// The trainer, if elements are kept for several; else empty.
    pub trainer: String,
}

/// What a worker answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An element, encoded as the consumer wants it. Its driver says with [`Input::Left`] or
    /// [`Input::Cancel`] what has become of it.
    Element(Bytes),
    /// There are no more.
    End,
    /// Ask again.
    Skip,
    /// Done.
    Done,
    /// The tasks it holds.
    Tasks(Vec<(TaskId, IterationId)>),
    /// The encoded definition of a task's dataset.
    Dataset(Bytes),
}

/// A request to the dispatcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `GetVersion`.
    Version,
    /// `WorkerHeartbeat`.
    Heartbeat {
        /// The tasks it holds, those that are over among them.
        tasks: Vec<TaskId>,
    },
    /// `WorkerUpdate`.
    Update {
        /// Tasks that are over.
        completed: Vec<TaskId>,
    },
    /// `GetSplit`.
    Split {
        /// Of which iteration.
        iteration: IterationId,
    },
    /// `DisableCompressionAtRuntime`.
    Compression {
        /// Of which dataset.
        dataset: DatasetId,
    },
    /// `GetDatasetDef`.
    Definition {
        /// Of which dataset.
        dataset: DatasetId,
    },
}

/// What the dispatcher answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Its protocol's version.
    Version(i64),
    /// To a heartbeat.
    Tasks {
        /// What it shall do besides.
        new: Vec<TaskDef>,
        /// What it need not do any more.
        deleted: Vec<TaskId>,
    },
    /// Done.
    Done,
    /// A split; `None` when there are no more.
    Split(Option<i64>),
    /// Whether elements go out compressed.
    Compression(bool),
    /// A dataset's encoded definition.
    Definition(Bytes),
}

/// From what to produce elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The task's part of the dataset, from its beginning or where the last batch ended.
    Stream,
    /// A split, from its beginning or where the last batch ended.
    Split(i64),
    /// What is left behind the last split, such as a batch that is not full.
    Rest,
}

/// What comes behind produced elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// More of the same.
    More,
    /// Nothing: what was asked for ends here.
    End,
    /// An error in the data, which is final unless it is UNAVAILABLE: then the same is wanted again later.
    Failed(Status),
}

/// What happens to a worker.
#[derive(Clone, Debug)]
pub enum Input {
    /// Its driver listens: it may register.
    Start,
    /// Somebody asks for something.
    Asked {
        /// Names the call in its answer. Later calls have larger numbers.
        call: CallId,
        /// The connection that the call came on.
        client: ConnectionId,
        /// What for.
        ask: Ask,
    },
    /// Whoever asked does not wait any more, and has not got the answer.
    Cancel {
        /// The call.
        call: CallId,
    },
    /// An element is on its way to whoever asked.
    Left {
        /// The call.
        call: CallId,
    },
    /// The dispatcher has answered, or the call to it has failed.
    Answered {
        /// The call to the dispatcher.
        rpc: RpcId,
        /// The answer.
        result: Result<Reply, Status>,
        /// A fresh random number.
        entropy: u64,
    },
    /// A dataset is open, or cannot be opened.
    Opened {
        /// Which.
        run: RunId,
        /// Its cardinality: -1 for endless, -2 for unknown.
        result: Result<i64, Status>,
    },
    /// Elements are there.
    Produced {
        /// Of which run.
        run: RunId,
        /// The elements, encoded, in order.
        elements: Vec<Bytes>,
        /// What comes behind them.
        then: Then,
    },
    /// It is asked to stop.
    Drain,
    /// Time has passed. Early and repeated ticks do nothing.
    Tick,
}

/// What a worker asks of its driver, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Call the dispatcher, naming this worker.
    Send {
        /// Names the call in [`Input::Answered`].
        rpc: RpcId,
        /// What for.
        request: Request,
    },
    /// Answer a call.
    Answer {
        /// The call.
        call: CallId,
        /// The answer.
        result: Result<Answer, Status>,
    },
    /// Open a dataset, to produce elements of it; say so with [`Input::Opened`].
    Open {
        /// Names it from now on.
        run: RunId,
        /// The encoded definition.
        definition: Bytes,
        /// Which part of it is wanted.
        part: Part,
        /// Whether elements are compressed.
        compressed: bool,
    },
    /// Produce some elements, and bring them with [`Input::Produced`].
    Produce {
        /// Of which run.
        run: RunId,
        /// From what.
        from: From,
        /// How many bytes of elements are wanted at most; but one element, if there is one, in any
        /// case.
        room_bytes: u64,
    },
    /// End a run, whatever it does.
    Close {
        /// The run.
        run: RunId,
    },
    /// Tell whoever started the worker that the dispatcher knows it.
    Registered,
    /// Something worth a log line.
    Observe(Event),
    /// The worker cannot start, and does nothing any more.
    Failed {
        /// Why.
        status: Status,
    },
    /// The worker has stopped: answers that are on their way may still leave.
    Drained {
        /// Elements of splits it had taken that nobody fetched, as far as they were made.
        left_behind: u64,
    },
}

/// Something worth a log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The worker does not get through to the dispatcher any more, or not yet. It goes on trying.
    DispatcherLost {
        /// How the dispatcher, or the way to it, failed.
        status: Status,
    },
    /// The dispatcher answers.
    DispatcherReached {
        /// How long it did not.
        away: Duration,
    },
    /// The dispatcher refuses to hear that a task is over. The worker goes on telling it.
    UpdateRefused {
        /// Why it does.
        status: Status,
    },
}

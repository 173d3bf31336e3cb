//! `tensorflow.data.WorkerService`: what workers are told and asked, for both sides; what they ask
//! their dispatcher; and `rondo.v1.Records`, what they send to readers of splits.

mod answers;
mod dispatcher;
mod element;
mod method;
mod records;
mod requests;
mod task;

use bytes::Bytes;
use rondo_core::dispatcher::ShardingPolicy;
use rondo_core::ids::{DatasetId, IterationId, TaskId};

pub use answers::{decode_worker_tasks, encode_nothing, encode_worker_tasks};
pub use dispatcher::{WorkerIdentity, decode_reply_of_dispatcher, encode_request_to_dispatcher};
pub use element::{ElementAnswer, decode_element_answer, encode_end, encode_skip};
pub use method::WorkerMethod;
pub use records::{
    ReadSplit, SERVICE_RECORDS, SplitRecords, decode_read_split, encode_split_records,
};
pub use requests::{decode_worker_request, encode_worker_request};

/// A request to a worker, decoded and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerRequest {
    /// `ProcessTask`: answer with [`encode_nothing`].
    ProcessTask(WorkerTask),
    /// `GetElement`.
    GetElement(GetElement),
    /// `GetWorkerTasks`: answer with [`encode_worker_tasks`].
    GetWorkerTasks,
    /// `GetSnapshotTaskProgresses`: answer with [`encode_nothing`].
    GetSnapshotTaskProgresses,
}

/// A task as its worker is told of it (`TaskDef`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerTask {
    /// The task.
    pub task: TaskId,
    /// Its iteration.
    pub iteration: IterationId,
    /// The dataset's id.
    pub dataset: DatasetId,
    /// What the dataset is.
    pub definition: TaskDefinition,
    /// The worker's own address.
    pub worker_address: String,
    /// How the dataset is divided.
    pub sharding: ShardingPolicy,
    /// Number of consumers of a coordinated read; absent otherwise.
    pub consumers: Option<i64>,
    /// Split providers under dynamic sharding, else 0.
    pub split_providers: i64,
    /// Configured workers under static sharding, else 0.
    pub workers: i64,
    /// This worker's index under static sharding, else 0.
    pub worker_index: i64,
    /// Whether the worker keeps elements for other trainers.
    pub use_cross_trainer_cache: bool,
}

/// Where a worker finds the definition of its dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskDefinition {
    /// Here: a serialized `DatasetDef`.
    Inline(Bytes),
    /// In this file of one `DatasetDef`, or else at the dispatcher (`GetDatasetDef`).
    Path(String),
}

/// A consumer's request for an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetElement {
    /// The task to read from.
    pub task: TaskId,
    /// The consumer's place in a coordinated read; absent otherwise.
    pub round: Option<ConsumerRound>,
    /// Whether the task skipped the round before.
    pub skipped_previous_round: bool,
    /// Whether "ask again" is an answer.
    pub allow_skip: bool,
    /// The trainer, if elements are kept for several; else empty.
    pub trainer: String,
}

/// A consumer and its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerRound {
    /// Which of the consumers, from 0 on.
    pub consumer: i64,
    /// The round, from 0 on.
    pub round: i64,
}

/// A task that a worker holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldTask {
    /// The task.
    pub task: TaskId,
    /// Its iteration.
    pub iteration: IterationId,
}

//! What the dispatcher answers, and what it asks its driver to do.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

use super::by_split::DepartedReader;
use super::report::{PositionReport, Report};
use super::types::{Definition, DeploymentMode, TaskDef, TaskInfo};
use crate::ids::{ClientId, DatasetId, IterationId, JobId, TaskId};

/// One answer. Variants stand in the order of [`super::Request`]'s.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The dataset's id.
    Dataset(DatasetId),
    /// No dataset has the wished id: the driver registers it with its definition.
    NotRegistered,
    /// `DataServiceMetadata` as it was registered.
    Metadata(Bytes),
    /// The configured deployment mode.
    Config(DeploymentMode),
    /// Whether compression is off; `None` when the dataset has none to switch off.
    Compression(Option<bool>),
    /// The job.
    Job(JobId),
    /// The new client.
    Client(ClientId),
    /// The tasks to read from.
    ClientHeartbeat(ClientHeartbeatReply),
    /// The client is released.
    ClientReleased,
    /// What the worker is to run and to drop.
    WorkerHeartbeat(WorkerHeartbeatReply),
    /// The update is taken.
    WorkerUpdated,
    /// A definition; the driver adds the bytes of a blob.
    Definition(Definition),
    /// The next split, or `None` at the end of the pass.
    Split(Option<i64>),
    /// What the client holds.
    SplitsHeld(SplitsHeld),
    /// The progress of the reader that has left.
    ReaderEnded(DepartedReader),
    /// Whether the task is removed.
    TaskRemoved(bool),
    /// Addresses of the registered workers, in order of registration.
    Workers(Vec<Arc<str>>),
    /// A picture of the state.
    Report(Report),
    /// The position saved or restored.
    Position(PositionReport),
    /// The position is forgotten.
    PositionDeleted,
    /// All positions, by name.
    Positions(Vec<PositionReport>),
    /// The job is deleted.
    JobDeleted,
    /// The dataset is deleted.
    DatasetDeleted,
    /// The worker is forgotten.
    WorkerRemoved,
}

/// `ClientHeartbeatResponse`.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientHeartbeatReply {
    /// Every active task of the iteration, finished ones too, in the one order all clients see.
    pub tasks: Arc<[TaskInfo]>,
    /// Whether the iteration is finished.
    pub iteration_finished: bool,
    /// The round to block before, while a pending task waits for agreement.
    pub block_round: Option<i64>,
    /// The configured deployment mode.
    pub deployment_mode: DeploymentMode,
}

/// `HoldSplitsResponse`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitsHeld {
    /// All unfinished splits that the client holds, by place.
    pub splits: Vec<HeldSplit>,
    /// Whether everything of the iteration has been read.
    pub finished: bool,
    /// Whether all that is left to read is with workers, which took it for clients that read by
    /// element.
    pub with_workers: bool,
}

/// A split that a client holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldSplit {
    /// Its place.
    pub place: u64,
    /// Its value.
    pub split: i64,
    /// Records of it that the client, or one before it, has acknowledged.
    pub records: u64,
}

/// `WorkerHeartbeatResponse`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerHeartbeatReply {
    /// Tasks the worker should run and does not.
    pub new_tasks: Vec<TaskDef>,
    /// Tasks the worker runs and should not.
    pub tasks_to_delete: Vec<TaskId>,
}

/// Something worth a log line, a counter or a mark; nothing depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A worker registered.
    WorkerRegistered {
        /// Its address.
        address: Arc<str>,
    },
    /// A worker came back with another uid, other tags or other transfer servers.
    WorkerChanged {
        /// Its address.
        address: Arc<str>,
    },
    /// A worker has been silent for too long: its tasks have ended.
    WorkerLost {
        /// Its address.
        address: Arc<str>,
    },
    /// A client was released because it had been silent too long.
    ClientExpired {
        /// The client.
        client: ClientId,
    },
    /// A client that was given up, or left, held splits: they are handed to others.
    SplitsGivenUp {
        /// The client.
        client: ClientId,
        /// How many.
        splits: u64,
    },
    /// An iteration without clients was collected.
    IterationCollected {
        /// Its job's name.
        job_name: Arc<str>,
        /// Its repetition.
        repetition: i64,
    },
    /// An iteration with DYNAMIC sharding had no clients for too long: the rest of it is given up.
    IterationAbandoned {
        /// Its job's name.
        job_name: Arc<str>,
        /// Its repetition.
        repetition: i64,
    },
    /// A job was deleted by an operator.
    JobDeleted {
        /// Its name.
        job_name: Arc<str>,
    },
    /// A worker that was lost long ago, or that an operator removed, is forgotten.
    WorkerFreed {
        /// Its address.
        address: Arc<str>,
    },
    /// A worker reported progress of a task that does not exist.
    UnknownTaskReported {
        /// The worker's address.
        worker_address: String,
        /// The task.
        task: TaskId,
    },
    /// A worker reported progress of a task that another worker runs. Nothing changes.
    ForeignTaskReported {
        /// The address of the worker that sent the report.
        worker_address: String,
        /// The task.
        task: TaskId,
        /// The address of the worker that runs the task.
        owner: Arc<str>,
    },
    /// All consumers agreed on the round from which a pending task is read.
    TaskPromoted {
        /// The task.
        task: TaskId,
        /// Its first round.
        starting_round: i64,
    },
    /// All consumers agreed that a task is gone.
    TaskRemoved {
        /// The task.
        task: TaskId,
    },
    /// A lost worker was heard again.
    WorkerReturned {
        /// Its address.
        address: Arc<str>,
    },
    /// Splits went with a worker that was lost, or that began anew.
    SplitsLost {
        /// The worker's address.
        address: Arc<str>,
        /// The iteration.
        iteration: IterationId,
        /// Splits known to have been handed to it.
        lost: u64,
        /// Those of them that will be handed out again.
        again: u64,
        /// Splits of which nobody knows whether they were handed to it.
        in_doubt: u64,
    },
    /// An iteration was read by split to its end, and splits of later passes, which nobody can read by
    /// split, waited to be handed out again.
    LaterPassesLost {
        /// The iteration.
        iteration: IterationId,
        /// How many splits.
        lost: u64,
    },
}

//! What clients and workers ask of the dispatcher: `tensorflow.data.DispatcherService`, method by
//! method, already checked field by field.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::by_split::{Group, SplitProgress};
use super::types::{
    DatasetMetadata, Definition, ShardingPolicy, SplitPlan, TargetWorkers, TransferServer,
};
use crate::ids::{ClientId, DatasetId, IterationId, JobId, TaskId};

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// `GetOrRegisterDataset`.
    RegisterDataset(RegisterDataset),
    /// The first half of `GetOrRegisterDataset`, for a TensorFlow graph whose client wishes an id: the
    /// dataset that has the id, if there is one. It needs no definition, so the driver asks this before it
    /// hashes and keeps one.
    GetRegistered {
        /// The id that the client wishes.
        dataset: DatasetId,
        /// The client's metadata, which must agree with the dataset's.
        metadata: DatasetMetadata,
    },
    /// `GetDataServiceMetadata`.
    GetMetadata {
        /// Which dataset.
        dataset: DatasetId,
    },
    /// `GetDataServiceConfig`.
    GetConfig,
    /// `DisableCompressionAtRuntime`.
    DisableCompression {
        /// Which dataset.
        dataset: DatasetId,
        /// The caller's wish; binding if nobody asked before.
        disable: bool,
    },
    /// `GetOrCreateJob`.
    GetOrCreateJob(GetOrCreateJob),
    /// `GetOrCreateIteration`.
    GetOrCreateIteration {
        /// Which job.
        job: JobId,
        /// Which pass of the job, from 0.
        repetition: i64,
    },
    /// `ClientHeartbeat`.
    ClientHeartbeat(ClientHeartbeat),
    /// `ReleaseIterationClient`.
    ReleaseClient {
        /// Who leaves.
        client: ClientId,
    },
    /// `WorkerHeartbeat`.
    WorkerHeartbeat(WorkerHeartbeat),
    /// `WorkerUpdate`.
    WorkerUpdate {
        /// The reporting worker's address.
        worker_address: String,
        /// Tasks with whether they are completed.
        progress: Vec<(TaskId, bool)>,
    },
    /// `GetDatasetDef`.
    GetDefinition {
        /// Which dataset.
        dataset: DatasetId,
    },
    /// `GetSplit`.
    GetSplit {
        /// Which iteration.
        iteration: IterationId,
        /// Which pass over the source, from 0.
        repetition: i64,
        /// Which source.
        source: i64,
        /// Address of the worker that asks, if one knows.
        asker: Option<Arc<str>>,
    },
    /// `rondo.v1.Splits/HoldSplits`.
    HoldSplits(HoldSplits),
    /// `rondo.v1.Splits/EndReader`.
    EndReader {
        /// The reader, which holds or held splits.
        client: ClientId,
        /// The name of its job.
        job: String,
    },
    /// `MaybeRemoveTask`.
    MaybeRemoveTask {
        /// The unreachable task.
        task: TaskId,
        /// Who asks.
        consumer_index: i64,
        /// The round in which the consumer met the failure.
        round: i64,
    },
    /// `GetWorkers`.
    GetWorkers,
    /// A picture of the whole state for people (`rondo status`). It waits for nothing, so it may
    /// show what is not durable yet.
    Report,
    /// Remember how far a job has been read (`rondo position save`).
    SavePosition {
        /// The name to remember it under.
        name: String,
        /// The job's name.
        job: String,
    },
    /// End a job's iterations and let the next ones begin at a position (`rondo position restore`).
    RestorePosition {
        /// The position's name.
        name: String,
        /// The job's name. There need be no such job yet.
        job: String,
        /// The job that a reader is to read from there. If the dispatcher would refuse it, nothing is
        /// restored. `None` for operators.
        wanted: Option<Box<GetOrCreateJob>>,
    },
    /// Forget a position, and let no job wait at it (`rondo position delete`).
    DeletePosition {
        /// Its name.
        name: String,
    },
    /// All positions (`rondo position list`).
    ListPositions,
    /// Which version of a dataset a reader is to read (`rondo.v1.Admin/GetVersionToRead`).
    GetVersionToRead {
        /// The dataset's id.
        dataset: DatasetId,
        /// The name of the reader's job. There need be no such job yet.
        job: Option<String>,
        /// The name of the position that the reader begins at.
        position: Option<String>,
    },
    /// Delete a job that nobody reads (`rondo job delete`).
    DeleteJob {
        /// The job's name.
        name: String,
    },
    /// Delete a dataset that no job has (`rondo dataset delete`).
    DeleteDataset {
        /// The dataset's id.
        dataset: DatasetId,
    },
    /// Forget a lost worker that has no tasks (`rondo worker remove`).
    RemoveWorker {
        /// The worker's address.
        address: String,
    },
}

/// `GetOrRegisterDatasetRequest`, its graph cleaned, hashed and read.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterDataset {
    /// The id the client wishes; `None` lets the dispatcher choose.
    pub wished: Option<DatasetId>,
    /// The definition. If it is a blob, the driver has made it durable already.
    pub definition: Definition,
    /// Whether it is a pipeline of Rondo's own. Two of those under one id must be equal; of TensorFlow's
    /// graphs, which differ from process to process, only what a reader can see.
    pub own: bool,
    /// Whether it replaces the dataset that has the wished id, if it is another one.
    pub replaces: bool,
    /// What can be split in it.
    pub plan: SplitPlan,
    /// What the client said of its elements.
    pub metadata: DatasetMetadata,
}

/// `GetOrCreateJobRequest`.
#[derive(Clone, Debug, PartialEq)]
pub struct GetOrCreateJob {
    /// The dataset to read: its newest version, unless a version is named.
    pub dataset: DatasetId,
    /// Whether a job of this name must be one on this dataset. TensorFlow's clients do not ask for that:
    /// each registers a dataset of its own.
    pub same_dataset: bool,
    /// How to divide it.
    pub sharding: ShardingPolicy,
    /// The job's name; `None` makes an anonymous job.
    pub name: Option<String>,
    /// Number of consumers, which makes the read coordinated.
    pub consumers: Option<i64>,
    /// Whether workers keep elements for other trainers.
    pub use_cross_trainer_cache: bool,
    /// Which workers clients read from.
    pub target_workers: TargetWorkers,
}

/// `ClientHeartbeatRequest`.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientHeartbeat {
    /// Who reports.
    pub client: ClientId,
    /// The round the client is in (coordinated reads).
    pub current_round: Option<i64>,
    /// The round the client has blocked itself from (coordinated reads).
    pub blocked_round: Option<i64>,
    /// Time per element the client wants, in nanoseconds.
    pub target_processing_time_ns: u64,
}

/// `HoldSplitsRequest`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldSplits {
    /// Who reads.
    pub client: ClientId,
    /// How many unfinished splits it wants to hold altogether.
    pub hold: usize,
    /// How far it has read those it holds.
    pub progress: Vec<SplitProgress>,
    /// Which places it is dealt.
    pub group: Group,
}

/// `WorkerHeartbeatRequest`.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerHeartbeat {
    /// The worker's address, its identity.
    pub address: String,
    /// Tasks the worker runs.
    pub current_tasks: Vec<TaskId>,
    /// The worker's tags.
    pub tags: Vec<String>,
    /// The worker process's unique id.
    pub uid: i64,
    /// How else the worker serves elements.
    pub transfer_servers: Vec<TransferServer>,
}

//! What the dispatcher writes to the journal: every change of its durable state, with all that is
//! needed to make it again.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::by_split::{SavedSplit, SplitProgress};
use super::position::SavedRepetition;
use super::repetitions::Repetitions;
use super::state::SourcePosition;
use super::types::{
    DatasetMetadata, Definition, ShardingPolicy, SplitPlan, SplitSource, TargetWorkers,
    TransferServer,
};
use crate::ids::{ClientId, DatasetId, IterationId, JobId, TaskId, WorkerId};
use crate::limits::RECORDS_PROTOCOL;
use crate::time::Time;

/// One change of the dispatcher's durable state.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// From here on, ids of datasets, jobs, iterations, clients and tasks begin above a number.
    RaiseIds {
        /// The number.
        above: i64,
    },
    /// A dataset is registered.
    RegisterDataset {
        /// Its id.
        id: DatasetId,
        /// Its definition.
        definition: Definition,
        /// What can be split in it.
        plan: SplitPlan,
        /// What the client said of its elements.
        metadata: DatasetMetadata,
        /// When.
        at: Time,
    },
    /// Another pipeline is registered under the name of a dataset. New jobs read it.
    ReplaceDataset {
        /// The name.
        name: DatasetId,
        /// The id of the version.
        id: DatasetId,
        /// When.
        at: Time,
        /// Its definition.
        definition: Definition,
        /// The sources of splits that it has.
        plan: SplitPlan,
        /// How the client described its elements.
        metadata: DatasetMetadata,
    },
    /// The first wish about a dataset's compression is binding.
    DecideCompression {
        /// The dataset.
        id: DatasetId,
        /// Whether compression is off from now on.
        disabled: bool,
    },
    /// A worker is registered.
    RegisterWorker {
        /// Its id.
        id: WorkerId,
        /// Its address.
        address: Arc<str>,
        /// What it said of itself.
        profile: WorkerProfile,
    },
    /// A worker said something new of itself.
    UpdateWorker {
        /// The worker.
        id: WorkerId,
        /// What it says now.
        profile: WorkerProfile,
    },
    /// A job is created.
    CreateJob {
        /// Its id.
        id: JobId,
        /// Its name, unique for ever.
        name: Arc<str>,
        /// Its dataset.
        dataset: DatasetId,
        /// How the dataset is divided.
        sharding: ShardingPolicy,
        /// Number of consumers of a coordinated read.
        consumers: Option<i64>,
        /// Whether workers keep elements for other trainers.
        use_cross_trainer_cache: bool,
        /// Which workers clients read from.
        target_workers: TargetWorkers,
        /// Whether the dispatcher chose the name.
        anonymous: bool,
        /// When.
        at: Time,
    },
    /// An iteration is created and becomes the iteration of its job and repetition.
    CreateIteration {
        /// Its id.
        id: IterationId,
        /// Its job.
        job: JobId,
        /// Its repetition.
        repetition: i64,
        /// Its sources of splits; empty unless sharding is dynamic.
        sources: Vec<SplitSource>,
    },
    /// A worker gets an active task of an iteration.
    CreateTask {
        /// Its id.
        id: TaskId,
        /// Its iteration.
        iteration: IterationId,
        /// Its worker.
        worker: WorkerId,
    },
    /// A worker gets a task that consumers do not see before they agree on its first round.
    CreatePendingTask {
        /// Its id.
        id: TaskId,
        /// Its iteration.
        iteration: IterationId,
        /// Its worker.
        worker: WorkerId,
        /// The round proposed first.
        target_round: i64,
    },
    /// A client joins an iteration.
    AcquireClient {
        /// Its id.
        id: ClientId,
        /// The iteration.
        iteration: IterationId,
        /// When.
        at: Time,
    },
    /// A client leaves its iteration, or is given up.
    ReleaseClient {
        /// The client.
        id: ClientId,
        /// When.
        at: Time,
    },
    /// A split, or the end of a pass, was handed out.
    ProduceSplit {
        /// The iteration.
        iteration: IterationId,
        /// Index of the source.
        source: u32,
        /// The pass the worker asked for; a later one than the state's starts that pass anew.
        repetition: i64,
        /// True when the pass is over, false when a split was handed out.
        finished: bool,
        /// The task it was handed to, if one knows.
        task: Option<TaskId>,
    },
    /// Some consumer was already past the proposed round of the front pending task.
    RejectRound {
        /// The iteration.
        iteration: IterationId,
        /// The round proposed next.
        target_round: i64,
    },
    /// A consumer stands blocked before the proposed round of the front pending task; the last of
    /// them makes it active.
    AcceptRound {
        /// The iteration.
        iteration: IterationId,
        /// The consumer's client.
        client: ClientId,
    },
    /// A worker finished a task. A pending one is gone with that.
    FinishTask {
        /// The task.
        id: TaskId,
    },
    /// All consumers of a coordinated read gave a task up; or, in other reads, a finished task is
    /// removed since its worker has another one of the iteration, or an unfinished one since nobody
    /// reads what it was handed.
    RemoveTask {
        /// The task.
        id: TaskId,
        /// Whether the splits it was handed are to be handed out again.
        again: bool,
    },
    /// An iteration without clients is given up: its tasks end.
    CollectIteration {
        /// The iteration.
        id: IterationId,
        /// When.
        at: Time,
    },
    /// A finished iteration that nobody uses goes with its tasks. That its repetition is finished
    /// stays with the job, unless it was collected.
    FreeIteration {
        /// The iteration.
        id: IterationId,
        /// When.
        at: Time,
    },
    /// A job that nobody uses goes, and its name is free again.
    FreeJob {
        /// The job.
        id: JobId,
        /// When.
        at: Time,
    },
    /// A named job without iterations goes as with [`Record::FreeJob`], but the repetitions that were
    /// read or given up stay known under its name.
    RetireJob {
        /// The job.
        id: JobId,
        /// When.
        at: Time,
    },
    /// An iteration with DYNAMIC sharding had no clients for too long: its tasks end, and its
    /// repetition counts as abandoned.
    AbandonIteration {
        /// The iteration.
        id: IterationId,
        /// When.
        at: Time,
    },
    /// An operator deletes a job without clients, with its iterations and all that is known under its
    /// name.
    DeleteJob {
        /// Its name.
        name: Arc<str>,
        /// When.
        at: Time,
    },
    /// A lost worker without tasks goes.
    FreeWorker {
        /// The worker.
        id: WorkerId,
    },
    /// A dataset that nobody uses goes.
    FreeDataset {
        /// The dataset.
        id: DatasetId,
    },
    /// Somebody asked for a job again.
    UseJob {
        /// The job.
        id: JobId,
        /// When.
        at: Time,
    },
    /// A dataset was registered again.
    UseDataset {
        /// The dataset.
        id: DatasetId,
        /// When.
        at: Time,
    },
    /// An iteration of a repetition that is known to be finished: it has no tasks and no splits.
    CreateFinishedIteration {
        /// Its id.
        id: IterationId,
        /// Its job.
        job: JobId,
        /// Its repetition.
        repetition: i64,
    },
    /// An iteration is created that begins at a restored position.
    ResumeIteration {
        /// Its id.
        id: IterationId,
        /// Its job.
        job: JobId,
        /// Its repetition.
        repetition: i64,
        /// Its sources of splits, where they begin.
        sources: Vec<SourcePosition>,
        /// Splits that were being read, to be read first from where they were.
        waiting: Vec<SavedSplit>,
    },
    /// How far a job has been read is remembered under a name, in place of what was so before.
    SavePosition {
        /// The position's name.
        name: Arc<str>,
        /// The job's name.
        job: Arc<str>,
        /// When.
        at: Time,
        /// Repetitions that are finished.
        finished: Repetitions,
        /// Repetitions that were given up before their end.
        abandoned: Repetitions,
        /// Those that are neither.
        reading: Vec<SavedRepetition>,
    },
    /// The iterations of a job end, and its next ones begin at a position.
    RestorePosition {
        /// The position's name.
        name: Arc<str>,
        /// The job's name.
        job: Arc<str>,
        /// When.
        at: Time,
    },
    /// A position is forgotten, and no job waits at it any more.
    DeletePosition {
        /// Its name.
        name: Arc<str>,
    },
    /// A worker was silent for too long: its unfinished tasks are gone, but for those of
    /// coordinated reads, whose consumers agree on that themselves.
    LoseWorker {
        /// The worker.
        id: WorkerId,
        /// Whether the splits of those tasks are to be handed out again.
        again: bool,
    },
    /// A lost worker was heard again.
    ReturnWorker {
        /// The worker.
        id: WorkerId,
        /// Whether another process is heard, not the one that was lost.
        reborn: bool,
    },
    /// Another process is heard at a worker's address: its tasks begin anew, and the splits they
    /// were handed are gone.
    RestartTasks {
        /// The worker.
        worker: WorkerId,
        /// Whether those splits are to be handed out again.
        again: bool,
    },
    /// A lost task's split was handed out again: the first one of its pass over its source.
    RepeatSplit {
        /// The iteration.
        iteration: IterationId,
        /// Index of the source.
        source: u32,
        /// The pass.
        repetition: i64,
        /// The task it was handed to, if one knows.
        task: Option<TaskId>,
    },
    /// A split that was handed out did not reach its caller, which left before: it is to be handed
    /// out again.
    TakeBackSplit {
        /// The iteration.
        iteration: IterationId,
        /// Index of the source.
        source: u32,
        /// The pass.
        repetition: i64,
        /// The split's place in the pass.
        place: u64,
        /// The task it was handed to, if one knows.
        task: Option<TaskId>,
    },
    /// A client acknowledged what it has read of the splits it holds, and got others to hold.
    HoldSplits {
        /// The client.
        client: ClientId,
        /// How far it is in splits it held, by place; finished ones leave it.
        progress: Vec<SplitProgress>,
        /// Places it holds from now on, in order.
        taken: Vec<u64>,
        /// Among how many clients the places are dealt out.
        group_size: u32,
    },
    /// A split that waited for a client was handed to a worker, which reads it from its beginning.
    HandOutWaiting {
        /// The iteration.
        iteration: IterationId,
        /// The split's place.
        place: u64,
        /// The task it was handed to, if one knows.
        task: Option<TaskId>,
    },
    /// All records of an iteration that is read by split have been acknowledged: its tasks end.
    FinishIteration {
        /// The iteration.
        id: IterationId,
    },
}

/// What a worker says of itself in heartbeats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerProfile {
    /// The worker process's unique id.
    pub uid: i64,
    /// Its tags.
    pub tags: Arc<[String]>,
    /// How else it serves elements.
    pub transfer_servers: Arc<[TransferServer]>,
}

impl WorkerProfile {
    /// The memory that the worker's words about itself take, in bytes.
    pub(super) fn size_bytes(&self) -> u64 {
        let tags = self.tags.iter().map(|tag| tag.len().saturating_add(size_of::<String>()));
        let servers = self.transfer_servers.iter().map(|server| {
            let names = server.protocol.len().saturating_add(server.address.len());
            let info = server.compatibility_info.len();
            names.saturating_add(info).saturating_add(size_of::<TransferServer>())
        });
        tags.chain(servers).fold(0, |sum: u64, bytes| sum.saturating_add(bytes as u64))
    }

    /// Whether readers by split can read from the worker.
    pub(super) fn serves_splits(&self) -> bool {
        self.transfer_servers.iter().any(|server| server.protocol == RECORDS_PROTOCOL)
    }
}

//! Every reason for which the dispatcher refuses a request, with its gRPC code and text. Parts of
//! the texts are looked for by TensorFlow's clients and tests.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use super::undeletable::Undeletable;
use crate::ids::{ClientId, DatasetId, IterationId, JobId};
use crate::limits::DEPARTED_READERS_MAX;
use crate::memory::NoMemory;
use crate::status::{Code, Status};

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such dataset.
    #[error("Dataset id {0} not found")]
    UnknownDataset(DatasetId),
    /// The id is taken by a dataset of other structure.
    #[error(
        "Datasets with the same ID should have the same structure, got diff for dataset ID {id}: \
         {difference}. To fix this error, make sure you're registering the same dataset with the \
         same ID."
    )]
    OtherStructure {
        /// The id.
        id: DatasetId,
        /// What differs.
        difference: String,
    },
    /// The id is taken by another pipeline, or by one over files that were others then.
    #[error(
        "dataset {0} is registered with another definition: its pipeline, or one of its files, was \
         another one then. Register this one under another id, or as a new version (`--replace`)"
    )]
    OtherDefinition(DatasetId),
    /// A reader of one dataset names a job on another.
    #[error("job {name:?} reads {}: name another job", of_another(has, asked))]
    OtherDataset {
        /// The job's name.
        name: Arc<str>,
        /// The job's dataset.
        has: DatasetId,
        /// The reader's dataset.
        asked: DatasetId,
    },
    /// A reader of one dataset names a position that was saved of another.
    #[error("position {position:?} was saved of {}: name another position", of_another(has, asked))]
    DatasetOfPosition {
        /// The position's name.
        position: Arc<str>,
        /// The dataset that it was saved of.
        has: DatasetId,
        /// The reader's dataset.
        asked: DatasetId,
    },
    /// No such job.
    #[error("Job with id {0} not found")]
    UnknownJob(JobId),
    /// The name is taken by a job with other parameters.
    #[error(
        "Tried to create job with name {name}, but found an existing job with different \
         parameters: {difference}"
    )]
    OtherParameters {
        /// The name.
        name: Arc<str>,
        /// What differs.
        difference: String,
    },
    /// No such iteration.
    #[error("Iteration id {0} not found")]
    UnknownIteration(IterationId),
    /// The dataset cannot be split.
    #[error("{message}")]
    Unsplittable {
        /// The code found when the graph was read.
        code: Code,
        /// The text found when the graph was read.
        message: String,
    },
    /// Splits asked of an iteration that has none.
    #[error(
        "Iteration {iteration} has sharding policy {policy}; splits are handed out under DYNAMIC only"
    )]
    NotDynamic {
        /// The iteration.
        iteration: IterationId,
        /// Its policy.
        policy: &'static str,
    },
    /// An iteration that nobody can read by split.
    #[error("iteration {iteration} cannot be read by split: {problem}")]
    NotBySplit {
        /// The iteration.
        iteration: IterationId,
        /// Why.
        problem: &'static str,
    },
    /// Readers of one iteration that do not agree on how many they are.
    #[error(
        "group_size is {asked}, but the splits of iteration {iteration} are dealt out among {agreed}, \
         and some are held: all its readers must say the same"
    )]
    OtherGroup {
        /// The iteration.
        iteration: IterationId,
        /// The number of readers that the request says.
        asked: u32,
        /// The number of readers that the holders of splits have said.
        agreed: u32,
    },
    /// As [`Refusal::OtherGroup`], when none of the others was heard since the reader joined.
    #[error(
        "group_size is {asked}, but the splits of iteration {iteration} are dealt out among {agreed}, \
         and some are held by readers not heard since: retry until they are heard or given up"
    )]
    FormerGroup {
        /// The iteration.
        iteration: IterationId,
        /// The number of readers that the request says.
        asked: u32,
        /// The number of readers that the holders of splits have said.
        agreed: u32,
    },
    /// A number is out of its range.
    #[error("{field} is {value}; it must be {expected}")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// Its value.
        value: i64,
        /// The range.
        expected: String,
    },
    /// No such client, and state survives restarts.
    #[error("Iteration client id not found: {0}")]
    UnknownClient(ClientId),
    /// No such client, perhaps because of a restart.
    #[error(
        "Unknown iteration client id {0}. The dispatcher is not configured to be fault tolerant, \
         so this could be caused by a dispatcher restart."
    )]
    ForgottenClient(ClientId),
    /// No reader of this job is known by the number, nor that one held a split and left.
    #[error(
        "job {job:?} knows no reader {client} that held splits: the job was freed or deleted since, a \
         position was restored for it, or more than {DEPARTED_READERS_MAX} readers have left it since"
    )]
    UnknownReader {
        /// The reader.
        client: ClientId,
        /// The job's name.
        job: Arc<str>,
    },
    /// The client's iteration was ended under it.
    #[error(
        "The requested iteration {iteration} has ended, because a position was restored for its \
         job. Create a new iterator, which begins at that position."
    )]
    Ended {
        /// The iteration.
        iteration: IterationId,
    },
    /// Removal asked of a task that is not part of a coordinated read.
    #[error(
        "MaybeRemoveTask called on task {task} of a job without num_consumers; only coordinated \
         reads remove tasks."
    )]
    NotCoordinated {
        /// The task.
        task: i64,
    },
    /// Not all consumers asked to give a task up while one waited that agrees with any round.
    #[error("not all consumers asked to give the task up in time; retry")]
    ConsumersMissing,
    /// The worker's address stands nowhere in the configured list.
    #[error(
        "Failed to assign an index for worker {address}. Configured workers list: [{configured}]. \
         The worker's address is not configured, or other workers are already running at the \
         configured host. If your worker has restarted, make sure it runs at the same address \
         and port."
    )]
    WorkerNotConfigured {
        /// The worker's address.
        address: String,
        /// The list.
        configured: String,
    },
    /// Static sharding needs each worker's index, and this one has none.
    #[error("Worker {address} is not in the workers list. Configured workers: [{configured}].")]
    WorkerNotListed {
        /// The worker's address.
        address: String,
        /// The list.
        configured: String,
    },
    /// No job of that name.
    #[error("there is no job named {0:?}")]
    UnknownJobName(String),
    /// A repetition that was given up, since it had no reader for too long.
    #[error(
        "repetition {repetition} of job {job:?} was abandoned: nobody read it for too long, and the splits \
         that were left are given up. To read everything anew, delete the job first (`rondo job delete`), \
         or read under another name"
    )]
    Abandoned {
        /// The job's name.
        job: Arc<str>,
        /// The repetition.
        repetition: i64,
    },
    /// No worker at that address.
    #[error("there is no worker at {0:?}")]
    UnknownWorker(String),
    /// Something cannot be deleted.
    #[error(transparent)]
    Undeletable(#[from] Undeletable),
    /// No position of that name.
    #[error("there is no position named {0:?}")]
    UnknownPosition(String),
    /// A position asked of a job that has none.
    #[error(
        "job {job:?} has sharding policy {policy}; only jobs with DYNAMIC sharding have a position"
    )]
    NoPosition {
        /// The job's name.
        job: Arc<str>,
        /// Its policy.
        policy: &'static str,
    },
    /// A position that does not fit a job's dataset.
    #[error(
        "position {position:?} was saved with {saved} sources of splits, but dataset {dataset} of \
         job {job:?} has {sources}"
    )]
    OtherSources {
        /// The position's name.
        position: Arc<str>,
        /// Sources in it.
        saved: usize,
        /// The job's name.
        job: Arc<str>,
        /// The dataset's id.
        dataset: String,
        /// Sources of the dataset.
        sources: usize,
    },
    /// A bound is reached.
    #[error("too many {what}: the bound is {bound}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The bound.
        bound: usize,
    },
    /// The process has no memory for more.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// The journal takes no records at present.
    #[error("the journal takes no updates at present: {0}; retry later")]
    JournalRefuses(Arc<str>),
    /// A record did not fit the state: a defect. The node stops.
    #[error("the dispatcher stopped because of a defect: {0}")]
    Defect(String),
}

impl Refusal {
    /// The gRPC code that goes with it.
    pub const fn code(&self) -> Code {
        match self {
            Self::UnknownDataset(_)
            | Self::UnknownJob(_)
            | Self::UnknownIteration(_)
            | Self::UnknownClient(_)
            | Self::UnknownJobName(_)
            | Self::UnknownPosition(_)
            | Self::UnknownWorker(_)
            | Self::ForgottenClient(_)
            | Self::UnknownReader { .. }
            | Self::WorkerNotListed { .. } => Code::NotFound,
            Self::OtherStructure { .. }
            | Self::OtherParameters { .. }
            | Self::OtherGroup { .. }
            | Self::OutOfRange { .. } => Code::InvalidArgument,
            Self::Unsplittable { code, .. } => *code,
            Self::NotDynamic { .. }
            | Self::NotBySplit { .. }
            | Self::Ended { .. }
            | Self::Abandoned { .. }
            | Self::OtherDefinition(_)
            | Self::OtherDataset { .. }
            | Self::DatasetOfPosition { .. }
            | Self::Undeletable(_)
            | Self::NoPosition { .. }
            | Self::OtherSources { .. }
            | Self::NotCoordinated { .. }
            | Self::WorkerNotConfigured { .. } => Code::FailedPrecondition,
            Self::TooMany { .. } | Self::NoMemory(_) => Code::ResourceExhausted,
            Self::FormerGroup { .. }
            | Self::ConsumersMissing
            | Self::JournalRefuses(_)
            | Self::Defect(_) => Code::Unavailable,
        }
    }
}

/// The dataset that is there, and the one that a reader asks for. Both may have had one id in turn.
fn of_another(has: &DatasetId, asked: &DatasetId) -> String {
    match has == asked {
        true => {
            format!("a former dataset {has}, with another pipeline than dataset {asked} has now")
        }
        false => format!("dataset {has}, not {asked}"),
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        use alloc::string::ToString;
        Self::new(refusal.code(), refusal.to_string())
    }
}

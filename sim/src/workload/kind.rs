//! Kinds of requests: how likely each is, and what became of those made.

use std::collections::BTreeMap;

use rondo_core::coordination::{self, Method};
use rondo_core::dispatcher::{Reply, Request};
use rondo_core::status::{Code, Detail, Status};
use serde::{Deserialize, Serialize};

use crate::named::named;
use crate::rng::Stream;

named! {
    /// A kind of request: those to the dispatcher, then those to the coordination service.
    Kind {
        /// `RegisterDataset`.
        RegisterDataset = "register-dataset",
        /// `GetMetadata`.
        GetMetadata = "get-metadata",
        /// `GetConfig`.
        GetConfig = "get-config",
        /// `DisableCompression`.
        DisableCompression = "disable-compression",
        /// `GetOrCreateJob`.
        GetOrCreateJob = "get-or-create-job",
        /// `GetOrCreateIteration`.
        GetOrCreateIteration = "get-or-create-iteration",
        /// `ClientHeartbeat`.
        ClientHeartbeat = "client-heartbeat",
        /// `ReleaseClient`.
        ReleaseClient = "release-client",
        /// `WorkerHeartbeat`.
        WorkerHeartbeat = "worker-heartbeat",
        /// `WorkerUpdate`.
        WorkerUpdate = "worker-update",
        /// `GetDefinition`.
        GetDefinition = "get-definition",
        /// `GetSplit`.
        GetSplit = "get-split",
        /// `MaybeRemoveTask`.
        MaybeRemoveTask = "maybe-remove-task",
        /// `GetWorkers`.
        GetWorkers = "get-workers",
        /// `Report`.
        Report = "report",
        /// `SavePosition`.
        SavePosition = "save-position",
        /// `RestorePosition`.
        RestorePosition = "restore-position",
        /// `DeletePosition`.
        DeletePosition = "delete-position",
        /// `ListPositions`.
        ListPositions = "list-positions",
        /// `RegisterTask`.
        RegisterTask = "register-task",
        /// `Heartbeat`.
        Heartbeat = "heartbeat",
        /// `ShutdownTask`.
        ShutdownTask = "shutdown-task",
        /// `ResetTask`.
        ResetTask = "reset-task",
        /// `PollForError`.
        PollForError = "poll-for-error",
        /// `ReportErrorToService`.
        ReportError = "report-error",
        /// `GetTaskState`.
        GetTaskState = "get-task-state",
        /// `GetJobState`.
        GetJobState = "get-job-state",
        /// `WatchTasks`.
        WatchTasks = "watch-tasks",
        /// `GetAliveTasks`.
        GetAliveTasks = "get-alive-tasks",
        /// `WaitForAllTasks`.
        WaitForAllTasks = "wait-for-all-tasks",
        /// `Barrier`.
        Barrier = "barrier",
        /// `CancelBarrier`.
        CancelBarrier = "cancel-barrier",
        /// `PutKeyValue`.
        PutKeyValue = "put-key-value",
        /// `GetKeyValue`.
        GetKeyValue = "get-key-value",
        /// `TryGetKeyValue`.
        TryGetKeyValue = "try-get-key-value",
        /// `IncrementKeyValue`.
        IncrementKeyValue = "increment-key-value",
        /// `GetKeyValueDir`.
        GetKeyValueDir = "get-key-value-dir",
        /// `DeleteKeyValue`.
        DeleteKeyValue = "delete-key-value",
        /// `WatchKeys`.
        WatchKeys = "watch-keys",
        /// `ResetNamespace`.
        ResetNamespace = "reset-namespace",
        /// `HoldSplits`, of the dispatcher. It stands here so that older seeds draw what they drew.
        HoldSplits = "hold-splits",
        /// `EndReader`, of the dispatcher. It stands here for the same reason.
        EndReader = "end-reader",
        /// `DeleteJob`, of the dispatcher, and so on.
        DeleteJob = "delete-job",
        /// `DeleteDataset`.
        DeleteDataset = "delete-dataset",
        /// `RemoveWorker`.
        RemoveWorker = "remove-worker",
        /// `GetVersionToRead`.
        GetVersionToRead = "get-version-to-read",
    }
}

impl Kind {
    /// The kind of a request.
    pub const fn of(request: &Request) -> Self {
        match request {
            Request::RegisterDataset(_) | Request::GetRegistered { .. } => Self::RegisterDataset,
            Request::GetMetadata { .. } => Self::GetMetadata,
            Request::GetConfig => Self::GetConfig,
            Request::DisableCompression { .. } => Self::DisableCompression,
            Request::GetOrCreateJob(_) => Self::GetOrCreateJob,
            Request::GetOrCreateIteration { .. } => Self::GetOrCreateIteration,
            Request::ClientHeartbeat(_) => Self::ClientHeartbeat,
            Request::ReleaseClient { .. } => Self::ReleaseClient,
            Request::WorkerHeartbeat(_) => Self::WorkerHeartbeat,
            Request::WorkerUpdate { .. } => Self::WorkerUpdate,
            Request::GetDefinition { .. } => Self::GetDefinition,
            Request::GetSplit { .. } => Self::GetSplit,
            Request::HoldSplits(_) => Self::HoldSplits,
            Request::EndReader { .. } => Self::EndReader,
            Request::MaybeRemoveTask { .. } => Self::MaybeRemoveTask,
            Request::GetWorkers => Self::GetWorkers,
            Request::Report => Self::Report,
            Request::SavePosition { .. } => Self::SavePosition,
            Request::RestorePosition { .. } => Self::RestorePosition,
            Request::DeletePosition { .. } => Self::DeletePosition,
            Request::ListPositions => Self::ListPositions,
            Request::GetVersionToRead { .. } => Self::GetVersionToRead,
            Request::DeleteJob { .. } => Self::DeleteJob,
            Request::DeleteDataset { .. } => Self::DeleteDataset,
            Request::RemoveWorker { .. } => Self::RemoveWorker,
        }
    }

    /// The kind of a request to the coordination service.
    pub const fn of_method(method: &Method) -> Self {
        match method {
            Method::RegisterTask { .. } => Self::RegisterTask,
            Method::Heartbeat { .. } => Self::Heartbeat,
            Method::ShutdownTask { .. } => Self::ShutdownTask,
            Method::ResetTask { .. } => Self::ResetTask,
            Method::PollForError { .. } => Self::PollForError,
            // What agents serve nobody asks of the service here.
            Method::ReportErrorToService { .. } | Method::ReportErrorToTask => Self::ReportError,
            Method::GetTaskState { .. } => Self::GetTaskState,
            Method::GetJobState { .. } => Self::GetJobState,
            Method::WatchTasks { .. } => Self::WatchTasks,
            Method::GetAliveTasks { .. } => Self::GetAliveTasks,
            Method::WaitForAllTasks { .. } => Self::WaitForAllTasks,
            Method::Barrier { .. } => Self::Barrier,
            Method::CancelBarrier { .. } => Self::CancelBarrier,
            Method::PutKeyValue { .. } => Self::PutKeyValue,
            Method::GetKeyValue { .. } => Self::GetKeyValue,
            Method::TryGetKeyValue { .. } => Self::TryGetKeyValue,
            Method::IncrementKeyValue { .. } => Self::IncrementKeyValue,
            Method::GetKeyValueDir { .. } => Self::GetKeyValueDir,
            Method::DeleteKeyValue { .. } => Self::DeleteKeyValue,
            Method::WatchKeys { .. } => Self::WatchKeys,
            Method::ResetNamespace => Self::ResetNamespace,
        }
    }

    /// Whether it is asked of the coordination service.
    pub const fn is_coordination(self) -> bool {
        self as usize >= Self::RegisterTask as usize && !self.is_drawn_elsewhere()
    }

    /// Whether it is asked of the dispatcher and its weight is drawn elsewhere: readers by split do not
    /// choose among kinds of requests, and deletions came later.
    const fn is_drawn_elsewhere(self) -> bool {
        matches!(self, Self::HoldSplits | Self::EndReader | Self::GetVersionToRead)
            || self.is_deletion()
    }

    /// Whether an operator deletes something with it.
    const fn is_deletion(self) -> bool {
        matches!(self, Self::DeleteJob | Self::DeleteDataset | Self::RemoveWorker)
    }

    /// Whether an answer is one to a request of this kind.
    pub const fn fits(self, reply: &Reply) -> bool {
        let of = match reply {
            Reply::Dataset(_) => {
                return matches!(self, Self::RegisterDataset | Self::GetVersionToRead);
            }
            Reply::NotRegistered => Self::RegisterDataset,
            Reply::Metadata(_) => Self::GetMetadata,
            Reply::Config(_) => Self::GetConfig,
            Reply::Compression(_) => Self::DisableCompression,
            Reply::Job(_) => Self::GetOrCreateJob,
            Reply::Client(_) => Self::GetOrCreateIteration,
            Reply::ClientHeartbeat(_) => Self::ClientHeartbeat,
            Reply::ClientReleased => Self::ReleaseClient,
            Reply::WorkerHeartbeat(_) => Self::WorkerHeartbeat,
            Reply::WorkerUpdated => Self::WorkerUpdate,
            Reply::Definition(_) => Self::GetDefinition,
            Reply::Split(_) => Self::GetSplit,
            Reply::SplitsHeld(_) => Self::HoldSplits,
            Reply::ReaderEnded(_) => Self::EndReader,
            Reply::TaskRemoved(_) => Self::MaybeRemoveTask,
            Reply::Workers(_) => Self::GetWorkers,
            Reply::Report(_) => Self::Report,
            // Saving and restoring are answered alike.
            Reply::Position(_) => {
                return matches!(self, Self::SavePosition | Self::RestorePosition);
            }
            Reply::PositionDeleted => Self::DeletePosition,
            Reply::Positions(_) => Self::ListPositions,
            Reply::JobDeleted => Self::DeleteJob,
            Reply::DatasetDeleted => Self::DeleteDataset,
            Reply::WorkerRemoved => Self::RemoveWorker,
        };
        self as usize == of as usize
    }

    /// Whether an answer of the coordination service is one to a request of this kind.
    pub const fn fits_coordination(self, reply: &coordination::Reply) -> bool {
        use coordination::Reply as R;
        let of = match reply {
            R::Registered(_) => Self::RegisterTask,
            R::Heartbeat(_) => Self::Heartbeat,
            R::ShutDown => Self::ShutdownTask,
            R::Reset => Self::ResetTask,
            R::ErrorReported => Self::ReportError,
            R::TaskStates(_) => return matches!(self, Self::GetTaskState | Self::GetJobState),
            R::Tasks { .. } => Self::WatchTasks,
            R::Alive(_) => Self::GetAliveTasks,
            R::Devices(_) => Self::WaitForAllTasks,
            R::BarrierPassed { .. } => Self::Barrier,
            R::BarrierCancelled => Self::CancelBarrier,
            R::Put { .. } => Self::PutKeyValue,
            R::Value { .. } => {
                return matches!(
                    self,
                    Self::GetKeyValue | Self::TryGetKeyValue | Self::IncrementKeyValue
                );
            }
            R::Directory(_) => Self::GetKeyValueDir,
            R::Deleted { .. } => Self::DeleteKeyValue,
            R::Changes { .. } | R::Keys { .. } => Self::WatchKeys,
            R::LifeBegun(_) => Self::ResetNamespace,
            // Nobody asks for one here.
            R::Report(_) => return false,
        };
        self as usize == of as usize
    }
}

/// How likely each kind is where there is a choice; 0 is never.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<Kind, u32>", into = "BTreeMap<Kind, u32>")]
pub struct Weights([u32; Kind::COUNT]);

impl From<Weights> for BTreeMap<Kind, u32> {
    fn from(weights: Weights) -> Self {
        weights.all().collect()
    }
}

impl From<BTreeMap<Kind, u32>> for Weights {
    fn from(all: BTreeMap<Kind, u32>) -> Self {
        Self(std::array::from_fn(|place| {
            let kind = Kind::ALL.get(place);
            kind.and_then(|kind| all.get(kind)).copied().unwrap_or(0)
        }))
    }
}

impl Weights {
    /// Some kinds never, the others with widely differing weights.
    pub fn draw(stream: &mut Stream) -> Self {
        let mut weights = Self([0; Kind::COUNT]);
        weights.draw_some(stream, false);
        weights
    }

    /// Likewise for kinds of requests to the coordination service.
    pub fn draw_coordination(&mut self, stream: &mut Stream) {
        self.draw_some(stream, true);
    }

    /// Likewise for deletions; only of workers where others would miss the rest.
    pub fn draw_deletions(&mut self, stream: &mut Stream, only_workers: bool) {
        for (kind, weight) in Kind::ALL.iter().zip(&mut self.0) {
            if kind.is_deletion() && (!only_workers || *kind == Kind::RemoveWorker) {
                *weight = stream.pick(&[10, 1, 30, 100]).copied().unwrap_or(10);
            }
        }
    }

    fn draw_some(&mut self, stream: &mut Stream, coordination: bool) {
        for (kind, weight) in Kind::ALL.iter().zip(&mut self.0) {
            if !kind.is_drawn_elsewhere() && kind.is_coordination() == coordination {
                *weight = stream.pick(&[1, 0, 10, 100, 10, 1]).copied().unwrap_or(1);
            }
        }
    }

    /// A kind's weight.
    pub fn of(&self, kind: Kind) -> u32 {
        self.0.get(kind.index()).copied().unwrap_or(0)
    }

    /// One of some kinds, by weight.
    pub fn pick(&self, of: &[Kind], stream: &mut Stream) -> Option<Kind> {
        let weights: Vec<u32> = of.iter().map(|kind| self.of(*kind)).collect();
        of.get(stream.weighed(&weights)?).copied()
    }

    /// All kinds with their weights.
    pub fn all(&self) -> impl Iterator<Item = (Kind, u32)> + '_ {
        Kind::ALL.iter().copied().zip(self.0)
    }
}

/// What became of requests, kind by kind.
#[derive(Clone, Debug)]
pub struct Outcomes([Outcome; Kind::COUNT]);

/// Whether the end of a poll is the error of a job, not a refusal of the poll.
pub fn tells_error(status: &Status) -> bool {
    let tells = |detail: &Detail| matches!(detail, Detail::CoordinationService { .. });
    let refuses = matches!(status.code, Code::FailedPrecondition | Code::Cancelled);
    !refuses && status.details.iter().any(tells)
}

/// What became of requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Those done.
    pub succeeded: u64,
    /// Those refused for what they asked.
    pub refused: u64,
    /// Those that got no answer, or one that says to come back.
    pub failed: u64,
}

impl Default for Outcomes {
    fn default() -> Self {
        Self([Outcome::default(); Kind::COUNT])
    }
}

impl Outcomes {
    /// Counts an answer; `None` when there was none.
    pub fn count<R>(&mut self, kind: Kind, answer: Option<&Result<R, Status>>) {
        let Some(outcome) = self.0.get_mut(kind.index()) else {
            return;
        };
        let place = match answer {
            Some(Ok(_)) => &mut outcome.succeeded,
            // Whoever polls for errors has succeeded when it gets one.
            Some(Err(status)) if kind == Kind::PollForError && tells_error(status) => {
                &mut outcome.succeeded
            }
            Some(Err(status)) if status.code != Code::Unavailable => &mut outcome.refused,
            _ => &mut outcome.failed,
        };
        *place = place.saturating_add(1);
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            own.succeeded = own.succeeded.saturating_add(other.succeeded);
            own.refused = own.refused.saturating_add(other.refused);
            own.failed = own.failed.saturating_add(other.failed);
        }
    }

    /// All kinds with what became of them.
    pub fn all(&self) -> impl Iterator<Item = (Kind, Outcome)> + '_ {
        Kind::ALL.iter().copied().zip(self.0)
    }
}

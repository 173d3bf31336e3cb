//! The dispatcher's durable state. Only [`super::apply`] changes it, live and in replay alike.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::by_split::{BySplit, DepartedReader, SavedSplit};
use super::handed_out::{IterationSplits, TaskSplits};
use super::idle::Idle;
use super::position::{Position, Restoration};
use super::record::WorkerProfile;
use super::repetitions::Repetitions;
use super::retired::{JobParameters, RetiredJobs};
use super::types::{
    DatasetMetadata, Definition, ShardingPolicy, SplitPlan, SplitSource, TargetWorkers,
};
use super::versions::DatasetVersions;
use crate::ids::{ClientId, DatasetId, Digest, IterationId, JobId, Lsn, TaskId, WorkerId};
use crate::time::Time;

/// All that survives a restart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    pub(super) counters: Counters,
    pub(super) datasets: BTreeMap<DatasetId, Dataset>,
    pub(super) versions: BTreeMap<DatasetId, DatasetVersions>,
    pub(super) workers: BTreeMap<WorkerId, Worker>,
    pub(super) jobs: BTreeMap<JobId, Job>,
    pub(super) iterations: BTreeMap<IterationId, Iteration>,
    pub(super) clients: BTreeMap<ClientId, Client>,
    pub(super) tasks: BTreeMap<TaskId, Task>,
    pub(super) positions: BTreeMap<Arc<str>, Position>,
    pub(super) restorations: BTreeMap<Arc<str>, Restoration>,
    pub(super) retired: RetiredJobs,
    pub(super) index: Index,
}

/// The next id of each kind; never taken back, so that no id is used twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// The next dataset's, in decimal.
    pub dataset: i64,
    /// The next worker's.
    pub worker: WorkerId,
    /// The next job's.
    pub job: JobId,
    /// The next iteration's.
    pub iteration: IterationId,
    /// The next client's.
    pub client: ClientId,
    /// The next task's.
    pub task: TaskId,
}

impl Default for Counters {
    fn default() -> Self {
        Self::above(0)
    }
}

impl Counters {
    /// TensorFlow's starting points, so that logs read alike, each above a number. No client sees
    /// the ids of workers, so theirs stay where they are.
    const fn above(number: i64) -> Self {
        Self {
            dataset: number + 1000,
            worker: WorkerId::new(1),
            job: JobId::new(number + 5000),
            iteration: IterationId::new(number + 2000),
            client: ClientId::new(number + 3000),
            task: TaskId::new(number + 4000),
        }
    }

    /// Whether no client was given an id so far.
    pub(super) fn are_at_start(&self) -> bool {
        let start = Self { worker: self.worker, ..Self::default() };
        *self == start
    }

    /// Begins all ids that clients see above a number, unless they are there already.
    pub(super) fn raise(&mut self, number: i64) {
        let raised = Self::above(number);
        self.dataset = self.dataset.max(raised.dataset);
        self.job = self.job.max(raised.job);
        self.iteration = self.iteration.max(raised.iteration);
        self.client = self.client.max(raised.client);
        self.task = self.task.max(raised.task);
    }
}

/// A registered dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// Its id.
    pub id: DatasetId,
    /// Its definition.
    pub definition: Definition,
    /// What can be split in it.
    pub plan: SplitPlan,
    /// What the client said of its elements.
    pub metadata: DatasetMetadata,
    /// Whether compression is off, once decided.
    pub compression_disabled: Option<bool>,
    /// When it was last registered or had a job, as far as noted.
    pub used: Time,
    /// The newest record about it.
    pub changed: Lsn,
}

/// A registered worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Worker {
    /// Its id.
    pub id: WorkerId,
    /// Its address.
    pub address: Arc<str>,
    /// What it said of itself.
    pub profile: WorkerProfile,
    /// Its unfinished tasks, pending ones too.
    pub tasks: BTreeSet<TaskId>,
    /// Whether it was silent for too long and has not been heard since.
    pub lost: bool,
    /// The newest record about it or its set of tasks.
    pub changed: Lsn,
}

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// The first of the jobs that this one continues: jobs of its name that were freed and asked for again.
    /// Its own id if there is none. `None` if it is not known: it began at a position with passes that were
    /// read or given up before, or continues a job of a journal from before this was kept.
    pub first_id: Option<JobId>,
    /// Its name.
    pub name: Arc<str>,
    /// Its dataset.
    pub dataset: DatasetId,
    /// How the dataset is divided.
    pub sharding: ShardingPolicy,
    /// Number of consumers of a coordinated read.
    pub consumers: Option<i64>,
    /// Whether workers keep elements for other trainers.
    pub use_cross_trainer_cache: bool,
    /// Which workers clients read from.
    pub target_workers: TargetWorkers,
    /// Whether the dispatcher chose the name.
    pub anonymous: bool,
    /// When somebody last asked for it, as far as noted.
    pub asked: Time,
    /// When the last of its iterations was freed.
    pub idle_since: Time,
    /// Repetitions that were finished when they were freed.
    pub finished: Repetitions,
    /// Repetitions that were given up before they were read to their end.
    pub abandoned: Repetitions,
    /// Readers by split that left or were given up, at most [`DEPARTED_READERS_MAX`].
    ///
    /// [`DEPARTED_READERS_MAX`]: crate::limits::DEPARTED_READERS_MAX
    pub departed: BTreeMap<ClientId, DepartedReader>,
    /// The newest record about it.
    pub changed: Lsn,
}

impl Job {
    /// Its parameters. A later request for the job must have the same.
    pub const fn parameters(&self) -> JobParameters {
        JobParameters {
            sharding: self.sharding,
            use_cross_trainer_cache: self.use_cross_trainer_cache,
            target_workers: self.target_workers,
        }
    }
}

/// One pass of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Iteration {
    /// Its id.
    pub id: IterationId,
    /// Its job.
    pub job: JobId,
    /// Which pass.
    pub repetition: i64,
    /// Where each source of splits stands.
    pub sources: Vec<SourcePosition>,
    /// Active tasks in the order clients see, finished ones too.
    pub tasks: Vec<TaskId>,
    /// Tasks waiting for consumers to agree; the front one is under negotiation.
    pub pending: VecDeque<PendingTask>,
    /// Its clients.
    pub clients: BTreeSet<ClientId>,
    /// When the last client left, if any ever did; when it was collected, if that was later.
    pub last_release: Option<Time>,
    /// True when all its tasks are finished, or it was collected.
    pub finished: bool,
    /// True when it was given up.
    pub collected: bool,
    /// The newest record about it, its tasks or their workers.
    pub changed: Lsn,
    /// The newest record about its splits.
    pub splits_changed: Lsn,
    /// Splits that are with none of its tasks for sure.
    pub splits: IterationSplits,
    /// Splits that its clients read by themselves.
    pub by_split: BySplit,
}

/// Where one source of splits stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePosition {
    /// The source.
    pub source: SplitSource,
    /// The current pass.
    pub repetition: i64,
    /// Splits of the current pass handed out so far.
    pub index: u64,
}

/// A task under negotiation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingTask {
    /// The task.
    pub task: TaskId,
    /// The round proposed now.
    pub target_round: i64,
    /// How many proposals failed.
    pub failures: u32,
    /// Clients blocked before the proposed round.
    pub ready: BTreeSet<ClientId>,
}

/// A client of an iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its id.
    pub id: ClientId,
    /// Its iteration.
    pub iteration: IterationId,
    /// When it joined.
    pub acquired: Time,
    /// Splits it holds, by place, with the records of them that it has acknowledged.
    pub splits: BTreeMap<u64, u64>,
    /// Whether it ever held a split.
    pub has_held: bool,
    /// The newest record about it.
    pub changed: Lsn,
}

impl Client {
    /// The splits it holds, by place.
    pub fn held_splits(&self) -> impl Iterator<Item = SavedSplit> + '_ {
        self.splits.iter().map(|(place, records)| SavedSplit { place: *place, records: *records })
    }
}

/// One worker's share of one iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Its iteration.
    pub iteration: IterationId,
    /// Its worker.
    pub worker: WorkerId,
    /// First round that includes it (coordinated reads), else 0.
    pub starting_round: i64,
    /// Whether its worker finished it, or it ended with its iteration.
    pub finished: bool,
    /// Splits it was handed; none once it is finished.
    pub splits: TaskSplits,
}

/// Ways to find things; all derived from the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Index {
    pub(super) worker_by_address: BTreeMap<Arc<str>, WorkerId>,
    pub(super) job_by_name: BTreeMap<Arc<str>, JobId>,
    /// Iterations by job and repetition; the newest of each counts.
    pub(super) iteration_by_key: BTreeSet<(JobId, i64, IterationId)>,
    /// Iterations that are not finished.
    pub(super) open_iterations: BTreeSet<IterationId>,
    /// Unfinished iterations of coordinated reads.
    pub(super) open_coordinated: BTreeSet<IterationId>,
    /// The unfinished task that a worker has of an iteration.
    pub(super) task_of: BTreeMap<(WorkerId, IterationId), TaskId>,
    /// All tasks of each worker by iteration, finished ones too.
    pub(super) tasks_on: BTreeSet<(WorkerId, IterationId, TaskId)>,
    /// Definitions by content, so that equal ones share their bytes.
    pub(super) definitions: BTreeMap<Digest, SharedDefinition>,
    /// What nobody uses.
    pub(super) idle: Idle,
}

/// A definition, and how many datasets have it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SharedDefinition {
    pub(super) definition: Definition,
    pub(super) datasets: u64,
}

impl Index {
    pub(super) fn add_iteration(&mut self, iteration: &Iteration, job: &Job) {
        self.iteration_by_key.insert((iteration.job, iteration.repetition, iteration.id));
        self.idle.iteration_added(iteration, job);
        if iteration.finished {
            return;
        }
        self.open_iterations.insert(iteration.id);
        if job.consumers.is_some() {
            self.open_coordinated.insert(iteration.id);
        }
    }

    pub(super) fn close_iteration(&mut self, id: IterationId) {
        self.open_iterations.remove(&id);
        self.open_coordinated.remove(&id);
    }

    /// The definition as one more dataset should keep it: with the bytes of an equal one, if there
    /// is any.
    pub(super) fn share_definition(&mut self, definition: &Definition) -> Definition {
        let shared = self.definitions.entry(definition.digest);
        let shared = shared
            .or_insert_with(|| SharedDefinition { definition: definition.clone(), datasets: 0 });
        shared.datasets = shared.datasets.saturating_add(1);
        shared.definition.clone()
    }

    /// One dataset less has the definition.
    pub(super) fn unshare_definition(&mut self, digest: Digest) {
        let Some(shared) = self.definitions.get_mut(&digest) else {
            return;
        };
        shared.datasets = shared.datasets.saturating_sub(1);
        if shared.datasets == 0 {
            self.definitions.remove(&digest);
        }
    }
}

/// Read access, for deciding, for reports and for invariants.
impl State {
    /// The next ids.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Datasets by id.
    pub const fn datasets(&self) -> &BTreeMap<DatasetId, Dataset> {
        &self.datasets
    }

    /// The versions of datasets that were replaced, by their names.
    pub const fn versions(&self) -> &BTreeMap<DatasetId, DatasetVersions> {
        &self.versions
    }

    /// Workers by id, which is the order of registration.
    pub const fn workers(&self) -> &BTreeMap<WorkerId, Worker> {
        &self.workers
    }

    /// Jobs by id.
    pub const fn jobs(&self) -> &BTreeMap<JobId, Job> {
        &self.jobs
    }

    /// Iterations by id.
    pub const fn iterations(&self) -> &BTreeMap<IterationId, Iteration> {
        &self.iterations
    }

    /// Clients by id.
    pub const fn clients(&self) -> &BTreeMap<ClientId, Client> {
        &self.clients
    }

    /// Tasks by id.
    pub const fn tasks(&self) -> &BTreeMap<TaskId, Task> {
        &self.tasks
    }

    /// Named positions by name.
    pub const fn positions(&self) -> &BTreeMap<Arc<str>, Position> {
        &self.positions
    }

    /// Jobs whose next iterations begin at a position, by the jobs' names.
    pub const fn restorations(&self) -> &BTreeMap<Arc<str>, Restoration> {
        &self.restorations
    }

    /// Whether anything is known of a job of this name: it is there, it was freed, or it waits at a position.
    pub fn knows_job(&self, name: &str) -> bool {
        self.index.job_by_name.contains_key(name)
            || self.retired.get(name).is_some()
            || self.restorations.contains_key(name)
    }

    /// Named jobs that were freed.
    pub const fn retired(&self) -> &RetiredJobs {
        &self.retired
    }

    /// Whether a worker has tasks, finished ones too.
    pub fn has_tasks(&self, worker: WorkerId) -> bool {
        let (first, last) = (IterationId::new(i64::MIN), IterationId::new(i64::MAX));
        let task = TaskId::new;
        let all = (worker, first, task(i64::MIN))..=(worker, last, task(i64::MAX));
        self.index.tasks_on.range(all).next().is_some()
    }

    /// A worker's tasks of one iteration, by id, finished ones too.
    pub(super) fn tasks_on(&self, on: WorkerId, of: IterationId) -> impl Iterator<Item = &Task> {
        let all = (on, of, TaskId::new(i64::MIN))..=(on, of, TaskId::new(i64::MAX));
        self.index.tasks_on.range(all).filter_map(|(.., id)| self.tasks.get(id))
    }

    /// Whether some dataset has the definition with this hash.
    pub fn defines(&self, digest: Digest) -> bool {
        self.index.definitions.contains_key(&digest)
    }

    /// The newest iteration of each repetition of a job.
    pub fn newest_iterations_of(&self, job: JobId) -> impl Iterator<Item = &Iteration> {
        let first = (job, i64::MIN, IterationId::new(i64::MIN));
        let last = (job, i64::MAX, IterationId::new(i64::MAX));
        let keys = self.index.iteration_by_key.range(first..=last);
        keys.filter_map(move |(_, repetition, id)| {
            let newest = self.iteration_of(job, *repetition);
            newest.filter(|iteration| iteration.id == *id)
        })
    }

    /// All iterations of a job, collected ones too.
    pub fn iterations_of(&self, job: JobId) -> impl Iterator<Item = &Iteration> {
        let first = (job, i64::MIN, IterationId::new(i64::MIN));
        let last = (job, i64::MAX, IterationId::new(i64::MAX));
        let keys = self.index.iteration_by_key.range(first..=last);
        keys.filter_map(|(.., id)| self.iterations.get(id))
    }

    /// How many clients read a job.
    pub fn clients_of(&self, job: JobId) -> usize {
        self.iterations_of(job).map(|iteration| iteration.clients.len()).sum()
    }

    /// Iterations that are not finished.
    pub const fn open_iterations(&self) -> &BTreeSet<IterationId> {
        &self.index.open_iterations
    }

    /// Unfinished iterations of coordinated reads.
    pub const fn open_coordinated(&self) -> &BTreeSet<IterationId> {
        &self.index.open_coordinated
    }

    /// The worker at an address.
    pub fn worker_at(&self, address: &str) -> Option<&Worker> {
        self.workers.get(self.index.worker_by_address.get(address)?)
    }

    /// The job of a name.
    pub fn job_named(&self, name: &str) -> Option<&Job> {
        self.jobs.get(self.index.job_by_name.get(name)?)
    }

    /// The unfinished task that a worker has of an iteration, pending or not.
    pub fn task_of(&self, worker: WorkerId, iteration: IterationId) -> Option<TaskId> {
        self.index.task_of.get(&(worker, iteration)).copied()
    }

    /// The newest iteration of a job's repetition.
    pub fn iteration_of(&self, job: JobId, repetition: i64) -> Option<&Iteration> {
        let first = (job, repetition, IterationId::new(i64::MIN));
        let last = (job, repetition, IterationId::new(i64::MAX));
        let mut keys = self.index.iteration_by_key.range(first..=last);
        self.iterations.get(&keys.next_back()?.2)
    }
}

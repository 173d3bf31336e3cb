//! What the model keeps across restarts, and the changes that concern nothing else.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rondo_core::dispatcher::{
    Compression, DatasetMetadata, DepartedReader, GetOrCreateJob, RegisterDataset, Reply,
    SavedSplit, ShardingPolicy, SplitSource, WorkerHeartbeat,
};
use rondo_core::ids::{ClientId, DatasetId, IterationId, JobId, Lsn, TaskId};
use rondo_core::status::Code;
use rondo_core::time::Time;

use super::Heard;
use super::freeing::note_use;
use super::holding::Shared;
use super::positions::{Position, Waits};
use super::splitting::Given;
use super::versions::{Read, Versions};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Kept {
    pub(crate) datasets: BTreeMap<DatasetId, Dataset>,
    /// By the datasets' names.
    pub(super) versions: BTreeMap<DatasetId, Versions>,
    /// Chosen dataset ids so far, and those passed over.
    pub(super) chosen: i64,
    pub(crate) jobs: Vec<Job>,
    /// The number above which ids begin.
    pub(crate) above: i64,
    /// The nth job has id 5000 + n above it, and so on for the others: ids are never used twice.
    jobs_ever: i64,
    pub(crate) iterations: Vec<Iteration>,
    pub(super) iterations_ever: i64,
    pub(crate) clients: BTreeMap<ClientId, Client>,
    pub(crate) clients_ever: i64,
    pub(crate) tasks: BTreeMap<TaskId, Task>,
    pub(super) tasks_ever: i64,
    /// Finished tasks that made room for another one of their workers.
    pub(super) replaced: BTreeSet<TaskId>,
    /// In the order they came.
    pub(crate) workers: Vec<WorkerHeartbeat>,
    /// Addresses of those that fell silent.
    pub(crate) lost: BTreeSet<String>,
    pub(super) positions: BTreeMap<String, Position>,
    /// Named jobs that were freed.
    pub(super) retired: BTreeMap<String, Retired>,
    /// Jobs that came back under the name of a freed one.
    pub(crate) came_back: u64,
    /// Readers that left jobs which are still there, in the order of leaving.
    pub(super) departed: Vec<Departed>,
    /// By the job's name.
    pub(super) waits: BTreeMap<String, Waits>,
    /// Changes of positions, also those that change nothing else.
    pub(super) positions_changed: u64,
    /// How often workers had to give back what they took.
    pub(crate) recalled: u64,
    /// Iterations begun at a position.
    pub(crate) resumed: u64,
    /// Iterations of repetitions known to be finished.
    pub(crate) seen_finished: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dataset {
    pub(crate) registered: RegisterDataset,
    pub(super) decided: Option<bool>,
    pub(super) used: Time,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    pub(crate) request: GetOrCreateJob,
    pub(super) asked: Time,
    pub(super) idle_since: Time,
    pub(super) finished: BTreeSet<i64>,
    pub(super) abandoned: BTreeSet<i64>,
}

/// A named job that the dispatcher has freed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Retired {
    pub(super) request: GetOrCreateJob,
    pub(super) read: Read,
    pub(super) finished: BTreeSet<i64>,
    pub(super) abandoned: BTreeSet<i64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Iteration {
    pub(crate) id: IterationId,
    pub(crate) job: JobId,
    pub(crate) repetition: i64,
    /// Each source with its current pass and the splits of that pass handed out.
    pub(crate) sources: Vec<(SplitSource, i64, usize)>,
    pub(crate) active: Vec<TaskId>,
    pub(crate) pending: VecDeque<Pending>,
    pub(crate) released: Option<Time>,
    pub(crate) given: Given,
    pub(crate) shared: Shared,
    pub(crate) finished: bool,
    pub(crate) collected: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pending {
    pub(crate) task: TaskId,
    pub(crate) target: i64,
    pub(crate) failures: u32,
    pub(crate) ready: BTreeSet<ClientId>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Client {
    pub(crate) iteration: IterationId,
    pub(super) joined: Time,
    /// Places of the splits it holds, with the records acknowledged.
    pub(crate) splits: BTreeMap<u64, u64>,
    /// It once held a split.
    pub(crate) held_any: bool,
}

/// A reader that left, with what it held.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Departed {
    pub(crate) client: ClientId,
    pub(crate) job: JobId,
    pub(crate) reader: DepartedReader,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Task {
    pub(crate) iteration: IterationId,
    pub(crate) address: String,
    pub(crate) starting_round: i64,
    pub(crate) finished: bool,
    /// Splits of the iteration handed to somebody unknown before it, or its present process, began.
    pub(super) unattributed_before: u64,
}

impl Job {
    /// Some repetition of it was given up.
    pub(crate) fn is_abandoned(&self) -> bool {
        !self.abandoned.is_empty()
    }
}

impl Kept {
    pub(crate) fn retired_jobs(&self) -> usize {
        self.retired.len()
    }

    pub(super) fn register(&mut self, now: Time, request: &RegisterDataset) -> Heard {
        let taken = request.wished.as_ref().and_then(|id| match request.own {
            true => self.current(id),
            false => self.datasets.contains_key(id).then(|| id.clone()),
        });
        let is_same = |id: &DatasetId| self.is_pipeline(id, request);
        if let Some(id) = &taken
            && request.own
            && request.replaces
            && !is_same(&self.current_beside(id))
        {
            return self.replace(now, &id.clone(), request);
        }
        if let Some(id) = &taken {
            let id = match request.own && request.replaces {
                true => &self.current_beside(id),
                false => id,
            };
            let digest = self.datasets[id].registered.definition.digest;
            return match request.own && digest != request.definition.digest {
                true => Err(Code::FailedPrecondition),
                false => self.get_registered(now, id, &request.metadata),
            };
        }
        let id = request.wished.clone().unwrap_or_else(|| self.next_id());
        let dataset = Dataset { registered: request.clone(), decided: None, used: now };
        self.datasets.insert(id.clone(), dataset);
        while self.datasets.contains_key(&self.next_id()) {
            self.chosen += 1;
        }
        Ok(Reply::Dataset(id))
    }

    pub(super) fn get_registered(
        &mut self,
        now: Time,
        id: &DatasetId,
        metadata: &DatasetMetadata,
    ) -> Heard {
        let Some(known) = self.datasets.get_mut(id) else {
            return Ok(Reply::NotRegistered);
        };
        let own = &known.registered.metadata;
        let same = own.structure == metadata.structure
            && own.compression == metadata.compression
            && own.cardinality == metadata.cardinality;
        if !same {
            return Err(Code::InvalidArgument);
        }
        note_use(&mut known.used, now);
        Ok(Reply::Dataset(id.clone()))
    }

    fn next_id(&self) -> DatasetId {
        DatasetId::new((self.above + 1000 + self.chosen).to_string())
    }

    pub(super) fn compress(&mut self, id: &DatasetId, disable: bool) -> Reply {
        let dataset = self.datasets.get_mut(id).unwrap();
        if dataset.registered.metadata.compression == Compression::Off {
            return Reply::Compression(None);
        }
        Reply::Compression(Some(*dataset.decided.get_or_insert(disable)))
    }

    pub(super) fn job(&mut self, now: Time, request: &GetOrCreateJob) -> Heard {
        let named = |job: &&mut Job| request.name.is_some() && job.request.name == request.name;
        self.check_job(request)?;
        if let Some(job) = self.jobs.iter_mut().find(named) {
            note_use(&mut job.asked, now);
            if request.same_dataset && request.dataset != job.request.dataset {
                note_use(&mut self.datasets.get_mut(&request.dataset).unwrap().used, now);
            }
            return Ok(Reply::Job(job.id));
        }
        let freed = request.name.as_ref().is_some_and(|name| self.retired.contains_key(name));
        let waits = request.name.as_ref().and_then(|name| self.waits.get(name));
        if !freed && waits.is_some_and(|waits| !self.agrees(&waits.read, request)) {
            return Err(Code::FailedPrecondition);
        }
        let id = JobId::new(self.above + 5000 + self.jobs_ever);
        self.jobs_ever += 1;
        let retired = request.name.as_ref().and_then(|name| self.retired.remove(name));
        self.came_back += u64::from(retired.is_some());
        let (finished, abandoned) = match (retired, &request.name) {
            (Some(retired), _) => (retired.finished, retired.abandoned),
            (None, Some(name)) => self.take_beginning(name),
            (None, None) => Default::default(),
        };
        self.jobs.push(Job {
            id,
            request: request.clone(),
            asked: now,
            idle_since: now,
            finished,
            abandoned,
        });
        if let Some(dataset) = self.datasets.get_mut(&request.dataset) {
            dataset.used = now;
        }
        Ok(Reply::Job(id))
    }

    /// Whether a job can be given, or created, as far as its name and its request say.
    pub(super) fn check_job(&self, request: &GetOrCreateJob) -> Result<(), Code> {
        let name = request.name.as_deref();
        let there = name.and_then(|name| self.job_named(name)).map(|job| &job.request);
        let freed = name.and_then(|name| self.retired.get(name)).map(|freed| &freed.request);
        if let Some(known) = there.or(freed) {
            if known.sharding != request.sharding
                || known.use_cross_trainer_cache != request.use_cross_trainer_cache
                || known.target_workers != request.target_workers
            {
                return Err(Code::InvalidArgument);
            }
            let read = name.and_then(|name| self.read_by(name)).unwrap();
            if !self.agrees(&read, request) {
                return Err(Code::FailedPrecondition);
            }
        }
        if there.is_some() {
            return Ok(());
        }
        if request.consumers.is_some_and(|consumers| consumers < 1) {
            return Err(Code::InvalidArgument);
        }
        self.digest(&request.dataset).map(drop).ok_or(Code::NotFound)
    }

    pub(crate) fn job_of(&self, iteration: &Iteration) -> &GetOrCreateJob {
        let mut jobs = self.jobs.iter();
        &jobs.find(|job| job.id == iteration.job).unwrap().request
    }

    pub(crate) fn iteration(&self, id: IterationId) -> Option<&Iteration> {
        self.iterations.iter().find(|iteration| iteration.id == id)
    }

    pub(super) fn iteration_mut(&mut self, id: IterationId) -> Option<&mut Iteration> {
        self.iterations.iter_mut().find(|iteration| iteration.id == id)
    }

    pub(crate) fn clients_of(&self, id: IterationId) -> Vec<ClientId> {
        let clients = self.clients.iter().filter(|(_, client)| client.iteration == id);
        clients.map(|(id, _)| *id).collect()
    }

    pub(super) fn release(&mut self, now: Time, id: ClientId) -> bool {
        let Some(client) = self.clients.remove(&id) else {
            return false;
        };
        let iteration = self.iteration(client.iteration).unwrap();
        if client.held_any && !iteration.collected {
            let splits = client.splits.iter();
            let splits =
                splits.map(|(place, records)| SavedSplit { place: *place, records: *records });
            let (repetition, splits) = (iteration.repetition, splits.collect());
            let (job, iteration, left) = (iteration.job, iteration.id, Lsn::NONE);
            let reader = DepartedReader { iteration, repetition, splits, left };
            self.departed.push(Departed { client: id, job, reader });
        }
        let iteration = self.iteration_mut(client.iteration).unwrap();
        iteration.released = Some(now);
        iteration.pending.iter_mut().for_each(|pending| {
            pending.ready.remove(&id);
        });
        if !client.splits.is_empty() {
            iteration.given.tried = None;
        }
        iteration.shared.waiting.extend(client.splits);
        true
    }

    /// Unfinished iterations that nobody reads, with whether their splits are divided among all readers,
    /// and when the last reader left.
    pub(super) fn unread(&self) -> Vec<(IterationId, bool, Time)> {
        let unread = self
            .iterations
            .iter()
            .filter(|iteration| !iteration.finished && self.clients_of(iteration.id).is_empty());
        let unread = unread.filter_map(|iteration| {
            let dynamic = self.job_of(iteration).sharding == ShardingPolicy::Dynamic;
            Some((iteration.id, dynamic, iteration.released?))
        });
        unread.collect()
    }

    pub(super) fn abandon(&mut self, now: Time, id: IterationId) {
        self.collect_and_keep_readers(now, id);
        let iteration = self.iteration(id).unwrap();
        let (job, repetition) = (iteration.job, iteration.repetition);
        let job = self.jobs.iter_mut().find(|known| known.id == job).unwrap();
        job.abandoned.insert(repetition);
    }

    pub(super) fn collect(&mut self, now: Time, id: IterationId) {
        self.collect_and_keep_readers(now, id);
        self.departed.retain(|departed| departed.reader.iteration != id);
    }

    fn collect_and_keep_readers(&mut self, now: Time, id: IterationId) {
        self.end(id);
        let iteration = self.iteration_mut(id).unwrap();
        iteration.collected = true;
        iteration.released = Some(now);
    }

    /// Ends an iteration: all its tasks are over, those not yet agreed on too.
    pub(super) fn end(&mut self, id: IterationId) {
        let iteration = self.iteration_mut(id).unwrap();
        iteration.finished = true;
        iteration.given.give_up();
        iteration.shared.waiting.clear();
        let pending = std::mem::take(&mut iteration.pending);
        iteration.active.extend(pending.into_iter().map(|pending| pending.task));
        let of = |(_, task): &(&TaskId, &mut Task)| task.iteration == id;
        let ended = self.tasks.iter_mut().filter(of).map(|(id, task)| {
            task.finished = true;
            *id
        });
        let ended: Vec<TaskId> = ended.collect();
        let given = &mut self.iteration_mut(id).unwrap().given;
        ended.into_iter().for_each(|task| given.forget(task));
        let clients = self.clients.values_mut().filter(|client| client.iteration == id);
        clients.for_each(|client| client.splits.clear());
    }

    pub(super) fn update(&mut self, address: &str, progress: &[(TaskId, bool)]) -> Reply {
        for (id, completed) in progress {
            let own = self.tasks.get(id).filter(|task| task.address == address);
            if *completed && own.is_some_and(|task| !task.finished) {
                self.finish(*id);
            }
        }
        Reply::WorkerUpdated
    }

    fn finish(&mut self, id: TaskId) {
        let of = self.tasks[&id].iteration;
        if self.iteration(of).unwrap().pending.iter().any(|pending| pending.task == id) {
            return self.erase(id);
        }
        self.tasks.get_mut(&id).unwrap().finished = true;
        self.iteration_mut(of).unwrap().given.forget(id);
        self.give_up_in_vain(of);
        self.end_if_over(of);
        self.make_reader(of);
    }

    pub(super) fn end_if_over(&mut self, id: IterationId) {
        let active = &self.iteration(id).unwrap().active;
        let over = active.iter().all(|task| self.tasks[task].finished);
        if !active.is_empty() && over && !self.awaits(id) {
            self.end(id);
        }
    }

    pub(super) fn erase(&mut self, id: TaskId) {
        let task = self.tasks.remove(&id).unwrap();
        let iteration = self.iteration_mut(task.iteration).unwrap();
        iteration.given.forget(id);
        iteration.active.retain(|active| *active != id);
        iteration.pending.retain(|pending| pending.task != id);
    }

    pub(super) fn new_task(&mut self, iteration: IterationId, address: &str) -> TaskId {
        let id = TaskId::new(self.above + 4000 + self.tasks_ever);
        self.tasks_ever += 1;
        let task = Task {
            iteration,
            address: address.into(),
            starting_round: 0,
            finished: false,
            unattributed_before: self
                .iteration(iteration)
                .map_or(0, |iteration| iteration.given.unattributed),
        };
        self.tasks.insert(id, task);
        id
    }
}

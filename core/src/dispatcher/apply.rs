//! The only code that changes the durable state.
//!
//! Every function here first looks at all it needs and changes nothing when something does not
//! fit, so that a refused record leaves the state as it was.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::by_split::BySplit;
use super::delivery::HandedOut;
use super::handed_out::{IterationSplits, TaskSplits};
use super::record::Record;
use super::state::{Client, Iteration, Job, PendingTask, SourcePosition, State, Task, Worker};
use crate::ids::{ClientId, IterationId, JobId, Lsn, TaskId, WorkerId};
use crate::log::{ApplyError, exists, missing};
use crate::time::Time;

impl State {
    /// Applies one record.
    ///
    /// # Errors
    /// When the record names what does not exist, or creates what does.
    pub fn apply(&mut self, lsn: Lsn, record: &Record) -> Result<(), ApplyError> {
        match record {
            Record::RaiseIds { above } => self.raise_ids(*above),
            Record::RegisterDataset { .. }
            | Record::ReplaceDataset { .. }
            | Record::DecideCompression { .. } => self.apply_dataset(lsn, record),
            Record::RegisterWorker { .. } | Record::UpdateWorker { .. } => {
                self.apply_worker(lsn, record)
            }
            Record::LoseWorker { id, again } => self.lose_worker(lsn, *id, *again),
            Record::ReturnWorker { id, reborn } => self.return_worker(lsn, *id, *reborn),
            Record::RestartTasks { worker, again } => self.restart_tasks(lsn, *worker, *again),
            Record::CreateJob { .. } => self.apply_job(lsn, record),
            Record::CreateIteration { id, .. } => self.create_iteration(lsn, *id, record),
            Record::AcquireClient { id, iteration, at } => {
                self.acquire_client(lsn, *id, *iteration, *at)
            }
            Record::ReleaseClient { id, at } => self.release_client(lsn, *id, *at),
            Record::ProduceSplit { .. } | Record::RepeatSplit { .. } => {
                self.apply_split(lsn, record)
            }
            Record::HoldSplits { .. }
            | Record::HandOutWaiting { .. }
            | Record::FinishIteration { .. } => self.apply_holding(lsn, record),
            Record::CollectIteration { id, at } => self.collect_iteration(lsn, *id, *at),
            Record::AbandonIteration { id, at } => self.abandon_iteration(lsn, *id, *at),
            Record::FreeWorker { id } => self.free_worker(lsn, *id),
            _ => self.apply_of_family(lsn, record),
        }
    }

    /// Applies a record of a family of kinds that is applied elsewhere.
    fn apply_of_family(&mut self, lsn: Lsn, record: &Record) -> Result<(), ApplyError> {
        match record {
            Record::FreeIteration { .. }
            | Record::FreeJob { .. }
            | Record::RetireJob { .. }
            | Record::DeleteJob { .. }
            | Record::FreeDataset { .. }
            | Record::UseJob { .. }
            | Record::UseDataset { .. } => self.apply_freeing(lsn, record),
            Record::CreateFinishedIteration { .. }
            | Record::ResumeIteration { .. }
            | Record::SavePosition { .. }
            | Record::RestorePosition { .. }
            | Record::DeletePosition { .. } => self.apply_position(lsn, record),
            _ => self.apply_task(lsn, record),
        }
    }

    fn apply_task(&mut self, lsn: Lsn, record: &Record) -> Result<(), ApplyError> {
        match *record {
            Record::TakeBackSplit { iteration, source, repetition, place, task } => {
                let split = HandedOut { iteration, source, repetition, place, task };
                self.take_back_split(lsn, &split)
            }
            Record::CreateTask { id, iteration, worker } => {
                self.create_task(lsn, id, iteration, worker)?;
                self.note_reader_tried(iteration)?;
                self.iteration_mut(iteration)?.tasks.push(id);
                Ok(())
            }
            Record::CreatePendingTask { id, iteration, worker, target_round } => {
                self.check_open(iteration)?;
                self.create_task(lsn, id, iteration, worker)?;
                let ready = BTreeSet::new();
                let pending = PendingTask { task: id, target_round, failures: 0, ready };
                self.iteration_mut(iteration)?.pending.push_back(pending);
                Ok(())
            }
            Record::RejectRound { iteration, target_round } => {
                self.reject_round(lsn, iteration, target_round)
            }
            Record::AcceptRound { iteration, client } => self.accept_round(lsn, iteration, client),
            Record::FinishTask { id } => self.finish_task(lsn, id),
            Record::RemoveTask { id, again } => {
                self.forsake_splits(lsn, id, again)?;
                self.remove_task(lsn, id)
            }
            _ => Err(ApplyError("the record is of no kind that tasks have".to_string())),
        }
    }

    fn apply_worker(&mut self, lsn: Lsn, record: &Record) -> Result<(), ApplyError> {
        match record {
            Record::RegisterWorker { id, address, profile } => {
                if self.workers.contains_key(id) {
                    return Err(exists("worker", id));
                }
                if self.index.worker_by_address.contains_key(address) {
                    return Err(exists("worker with address", address));
                }
                self.index.worker_by_address.insert(address.clone(), *id);
                self.counters.worker = self.counters.worker.max(id.next());
                let worker = Worker {
                    id: *id,
                    address: address.clone(),
                    profile: profile.clone(),
                    tasks: BTreeSet::new(),
                    lost: false,
                    changed: lsn,
                };
                self.workers.insert(*id, worker);
                Ok(())
            }
            Record::UpdateWorker { id, profile } => {
                let worker = self.workers.get_mut(id).ok_or_else(|| missing("worker", id))?;
                worker.profile = profile.clone();
                worker.changed = lsn;
                self.touch_iterations_of(lsn, *id);
                Ok(())
            }
            _ => Err(ApplyError("the record is of no kind that workers have".to_string())),
        }
    }

    /// What clients see of a worker stands in their task lists, so those have changed too.
    fn touch_iterations_of(&mut self, lsn: Lsn, worker: WorkerId) {
        for id in &self.index.open_iterations {
            let Some(iteration) = self.iterations.get_mut(id) else {
                continue;
            };
            let of = |task| (worker, *id, TaskId::new(task));
            let mut on_worker = self.index.tasks_on.range(of(i64::MIN)..=of(i64::MAX));
            // Clients do not see a pending task.
            let pending = &iteration.pending;
            if on_worker.any(|(.., task)| pending.iter().all(|it| it.task != *task)) {
                iteration.changed = lsn;
            }
        }
    }

    fn create_iteration(
        &mut self,
        lsn: Lsn,
        id: IterationId,
        record: &Record,
    ) -> Result<(), ApplyError> {
        let Record::CreateIteration { job, repetition, sources, .. } = record else {
            return Err(ApplyError("the record creates no iteration".to_string()));
        };
        let start = |source: &_| SourcePosition { source: *source, repetition: 0, index: 0 };
        let sources = sources.iter().map(start).collect();
        self.add_iteration(lsn, id, (*job, *repetition), sources)
    }

    /// Adds an iteration without tasks and clients.
    pub(super) fn add_iteration(
        &mut self,
        lsn: Lsn,
        id: IterationId,
        (job, repetition): (JobId, i64),
        sources: Vec<SourcePosition>,
    ) -> Result<(), ApplyError> {
        if self.iterations.contains_key(&id) {
            return Err(exists("iteration", id));
        }
        let iteration = Iteration {
            id,
            job,
            repetition,
            sources,
            tasks: Vec::new(),
            pending: alloc::collections::VecDeque::new(),
            clients: BTreeSet::new(),
            last_release: None,
            finished: false,
            collected: false,
            changed: lsn,
            splits_changed: lsn,
            splits: IterationSplits::default(),
            by_split: BySplit::default(),
        };
        let job = self.jobs.get(&job).ok_or_else(|| missing("job", job))?;
        self.index.add_iteration(&iteration, job);
        self.iterations.insert(id, iteration);
        self.counters.iteration = self.counters.iteration.max(id.next());
        Ok(())
    }

    fn create_task(
        &mut self,
        lsn: Lsn,
        id: TaskId,
        iteration: IterationId,
        worker: WorkerId,
    ) -> Result<(), ApplyError> {
        if self.tasks.contains_key(&id) {
            return Err(exists("task", id));
        }
        let of_iteration =
            self.iterations.get_mut(&iteration).ok_or_else(|| missing("iteration", iteration))?;
        let of_worker = self.workers.get_mut(&worker).ok_or_else(|| missing("worker", worker))?;
        of_iteration.changed = lsn;
        of_worker.changed = lsn;
        of_worker.tasks.insert(id);
        self.index.task_of.insert((worker, iteration), id);
        self.index.tasks_on.insert((worker, iteration, id));
        self.tasks.insert(
            id,
            Task {
                id,
                iteration,
                worker,
                starting_round: 0,
                finished: false,
                splits: TaskSplits::beginning(&of_iteration.splits),
            },
        );
        self.counters.task = self.counters.task.max(id.next());
        Ok(())
    }

    fn acquire_client(
        &mut self,
        lsn: Lsn,
        id: ClientId,
        iteration: IterationId,
        at: Time,
    ) -> Result<(), ApplyError> {
        if self.clients.contains_key(&id) {
            return Err(exists("client", id));
        }
        self.change_iteration(iteration, |iteration| {
            iteration.clients.insert(id);
        })?;
        let splits = BTreeMap::new();
        let client = Client { id, iteration, acquired: at, splits, has_held: false, changed: lsn };
        self.clients.insert(id, client);
        self.counters.client = self.counters.client.max(id.next());
        Ok(())
    }

    fn release_client(&mut self, lsn: Lsn, id: ClientId, at: Time) -> Result<(), ApplyError> {
        self.keep_progress(lsn, id)?;
        self.give_back(lsn, id)?;
        let client = self.clients.get(&id).ok_or_else(|| missing("client", id))?;
        self.change_iteration(client.iteration, |iteration| {
            iteration.clients.remove(&id);
            iteration.last_release = Some(at);
            // A client that is gone holds nobody back and vouches for nobody.
            for pending in &mut iteration.pending {
                pending.ready.remove(&id);
            }
            iteration.changed = lsn;
        })?;
        self.clients.remove(&id);
        Ok(())
    }

    fn finish_task(&mut self, lsn: Lsn, id: TaskId) -> Result<(), ApplyError> {
        if self.is_pending(id) {
            // No consumer has ever seen it, and none should stop to agree on it.
            return self.remove_task(lsn, id);
        }
        let iteration = self.end_task(lsn, id)?;
        let iteration = self.iteration_mut(iteration)?;
        iteration.changed = lsn;
        let id = iteration.id;
        self.give_up_in_vain(id)?;
        self.close_if_over(lsn, id)
    }

    /// Ends an iteration whose tasks are all finished, unless splits are to be handed out again.
    pub(super) fn close_if_over(&mut self, lsn: Lsn, id: IterationId) -> Result<(), ApplyError> {
        let iteration = self.iterations.get(&id);
        let iteration = iteration.ok_or_else(|| missing("iteration", id))?;
        if self.has_only_finished_tasks(iteration) && !iteration.awaits() {
            self.close_iteration(lsn, id)?;
        }
        Ok(())
    }

    /// Nobody agrees on tasks of an iteration that is over, and nothing would take them away.
    fn check_open(&self, id: IterationId) -> Result<(), ApplyError> {
        let iteration = self.iterations.get(&id);
        match iteration.ok_or_else(|| missing("iteration", id))?.finished {
            true => Err(ApplyError(format!("iteration {id} is over and takes no task"))),
            false => Ok(()),
        }
    }

    pub(super) fn is_pending(&self, id: TaskId) -> bool {
        let task = self.tasks.get(&id);
        let iteration = task.and_then(|task| self.iterations.get(&task.iteration));
        iteration.is_some_and(|iteration| iteration.pending.iter().any(|p| p.task == id))
    }

    /// Marks a task finished and takes it off its worker.
    pub(super) fn end_task(&mut self, lsn: Lsn, id: TaskId) -> Result<IterationId, ApplyError> {
        let task = self.tasks.get_mut(&id).ok_or_else(|| missing("task", id))?;
        task.finished = true;
        task.splits = TaskSplits::default();
        let (worker, iteration) = (task.worker, task.iteration);
        self.detach_task(lsn, id, (worker, iteration))?;
        Ok(iteration)
    }

    pub(super) fn detach_task(
        &mut self,
        lsn: Lsn,
        id: TaskId,
        (worker, iteration): (WorkerId, IterationId),
    ) -> Result<(), ApplyError> {
        let of = self.workers.get_mut(&worker);
        let of = of.ok_or_else(|| missing("worker", worker))?;
        if of.tasks.remove(&id) {
            of.changed = lsn;
            self.index.task_of.remove(&(worker, iteration));
        }
        Ok(())
    }

    /// Ends an iteration: nobody will be asked to agree on its pending tasks any more.
    pub(super) fn close_iteration(&mut self, lsn: Lsn, id: IterationId) -> Result<(), ApplyError> {
        self.change_iteration(id, |iteration| {
            iteration.finished = true;
            iteration.changed = lsn;
        })?;
        let iteration = self.iteration_mut(id)?;
        iteration.splits.give_up();
        let pending = core::mem::take(&mut iteration.pending);
        iteration.tasks.extend(pending.iter().map(|pending| pending.task));
        for pending in &pending {
            self.end_task(lsn, pending.task)?;
        }
        self.index.close_iteration(id);
        self.forget_held_splits(id)
    }

    pub(super) fn remove_task(&mut self, lsn: Lsn, id: TaskId) -> Result<(), ApplyError> {
        let task = self.tasks.get(&id).ok_or_else(|| missing("task", id))?;
        let of = (task.worker, task.iteration);
        let iteration = self.iteration_mut(of.1)?;
        iteration.tasks.retain(|task| *task != id);
        iteration.pending.retain(|pending| pending.task != id);
        iteration.changed = lsn;
        self.detach_task(lsn, id, of)?;
        self.tasks.remove(&id);
        self.index.tasks_on.remove(&(of.0, of.1, id));
        Ok(())
    }

    /// Collects an iteration, and forgets how far its readers came: it will be read anew.
    pub(super) fn collect_iteration(
        &mut self,
        lsn: Lsn,
        id: IterationId,
        at: Time,
    ) -> Result<(), ApplyError> {
        self.collect_and_keep_readers(lsn, id, at)?;
        let job = self.iteration_mut(id)?.job;
        self.change_job(job, |job| job.departed.retain(|_, reader| reader.iteration != id))
    }

    fn collect_and_keep_readers(
        &mut self,
        lsn: Lsn,
        id: IterationId,
        at: Time,
    ) -> Result<(), ApplyError> {
        self.close_iteration(lsn, id)?;
        self.change_iteration(id, |iteration| {
            iteration.collected = true;
            iteration.last_release = iteration.last_release.max(Some(at));
        })?;
        for task in self.iteration_mut(id)?.tasks.clone() {
            self.end_task(lsn, task)?;
        }
        Ok(())
    }

    fn abandon_iteration(&mut self, lsn: Lsn, id: IterationId, at: Time) -> Result<(), ApplyError> {
        let iteration = self.iterations.get(&id).ok_or_else(|| missing("iteration", id))?;
        let (job, repetition) = (iteration.job, iteration.repetition);
        self.collect_and_keep_readers(lsn, id, at)?;
        self.change_job(job, |job| {
            job.abandoned.insert(repetition);
            job.changed = lsn;
        })
    }

    pub(super) fn iteration_mut(&mut self, id: IterationId) -> Result<&mut Iteration, ApplyError> {
        self.iterations.get_mut(&id).ok_or_else(|| missing("iteration", id))
    }

    pub(super) fn job_or_missing(&self, id: JobId) -> Result<&Job, ApplyError> {
        self.jobs.get(&id).ok_or_else(|| missing("job", id))
    }
}

//! Lost workers: what becomes of the tasks of a worker that has fallen silent, and of one that is
//! back.
//!
//! Consumers of a coordinated read agree among themselves on what to do without a worker, in one
//! round; everywhere else its unfinished tasks end for everybody, so that no epoch waits for it.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::machine::{Dispatcher, Effect, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::Event;
use super::state::{Iteration, State, Worker};
use crate::ids::{IterationId, Lsn, TaskId, WorkerId};
use crate::log::{ApplyError, missing};
use crate::time::Time;

impl Dispatcher {
    /// When some worker, or some client that holds splits, may have been silent for too long; also
    /// shortly after each step, so that a hold-up is noticed.
    pub fn silence_deadline(&self) -> Time {
        self.leases.deadline()
    }

    /// Gives up workers that have been silent for too long; what would make the step long is left
    /// for the next one.
    pub(super) fn lose_silent_workers(&mut self, turn: &mut Turn<'_>) {
        let refuses = turn.log.refuses().is_some();
        let mut budget = self.config.bounds.expiries_per_step;
        let mut bereaved = BTreeSet::new();
        while let Some(id) = self.leases.take_silent_worker(refuses, turn.now, &mut budget) {
            let tasks = self.state.workers().get(&id).map_or(0, |w| w.tasks.len());
            budget = budget.saturating_sub(tasks);
            // A record that does not fit has already asked the node to stop; there is nobody to
            // tell.
            bereaved.extend(self.lose_worker(turn, id).unwrap_or_default());
        }
        for iteration in bereaved {
            let _ = self.make_reader(turn, iteration);
        }
    }

    /// Names the iterations in which the worker had tasks.
    fn lose_worker(
        &mut self,
        turn: &mut Turn<'_>,
        id: WorkerId,
    ) -> Result<Vec<IterationId>, Refusal> {
        let again = self.config.reissue_lost_splits;
        let before = self.splits_with(id);
        self.commit(turn, [Record::LoseWorker { id, again }])?;
        self.leases.lost_since.insert(id, turn.now);
        if let Some(worker) = self.state.workers().get(&id) {
            let address = worker.address.clone();
            turn.out.push(Effect::Observe(Event::WorkerLost { address }));
        }
        self.tell_of_lost_splits(turn, id, &before);
        Ok(before.into_iter().map(|(iteration, _)| iteration).collect())
    }

    /// What is known of lost splits in the iterations of a worker's tasks.
    pub(super) fn splits_with(&self, worker: WorkerId) -> Vec<(IterationId, Missing)> {
        let worker = self.state.workers().get(&worker);
        let tasks = worker.into_iter().flat_map(|worker| &worker.tasks);
        let iterations = tasks.filter_map(|id| Some(self.state.tasks().get(id)?.iteration));
        let missing = iterations.filter_map(|id| Some((id, self.missing_of(id)?)));
        missing.collect()
    }

    fn missing_of(&self, iteration: IterationId) -> Option<Missing> {
        let splits = &self.state.iterations().get(&iteration)?.splits;
        Some(Missing {
            lost: splits.lost,
            again: splits.again.count(),
            in_doubt: splits.doubt.count,
        })
    }

    /// Tells of the splits that went since `before` was noted.
    pub(super) fn tell_of_lost_splits(
        &self,
        turn: &mut Turn<'_>,
        worker: WorkerId,
        before: &[(IterationId, Missing)],
    ) {
        let Some(worker) = self.state.workers().get(&worker) else {
            return;
        };
        for (iteration, before) in before {
            let Some(now) = self.missing_of(*iteration).filter(|now| now != before) else {
                continue;
            };
            let again = now.again.saturating_sub(before.again);
            let lost = now.lost.saturating_sub(before.lost).saturating_add(again);
            turn.out.push(Effect::Observe(Event::SplitsLost {
                address: worker.address.clone(),
                iteration: *iteration,
                lost,
                again,
                in_doubt: now.in_doubt.saturating_sub(before.in_doubt),
            }));
        }
    }

    /// Gives a live worker a task of an iteration in which splits are to be handed out again and
    /// nobody is left to ask for them. Without a live worker, the next that comes gets one.
    pub(super) fn make_reader(
        &mut self,
        turn: &mut Turn<'_>,
        iteration: IterationId,
    ) -> Result<(), Refusal> {
        match self.waits_for_reader(iteration) {
            true => self.make_another_task(turn, iteration),
            false => Ok(()),
        }
    }

    /// Gives a live worker a task of an iteration that nobody reads, in place of those it had: else each
    /// would stay in every answer to a heartbeat, however many follow one another.
    pub(super) fn make_another_task(
        &mut self,
        turn: &mut Turn<'_>,
        iteration: IterationId,
    ) -> Result<(), Refusal> {
        match self.reader_for(iteration) {
            Some(worker) => self.make_task_on(turn, iteration, worker),
            None => Ok(()),
        }
    }

    /// Gives a live worker a task of an iteration in which readers by split hold splits, and others are to be
    /// handed out again: a consumer by element may wait for those, and the readers for the consumer. A task
    /// that has left as many as there were, and took none, is not followed by another: not every task asks
    /// for splits.
    pub(super) fn make_task_for_consumer(
        &mut self,
        turn: &mut Turn<'_>,
        id: IterationId,
    ) -> Result<(), Refusal> {
        let iteration = self.iteration(id)?;
        let waiting = iteration.to_be_handed_out_again();
        let tried = self.leases.consumers_tried.get(&id);
        let in_vain = tried
            .is_some_and(|(left, task)| *left == waiting && self.state.tasks().contains_key(task));
        if in_vain || !self.state.lacks_reader_beside_readers_by_split(iteration) {
            return Ok(());
        }
        let next = self.task_ids().next();
        if let Some((worker, task)) = self.worker_for_consumers(iteration).zip(next) {
            self.make_task_on(turn, id, worker)?;
            self.leases.consumers_tried.insert(id, (waiting, task));
        }
        Ok(())
    }

    /// A live worker, of which readers by split need no finished task if there is one.
    fn worker_for_consumers(&self, of: &Iteration) -> Option<WorkerId> {
        let tasks = of.tasks.iter().filter_map(|id| self.state.tasks().get(id));
        let kept = tasks.filter(|task| self.processes.has_kept(task));
        let kept: BTreeSet<WorkerId> = kept.map(|task| task.worker).collect();
        let workers = self.state.workers().keys().copied();
        let live = workers.filter(|id| self.state.is_live(*id, false));
        live.min_by_key(|id| (kept.contains(id), !self.has_had_task(*id, of.id)))
    }

    /// Gives a worker a task of an iteration in place of those that it has finished.
    pub(super) fn make_task_on(
        &mut self,
        turn: &mut Turn<'_>,
        iteration: IterationId,
        worker: WorkerId,
    ) -> Result<(), Refusal> {
        let Some(id) = self.task_ids().next() else {
            return Ok(());
        };
        let former = self.finished_tasks_of(worker, iteration);
        let removals = former.iter().map(|id| Record::RemoveTask { id: *id, again: false });
        let creation = Record::CreateTask { id, iteration, worker };
        let after = self.commit(turn, core::iter::once(creation).chain(removals))?;
        former.into_iter().for_each(|id| self.forget_task(worker, id));
        let task = self.state.tasks().get(&id);
        if let Some(task) = task.and_then(|task| self.task_def(task)) {
            turn.out.push(Effect::Push { task, after });
        }
        Ok(())
    }

    /// The worker to read what nobody else would: one that took part already, if it lives. Clients that
    /// hold splits need one that serves splits.
    fn reader_for(&self, iteration: IterationId) -> Option<WorkerId> {
        let iteration = self.state.iterations().get(&iteration).filter(|of| !of.finished)?;
        let by_split = iteration.by_split.held > 0;
        let tasks = iteration.tasks.iter();
        let took_part = tasks.filter_map(|id| Some(self.state.tasks().get(id)?.worker));
        let anybody = self.state.workers().keys().copied();
        took_part.chain(anybody).find(|id| self.state.is_live(*id, by_split))
    }

    /// The finished tasks that a worker has of an iteration. Consumers of a coordinated read give
    /// theirs up together, so none of those is named.
    pub(super) fn finished_tasks_of(&self, worker: WorkerId, id: IterationId) -> Vec<TaskId> {
        if self.state.open_coordinated().contains(&id) {
            return Vec::new();
        }
        let finished = self.state.tasks_on(worker, id).filter(|task| task.finished);
        finished.map(|task| task.id).collect()
    }

    /// Forgets a worker's finished task that another one has replaced. A split on its way to it
    /// still comes back if its caller is gone.
    pub(super) fn forget_task(&mut self, worker: WorkerId, id: TaskId) {
        self.processes.forget_task(worker, id);
        self.deliveries.disown(id);
    }

    /// Whether splits of an iteration are to be handed out again and nobody would ask for them. Consumers of
    /// a coordinated read agree on every new task, which its worker's next heartbeat brings.
    pub(super) fn waits_for_reader(&self, iteration: IterationId) -> bool {
        let iteration = self.state.iterations().get(&iteration);
        let iteration = iteration.filter(|it| !self.state.open_coordinated().contains(&it.id));
        iteration.is_some_and(|iteration| self.state.lacks_reader(iteration))
    }

    /// Whether a worker has, or had and finished, a task of an iteration that is no coordinated read.
    pub(super) fn has_had_task(&self, worker: WorkerId, iteration: IterationId) -> bool {
        self.state.tasks_on(worker, iteration).next().is_some()
    }
}

/// How many splits are missing in an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    lost: u64,
    again: u64,
    in_doubt: u64,
}

impl State {
    /// Whether a worker is not lost and, if that is asked for, serves splits.
    pub(super) fn is_live(&self, id: WorkerId, by_split: bool) -> bool {
        let worker = self.workers.get(&id);
        worker.is_some_and(|it| !it.lost && (!by_split || it.profile.serves_splits()))
    }

    pub(super) fn lose_worker(
        &mut self,
        lsn: Lsn,
        id: WorkerId,
        again: bool,
    ) -> Result<(), ApplyError> {
        let worker = self.worker_mut(id)?;
        worker.lost = true;
        worker.changed = lsn;
        for (task, iteration) in self.uncoordinated_tasks(id) {
            self.forsake_splits(lsn, task, again)?;
            let splits = &mut self.iteration_mut(iteration)?.splits;
            splits.strays.insert(id, splits.unattributed);
            self.remove_task(lsn, task)?;
            self.close_if_over(lsn, iteration)?;
        }
        Ok(())
    }

    pub(super) fn return_worker(
        &mut self,
        lsn: Lsn,
        id: WorkerId,
        reborn: bool,
    ) -> Result<(), ApplyError> {
        let worker = self.worker_mut(id)?;
        worker.lost = false;
        worker.changed = lsn;
        for iteration in &self.index.open_iterations {
            if let Some(iteration) = self.iterations.get_mut(iteration) {
                iteration.splits.end_straying(id, reborn);
            }
        }
        Ok(())
    }

    pub(super) fn restart_tasks(
        &mut self,
        lsn: Lsn,
        id: WorkerId,
        again: bool,
    ) -> Result<(), ApplyError> {
        let worker = self.worker_mut(id)?;
        worker.changed = lsn;
        for task in worker.tasks.clone() {
            self.forsake_splits(lsn, task, again)?;
        }
        Ok(())
    }

    /// A worker that comes back to its address later is another one: what is in doubt since the loss
    /// was counted with it.
    pub(super) fn free_worker(&mut self, lsn: Lsn, id: WorkerId) -> Result<(), ApplyError> {
        let worker = self.workers.get(&id).ok_or_else(|| missing("worker", id))?;
        if !worker.lost || self.has_tasks(id) {
            return Err(ApplyError(alloc::format!("worker {id} is in use")));
        }
        self.index.worker_by_address.remove(&worker.address);
        self.workers.remove(&id);
        for iteration in &self.index.open_iterations {
            if let Some(iteration) = self.iterations.get_mut(iteration) {
                iteration.splits.end_straying(id, false);
                iteration.splits_changed = lsn;
            }
        }
        Ok(())
    }

    fn worker_mut(&mut self, id: WorkerId) -> Result<&mut Worker, ApplyError> {
        self.workers.get_mut(&id).ok_or_else(|| missing("worker", id))
    }

    /// A worker's unfinished tasks outside coordinated reads.
    fn uncoordinated_tasks(&self, worker: WorkerId) -> Vec<(TaskId, IterationId)> {
        let tasks = self.workers.get(&worker).map(|worker| &worker.tasks);
        let tasks = tasks.into_iter().flatten();
        let tasks = tasks.filter_map(|id| Some((*id, self.tasks.get(id)?.iteration)));
        tasks.filter(|(_, iteration)| !self.index.open_coordinated.contains(iteration)).collect()
    }
}

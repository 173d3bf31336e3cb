//! Workers: registration, heartbeats that bring and take tasks, progress.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::machine::{Answer, Dispatcher, Effect, Turn};
use super::processes::Sender;
use super::record::{Record, WorkerProfile};
use super::refusal::Refusal;
use super::reply::{Event, Reply, WorkerHeartbeatReply};
use super::request::WorkerHeartbeat;
use super::state::Worker;
use crate::ids::{IterationId, Lsn, TaskId, WorkerId};
use crate::time::Time;

impl Dispatcher {
    pub(super) fn worker_heartbeat(
        &mut self,
        turn: &mut Turn<'_>,
        heartbeat: WorkerHeartbeat,
    ) -> Answer {
        let known = self.state.worker_at(&heartbeat.address);
        let sender = known.map(|it| self.processes.sender_of(it, &heartbeat, turn.now));
        if let Some((worker, Sender::Former)) = known.zip(sender) {
            self.processes.note_former(worker.id, heartbeat.uid);
            self.leases.hear_worker(worker.id, false, turn.now);
            return Ok(self.answer_to_former(worker, heartbeat.current_tasks, turn.log.last()));
        }
        let reborn = sender == Some(Sender::Successor);
        let known_id = known.map(|worker| worker.id);
        self.former.note(&heartbeat.current_tasks, self.state.counters().task);
        let decided = match known {
            Some(worker) => self.decide_known_worker(worker, &heartbeat, reborn),
            None => self.decide_new_worker(&heartbeat),
        };
        let records = decided.inspect_err(|_| self.hear_unrecorded(known_id, reborn, turn.now))?;
        let recorded = !records.is_empty();
        let lsn = self.record_heartbeat(turn, &heartbeat, (known_id, reborn), records)?;
        let worker = self.worker_heard(known_id, &heartbeat.address)?;
        let id = worker.id;
        let after = if recorded { lsn } else { worker.changed };
        self.leases.hear_worker(id, reborn, turn.now);
        if reborn {
            // The new process runs nothing yet, whatever the one before it named.
            self.agreed.remove(&id);
        }
        self.note_tasks_named(id, &heartbeat.current_tasks, reborn, turn.now);
        let (reply, rests_on) = self.tasks_to_change(id, heartbeat.current_tasks, turn.log.last());
        Ok((Reply::WorkerHeartbeat(reply), after.max(rests_on)))
    }

    /// Records what a heartbeat changes, and tells of it.
    fn record_heartbeat(
        &mut self,
        turn: &mut Turn<'_>,
        heartbeat: &WorkerHeartbeat,
        (known_id, reborn): (Option<WorkerId>, bool),
        records: Vec<Record>,
    ) -> Result<Lsn, Refusal> {
        let events: Vec<Event> = records.iter().filter_map(|r| event_of(r, heartbeat)).collect();
        let before = known_id.filter(|_| reborn).map(|id| (id, self.splits_with(id)));
        let former = known_id.and_then(|id| self.state.workers().get(&id)).map(|it| it.profile.uid);
        let registered = matches!(records.first(), Some(Record::RegisterWorker { .. }));
        let removed: Vec<TaskId> = records.iter().filter_map(removed_task).collect();
        let committed = self.commit(turn, records);
        let lsn = committed.inspect_err(|_| self.hear_unrecorded(known_id, reborn, turn.now))?;
        turn.out.extend(events.into_iter().map(Effect::Observe));
        if let Some((id, before)) = before {
            self.tell_of_lost_splits(turn, id, &before);
        }
        if let Some(id) = known_id {
            removed.into_iter().for_each(|task| self.forget_task(id, task));
        }
        if let Some((id, former)) = known_id.zip(former) {
            self.processes.note_present(id, former, heartbeat.uid);
        }
        if registered {
            self.worker_list.admit(&heartbeat.address);
        }
        Ok(lsn)
    }

    /// Notes which tasks a worker runs, unless it says what it said before.
    fn note_tasks_named(&mut self, id: WorkerId, named: &[TaskId], reborn: bool, now: Time) {
        let Some(worker) = self.state.workers().get(&id) else {
            return;
        };
        let agreed = self.agreed.get(&id);
        let same = agreed.is_some_and(|(of, tasks)| *of == worker.changed && *tasks == *named);
        if reborn || !same {
            self.processes.note_named(worker, named, reborn, now);
        }
    }

    /// What a worker says is refused or cannot be recorded now, but it lives. One that is lost stays
    /// lost until its return is recorded, and is not forgotten meanwhile.
    fn hear_unrecorded(&mut self, id: Option<WorkerId>, reborn: bool, now: Time) {
        let worker = id.and_then(|id| self.state.workers().get(&id));
        match worker.map(|worker| (worker.id, worker.lost)) {
            Some((id, true)) => drop(self.leases.lost_since.insert(id, now)),
            Some((id, false)) => self.leases.hear_worker(id, reborn, now),
            None => {}
        }
    }

    /// Names are dear to look up; a known worker's id is not.
    fn worker_heard(&self, known: Option<WorkerId>, address: &str) -> Result<&Worker, Refusal> {
        let worker = match known {
            Some(id) => self.state.workers().get(&id),
            None => self.state.worker_at(address),
        };
        let gone = "a worker is gone right after its registration";
        worker.ok_or_else(|| Refusal::Defect(gone.into()))
    }

    fn decide_known_worker(
        &self,
        worker: &Worker,
        heartbeat: &WorkerHeartbeat,
        reborn: bool,
    ) -> Result<Vec<Record>, Refusal> {
        let mut records = Vec::new();
        if !says_the_same(&worker.profile, heartbeat) {
            // A worker that came back elsewhere would otherwise be dialled at dead addresses.
            let profile = profile_of(heartbeat);
            if profile.size_bytes() > worker.profile.size_bytes().max(PROFILE_BYTES_SMALL) {
                self.memory.check_state("tags and addresses of workers")?;
            }
            records.push(Record::UpdateWorker { id: worker.id, profile });
        }
        if worker.lost {
            let id = worker.id;
            records.push(Record::ReturnWorker { id, reborn });
        }
        if reborn && self.may_hold_splits(worker) {
            records.push(Record::RestartTasks {
                worker: worker.id,
                again: self.config.reissue_lost_splits,
            });
        }
        let joins = self.iterations_without(worker);
        self.check_room_for_tasks(joins.len())?;
        records.extend(self.new_tasks(worker.id, joins));
        Ok(records)
    }

    /// Coordinated reads that gave up their task on this worker, which is back; and all that went
    /// on without it while it was lost.
    fn iterations_without(&self, worker: &Worker) -> Vec<IterationId> {
        let open = match worker.lost {
            true => self.state.open_iterations(),
            false => self.state.open_coordinated(),
        };
        let without = open.iter().filter(|id| match self.is_coordinated(**id) {
            true => self.state.task_of(worker.id, **id).is_none(),
            false => !self.has_had_task(worker.id, **id) || self.waits_for_reader(**id),
        });
        let without = without.filter(|id| self.can_take_part(worker, **id));
        without.copied().collect()
    }

    /// Whether a worker could be told of a task of an iteration: under static sharding it needs an index.
    fn can_take_part(&self, worker: &Worker, iteration: IterationId) -> bool {
        let iteration = self.state.iterations().get(&iteration);
        let job = iteration.and_then(|iteration| self.state.jobs().get(&iteration.job));
        let is_static = job.is_some_and(|job| job.sharding.is_static());
        !is_static || self.worker_list.place_of(&worker.address).is_some()
    }

    fn may_hold_splits(&self, worker: &Worker) -> bool {
        let mut tasks = worker.tasks.iter();
        tasks.any(|id| {
            let task = self.state.tasks().get(id);
            let of = task.and_then(|task| self.state.iterations().get(&task.iteration));
            let splits = task.map(|task| &task.splits).zip(of);
            splits.is_some_and(|(splits, of)| splits.may_hold_any(&of.splits))
        })
    }

    fn is_coordinated(&self, iteration: IterationId) -> bool {
        self.state.open_coordinated().contains(&iteration)
    }

    fn check_room_for_tasks(&self, count: usize) -> Result<(), Refusal> {
        let bound = self.config.bounds.tasks;
        if count > 0 && self.state.tasks().len().saturating_add(count) > bound {
            return Err(Refusal::TooMany { what: "tasks", bound });
        }
        Ok(())
    }

    /// A task of each of these iterations, active or, in coordinated reads, pending. The worker's
    /// finished tasks of the others are removed.
    fn new_tasks(
        &self,
        worker: WorkerId,
        iterations: impl IntoIterator<Item = IterationId>,
    ) -> Vec<Record> {
        let task = |(id, iteration)| match self.is_coordinated(iteration) {
            true => self.pending_task(id, iteration, worker),
            false => Record::CreateTask { id, iteration, worker },
        };
        let replaced = |iteration| {
            let finished = self.finished_tasks_of(worker, iteration).into_iter();
            finished.map(|id| Record::RemoveTask { id, again: false })
        };
        let ids = self.task_ids().zip(iterations);
        ids.flat_map(|(id, of)| core::iter::once(task((id, of))).chain(replaced(of))).collect()
    }

    /// Ids for new tasks, in order.
    pub(super) fn task_ids(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.former.ids_from(self.state.counters().task)
    }

    fn decide_new_worker(&self, heartbeat: &WorkerHeartbeat) -> Result<Vec<Record>, Refusal> {
        self.worker_list.check(&heartbeat.address)?;
        self.check_room("workers", self.state.workers().len(), self.config.bounds.workers)?;
        let open = self.state.open_iterations();
        self.check_room_for_tasks(open.len())?;
        let id = self.state.counters().worker;
        let address: Arc<str> = heartbeat.address.as_str().into();
        let profile = profile_of(heartbeat);
        let mut records = alloc::vec![Record::RegisterWorker { id, address, profile }];
        records.extend(self.new_tasks(id, open.iter().copied()));
        Ok(records)
    }

    fn pending_task(&self, id: TaskId, iteration: IterationId, worker: WorkerId) -> Record {
        let target_round = self.first_target_round(iteration);
        Record::CreatePendingTask { id, iteration, worker, target_round }
    }

    /// The tasks that a worker is to start and those that it is to drop, with the newest record that the
    /// order to drop them rests on. Nearly always the worker names the tasks that it named before, and
    /// nothing has changed.
    fn tasks_to_change(
        &mut self,
        id: WorkerId,
        current: Vec<TaskId>,
        last: Lsn,
    ) -> (WorkerHeartbeatReply, Lsn) {
        let Some(worker) = self.state.workers().get(&id) else {
            return (WorkerHeartbeatReply::default(), Lsn::NONE);
        };
        let version = worker.changed;
        let agreed = self.agreed.get(&id);
        if agreed.is_some_and(|(of, tasks)| *of == version && *tasks == current) {
            self.processes.note_kept(id, BTreeSet::new());
            return (WorkerHeartbeatReply::default(), Lsn::NONE);
        }
        let runs: BTreeSet<TaskId> = current.iter().copied().collect();
        let missing = worker.tasks.difference(&runs);
        let new_tasks =
            missing.filter_map(|id| self.task_def(self.state.tasks().get(id)?)).collect();
        let (kept, tasks_to_delete) = self.kept_and_dropped(worker, &runs);
        let rests_on = self.order_rests_on(&tasks_to_delete, last);
        // With a repetition it could be longer than what the worker's tasks bound.
        if runs == worker.tasks && runs.len() == current.len() {
            self.agreed.insert(id, (version, current));
        }
        self.processes.note_kept(id, kept);
        (WorkerHeartbeatReply { new_tasks, tasks_to_delete }, rests_on)
    }

    /// The answer to a process that another one has followed at its address. It gets no task, and keeps
    /// those that are the worker's: it may be the one that lives.
    fn answer_to_former(&self, worker: &Worker, current: Vec<TaskId>, last: Lsn) -> (Reply, Lsn) {
        let (_, tasks_to_delete) = self.kept_and_dropped(worker, &current.into_iter().collect());
        let after = worker.changed.max(self.order_rests_on(&tasks_to_delete, last));
        let reply = WorkerHeartbeatReply { new_tasks: Vec::new(), tasks_to_delete };
        (Reply::WorkerHeartbeat(reply), after)
    }

    /// Of the tasks that a worker names and should not run, those that it keeps for readers by split, and
    /// those that it is told to drop.
    fn kept_and_dropped(
        &self,
        worker: &Worker,
        named: &BTreeSet<TaskId>,
    ) -> (BTreeSet<TaskId>, Vec<TaskId>) {
        let ended = named.difference(&worker.tasks).copied();
        let (kept, dropped): (Vec<_>, Vec<_>) =
            ended.partition(|task| self.serves_readers(worker, *task));
        (kept.into_iter().collect(), dropped)
    }

    /// The newest record that an order to drop these tasks rests on: a finished task is dropped because
    /// of what became of its iteration and the splits, and any record so far may have removed a task
    /// that is unknown.
    fn order_rests_on(&self, dropped: &[TaskId], last: Lsn) -> Lsn {
        let rests_on = dropped.iter().map(|id| {
            let task = self.state.tasks().get(id);
            let of = task.and_then(|task| self.state.iterations().get(&task.iteration));
            of.map_or(last, |of| of.changed.max(of.splits_changed))
        });
        rests_on.max().unwrap_or(Lsn::NONE)
    }

    /// Whether a worker is to keep a task that it has finished: clients hold splits of its iteration, and
    /// can read them with the task.
    fn serves_readers(&self, worker: &Worker, id: TaskId) -> bool {
        let task = self.state.tasks().get(&id);
        let task = task.filter(|task| task.finished && task.worker == worker.id);
        let of = task.and_then(|task| self.state.iterations().get(&task.iteration));
        worker.profile.serves_splits() && of.is_some_and(|of| !of.finished && of.by_split.held > 0)
    }

    /// Passes over unknown tasks and those of other workers: a worker repeats everything
    /// unacknowledged, so refusing one task of an earlier life would hold back all the others for ever.
    ///
    /// The worker forgets the end of a task with the answer. So the answer waits for the record that
    /// removed an unknown task; any record so far may be that one.
    pub(super) fn worker_update(
        &mut self,
        turn: &mut Turn<'_>,
        worker_address: &str,
        progress: &[(TaskId, bool)],
    ) -> Answer {
        let mut after = Lsn::NONE;
        for (id, completed) in progress {
            let Some(task) = self.state.tasks().get(id) else {
                let worker_address = worker_address.into();
                let event = Event::UnknownTaskReported { worker_address, task: *id };
                turn.out.push(Effect::Observe(event));
                after = turn.log.last();
                continue;
            };
            let owner = self.state.workers().get(&task.worker);
            if let Some(owner) = owner.filter(|it| *it.address != *worker_address) {
                turn.out.push(Effect::Observe(Event::ForeignTaskReported {
                    worker_address: worker_address.into(),
                    task: *id,
                    owner: owner.address.clone(),
                }));
                continue;
            }
            after = after.max(self.iteration(task.iteration)?.changed);
            if *completed && !task.finished {
                let iteration = task.iteration;
                self.commit(turn, [Record::FinishTask { id: *id }])?;
                if let Some(task) = self.state.tasks().get(id) {
                    self.processes.note_finished(&self.state, task);
                }
                self.make_reader(turn, iteration)?;
                after = turn.log.last();
            }
        }
        Ok((Reply::WorkerUpdated, after))
    }

    pub(super) fn workers(&self) -> (Reply, Lsn) {
        let workers = self.state.workers().values();
        let changed = workers.clone().map(|worker| worker.changed).max().unwrap_or(Lsn::NONE);
        let after = changed.max(self.last_worker_freed);
        (Reply::Workers(workers.map(|worker| worker.address.clone()).collect()), after)
    }
}

/// A known worker may say so much of itself, in bytes, however short the memory is: one that comes back may
/// have a port with a digit more.
const PROFILE_BYTES_SMALL: u64 = 1 << 10;

fn says_the_same(profile: &WorkerProfile, heartbeat: &WorkerHeartbeat) -> bool {
    profile.uid == heartbeat.uid
        && *profile.tags == *heartbeat.tags
        && *profile.transfer_servers == *heartbeat.transfer_servers
}

fn profile_of(heartbeat: &WorkerHeartbeat) -> WorkerProfile {
    WorkerProfile {
        uid: heartbeat.uid,
        tags: heartbeat.tags.as_slice().into(),
        transfer_servers: heartbeat.transfer_servers.as_slice().into(),
    }
}

const fn removed_task(record: &Record) -> Option<TaskId> {
    match record {
        Record::RemoveTask { id, .. } => Some(*id),
        _ => None,
    }
}

fn event_of(record: &Record, heartbeat: &WorkerHeartbeat) -> Option<Event> {
    let address = || heartbeat.address.as_str().into();
    match record {
        Record::RegisterWorker { .. } => Some(Event::WorkerRegistered { address: address() }),
        Record::UpdateWorker { .. } => Some(Event::WorkerChanged { address: address() }),
        Record::ReturnWorker { .. } => Some(Event::WorkerReturned { address: address() }),
        _ => None,
    }
}

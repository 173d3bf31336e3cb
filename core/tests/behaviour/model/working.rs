//! What workers do in the model.

use std::collections::BTreeSet;

use rondo_core::dispatcher::{Reply, TaskDef, WorkerHeartbeat, WorkerHeartbeatReply};
use rondo_core::ids::{IterationId, TaskId};
use rondo_core::status::Code;
use rondo_core::time::Time;

use super::kept::{Iteration, Pending};
use super::{Heard, Model};

impl Model {
    /// The configured list, with the entries of unknown port replaced by who took them.
    pub(super) fn slots(&self) -> Vec<String> {
        let mut slots = self.config.worker_addresses.clone();
        for worker in &self.kept.workers {
            if let Some(at) = slot_for(&slots, &worker.address) {
                slots[at].clone_from(&worker.address);
            }
        }
        slots
    }

    /// Without this worker the slot of another one would be another one.
    pub(super) fn moves_others(&self, address: &str) -> bool {
        let mut without = self.config.worker_addresses.clone();
        let others = self.kept.workers.iter().filter(|worker| worker.address != address);
        for worker in others.clone() {
            if let Some(at) = slot_for(&without, &worker.address) {
                without[at].clone_from(&worker.address);
            }
        }
        let with = self.slots();
        let slot = |slots: &[String], own: &str| slots.iter().position(|slot| slot == own);
        let mut others = others.map(|worker| worker.address.as_str());
        others.any(|other| slot(&with, other) != slot(&without, other))
    }

    pub(super) fn worker_heartbeat(&mut self, now: Time, heartbeat: &WorkerHeartbeat) -> Heard {
        let address = &heartbeat.address;
        let profile = WorkerHeartbeat { current_tasks: Vec::new(), ..heartbeat.clone() };
        let known = self.kept.workers.iter().find(|worker| worker.address == *address);
        let (before, is_known) = known.map_or((heartbeat.uid, false), |worker| (worker.uid, true));
        if self.is_former(before, heartbeat) {
            self.hear_worker(now, address, false);
            let mut reply = WorkerHeartbeatReply::default();
            let current: BTreeSet<TaskId> = heartbeat.current_tasks.iter().copied().collect();
            let own = self.unfinished_on(address);
            let over = current.difference(&own);
            let over = over.filter(|task| !self.is_kept_for_readers(address, **task));
            reply.tasks_to_delete.extend(over);
            return Ok(Reply::WorkerHeartbeat(reply));
        }
        let reborn = is_known && self.is_reborn(now, before, heartbeat);
        match self.kept.workers.iter_mut().find(|worker| worker.address == *address) {
            Some(worker) => {
                *worker = profile;
                self.rejoin(address, reborn);
            }
            None => self.new_worker(profile)?,
        }
        self.hear_worker(now, address, reborn);
        self.note_process(now, (before, reborn), heartbeat);
        let unfinished = self.unfinished_on(address);
        let current: BTreeSet<TaskId> = heartbeat.current_tasks.iter().copied().collect();
        let new_tasks = unfinished.difference(&current).filter_map(|task| self.def(*task));
        let over = current.difference(&unfinished);
        let over = over.filter(|task| !self.is_kept_for_readers(address, **task));
        let reply = WorkerHeartbeatReply {
            new_tasks: new_tasks.collect(),
            tasks_to_delete: over.copied().collect(),
        };
        self.note_dropped(address, &current, &reply.tasks_to_delete);
        Ok(Reply::WorkerHeartbeat(reply))
    }

    /// Readers by split hold splits of a finished task's iteration, and can read them there.
    fn is_kept_for_readers(&self, address: &str, id: TaskId) -> bool {
        let task = self.kept.tasks.get(&id).filter(|task| task.address == address);
        task.is_some_and(|task| {
            let is_over = self.kept.iteration(task.iteration).is_some_and(|of| of.finished);
            !is_over && self.kept.held(task.iteration) > 0 && self.kept.serves_splits(address)
        })
    }

    pub(super) fn unfinished_on(&self, address: &str) -> BTreeSet<TaskId> {
        let tasks = self.kept.tasks.iter();
        let own = tasks.filter(|(_, task)| task.address == address && !task.finished);
        own.map(|(id, _)| *id).collect()
    }

    fn new_worker(&mut self, profile: WorkerHeartbeat) -> Result<(), Code> {
        let slots = self.slots();
        if !slots.is_empty() && slot_for(&slots, &profile.address).is_none() {
            return Err(Code::FailedPrecondition);
        }
        let address = profile.address.clone();
        self.kept.workers.push(profile);
        for id in self.open(|_| true) {
            self.new_task(id, &address);
        }
        Ok(())
    }

    fn new_task(&mut self, id: IterationId, address: &str) {
        let iteration = self.kept.iteration(id).unwrap();
        match self.kept.job_of(iteration).consumers {
            Some(_) => self.new_pending(id, address),
            None => {
                let task = self.kept.new_task(id, address);
                self.kept.note_reader(id);
                self.kept.iteration_mut(id).unwrap().active.push(task);
                self.kept.replace_finished(id, address);
            }
        }
    }

    /// A known worker gets a task wherever it should have one and does not.
    fn rejoin(&mut self, address: &str, reborn: bool) {
        let was_lost = self.kept.lost.remove(address);
        if was_lost {
            self.kept.end_straying(address, reborn);
        }
        if reborn {
            for task in self.unfinished_on(address) {
                self.kept.forsake(task, self.config.reissue_lost_splits);
                self.handed.retain(|_, handed| handed.task != Some(task));
                self.undelivered.retain(|handed| handed.task != Some(task));
            }
        }
        let has: BTreeSet<IterationId> = self
            .unfinished_on(address)
            .iter()
            .map(|task| self.kept.tasks[task].iteration)
            .collect();
        let left = self.open(|iteration| match self.kept.job_of(iteration).consumers {
            Some(_) => !has.contains(&iteration.id),
            None => {
                let takes_part = self.took_part(address, iteration);
                was_lost && (!takes_part || self.kept.lacks_reader(iteration.id))
            }
        });
        let has_slot = self.slots().iter().any(|slot| slot == address);
        for id in left {
            let of = self.kept.iteration(id).unwrap();
            if has_slot || !self.kept.job_of(of).sharding.is_static() {
                self.new_task(id, address);
            }
        }
    }

    fn took_part(&self, address: &str, iteration: &Iteration) -> bool {
        let mut active = iteration.active.iter();
        active.any(|task| self.kept.tasks[task].address == address)
    }

    fn open(&self, which: impl Fn(&Iteration) -> bool) -> Vec<IterationId> {
        let open = self.kept.iterations.iter().filter(|i| !i.finished && which(i));
        open.map(|iteration| iteration.id).collect()
    }

    fn new_pending(&mut self, id: IterationId, address: &str) {
        let task = self.kept.new_task(id, address);
        let target = self.latest_round(id).saturating_add(1);
        let pending = Pending { task, target, failures: 0, ready: BTreeSet::new() };
        self.kept.iteration_mut(id).unwrap().pending.push_back(pending);
    }

    /// A task as its worker should be told of it.
    fn def(&self, id: TaskId) -> Option<TaskDef> {
        let task = &self.kept.tasks[&id];
        let iteration = self.kept.iteration(task.iteration).unwrap();
        let job = self.kept.job_of(iteration);
        let slots = self.slots();
        let index = slots.iter().position(|slot| *slot == task.address);
        let (workers, worker_index) = match job.sharding.is_static() {
            true => (slots.len() as i64, index? as i64),
            false => (0, 0),
        };
        Some(TaskDef {
            task: id,
            iteration: iteration.id,
            dataset: job.dataset.clone(),
            definition: self.kept.datasets[&job.dataset].registered.definition.clone(),
            worker_address: task.address.as_str().into(),
            sharding: job.sharding,
            consumers: job.consumers,
            split_providers: iteration.sources.len() as i64,
            workers,
            worker_index,
            use_cross_trainer_cache: job.use_cross_trainer_cache,
        })
    }
}

/// The place of an address in the list: its own, or one of its host without a port.
fn slot_for(slots: &[String], address: &str) -> Option<usize> {
    let host = address.split(':').next().unwrap();
    let own = slots.iter().position(|slot| slot == address);
    own.or_else(|| slots.iter().position(|slot| slot == host))
}

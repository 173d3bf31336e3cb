//! Tasks come and go as the dispatcher says.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::machine::Worker;
use super::refusal;
use super::task::{Over, Task};
use super::types::{Effect, TaskDef};
use crate::ids::{DatasetId, IterationId, TaskId};
use crate::limits::{TASKS_REMEMBERED_MAX, WORKER_TASKS_MAX};
use crate::status::Status;
use crate::time::Time;

impl Worker {
    /// Takes a task that the dispatcher pushes. A push may be late, and the task be deleted already:
    /// then it stays deleted, since its elements would come twice. A dispatcher that lost its state
    /// counts anew and may mean another task, so the worker asks with a heartbeat, whose answer counts;
    /// meanwhile it tells consumers neither that the task is there nor that it is over.
    pub(super) fn pushed(&mut self, def: TaskDef, out: &mut Vec<Effect>) -> Result<(), Status> {
        let deleted = self.deleted.get(&def.task).and_then(Option::as_ref);
        let is_it = |(iteration, dataset): &(IterationId, DatasetId)| {
            *iteration == def.iteration && *dataset == def.dataset
        };
        if deleted.is_some_and(is_it) && !self.tasks.contains_key(&def.task) {
            self.pushed_again.insert(def.task, false);
            self.beat_at_once(out);
            return Ok(());
        }
        self.add_task(def, out)
    }

    /// Adds a task unless it is there. Nothing is done for it before somebody asks.
    fn add_task(&mut self, def: TaskDef, out: &mut Vec<Effect>) -> Result<(), Status> {
        let id = def.task;
        if let Some(known) = self.tasks.get(&id) {
            let is_same = known.def.iteration == def.iteration && known.def.dataset == def.dataset;
            if is_same {
                return Ok(());
            }
            // A dispatcher that has forgotten everything counts anew.
            self.drop_task(id, out);
        } else if self.tasks.len() >= WORKER_TASKS_MAX {
            return Err(refusal::too_many_tasks());
        }
        self.deleted.remove(&id);
        self.tasks.insert(id, Box::new(Task::new(def, self.config.cache_bytes)));
        Ok(())
    }

    /// Does what the answer to a heartbeat says.
    pub(super) fn take_orders(
        &mut self,
        now: Time,
        new: Vec<TaskDef>,
        deleted: Vec<TaskId>,
        out: &mut Vec<Effect>,
    ) {
        for id in deleted {
            self.end_if_over(now, id, out);
            let def = self.tasks.get(&id).map(|task| &task.def);
            let of = def.map(|def| (def.iteration, def.dataset.clone()));
            self.drop_task(id, out);
            if self.deleted.len() >= TASKS_REMEMBERED_MAX {
                self.deleted.pop_first();
            }
            self.deleted.insert(id, of);
        }
        for def in new {
            // One that finds no place comes again with the next heartbeat.
            let _ = self.add_task(def, out);
        }
    }

    /// The dispatcher was told that a task is over, and now deletes it: it knows, though its answer
    /// to that is not here yet. Whoever waits gets the end and not a refusal.
    fn end_if_over(&mut self, now: Time, id: TaskId, out: &mut Vec<Effect>) {
        if self.tasks.get(&id).is_some_and(|task| task.over == Over::Telling) {
            self.with_task(now, id, out, |task| task.over = Over::Told);
        }
    }

    fn drop_task(&mut self, id: TaskId, out: &mut Vec<Effect>) {
        self.completions.let_go(id);
        if let Some(task) = self.tasks.remove(&id) {
            self.part_with(task, out);
        }
    }
}

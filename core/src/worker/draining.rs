//! Stopping in order: elements of splits that were taken are still handed out, no new splits are
//! taken, and whoever waits for something else is sent away.

use alloc::vec::Vec;

use super::machine::{Stage, Worker};
use super::refusal;
use super::runner::Runner;
use super::types::Effect;
use crate::ids::TaskId;
use crate::time::Time;

impl Worker {
    pub(super) fn is_draining(&self) -> bool {
        self.drained_by.is_some()
    }

    pub(super) fn drain(&mut self, now: Time, out: &mut Vec<Effect>) {
        if self.is_draining() || self.stage == Stage::Stopped {
            return;
        }
        self.drained_by = Some(now.after(self.config.drain_timeout));
        let ids: Vec<TaskId> = self.tasks.keys().copied().collect();
        for id in ids {
            let Some(mut task) = self.tasks.remove(&id) else { continue };
            if !matches!(task.runner, Runner::FirstCome(_)) {
                // They wait for each other, or for a trainer that may not come.
                self.refuse_waiting(&mut task, &refusal::shutting_down(), out);
            }
            self.tasks.insert(id, task);
            self.with_task(now, id, out, |_| {});
        }
    }

    /// Stops when nothing is owed to anybody any more, or its time is over.
    pub(super) fn stop_if_drained(&mut self, now: Time, out: &mut Vec<Effect>) {
        let Some(by) = self.drained_by else { return };
        if self.stage == Stage::Stopped {
            return;
        }
        let owes = self.tasks.values().any(|task| task.owes());
        let is_done = self.consumers.is_empty() && self.completions.is_empty() && !owes;
        if !is_done && self.stage == Stage::Registered && now < by {
            return;
        }
        self.stage = Stage::Stopped;
        let mut tasks = core::mem::take(&mut self.tasks);
        for task in tasks.values_mut() {
            self.tell_readers(task, &Err(refusal::leaving()), out);
            self.refuse_waiting(task, &refusal::shutting_down(), out);
            self.set_alarm(task);
        }
        self.tasks = tasks;
        out.push(Effect::Drained { left_behind: self.left_behind() });
    }
}

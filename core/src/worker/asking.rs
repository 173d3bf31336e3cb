//! What consumers ask, and what becomes of the answers.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::consumers::Call;
use super::machine::{Stage, Worker};
use super::refusal;
use super::runner::{Given, Handed};
use super::task::{Over, Task};
use super::types::{Answer, Ask, Effect, ElementAsk};
use crate::ids::{CallId, ConnectionId, TaskId};
use crate::limits::NAME_BYTES_MAX;
use crate::status::Status;
use crate::time::Time;

impl Worker {
    pub(super) fn asked(
        &mut self,
        now: Time,
        (client, call): (ConnectionId, CallId),
        ask: Ask,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        match ask {
            Ask::Element(ask) => self.element(now, (client, call), ask, out),
            Ask::Dataset { task } => self.dataset(now, (client, call), task, out),
            Ask::Process(def) => {
                self.pushed(def, out)?;
                out.push(Effect::Answer { call, result: Ok(Answer::Done) });
                Ok(())
            }
            Ask::Tasks => {
                let held = self.tasks.values().map(|task| (task.def.task, task.def.iteration));
                let answer = Answer::Tasks(held.collect());
                out.push(Effect::Answer { call, result: Ok(answer) });
                Ok(())
            }
        }
    }

    fn element(
        &mut self,
        now: Time,
        (client, call): (ConnectionId, CallId),
        ask: ElementAsk,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        let id = ask.task;
        if ask.trainer.len() > NAME_BYTES_MAX {
            return Err(refusal::long_trainer(ask.trainer.len()));
        }
        if self.is_told_off(client, id)? {
            out.push(Effect::Answer { call, result: Ok(Answer::End) });
            return Ok(());
        }
        let is_alone = self.tasks.values().filter(|task| task.over == Over::No).nth(1).is_none();
        let is_draining = self.is_draining();
        let task = self.tasks.get_mut(&id).ok_or_else(|| refusal::not_found(id))?;
        if is_draining && !task.owes() && task.ready.end.is_none() {
            return Err(refusal::shutting_down());
        }
        task.runner.ask(now, call, ask, is_alone)?;
        self.consumers.begin(call, client, id);
        self.with_task(now, id, out, |_| {});
        Ok(())
    }

    fn dataset(
        &mut self,
        now: Time,
        (client, call): (ConnectionId, CallId),
        id: TaskId,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        if self.is_draining() {
            return Err(refusal::leaving());
        }
        if self.is_told_off(client, id)? {
            return Err(refusal::not_found(id));
        }
        let task = self.tasks.get_mut(&id).ok_or_else(|| refusal::not_found(id))?;
        task.readers.push(call);
        self.consumers.begin(call, client, id);
        self.with_task(now, id, out, |_| {});
        Ok(())
    }

    /// Whether the dispatcher has deleted the task that a consumer asks for: it is over for ever.
    fn is_told_off(&self, client: ConnectionId, id: TaskId) -> Result<bool, Status> {
        if self.stage == Stage::Stopped {
            return Err(refusal::shutting_down());
        }
        if self.stage != Stage::Registered {
            return Err(refusal::not_registered());
        }
        self.consumers.check_room(client, self.config.calls_max)?;
        let Some(task) = self.tasks.get(&id) else {
            let is_over = self.deleted.contains_key(&id) && !self.pushed_again.contains_key(&id);
            return Ok(is_over);
        };
        if task.def.worker_address != self.config.address {
            let (theirs, own) = (&task.def.worker_address, &self.config.address);
            return Err(refusal::wrong_address(theirs, own));
        }
        Ok(false)
    }

    /// Changes a task, and does what follows: opens it, answers whom it can, and has more made.
    pub(super) fn with_task(
        &mut self,
        now: Time,
        id: TaskId,
        out: &mut Vec<Effect>,
        change: impl FnOnce(&mut Task),
    ) {
        let Some(mut task) = self.tasks.remove(&id) else { return };
        let before = task.ready.bytes();
        change(&mut task);
        self.open(now, &mut task, out);
        let mut handed = Vec::new();
        task.runner.hand_out(now, &mut task.ready, task.over == Over::Told, &mut handed);
        handed.into_iter().for_each(|handed| self.hand(&mut task, handed, out));
        self.ready_bytes = self.ready_bytes.saturating_sub(before);
        self.ready_bytes = self.ready_bytes.saturating_add(task.ready.bytes());
        self.complete_if_over(now, &mut task, out);
        self.close_if_failed(&task, out);
        self.supply(now, &mut task, out);
        self.set_alarm(&task);
        self.tasks.insert(id, task);
    }

    /// The task is to be woken when it wants to be.
    pub(super) fn set_alarm(&mut self, task: &Task) {
        match task.deadline() {
            Some(at) => self.alarms.insert(task.def.task, at),
            None => self.alarms.remove(&task.def.task),
        };
    }

    fn hand(&mut self, task: &mut Task, (call, given): Handed, out: &mut Vec<Effect>) {
        let answer = given.map(|given| match given {
            Given::Element(element, back) => {
                task.leaving = task.leaving.saturating_add(1);
                self.consumers.leave(call, task.def.task, element.clone(), back);
                Answer::Element(element)
            }
            Given::End => Answer::End,
            Given::Skip => Answer::Skip,
        });
        if !matches!(answer, Ok(Answer::Element(_))) {
            self.consumers.end(call);
        }
        out.push(Effect::Answer { call, result: answer });
    }

    /// An element has left.
    pub(super) fn left(&mut self, now: Time, call: CallId, out: &mut Vec<Effect>) {
        if let Some(Call::Leaving(id, ..)) = self.consumers.end(call) {
            self.with_task(now, id, out, |task| task.leaving = task.leaving.saturating_sub(1));
        }
    }

    /// Nobody waits for a call any more, and its element, if it had one, has not left.
    pub(super) fn cancel(&mut self, now: Time, call: CallId, out: &mut Vec<Effect>) {
        match self.consumers.end(call) {
            Some(Call::Waiting(id)) => self.with_task(now, id, out, |task| {
                task.runner.cancel(call);
                task.readers.retain(|reader| *reader != call);
            }),
            Some(Call::Leaving(id, element, back)) => self.with_task(now, id, out, |task| {
                task.leaving = task.leaving.saturating_sub(1);
                task.runner.put_back(back, element, &mut task.ready);
            }),
            None => {}
        }
    }

    /// Answers a task's calls that it is no more.
    pub(super) fn part_with(&mut self, mut task: Box<Task>, out: &mut Vec<Effect>) {
        let status = refusal::deleted(task.def.task);
        let mut waiting = task.runner.take_waiting();
        // A reader of its splits looks for another worker.
        waiting.append(&mut task.readers);
        for call in waiting {
            self.consumers.end(call);
            out.push(Effect::Answer { call, result: Err(status.clone()) });
        }
        if let Some(run) = task.run() {
            self.runs.remove(&run);
            out.push(Effect::Close { run });
        }
        self.ready_bytes = self.ready_bytes.saturating_sub(task.ready.bytes());
        let id = task.def.task;
        self.alarms.remove(&id);
        // What has not left has nowhere to go back to.
        self.consumers.end_leaving(id);
    }

    /// The bytes that are ready in all tasks.
    pub(super) const fn ready_bytes(&self) -> u64 {
        self.ready_bytes
    }
}

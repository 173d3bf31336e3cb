//! Opening a task's dataset, at the first request for an element: its definition, whether elements
//! are compressed, and the data itself.

use alloc::vec::Vec;
use bytes::Bytes;

use super::calls::Purpose;
use super::machine::Worker;
use super::refusal;
use super::retry::Retry;
use super::task::{Opening, Task};
use super::types::{Answer, Effect, Request, RunId};
use crate::status::Status;
use crate::time::Time;

impl Worker {
    /// Goes one step on when somebody waits for it.
    pub(super) fn open(&mut self, now: Time, task: &mut Task, out: &mut Vec<Effect>) {
        if !task.readers.is_empty()
            && let Some(definition) = task.definition.clone()
        {
            // Readers get the definition whatever the worker does for consumers meanwhile.
            self.tell_readers(task, &Ok(definition), out);
        }
        if !task.runner.is_waited_for() {
            // An outage that nobody waits for takes no time from a later one.
            task.retry = None;
        }
        let is_due = task.retry.as_mut().is_none_or(|retry| retry.is_due(now));
        let is_wanted = task.runner.is_waited_for() && is_due;
        let is_idle = !is_wanted && task.readers.is_empty();
        if task.opening != Opening::Closed || is_idle {
            return;
        }
        let (id, dataset) = (task.def.task, task.def.dataset.clone());
        let Some(definition) = task.definition.clone() else {
            let request = Request::Definition { dataset };
            task.opening = Opening::Definition(self.send(Purpose::Definition(id), request, out));
            return;
        };
        let Some(compressed) = task.compressed else {
            let request = Request::Compression { dataset };
            task.opening = Opening::Compression(self.send(Purpose::Compression(id), request, out));
            return;
        };
        self.last_run = self.last_run.saturating_add(1);
        let run = RunId(self.last_run);
        self.runs.insert(run, id);
        task.opening = Opening::Under(run);
        out.push(Effect::Open { run, definition, part: task.def.part, compressed });
    }

    pub(super) fn definition_answered(
        &mut self,
        task: &mut Task,
        result: Result<Bytes, Status>,
        out: &mut Vec<Effect>,
    ) {
        task.opening = Opening::Closed;
        match result {
            Ok(definition) => task.definition = Some(definition),
            Err(status) => {
                let status = refusal::of_definition(status);
                self.tell_readers(task, &Err(status.clone()), out);
                self.refuse_waiting(task, &status, out);
            }
        }
    }

    pub(super) fn compression_answered(
        &mut self,
        now: Time,
        task: &mut Task,
        (result, entropy): (Result<bool, Status>, u64),
        out: &mut Vec<Effect>,
    ) {
        task.opening = Opening::Closed;
        let status = match result {
            Ok(compressed) => {
                (task.compressed, task.retry) = (Some(compressed), None);
                return;
            }
            Err(status) => status,
        };
        let until = now.after(self.config.dispatcher_timeout);
        let retry = task.retry.get_or_insert_with(|| Retry::until(until));
        if !(refusal::is_of_the_way(&status) && retry.again(now, entropy)) {
            task.retry = None;
            self.refuse_waiting(task, &status, out);
        }
    }

    /// The driver has opened a dataset, or cannot: then the next request tries again.
    pub(super) fn opened(
        &mut self,
        now: Time,
        run: RunId,
        result: Result<i64, Status>,
        out: &mut Vec<Effect>,
    ) {
        let Some(id) = self.runs.get(&run).copied() else { return };
        let Some(mut task) = self.tasks.remove(&id) else { return };
        let result = result.and_then(|cardinality| match task.def.consumers {
            Some(_) if cardinality >= 0 => Err(refusal::rounds_need_endless_data(cardinality)),
            _ => Ok(()),
        });
        match result {
            Ok(()) => task.opening = Opening::Open(run),
            Err(status) => {
                task.opening = Opening::Closed;
                self.runs.remove(&run);
                out.push(Effect::Close { run });
                self.refuse_waiting(&mut task, &status, out);
            }
        }
        self.tasks.insert(id, task);
        self.with_task(now, id, out, |_| {});
    }

    /// Answers those that wait for the definition.
    pub(super) fn tell_readers(
        &mut self,
        task: &mut Task,
        result: &Result<Bytes, Status>,
        out: &mut Vec<Effect>,
    ) {
        for call in core::mem::take(&mut task.readers) {
            self.consumers.end(call);
            out.push(Effect::Answer { call, result: result.clone().map(Answer::Dataset) });
        }
    }

    /// Refuses all that wait for elements of a task.
    pub(super) fn refuse_waiting(
        &mut self,
        task: &mut Task,
        status: &Status,
        out: &mut Vec<Effect>,
    ) {
        for call in task.runner.take_waiting() {
            self.consumers.end(call);
            out.push(Effect::Answer { call, result: Err(status.clone()) });
        }
    }
}

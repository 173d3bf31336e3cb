//! A reader that is told the end has been told the truth.

use rondo_core::ids::{ClientId, IterationId, TaskId};
use rondo_core::status::{Code, Status};

use super::super::{Shadow, Verdict};
use super::{Elements, Task};
use crate::checks::{Check, reached};
use crate::fault::PROXY_ANSWERS;
use crate::swarm::ElementsShape;
use crate::workload::elements::{ReaderLife, WorkerLife};

impl Elements {
    pub(super) fn read_ended(
        &self,
        shape: &ElementsShape,
        by: ReaderLife,
        (client, result): (Option<ClientId>, &Result<(), Status>),
        shadow: &Shadow,
    ) -> Verdict {
        if let Err(status) = result {
            let is_bad = matches!(
                status.code,
                Code::DataLoss
                    | Code::FailedPrecondition
                    | Code::Internal
                    | Code::InvalidArgument
                    | Code::Unknown
            );
            // Until whoever has begun before its disk was replaced is started anew.
            let is_mixed_up = self.of_former_disk.difference(&self.ended).next().is_some();
            let is_bad = is_bad && !status.message.contains(PROXY_ANSWERS);
            let is_bad = is_bad && !(is_mixed_up && status.code == Code::FailedPrecondition);
            return if is_bad { Err(format!("{by:?} was told {status}")) } else { Ok(()) };
        }
        if let Some(waiting) = self.readers.get(&by).and_then(|of| of.waiting.front()) {
            return Err(format!("{by:?} has read all, and has yet to hand on {waiting:?}"));
        }
        if let Some(held) = self.readers.get(&by).and_then(|of| of.held.first()) {
            return Err(format!("{by:?} has read all, and still holds {held:?}"));
        }
        let Some(iteration) = client.and_then(|client| self.clients.get(&client)).copied() else {
            return Ok(());
        };
        let of = shadow.state().iterations().get(&iteration);
        if of.is_some_and(|of| !of.finished) {
            return Err(format!("{by:?} has read all of {iteration}, which is not over"));
        }
        reached(Check::ElementsAll);
        match shape.rounds || shape.whole {
            true => Ok(()),
            false => (0..shape.splits).try_for_each(|split| {
                self.all_delivered(shape, (iteration, split), shadow)
                    .map_err(|text| format!("{by:?} has read all of {iteration}, and {text}"))
            }),
        }
    }

    /// Each record of a split was delivered, or is with a reader, or it is known why not.
    fn all_delivered(
        &self,
        shape: &ElementsShape,
        (iteration, split): (IterationId, u64),
        shadow: &Shadow,
    ) -> Verdict {
        let gone = |(by, id): &(WorkerLife, TaskId), task: &Task| {
            self.ended.contains(by)
                || task.is_dropped
                || self.restarted.contains(id)
                || !shadow.state().tasks().contains_key(id)
                || self.has_another_life(*by, *id)
        };
        for offset in 0..shape.elements_of(split) {
            let mut lost = self.makers(iteration, split).filter(|(key, task)| {
                let mut elements = self.elements_of(task);
                let found = elements.find(|of| (of.id.split, of.id.offset) == (split, offset));
                !found.is_some_and(|of| of.has_left) && !gone(key, task)
            });
            if let Some((key, _)) = lost.next() {
                return Err(format!("record {offset} of split {split} is still with {key:?}"));
            }
        }
        Ok(())
    }

    /// Whether another process of the worker had the task as well.
    fn has_another_life(&self, by: WorkerLife, id: TaskId) -> bool {
        self.tasks.keys().any(|(of, task)| *task == id && of.worker == by.worker && *of != by)
    }
}

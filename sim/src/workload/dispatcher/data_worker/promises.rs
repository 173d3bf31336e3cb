//! What a worker owes for tasks that are over: the dispatcher hears of their end before the worker stops,
//! and who waits for an element of one hears the end.

use std::collections::BTreeSet;

use rondo_core::ids::{CallId, TaskId};
use rondo_core::status::{Code, Status};
use rondo_core::worker::{Reply, Request};

use crate::checks::{Check, reached};

/// Tasks that are over.
#[derive(Clone, Debug, Default)]
pub(super) struct Promises {
    /// Those of whose end the dispatcher is told, and has not said that it knows.
    untold: BTreeSet<TaskId>,
    /// Calls for elements of those, which the dispatcher deletes at present.
    deleted: BTreeSet<CallId>,
    /// Whether the dispatcher has answered the last heartbeat well.
    is_heard: bool,
}

impl Promises {
    /// The worker tells the dispatcher something.
    pub(super) fn sends(&mut self, request: &Request) {
        if let Request::Update { completed } = request {
            self.untold.extend(completed);
        }
    }

    /// The dispatcher answers, or cannot be reached.
    pub(super) fn hears(&mut self, request: &Request, result: &Result<Reply, Status>) {
        match (request, result) {
            (Request::Update { completed }, Ok(_)) => self.knows(completed),
            (Request::Update { completed }, Err(status))
                if status.code == Code::NotFound && completed.len() == 1 =>
            {
                self.knows(completed);
            }
            (Request::Heartbeat { .. }, result) => self.is_heard = result.is_ok(),
            _ => {}
        }
    }

    /// The dispatcher knows that tasks are over, or begins them anew.
    pub(super) fn knows(&mut self, tasks: &[TaskId]) {
        self.untold.retain(|task| !tasks.contains(task));
    }

    /// The dispatcher deletes tasks, while calls wait for elements of some.
    pub(super) fn deletes(
        &mut self,
        tasks: &[TaskId],
        calls: impl Iterator<Item = (CallId, TaskId)>,
    ) {
        let is_over = |task: &TaskId| tasks.contains(task) && self.untold.contains(task);
        let waiting = calls.filter(|(_, task)| is_over(task)).map(|(call, _)| call);
        self.deleted = waiting.collect();
        self.knows(tasks);
    }

    /// What the dispatcher has said is taken in.
    pub(super) fn has_deleted(&mut self) {
        self.deleted.clear();
    }

    /// A call for an element is answered.
    ///
    /// # Errors
    /// When it is refused because of a task that is over.
    pub(super) fn answers(&mut self, call: CallId, refusal: Option<&Status>) -> Result<(), String> {
        if !self.deleted.remove(&call) {
            return Ok(());
        }
        reached(Check::EndOfDeleted);
        match refusal {
            Some(status) => Err(format!("end: a task is over, and {call} is told: {status}")),
            None => Ok(()),
        }
    }

    /// The worker has stopped, before its time was over if so.
    ///
    /// # Errors
    /// When the dispatcher does not know of all that is over.
    pub(super) fn stops(&self, is_early: bool) -> Result<(), String> {
        if !is_early || !self.is_heard {
            return Ok(());
        }
        reached(Check::EndBeforeStop);
        match self.untold.first() {
            Some(task) => Err(format!("stop: {task} is over, and the dispatcher was not told")),
            None => Ok(()),
        }
    }
}

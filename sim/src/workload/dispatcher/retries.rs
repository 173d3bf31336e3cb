//! Sees that a consumer of a coordinated read asks a task again in time: all others wait for it.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::ids::TaskId;
use rondo_core::reader::{Answer, HeartbeatAnswer, Request};
use rondo_core::status::Status;
use rondo_core::time::{Duration, Time};

use super::ms;
use crate::checks::{Check, reached};

/// Longest pause before a task is asked again, or the others whether it is gone.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// The world rounds what a machine's clock shows, and wakes nothing twice within a millisecond. Whoever
/// wakes later than that stood still.
const SLACK: Duration = ms(5);

/// Tasks that are to be asked again.
#[derive(Clone, Debug, Default)]
pub(super) struct Retries {
    /// Since when each waits for that.
    waiting: BTreeMap<TaskId, Time>,
    /// The tasks that the dispatcher has named last.
    listed: BTreeSet<TaskId>,
    /// When the reader wished to be woken.
    wakes_at: Option<Time>,
}

impl Retries {
    /// Another reader begins, or this one needs nothing more.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The reader sleeps until then.
    pub(super) const fn sleeps(&mut self, until: Time) {
        self.wakes_at = Some(until);
    }

    /// Something happens to the reader. If that is later than it wished, it could do nothing before.
    pub(super) fn woken(&mut self, now: Time) {
        if self.wakes_at.is_some_and(|at| now > at.after(SLACK)) {
            self.waiting.values_mut().for_each(|since| *since = now);
        }
    }

    /// The dispatcher has answered the reader, or cannot be reached.
    pub(super) fn learn(&mut self, now: Time, of: &Request, result: &Result<Answer, Status>) {
        match (of, result) {
            (_, Ok(Answer::Heartbeat(answer))) => self.told(answer),
            (Request::RemoveTask { task, .. }, Ok(Answer::Removed(true))) => self.gone(*task),
            (Request::RemoveTask { task, .. }, _) => self.failed(now, *task),
            _ => {}
        }
    }

    fn told(&mut self, answer: &HeartbeatAnswer) {
        self.listed = answer.tasks.iter().map(|task| task.id).collect();
        if answer.is_finished {
            self.listed.clear();
        }
        let listed = &self.listed;
        self.waiting.retain(|task, _| listed.contains(task));
    }

    /// A task has answered.
    pub(super) fn answered(&mut self, task: TaskId) {
        self.waiting.remove(&task);
    }

    /// A task did not answer in a round, or the others do not agree that it is gone.
    pub(super) fn failed(&mut self, now: Time, task: TaskId) {
        if self.listed.contains(&task) {
            self.waiting.insert(task, now);
        }
    }

    /// All have agreed that a task is gone.
    fn gone(&mut self, task: TaskId) {
        self.waiting.remove(&task);
        self.listed.remove(&task);
    }

    /// A task is asked again, or the others are.
    ///
    /// # Errors
    /// When it waited for that for too long.
    pub(super) fn again(&mut self, now: Time, task: TaskId) -> Result<(), String> {
        let Some(since) = self.waiting.remove(&task) else {
            return Ok(());
        };
        reached(Check::RetriedInTime);
        match now > since.after(PAUSE_MAX).after(SLACK) {
            true => {
                let ms = now.since(since).as_millis();
                Err(format!("retry: task {task} did not answer, and is asked again after {ms} ms"))
            }
            false => Ok(()),
        }
    }
}

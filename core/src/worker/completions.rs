//! Telling the dispatcher which tasks are over, until it knows.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::calls::Purpose;
use super::machine::Worker;
use super::refusal;
use super::task::{Over, Task};
use super::types::{Effect, Request};
use crate::ids::TaskId;
use crate::status::Status;
use crate::time::{Duration, Time};

/// Pause after the dispatcher could not be told.
const PAUSE: Duration = Duration::from_secs(1);

/// Tasks that are over, of which the dispatcher does not know.
#[derive(Clone, Debug)]
pub(super) struct Completions {
    tasks: BTreeSet<TaskId>,
    is_under_way: bool,
    pub(super) retry_at: Option<Time>,
    /// The dispatcher refuses to hear of all at once.
    one_by_one: bool,
}

impl Completions {
    pub(super) const fn new() -> Self {
        Self { tasks: BTreeSet::new(), is_under_way: false, retry_at: None, one_by_one: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The dispatcher has deleted a task: it knows.
    pub(super) fn forget(&mut self, id: TaskId) {
        self.tasks.remove(&id);
    }
}

impl Worker {
    /// Has the dispatcher told of a task whose last element has left.
    pub(super) fn complete_if_over(&mut self, now: Time, task: &mut Task, out: &mut Vec<Effect>) {
        if task.over != Over::No || !task.is_exhausted() {
            return;
        }
        task.over = Over::Telling;
        self.completions.tasks.insert(task.def.task);
        if self.completions.retry_at.is_none_or(|at| at <= now) {
            self.update(out);
        }
        if let Some(run) = task.run() {
            // Nothing comes of it any more.
            self.runs.remove(&run);
            out.push(Effect::Close { run });
        }
    }

    fn update(&mut self, out: &mut Vec<Effect>) {
        if self.completions.is_under_way || self.completions.tasks.is_empty() {
            return;
        }
        let most = if self.completions.one_by_one { 1 } else { usize::MAX };
        let completed: Vec<_> = self.completions.tasks.iter().copied().take(most).collect();
        (self.completions.is_under_way, self.completions.retry_at) = (true, None);
        let request = Request::Update { completed: completed.clone() };
        self.send(Purpose::Update(completed), request, out);
    }

    pub(super) fn update_answered(
        &mut self,
        now: Time,
        completed: Vec<TaskId>,
        result: Result<(), Status>,
        out: &mut Vec<Effect>,
    ) {
        self.completions.is_under_way = false;
        let is_told = match &result {
            Ok(()) => true,
            Err(status) if refusal::is_soft(status) => {
                self.completions.retry_at = Some(now.after(PAUSE));
                false
            }
            // It knows nothing of one of them, and would not hear of the others for its sake.
            Err(_) => {
                self.completions.one_by_one = completed.len() > 1;
                completed.len() == 1
            }
        };
        if is_told {
            completed.iter().for_each(|id| self.completions.forget(*id));
            for id in completed {
                self.with_task(now, id, out, |task| task.over = Over::Told);
            }
        }
        if self.completions.retry_at.is_none() {
            self.update(out);
        }
        if is_told {
            self.beat_at_once(out);
        }
    }

    pub(super) fn tick_completions(&mut self, now: Time, out: &mut Vec<Effect>) {
        if self.completions.retry_at.is_some_and(|at| at <= now) {
            self.update(out);
        }
    }
}

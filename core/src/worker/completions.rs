//! Telling the dispatcher which tasks are over, until it knows.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::calls::Purpose;
use super::machine::Worker;
use super::task::{Over, Task};
use super::types::{Effect, Event, Request};
use crate::ids::TaskId;
use crate::status::{Code, Status};
use crate::time::{Duration, Time};

/// Pause after the dispatcher could not be told.
const PAUSE: Duration = Duration::from_secs(1);

/// Tasks that are over, of which the dispatcher does not know.
#[derive(Clone, Debug)]
pub(super) struct Completions {
    tasks: BTreeSet<TaskId>,
    is_under_way: bool,
    /// Tasks that the update under way may name, and that the worker has let go of since: what the
    /// dispatcher answers says nothing of those that have their numbers now.
    gone: BTreeSet<TaskId>,
    pub(super) retry_at: Option<Time>,
    /// The dispatcher refuses to hear of all at once.
    one_by_one: bool,
    /// The task it refused to hear of last: the next one comes first then.
    refused: Option<TaskId>,
    /// Whether a refusal was reported that lasts.
    is_reported: bool,
}

impl Completions {
    pub(super) const fn new() -> Self {
        Self {
            tasks: BTreeSet::new(),
            is_under_way: false,
            gone: BTreeSet::new(),
            retry_at: None,
            one_by_one: false,
            refused: None,
            is_reported: false,
        }
    }

    /// The tasks to tell of next.
    fn next(&self) -> Vec<TaskId> {
        if !self.one_by_one {
            return self.tasks.iter().copied().collect();
        }
        let later = self.tasks.iter().find(|id| self.refused.is_none_or(|last| **id > last));
        later.or_else(|| self.tasks.first()).copied().into_iter().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The dispatcher knows of a task's end, or has deleted the task.
    pub(super) fn forget(&mut self, id: TaskId) {
        self.tasks.remove(&id);
        // Another task's end says nothing of one that was refused: it stays behind the others.
        if self.refused == Some(id) {
            (self.refused, self.is_reported) = (None, false);
        }
        self.one_by_one &= !self.tasks.is_empty();
    }

    /// The worker has let go of a task.
    pub(super) fn let_go(&mut self, id: TaskId) {
        self.forget(id);
        if self.is_under_way {
            self.gone.insert(id);
        }
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
        let completed = self.completions.next();
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
        let gone = core::mem::take(&mut self.completions.gone);
        let is_told = match result {
            Ok(()) => true,
            // It does not know one of them, and so refused the others too.
            Err(status) if status.code == Code::NotFound => {
                self.completions.one_by_one = completed.len() > 1;
                completed.len() == 1
            }
            Err(status) => {
                self.update_failed(now, &completed, status, out);
                false
            }
        };
        if is_told {
            let there = completed.into_iter().filter(|id| !gone.contains(id));
            let there: Vec<TaskId> = there.collect();
            there.iter().for_each(|id| self.completions.forget(*id));
            for id in there {
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

    /// The dispatcher may not have heard of the end. Only NOT_FOUND says that it knows of none: any
    /// other error may come from a proxy, and a consumer that is told the end on its word would ask
    /// no more while the iteration never ends.
    fn update_failed(
        &mut self,
        now: Time,
        completed: &[TaskId],
        status: Status,
        out: &mut Vec<Effect>,
    ) {
        self.completions.retry_at = Some(now.after(PAUSE));
        if status.code.is_soft() {
            return;
        }
        self.completions.one_by_one = true;
        self.completions.refused = completed.last().copied();
        if !core::mem::replace(&mut self.completions.is_reported, true) {
            out.push(Effect::Observe(Event::UpdateRefused { status }));
        }
    }

    pub(super) fn tick_completions(&mut self, now: Time, out: &mut Vec<Effect>) {
        if self.completions.retry_at.is_some_and(|at| at <= now) {
            // The dispatcher may have deleted all of them meanwhile: then there is nothing to tell.
            self.completions.retry_at = None;
            self.update(out);
        }
    }
}

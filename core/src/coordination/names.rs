//! What tasks are called in texts, and what is said of one that is missed.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use super::live::Beat;
use super::machine::Coordination;
use super::ranges::ranges;
use super::refusal::Refusal;
use super::request::Caller;
use super::types::{Dialect, TaskName};
use crate::ids::{NamespaceId, TaskIndex};
use crate::time::{Duration, Time};

/// Of so many missed tasks a text says more than their numbers.
const DESCRIBED_MAX: usize = 8;

impl Coordination {
    /// A task as its dialect names it within a sentence.
    pub(super) fn called(&self, id: NamespaceId, task: TaskIndex, dialect: Dialect) -> String {
        match dialect {
            Dialect::T => self.listed(id, [task], dialect),
            Dialect::X | Dialect::Rondo => format!("task {task}"),
        }
    }

    /// Tasks as their dialect names them, as ranges.
    pub(super) fn listed(
        &self,
        id: NamespaceId,
        tasks: impl IntoIterator<Item = TaskIndex>,
        dialect: Dialect,
    ) -> String {
        let ranges = ranges(tasks);
        match (dialect, self.lives.get(&id)) {
            (Dialect::T, Some(live)) => {
                format!("/job:{}/replica:0/task:{ranges}", live.settings.job)
            }
            _ => ranges,
        }
    }

    /// The dialect in which texts for all are written: that of the tasks.
    pub(super) fn dialect_of(&self, id: NamespaceId) -> Dialect {
        let task =
            self.state.namespaces.get(&id).and_then(|namespace| namespace.tasks.values().next());
        task.map_or(Dialect::X, |task| task.dialect)
    }

    /// The number of a task, if the namespace's job can have it.
    pub(super) fn index_of(
        &self,
        id: NamespaceId,
        name: &TaskName,
        asked: &'static str,
    ) -> Result<TaskIndex, Refusal> {
        let bound = self.namespace(id)?.bound();
        self.index_within(id, name, asked, bound)
    }

    /// The number of a task, if the namespace's job has that name and the number is below `bound`.
    pub(super) fn index_within(
        &self,
        id: NamespaceId,
        name: &TaskName,
        asked: &'static str,
        bound: u32,
    ) -> Result<TaskIndex, Refusal> {
        let job = &self.live(id)?.settings.job;
        let own = name.job.as_ref().is_none_or(|asked| asked == job);
        if own && u32::try_from(name.index.get()).is_ok_and(|index| index < bound) {
            return Ok(name.index);
        }
        let task = match &name.job {
            Some(job) => format!("/job:{job}/replica:0/task:{}", name.index),
            None => format!("{}", name.index),
        };
        let last = bound.saturating_sub(1);
        let expected = match &name.job {
            Some(_) => format!("/job:{job}/replica:0/task:0-{last}"),
            None => format!("0-{last}"),
        };
        Err(Refusal::UnknownTask { asked, task, expected })
    }

    /// Who asks, as far as one knows.
    pub(super) fn asker(&self, id: NamespaceId, caller: &Caller) -> Option<TaskIndex> {
        let namespace = self.state.namespaces.get(&id)?;
        caller.task.or_else(|| namespace.task_of(caller.incarnation?))
    }

    /// What is known of missed tasks, the first ones of many.
    pub(super) fn described(&self, id: NamespaceId, tasks: &[TaskIndex], now: Time) -> String {
        let beats = self.lives.get(&id).map(|live| &live.beats);
        let describe = |task: &TaskIndex| {
            let beat = beats.and_then(|beats| beats.get(task));
            format!("task {task}: {}", describe(beat, now))
        };
        let mut described: Vec<_> = tasks.iter().take(DESCRIBED_MAX).map(describe).collect();
        if tasks.len() > DESCRIBED_MAX {
            described.push("…".into());
        }
        described.join("; ")
    }
}

fn describe(beat: Option<&Beat>, now: Time) -> String {
    let Some(beat) = beat else {
        return "never registered".into();
    };
    let mut text = match &beat.peer {
        Some(peer) => format!("at {peer}, "),
        None => String::new(),
    };
    // Writing to a string cannot fail.
    let _ = match beat.heard {
        Some(heard) => write!(text, "last heard {} ago", seconds(now.since(heard))),
        None => write!(text, "not heard since this server started"),
    };
    if let Some((doing, at)) = &beat.doing {
        let _ = write!(text, ", last {doing} {} ago", seconds(now.since(*at)));
    }
    text
}

/// A span as people read it, to a tenth of a second.
pub(super) fn seconds(span: Duration) -> String {
    let tenths = span.as_millis() / 100;
    format!("{}.{} s", tenths / 10, tenths % 10)
}

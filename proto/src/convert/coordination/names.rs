//! Tasks and values as all dialects have them.

use bytes::Bytes;
use rondo_core::coordination::{TaskInfo, TaskName, TaskState, Value};
use rondo_core::limits::COORDINATION_TASKS_MAX;
use rondo_core::status::Status;

use crate::convert::check::Field;
use crate::tf;

impl Field {
    /// A task of dialect T, which must be named.
    pub(super) fn task(self, task: Option<tf::CoordinatedTask>) -> Result<TaskName, Status> {
        let task = task.ok_or_else(|| self.refuse("missing", "it must be a CoordinatedTask"))?;
        self.named(task)
    }

    /// Tasks of dialect T.
    pub(super) fn tasks(self, tasks: Vec<tf::CoordinatedTask>) -> Result<Vec<TaskName>, Status> {
        self.few_tasks(tasks)?.into_iter().map(|task| self.named(task)).collect()
    }

    /// Tasks of dialect X.
    pub(super) fn task_ids(self, tasks: Vec<i32>) -> Result<Vec<TaskName>, Status> {
        Ok(self.few_tasks(tasks)?.into_iter().map(TaskName::of).collect())
    }

    /// jaxlib 0.9 leaves the job's name empty: it means the only one there is.
    fn named(self, task: tf::CoordinatedTask) -> Result<TaskName, Status> {
        let job = self.name(task.job_name)?;
        let job = (!job.is_empty()).then(|| job.into());
        Ok(TaskName { job, ..TaskName::of(task.task_id) })
    }

    /// A list of tasks no longer than any job.
    fn few_tasks<T>(self, tasks: Vec<T>) -> Result<Vec<T>, Status> {
        if tasks.len() <= COORDINATION_TASKS_MAX {
            return Ok(tasks);
        }
        Err(self.refuse(
            format_args!("a list of {} tasks", tasks.len()),
            format_args!("no job has more than {COORDINATION_TASKS_MAX}"),
        ))
    }
}

/// A task's state as both dialects number it.
pub(super) const fn state(state: TaskState) -> i32 {
    match state {
        TaskState::Disconnected => 2,
        TaskState::Connected => 3,
        TaskState::Error => 4,
    }
}

/// Code and text of a task's error; 0 and "" if it has none.
pub(super) fn error(info: &TaskInfo) -> (i32, String) {
    let error = info.fault.as_ref();
    error.map_or((0, String::new()), |fault| (fault.code.number(), fault.message.to_string()))
}

/// A value's bytes; `None` if they are in a blob.
pub(super) fn inline(value: Value) -> Option<Bytes> {
    match value {
        Value::Inline(bytes) => Some(bytes),
        Value::Blob { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both dialects number states alike, which is why one function serves both.
    #[test]
    fn states_are_numbered_as_in_the_tables() {
        use crate::{tf::CoordinatedTaskState as T, xla::TaskState as X};
        for (ours, t, x) in [
            (TaskState::Disconnected, T::TaskstateDisconnected, X::Disconnected),
            (TaskState::Connected, T::TaskstateConnected, X::Connected),
            (TaskState::Error, T::TaskstateError, X::Error),
        ] {
            assert_eq!((state(ours), state(ours)), (t.into(), x.into()));
        }
    }
}

//! The other tasks, and barriers.

use std::collections::BTreeMap;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rondo::agent::TaskStatus;
use rondo_core::ids::TaskIndex;

use super::interface::{Agent, state_name};
use crate::error::{exception, raised, seconds};
use crate::waiting::wait_for;

/// How a task stands.
#[pyclass(frozen, module = "rondo")]
pub(crate) struct TaskState {
    /// As [`state_name`] says.
    #[pyo3(get)]
    state: &'static str,
    /// Its error, if it is in error.
    #[pyo3(get)]
    error: Option<Py<PyAny>>,
}

impl TaskState {
    fn of(py: Python<'_>, status: &TaskStatus) -> PyResult<Self> {
        let error = status.error.as_ref().map(|error| exception(py, error)).transpose()?;
        Ok(Self { state: state_name(status.state), error: error.map(Bound::unbind) })
    }
}

#[pymethods]
impl TaskState {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let error = self.error.as_ref().map(|error| error.bind(py).repr()).transpose()?;
        let error = error.map(|error| format!(", {error}")).unwrap_or_default();
        Ok(format!("<rondo.TaskState {}{error}>", self.state))
    }
}

/// How the tasks of a job stand.
#[pyclass(frozen, get_all, module = "rondo")]
pub(crate) struct JobState {
    /// Each with its number.
    tasks: Py<PyDict>,
    /// Grows with each change.
    version: i64,
}

#[pymethods]
impl JobState {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<rondo.JobState {}: {}>", self.version, self.tasks.bind(py).repr()?))
    }
}

#[pymethods]
impl Agent {
    /// Waits at a barrier for these tasks, or for all. The first to come says how many seconds it may take:
    /// DeadlineExceeded then. Returns which instance of the barrier it was.
    #[pyo3(signature = (name, timeout = 600.0, tasks = None))]
    fn barrier(
        &self,
        py: Python<'_>,
        name: &str,
        timeout: f64,
        tasks: Option<Vec<i32>>,
    ) -> PyResult<i64> {
        let (inner, timeout) = (self.inner(py)?, seconds(py, "timeout", timeout)?);
        let tasks = indexes(tasks.unwrap_or_default());
        wait_for(py, inner.wait_at_barrier(name, timeout, &tasks))
    }

    /// Ends a barrier that is going on.
    fn cancel_barrier(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let inner = self.inner(py)?;
        wait_for(py, inner.cancel_barrier(name))
    }

    /// Waits until all tasks have said which devices they have, and says so for this one.
    #[pyo3(signature = (devices = Vec::new()), text_signature = "($self, devices=())")]
    fn wait_for_all_tasks(&self, py: Python<'_>, devices: Vec<Vec<u8>>) -> PyResult<()> {
        let inner = self.inner(py)?;
        let devices: Vec<Bytes> = devices.into_iter().map(Bytes::from).collect();
        wait_for(py, inner.wait_for_all_tasks(&devices))
    }

    /// All tasks' devices in order of the tasks, once wait_for_all_tasks() has returned.
    fn devices<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let devices = self.inner(py)?.cluster_device_attributes();
        let devices = devices.map_err(|status| raised(py, &status))?;
        Ok(devices.iter().map(|device| PyBytes::new(py, device)).collect())
    }

    /// How a task stands, of this job or of another.
    #[pyo3(signature = (task, *, job = None))]
    fn task_state(&self, py: Python<'_>, task: i32, job: Option<&str>) -> PyResult<TaskState> {
        let (inner, job) = (self.inner(py)?, job.unwrap_or_else(|| self.job_name()));
        let status = wait_for(py, inner.task_status(job, TaskIndex::new(task)))?;
        TaskState::of(py, &status)
    }

    /// Waits until the job's tasks stand otherwise than in this version, -1 for none, and says how.
    #[pyo3(signature = (after = -1), text_signature = "($self, after=-1)")]
    fn job_state(&self, py: Python<'_>, after: i64) -> PyResult<JobState> {
        let inner = self.inner(py)?;
        let status = wait_for(py, inner.watch_job_state(after))?;
        let tasks = PyDict::new(py);
        for (task, status) in &status.tasks {
            tasks.set_item(task.get(), TaskState::of(py, status)?)?;
        }
        Ok(JobState { tasks: tasks.unbind(), version: status.version })
    }

    /// Who of these tasks is alive, this one among them, with its incarnation, as soon as all that are have
    /// asked.
    fn alive_tasks(&self, py: Python<'_>, tasks: Vec<i32>) -> PyResult<BTreeMap<i32, u64>> {
        let (inner, tasks) = (self.inner(py)?, indexes(tasks));
        let alive = wait_for(py, inner.alive_tasks(&tasks))?;
        Ok(alive.into_iter().map(|(task, incarnation)| (task.get(), incarnation.get())).collect())
    }
}

fn indexes(tasks: Vec<i32>) -> Vec<TaskIndex> {
    tasks.into_iter().map(TaskIndex::new).collect()
}

//! Traces, written for Perfetto.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use rondo::exchange::{Exchange as Inner, Recording, RecordingBounds};
use rondo_core::exchange::Role;

use super::interface::{Exchange, at_once};
use crate::error::{raised, seconds, unfit};

/// Workers of this process.
static WORKERS: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

/// Clocks as Python has them: of each process its name, how many nanoseconds it is ahead, how far that
/// may be wrong, and how long a question to it and the answer were on the way.
type Clocks = Vec<(String, Option<i64>, Option<u64>, Option<u64>)>;

/// Another exchange of this process has begun.
pub(super) fn begun(inner: &Arc<Inner>) {
    let mut all = WORKERS.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|other| other.strong_count() > 0);
    if inner.role() == Role::Worker {
        all.push(Arc::downgrade(inner));
    }
}

#[pymethods]
impl Exchange {
    /// Writes what this worker knows of its latest requests to a file, for Perfetto: on its own clock.
    /// Returns how far the clocks of servers are ahead.
    fn trace(&self, py: Python<'_>, path: PathBuf) -> PyResult<Clocks> {
        let inner = self.inner(py)?;
        let recording = at_once(py, || inner.recording())?;
        write(py, &recording, &path)
    }
}

/// Writes traces to a file, for Perfetto: of all who take part, by way of the scheduler at "host:port"
/// and on its clock; without one, what the worker of this process knows, on its own.
#[pyfunction]
#[pyo3(signature = (path, scheduler = None, *, timeout = 10.0, passages_max = 4096))]
fn trace(
    py: Python<'_>,
    path: PathBuf,
    scheduler: Option<String>,
    timeout: f64,
    passages_max: u64,
) -> PyResult<Clocks> {
    let timeout: Duration = seconds(py, "timeout", timeout)?;
    let recording = match scheduler {
        Some(scheduler) => {
            let bounds = RecordingBounds { passages_max, timeout };
            let collected = py.detach(|| Recording::of_everybody(&scheduler, bounds));
            collected.map_err(|status| raised(py, &status))?
        }
        None => own(py)?,
    };
    write(py, &recording, &path)
}

/// What the one worker of this process knows.
fn own(py: Python<'_>) -> PyResult<Recording> {
    let all = WORKERS.lock().unwrap_or_else(PoisonError::into_inner);
    let workers: Vec<Arc<Inner>> = all.iter().filter_map(Weak::upgrade).collect();
    drop(all);
    match workers.as_slice() {
        [worker] => at_once(py, || worker.recording()),
        [] => {
            let text =
                "this process is no worker of an exchange: scheduler=\"host:port\" asks all of one";
            Err(unfit(py, text))
        }
        several => {
            let count = several.len();
            let text = format!("this process is {count} workers: call trace() of one of them");
            Err(unfit(py, text))
        }
    }
}

fn write(py: Python<'_>, recording: &Recording, path: &Path) -> PyResult<Clocks> {
    py.detach(|| recording.save(path)).map_err(|error| {
        let text = format!("the trace cannot be written to {}: {error}", path.display());
        match error.raw_os_error() {
            Some(number) => PyOSError::new_err((number, text)),
            None => PyOSError::new_err(text),
        }
    })?;
    let clocks = recording.processes.values().map(|process| {
        let offset = process.clock.map(|clock| clock.offset);
        let (ahead, error) = (offset.map(|it| it.nanos), offset.map(|it| it.error_nanos));
        (format!("{} {}", process.role, process.rank), ahead, error, process.round_trip_nanos)
    });
    Ok(clocks.collect())
}

/// Adds the function.
pub(super) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(trace, module)?)
}

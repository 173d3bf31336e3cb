//! Refusals as exceptions of Python: a class for each code, the text as it is.

use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use rondo_core::exchange::PeerLost;
use rondo_core::status::{Code, Detail, Status};

/// The exception of a refusal, as it is raised.
pub(crate) fn raised(py: Python<'_>, status: &Status) -> PyErr {
    match exception(py, status) {
        Ok(exception) => PyErr::from_value(exception),
        // The module's own Python part is broken; what was to be said is said nevertheless.
        Err(error) => {
            let fallback = PyRuntimeError::new_err(status.to_string());
            fallback.set_cause(py, Some(error));
            fallback
        }
    }
}

/// The exception of a refusal, as a value.
pub(crate) fn exception<'py>(py: Python<'py>, status: &Status) -> PyResult<Bound<'py, PyAny>> {
    static MADE_OF: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let made_of = MADE_OF.import(py, "rondo.errors", "_of")?;
    made_of.call1((status.code.number(), &status.message, source(status)))
}

/// The exception of a refusal because a process of an exchange is lost.
pub(crate) fn peer_lost(py: Python<'_>, status: &Status, lost: &PeerLost) -> PyErr {
    match lost_as(py, &status.message, lost) {
        Ok(exception) => PyErr::from_value(exception),
        Err(_) => raised(py, status),
    }
}

/// A process that is lost, as an exception that is not raised.
pub(crate) fn exception_of_lost<'py>(
    py: Python<'py>,
    lost: &PeerLost,
) -> PyResult<Bound<'py, PyAny>> {
    lost_as(py, &lost.to_string(), lost)
}

fn lost_as<'py>(py: Python<'py>, text: &str, lost: &PeerLost) -> PyResult<Bound<'py, PyAny>> {
    static LOST: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let (role, rank) = (lost.role.to_string(), lost.rank.get());
    LOST.import(py, "rondo.errors", "_lost")?.call1((text, role, rank, lost.address.as_ref()))
}

/// The task that a refusal of the coordination service comes from.
fn source(status: &Status) -> Option<i32> {
    status.details.iter().find_map(|detail| match detail {
        Detail::CoordinationService { source, .. } => source.map(|task| task.get()),
        _ => None,
    })
}

/// A refusal of what the caller gave, before anything was asked of anybody.
pub(crate) fn invalid(py: Python<'_>, what: impl Into<String>) -> PyErr {
    raised(py, &Status::new(Code::InvalidArgument, what))
}

/// A refusal of what the caller wants now.
pub(crate) fn unfit(py: Python<'_>, what: impl Into<String>) -> PyErr {
    raised(py, &Status::new(Code::FailedPrecondition, what))
}

/// The code of this number or name, such as `"NOT_FOUND"`.
pub(crate) fn code(value: &Bound<'_, PyAny>) -> PyResult<Code> {
    static NUMBER_OF: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let number = match value.cast::<PyString>() {
        Ok(name) => {
            NUMBER_OF.import(py, "rondo.errors", "_code_number")?.call1((name,))?.extract()?
        }
        Err(_) => value.extract::<i32>()?,
    };
    Code::of_number(number)
        .ok_or_else(|| invalid(py, format!("{number} is the number of no error: 1 to 16 are")))
}

/// A span in seconds as the caller gave it.
pub(crate) fn seconds(py: Python<'_>, what: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| invalid(py, format!("{what} is {seconds} s: a number from 0 on is wanted")))
}

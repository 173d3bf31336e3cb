//! Keys: shared by all tasks of a job, waited for, and watched.

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use rondo::agent::PutCondition;
use rondo_core::ids::Revision;
use rondo_core::status::{Code, Status};

use super::interface::Agent;
use super::watch::Watch;
use crate::error::{invalid, raised, seconds};
use crate::waiting::wait_for;

#[pymethods]
impl Agent {
    /// Puts a key, there or not. With lease it dies with this task. Returns the change's revision.
    #[pyo3(signature = (key, value, *, lease = false))]
    fn set(
        &self,
        py: Python<'_>,
        key: &str,
        value: &Bound<'_, PyAny>,
        lease: bool,
    ) -> PyResult<u64> {
        self.put(py, key, value, PutCondition::Always, lease)
    }

    /// Puts a key that is not there: AlreadyExists if it is.
    #[pyo3(signature = (key, value, *, lease = false))]
    fn insert(
        &self,
        py: Python<'_>,
        key: &str,
        value: &Bound<'_, PyAny>,
        lease: bool,
    ) -> PyResult<u64> {
        self.put(py, key, value, PutCondition::Absent, lease)
    }

    /// Gives a key that is there another value: NotFound if it is not.
    #[pyo3(signature = (key, value, *, lease = false))]
    fn update(
        &self,
        py: Python<'_>,
        key: &str,
        value: &Bound<'_, PyAny>,
        lease: bool,
    ) -> PyResult<u64> {
        self.put(py, key, value, PutCondition::Present, lease)
    }

    /// Gives a key another value if its newest change has this revision, 0 when it is not there:
    /// FailedPrecondition when it has changed since.
    #[pyo3(signature = (key, revision, value, *, lease = false))]
    fn compare_and_swap(
        &self,
        py: Python<'_>,
        key: &str,
        revision: u64,
        value: &Bound<'_, PyAny>,
        lease: bool,
    ) -> PyResult<u64> {
        self.put(py, key, value, PutCondition::Revision(Revision::new(revision)), lease)
    }

    /// A key's value, waited for until it is there, or for so many seconds: DeadlineExceeded then.
    #[pyo3(signature = (key, timeout = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let timeout = timeout.map(|timeout| seconds(py, "timeout", timeout)).transpose()?;
        let inner = self.inner(py)?;
        let value = wait_for(py, inner.get_key_value(key, timeout))?;
        Ok(PyBytes::new(py, &value))
    }

    /// A key's value if it is there now, else None.
    fn try_get<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let inner = self.inner(py)?;
        let value = wait_for(py, async {
            match inner.try_get_key_value(key).await {
                Err(status) if status.code == Code::NotFound => Ok(None),
                other => other.map(Some),
            }
        })?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// All keys under a directory with their values.
    #[pyo3(signature = (key = ""))]
    fn directory<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyDict>> {
        let inner = self.inner(py)?;
        let entries = PyDict::new(py);
        for (key, value) in wait_for(py, inner.get_key_value_dir(key))? {
            entries.set_item(key, PyBytes::new(py, &value))?;
        }
        Ok(entries)
    }

    /// Announces where this task listens, as "host:port", to all who resolve the cluster by the server, for
    /// as long as the task is connected.
    fn announce(&self, py: Python<'_>, address: &str) -> PyResult<()> {
        let inner = self.inner(py)?;
        wait_for(py, inner.announce(address))
    }

    /// Deletes a key and all under it, if it is there.
    fn delete(&self, py: Python<'_>, key: &str) -> PyResult<()> {
        let inner = self.inner(py)?;
        wait_for(py, inner.delete_key_value(key))
    }

    /// Adds to a key's number, 0 when it is not there, and returns the sum.
    #[pyo3(signature = (key, by = 1))]
    fn increment(&self, py: Python<'_>, key: &str, by: i64) -> PyResult<i64> {
        let inner = self.inner(py)?;
        number_of(py, key, &wait_for(py, inner.increment_key_value(key, by))?)
    }

    /// Watches a key and what is under it, "" for all: an iterator over Changes, the first of which is
    /// all there is.
    #[pyo3(signature = (key = ""))]
    fn watch(&self, py: Python<'_>, key: &str) -> PyResult<Watch> {
        let inner = self.inner(py)?;
        wait_for(py, inner.watch_key(key)).map(Watch::of)
    }
}

impl Agent {
    fn put(
        &self,
        py: Python<'_>,
        key: &str,
        value: &Bound<'_, PyAny>,
        condition: PutCondition,
        lease: bool,
    ) -> PyResult<u64> {
        let (inner, value) = (self.inner(py)?, value_of(key, value)?);
        wait_for(py, inner.put_key_value(key, value, condition, lease))
            .map(|revision| revision.get())
    }
}

/// A sum, which comes as its text.
pub(super) fn number_of(py: Python<'_>, key: &str, sum: &Bytes) -> PyResult<i64> {
    let number = std::str::from_utf8(sum).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        let text = format!("the sum under {key:?} is {sum:?}, which is no number of 64 bits");
        raised(py, &Status::new(Code::Internal, text))
    })
}

/// A value that the caller gave: text as UTF-8, or bytes.
pub(super) fn value_of(key: &str, value: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Bytes::copy_from_slice(text.to_str()?.as_bytes()));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Bytes::copy_from_slice(bytes.as_bytes()));
    }
    let kind = value.get_type().name()?;
    let text = format!("the value of {key:?} is of the type {kind}: give str or bytes");
    Err(invalid(value.py(), text))
}

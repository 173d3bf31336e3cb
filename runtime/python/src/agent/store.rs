//! The key-value store for processes that are no tasks.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use rondo::agent::{KeyValueStore as Inner, PutCondition};
use rondo::entropy::Entropy;
use rondo_core::ids::Revision;
use rondo_core::status::{Code, Status};

use super::keys::{number_of, value_of};
use super::watch::Watch;
use crate::error::{raised, seconds, unfit};
use crate::waiting::{Opened, wait_for};

/// The keys of a namespace, for a process that is no task of its job: it registers nowhere, and comes and
/// goes as it likes.
///
/// It is made once the server has answered, within connect_timeout seconds. Calls outlive the server's
/// absence for patience seconds, and happen once.
#[pyclass(frozen, module = "rondo")]
pub(crate) struct KeyValueStore {
    inner: Mutex<Option<Inner>>,
    server: String,
    opened: Opened,
}

impl KeyValueStore {
    fn inner(&self, py: Python<'_>) -> PyResult<Inner> {
        self.opened.check(py, "key-value store")?;
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clone().ok_or_else(|| unfit(py, "the key-value store is closed: make another one"))
    }

    fn put(
        &self,
        py: Python<'_>,
        key: &str,
        value: &Bound<'_, PyAny>,
        condition: PutCondition,
    ) -> PyResult<u64> {
        let (inner, value) = (self.inner(py)?, value_of(key, value)?);
        wait_for(py, inner.put(key, value, condition)).map(|revision| revision.get())
    }
}

#[pymethods]
impl KeyValueStore {
    #[new]
    #[pyo3(signature = (server, *, connect_timeout = 60.0, patience = 600.0))]
    fn new(py: Python<'_>, server: &str, connect_timeout: f64, patience: f64) -> PyResult<Self> {
        let connect_timeout = seconds(py, "connect_timeout", connect_timeout)?;
        let patience = seconds(py, "patience", patience)?;
        let mut entropy = Entropy::from_system().map_err(|error| {
            raised(py, &Status::new(Code::Unavailable, format!("no randomness to be had: {error}")))
        })?;
        let inner = Inner::connect(server, connect_timeout, patience, &mut entropy);
        let inner = Mutex::new(Some(wait_for(py, inner)?));
        Ok(Self { inner, server: server.to_owned(), opened: Opened::here() })
    }

    /// The server, as it was given.
    #[getter]
    fn server(&self) -> &str {
        &self.server
    }

    /// Puts a key, there or not. Returns the change's revision.
    fn set(&self, py: Python<'_>, key: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        self.put(py, key, value, PutCondition::Always)
    }

    /// Puts a key that is not there: AlreadyExists if it is.
    fn insert(&self, py: Python<'_>, key: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        self.put(py, key, value, PutCondition::Absent)
    }

    /// Gives a key that is there another value: NotFound if it is not.
    fn update(&self, py: Python<'_>, key: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        self.put(py, key, value, PutCondition::Present)
    }

    /// Gives a key another value if its newest change has this revision, 0 when it is not there:
    /// FailedPrecondition when it has changed since.
    fn compare_and_swap(
        &self,
        py: Python<'_>,
        key: &str,
        revision: u64,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        self.put(py, key, value, PutCondition::Revision(Revision::new(revision)))
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
        Ok(PyBytes::new(py, &wait_for(py, inner.get(key, timeout))?))
    }

    /// A key's value if it is there now, else None.
    fn try_get<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let inner = self.inner(py)?;
        Ok(wait_for(py, inner.try_get(key))?.map(|value| PyBytes::new(py, &value)))
    }

    /// A key's value and the revision of its newest change, else None.
    fn read<'py>(
        &self,
        py: Python<'py>,
        key: &str,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, u64)>> {
        let inner = self.inner(py)?;
        let found: Option<(Bytes, Revision)> = wait_for(py, inner.read(key))?;
        Ok(found.map(|(value, revision)| (PyBytes::new(py, &value), revision.get())))
    }

    /// All keys under a directory with their values.
    fn directory<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyDict>> {
        let inner = self.inner(py)?;
        let entries = PyDict::new(py);
        for (key, value) in wait_for(py, inner.directory(key))? {
            entries.set_item(key, PyBytes::new(py, &value))?;
        }
        Ok(entries)
    }

    /// Deletes a key and all under it, if it is there.
    fn delete(&self, py: Python<'_>, key: &str) -> PyResult<()> {
        let inner = self.inner(py)?;
        wait_for(py, inner.delete(key))
    }

    /// Adds to a key's number, 0 when it is not there, and returns the sum.
    #[pyo3(signature = (key, by = 1))]
    fn increment(&self, py: Python<'_>, key: &str, by: i64) -> PyResult<i64> {
        let inner = self.inner(py)?;
        number_of(py, key, &wait_for(py, inner.increment(key, by))?)
    }

    /// Watches a key and what is under it, "" for all: an iterator over Changes, the first of which is
    /// all there is.
    #[pyo3(signature = (key = ""))]
    fn watch(&self, py: Python<'_>, key: &str) -> PyResult<Watch> {
        let inner = self.inner(py)?;
        wait_for(py, async { inner.watch(key) }).map(Watch::of_store)
    }

    /// Lets go of the server. What waits goes on until it has its answer.
    fn close(&self) {
        drop(self.inner.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    const fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyTuple>) {
        self.close();
    }

    fn __repr__(&self) -> String {
        format!("<rondo.KeyValueStore at {}>", self.server)
    }
}

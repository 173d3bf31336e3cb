//! Watched keys, as an iterator.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use rondo::agent::{KeyWatch, StoreWatch, Told};
use rondo_core::status::Status;
use tokio::sync::Mutex;

use crate::waiting::{Closing, Opened, wait_for};

/// A watched key: what is told of it, in order, for as long as somebody asks.
#[pyclass(frozen, module = "rondo")]
pub(crate) struct Watch {
    watch: Mutex<Option<Telling>>,
    closing: Closing,
    key: String,
    opened: Opened,
}

/// Who tells of it: an agent, or the store itself.
enum Telling {
    Agent(KeyWatch),
    Store(Box<StoreWatch>),
}

impl Telling {
    async fn next(&mut self) -> Result<Option<Told>, Status> {
        match self {
            Self::Agent(watch) => watch.next().await,
            Self::Store(watch) => watch.next().await.map(Some),
        }
    }
}

impl Watch {
    pub(super) fn of(watch: KeyWatch) -> Self {
        Self::telling(watch.key().to_owned(), Telling::Agent(watch))
    }

    pub(super) fn of_store(watch: StoreWatch) -> Self {
        Self::telling(watch.key().to_owned(), Telling::Store(Box::new(watch)))
    }

    fn telling(key: String, watch: Telling) -> Self {
        let (watch, closing) = (Mutex::new(Some(watch)), Closing::default());
        Self { watch, closing, key, opened: Opened::here() }
    }
}

#[pymethods]
impl Watch {
    /// The key.
    #[getter]
    fn key(&self) -> &str {
        &self.key
    }

    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Changes>> {
        self.opened.check(py, "watch")?;
        let told = wait_for(py, async {
            let mut watch = self.watch.lock().await;
            let Some(open) = watch.as_mut() else {
                return Ok(None);
            };
            tokio::select! {
                biased;
                () = self.closing.closed() => {
                    *watch = None;
                    Ok(None)
                }
                told = open.next() => told,
            }
        })?;
        told.map(|told| Changes::of(py, told)).transpose()
    }

    /// Ends the watch, and the iteration where it waits.
    fn close(&self) {
        self.closing.close();
        // Who waits for it lets it go by itself.
        if let Ok(mut watch) = self.watch.try_lock() {
            *watch = None;
        }
    }

    const fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyTuple>) {
        self.close();
    }

    fn __repr__(&self) -> String {
        format!("<rondo.Watch of {:?}>", self.key)
    }
}

/// What is told at once.
#[pyclass(frozen, get_all, module = "rondo")]
pub(crate) struct Changes {
    /// Whether this is all there is, in place of what was told before.
    whole: bool,
    /// The changes, in order.
    changes: Vec<Py<KeyChange>>,
}

impl Changes {
    fn of(py: Python<'_>, told: Told) -> PyResult<Self> {
        let change = |change: rondo::agent::KeyChange| {
            let value = change.value.map(|value| PyBytes::new(py, &value).unbind());
            let (key, revision) = (change.key.as_ref().to_owned(), change.revision.get());
            Py::new(py, KeyChange { key, revision, value, with_all_under: change.with_all_under })
        };
        let changes = told.changes.into_iter().map(change).collect::<PyResult<_>>()?;
        Ok(Self { whole: told.whole, changes })
    }
}

#[pymethods]
impl Changes {
    fn __len__(&self) -> usize {
        self.changes.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        PyTuple::new(py, &self.changes)?.as_any().try_iter().map(|all| all.into_any())
    }

    fn __repr__(&self) -> String {
        let (count, whole) = (self.changes.len(), if self.whole { ", all there is" } else { "" });
        format!("<rondo.Changes: {count}{whole}>")
    }
}

/// A change of a key.
#[pyclass(frozen, get_all, module = "rondo")]
pub(crate) struct KeyChange {
    /// The key.
    key: String,
    /// The revision this change made.
    revision: u64,
    /// Its value; `None` when it is gone.
    value: Option<Py<PyBytes>>,
    /// Whether all under it is gone too.
    with_all_under: bool,
}

#[pymethods]
impl KeyChange {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let value = self.value.as_ref().map(|value| value.bind(py).repr()).transpose()?;
        let value = value.map_or_else(|| "gone".to_owned(), |value| value.to_string());
        Ok(format!("<rondo.KeyChange {:?} at {}: {value}>", self.key, self.revision))
    }
}

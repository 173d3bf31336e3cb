//! A reader as Python holds it: an iterator over deliveries.

use std::ffi::CString;
use std::sync::Arc;

use pyo3::exceptions::{PyException, PyRuntimeWarning};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rondo::reader::{Content, Delivery, Handle, OpenError, Reader as Inner};
use rondo_core::element::Spec;
use rondo_core::status::Status;
use tokio::sync::Mutex;

use super::element::Element;
use super::progress::Progress;
use super::records::Records;
use super::settings::builder;
use crate::cluster::Place;
use crate::error::{invalid, raised};
use crate::waiting::{Closing, Opened, wait, wait_for};

/// A consumer of a dataset: an iterator over what it delivers, Records when it reads by split, else
/// Element.
///
/// What came before counts as consumed when the next is asked for, unless acknowledge_by_hand is set.
#[pyclass(frozen, module = "rondo")]
pub(crate) struct Reader {
    inner: Mutex<Option<Inner>>,
    handle: Handle,
    closing: Closing,
    opened: Opened,
    dataset: String,
    job: Option<String>,
    is_by_split: bool,
    spec: Option<Arc<Spec>>,
}

#[pymethods]
impl Reader {
    /// Opens it; see the stubs for the settings.
    #[new]
    #[pyo3(signature = (dispatcher = None, dataset = None, *, cluster = None, **settings))]
    fn new(
        py: Python<'_>,
        dispatcher: Option<String>,
        dataset: Option<&str>,
        cluster: Option<&Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let dataset = dataset.ok_or_else(|| invalid(py, "no dataset is given: dataset= its id"))?;
        let dispatcher = Place::of(cluster).fill(py, "server", dispatcher)?;
        let (builder, job) = builder(py, &dispatcher, dataset, settings)?;
        let inner = wait(py, builder.open())?.map_err(|error| not_opened(py, &error))?;
        let spec = inner.element_spec().map_err(|status| raised(py, &status))?;
        Ok(Self {
            handle: inner.handle(),
            is_by_split: inner.is_by_split(),
            spec: spec.map(Arc::new),
            inner: Mutex::new(Some(inner)),
            closing: Closing::default(),
            opened: Opened::here(),
            dataset: dataset.to_owned(),
            job,
        })
    }

    /// The dataset's id.
    #[getter]
    fn dataset(&self) -> &str {
        &self.dataset
    }

    /// The job's name, if it has one.
    #[getter]
    fn job(&self) -> Option<&str> {
        self.job.as_deref()
    }

    /// Whether it reads by split: every record once, as Records.
    #[getter]
    const fn is_by_split(&self) -> bool {
        self.is_by_split
    }

    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.opened.check(py, "reader")?;
        let delivery = wait_for(py, async {
            let mut inner = self.inner.lock().await;
            let Some(open) = inner.as_mut() else {
                return Ok(None);
            };
            tokio::select! {
                biased;
                () = self.closing.closed() => Ok(None),
                delivery = open.next() => delivery.transpose(),
            }
        })?;
        match delivery {
            Some(delivery) => self.delivered(py, delivery).map(Some),
            None => self.warn_of_nothing(py).map(|()| None),
        }
    }

    /// Says that these records are consumed, or the first so many of them, and all before them of
    /// their splits. The dispatcher hears of it soon; flush() waits until it has.
    #[pyo3(signature = (records, first = None))]
    fn acknowledge(
        &self,
        py: Python<'_>,
        records: &Bound<'_, Records>,
        first: Option<u64>,
    ) -> PyResult<()> {
        self.opened.check(py, "reader")?;
        self.handle.acknowledge(&records.get().delivery(first.unwrap_or(u64::MAX)));
        Ok(())
    }

    /// Waits until the dispatcher's journal has what was acknowledged so far.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.opened.check(py, "reader")?;
        wait_for(py, self.handle.flush())
    }

    /// Remembers, under this name, how far the job has been read: what was consumed, and nothing
    /// else, is behind the position. Unless acknowledge_by_hand is set, what came last is consumed.
    fn checkpoint(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.opened.check(py, "reader")?;
        wait_for(py, async {
            match self.inner.try_lock() {
                Ok(mut inner) => match inner.as_mut() {
                    Some(inner) => inner.checkpoint(name).await,
                    None => self.handle.checkpoint(name).await,
                },
                // Somebody waits for the next delivery: what came before it is acknowledged.
                Err(_) => self.handle.checkpoint(name).await,
            }
        })
    }

    /// How far it has come, and why it stalls if it does.
    fn progress(&self, py: Python<'_>) -> PyResult<Progress> {
        self.opened.check(py, "reader")?;
        wait(py, self.handle.progress()).map(Progress::of)
    }

    /// Ends the iteration where it waits, from another thread; close() still leaves the job.
    fn cancel(&self) {
        self.closing.close();
    }

    /// Leaves the job, and waits until the dispatcher knows that and what was consumed. Raises a
    /// rondo.RondoError if it does not: other readers get again what it was not told of. Closing
    /// consumes nothing: acknowledge() what came last before, if it is consumed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.opened.check(py, "reader")?;
        self.closing.close();
        wait_for(py, async {
            let inner = self.inner.lock().await.take();
            match inner {
                Some(inner) => inner.close().await,
                None => Ok(()),
            }
        })
    }

    const fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    /// Closes it, and consumes nothing. An error of the block comes before one of the closing.
    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        let has_failed = raised.iter().next().is_some_and(|kind| !kind.is_none());
        match self.close(py) {
            Err(error) if has_failed && error.is_instance_of::<PyException>(py) => Ok(()),
            closed => closed,
        }
    }

    fn __repr__(&self) -> String {
        let job = self.job.as_ref().map(|job| format!(" for the job {job:?}")).unwrap_or_default();
        format!("<rondo.Reader of {:?}{job}>", self.dataset)
    }
}

impl Reader {
    /// Warns when a named job's pass is over and this reader got nothing of it: it may have been read before.
    fn warn_of_nothing(&self, py: Python<'_>) -> PyResult<()> {
        let Some(job) = self.job.as_ref().filter(|_| self.handle.has_read_all()) else {
            return Ok(());
        };
        if wait(py, self.handle.progress())?.report.counts.records > 0 {
            return Ok(());
        }
        let text = format!(
            "this reader got nothing: others have read this pass of the job {job:?}, now or before, or the \
             pass has no records"
        );
        // Debug text has no zero byte.
        PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &CString::new(text)?, 1)
    }

    fn delivered<'py>(&self, py: Python<'py>, delivery: Delivery) -> PyResult<Bound<'py, PyAny>> {
        Ok(match delivery.content {
            Content::Records(records) => {
                Records::of(records, delivery.identity).into_pyobject(py)?.into_any()
            }
            Content::Element(element) => {
                Element::of(element, self.spec.clone()).into_pyobject(py)?.into_any()
            }
        })
    }
}

fn not_opened(py: Python<'_>, error: &OpenError) -> PyErr {
    match error {
        OpenError::Settings(text) => invalid(py, text.as_str()),
        OpenError::Dispatcher { status, .. } => {
            raised(py, &Status::new(status.code, error.to_string()))
        }
    }
}

//! A scheduler as Python holds it.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rondo::exchange::{Error, Scheduler};
use rondo_core::exchange::message::Scope;
use rondo_core::exchange::scheduler::Settings;

use super::interface::{mask, waiting};
use super::settings::{config, sizes};
use crate::error::{raised, seconds, unfit};
use crate::waiting::Opened;

/// Knows who takes part in an exchange, in this process. `rondo exchange scheduler` is one by itself.
#[pyclass(frozen, module = "rondo")]
pub(crate) struct ExchangeScheduler {
    inner: Mutex<Option<Arc<Scheduler>>>,
    opened: Opened,
}

impl ExchangeScheduler {
    fn inner(&self, py: Python<'_>) -> PyResult<Arc<Scheduler>> {
        self.opened.check(py, "scheduler")?;
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clone().ok_or_else(|| unfit(py, "the scheduler is closed"))
    }
}

#[pymethods]
impl ExchangeScheduler {
    /// Listens at this host and port, 0 for any; where other machines can reach that, only with insecure.
    /// With takes_part, barriers with the scheduler in their mask wait for its barrier().
    #[new]
    #[pyo3(signature = (
        host = "127.0.0.1", port = 0, *, workers = None, servers = None, group = 1, takes_part = false,
        goes_on_without_lost = false, insecure = false, **bounds,
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are the keywords of Python's constructor")]
    fn new(
        py: Python<'_>,
        host: &str,
        port: u16,
        workers: Option<u32>,
        servers: Option<u32>,
        group: u32,
        takes_part: bool,
        goes_on_without_lost: bool,
        insecure: bool,
        bounds: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let sizes = sizes(py, workers, servers, group)?;
        let config = config(py, bounds)?;
        let settings = Settings { config, sizes, takes_part, goes_on_without_lost };
        let scheduler = py.detach(|| Scheduler::start(settings, host, port, insecure));
        let scheduler = scheduler.map_err(|status| raised(py, &status))?;
        Ok(Self { inner: Mutex::new(Some(Arc::new(scheduler))), opened: Opened::here() })
    }

    /// Where processes find it: "host:port".
    #[getter]
    fn address(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.inner(py)?.address().to_owned())
    }

    /// Waits until all have registered.
    fn ready(&self, py: Python<'_>) -> PyResult<()> {
        let inner = self.inner(py)?;
        waiting(py, |goes_on| inner.ready(goes_on).map_err(Error::from))
    }

    /// Waits until nobody takes part any more.
    fn ended(&self, py: Python<'_>) -> PyResult<()> {
        let inner = self.inner(py)?;
        waiting(py, |goes_on| inner.ended(goes_on).map_err(Error::from))
    }

    /// Waits at a barrier of the scheduler and these roles.
    #[pyo3(signature = (*, servers = true, workers = true, group = false, timeout = None))]
    fn barrier(
        &self,
        py: Python<'_>,
        servers: bool,
        workers: bool,
        group: bool,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let inner = self.inner(py)?;
        let mask = mask(py, servers, workers, true)?;
        let scope = if group { Scope::Group } else { Scope::Instance };
        let timeout = timeout.map(|timeout| seconds(py, "timeout", timeout)).transpose()?;
        waiting(py, |goes_on| inner.barrier(mask, scope, timeout, goes_on).map_err(Error::from))
    }

    /// Breaks its connections: processes go on for as long as they can do without. In a fork's child, which
    /// has none of them, it does nothing.
    fn close(&self, py: Python<'_>) {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(inner));
    }

    const fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) {
        self.close(py);
    }
}

//! A process of an exchange as Python holds it: its coming, going, and what all roles do.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rondo::exchange::{Error, Exchange as Inner, GoesOn};
use rondo_core::exchange::message::Scope;
use rondo_core::exchange::{Mask, MembershipVersion};

use super::settings::settings;
use super::trace::begun;
use crate::error::{invalid, peer_lost, raised, seconds, unfit};
use crate::waiting::Opened;

/// A worker or a server of an exchange. It takes part once it is made, which waits until all have come;
/// stop() leaves together with all.
#[pyclass(frozen, module = "rondo")]
pub(crate) struct Exchange {
    inner: Mutex<Option<Arc<Inner>>>,
    opened: Opened,
}

/// A membership as Python has it: its version, and each member's role, rank and state.
type Told = (u64, Vec<(String, u32, String)>);

/// Makes a call that waits without Python's lock, which is taken now and then to see signals.
///
/// # Errors
/// Why the call fails, or what a signal's handler raises.
pub(super) fn waiting<T: Send>(
    py: Python<'_>,
    call: impl FnOnce(GoesOn<'_>) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let mut signal = None;
    let mut goes_on = || match Python::attach(|py| py.check_signals()) {
        Ok(()) => true,
        Err(error) => {
            signal = Some(error);
            false
        }
    };
    let result = py.detach(|| call(&mut goes_on));
    match signal {
        Some(error) => Err(error),
        None => result.map_err(|error| failed(py, &error)),
    }
}

/// Makes a call that does not wait, without Python's lock.
pub(super) fn at_once<T: Send>(
    py: Python<'_>,
    call: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<T> {
    py.detach(call).map_err(|error| failed(py, &error))
}

/// The exception of a failure.
pub(super) fn failed(py: Python<'_>, error: &Error) -> PyErr {
    match &error.lost {
        Some(lost) => peer_lost(py, &error.status, lost),
        None => raised(py, &error.status),
    }
}

/// The roles among these.
pub(super) fn mask(
    py: Python<'_>,
    servers: bool,
    workers: bool,
    scheduler: bool,
) -> PyResult<Mask> {
    let (servers, workers) = (u32::from(servers) * 2, u32::from(workers) * 4);
    Mask::of_number(u32::from(scheduler) + servers + workers).ok_or_else(|| {
        invalid(py, "a barrier of nobody: servers, workers or the scheduler come to it")
    })
}

impl Exchange {
    /// The library's exchange.
    ///
    /// # Errors
    /// When it has stopped, or is of another process.
    pub(super) fn inner(&self, py: Python<'_>) -> PyResult<Arc<Inner>> {
        self.opened.check(py, "exchange")?;
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clone().ok_or_else(|| unfit(py, "the exchange has stopped: make another one"))
    }

    fn take(&self) -> Option<Arc<Inner>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl Exchange {
    /// Takes part; see the stubs for the settings.
    #[new]
    #[pyo3(signature = (role, scheduler, **settings))]
    fn new(
        py: Python<'_>,
        role: &str,
        scheduler: &str,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let settings = self::settings(py, role, scheduler, settings)?;
        let inner = waiting(py, |goes_on| Inner::start(settings, goes_on))?;
        let inner = Arc::new(inner);
        begun(&inner);
        Ok(Self { inner: Mutex::new(Some(inner)), opened: Opened::here() })
    }

    /// Its rank among those of its role.
    #[getter]
    fn rank(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.inner(py)?.rank().get())
    }

    /// "worker" or "server".
    #[getter]
    fn role(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.inner(py)?.role().to_string())
    }

    /// Nanoseconds of this process' clock, which the stamps of traces count too.
    fn nanoseconds(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.inner(py)?.nanos())
    }

    /// Who takes part, as far as is known here: (version, [(role, rank, state)]); None before anything is
    /// known. With after, waits until that is not the version any more.
    #[pyo3(signature = (after = None, timeout = None))]
    fn membership(
        &self,
        py: Python<'_>,
        after: Option<u64>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Told>> {
        let inner = self.inner(py)?;
        let timeout = timeout.map(|timeout| seconds(py, "timeout", timeout)).transpose()?;
        let membership = match after.map(MembershipVersion::new) {
            None => inner.membership(),
            Some(after) => Some(waiting(py, |goes_on| inner.changed(after, timeout, goes_on))?),
        };
        Ok(membership.map(|membership| {
            let members = membership.members.iter().map(|member| {
                let state = format!("{:?}", member.state).to_ascii_lowercase();
                (member.role.to_string(), member.rank.get(), state)
            });
            (membership.version.get(), members.collect())
        }))
    }

    /// Waits at a barrier for all of these roles, or, with group, for one process of each group of them.
    #[pyo3(signature = (*, servers = true, workers = true, scheduler = false, group = false, timeout = None))]
    fn barrier(
        &self,
        py: Python<'_>,
        servers: bool,
        workers: bool,
        scheduler: bool,
        group: bool,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let inner = self.inner(py)?;
        let mask = mask(py, servers, workers, scheduler)?;
        let scope = if group { Scope::Group } else { Scope::Instance };
        let timeout = timeout.map(|timeout| seconds(py, "timeout", timeout)).transpose()?;
        waiting(py, |goes_on| inner.barrier(mask, scope, timeout, goes_on))
    }

    /// Waits until everybody stops, and leaves. No other call may be under way.
    #[pyo3(signature = (timeout = None))]
    fn stop(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.opened.check(py, "exchange")?;
        let timeout = timeout.map(|timeout| seconds(py, "timeout", timeout)).transpose()?;
        let Some(inner) = self.take() else {
            return Ok(());
        };
        match Arc::try_unwrap(inner) {
            Ok(inner) => waiting(py, |goes_on| inner.stop(timeout, goes_on)),
            Err(inner) => {
                *self.inner.lock().unwrap_or_else(PoisonError::into_inner) = Some(inner);
                Err(unfit(py, "the exchange cannot stop while another thread is in a call of it"))
            }
        }
    }

    /// Breaks its connections, without leaving: the others find it lost. In a fork's child, which has none of
    /// them, it does nothing.
    fn close(&self, py: Python<'_>) {
        let inner = self.take();
        py.detach(|| drop(inner));
    }

    const fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        if raised.get_item(0).is_ok_and(|kind| kind.is_none()) {
            return self.stop(py, None);
        }
        self.close(py);
        Ok(())
    }

    fn __repr__(&self) -> String {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match inner.as_ref() {
            Some(inner) => format!("<rondo.Exchange: {} {}>", inner.role(), inner.rank()),
            None => "<rondo.Exchange: stopped>".to_owned(),
        }
    }
}

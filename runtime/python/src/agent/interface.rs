//! An agent as Python holds it: who the task is, how it stands, and its coming and going.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyType;
use rondo::agent::{Agent as Inner, Config, State, Way};
use rondo::clock::Clock;
use rondo::entropy::Entropy;
use rondo::transport::Client;
use rondo_core::ids::{Incarnation, TaskIndex};
use rondo_core::status::{Code, Status};
use rondo_core::time;

use crate::cluster::Place;
use crate::error::{code, exception, raised, seconds, unfit};
use crate::waiting::{Opened, wait_for};

/// A task of a job: it registers, shows that it lives, hears of errors, waits at barriers, and shares and
/// watches keys.
///
/// As a context manager it connects, and leaves at the end together with everybody else; after an exception
/// it tells the job of that instead, so that nobody waits in vain.
#[pyclass(frozen, module = "rondo")]
pub(crate) struct Agent {
    inner: Mutex<Option<Inner>>,
    config: Config,
    server: String,
    opened: Opened,
}

impl Agent {
    /// The library's agent.
    ///
    /// # Errors
    /// When it is closed, or of another process.
    pub(super) fn inner(&self, py: Python<'_>) -> PyResult<Inner> {
        self.opened.check(py, "agent")?;
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clone().ok_or_else(|| unfit(py, "the agent is closed: make another one"))
    }

    /// The task's job.
    pub(super) fn job_name(&self) -> &str {
        &self.config.job
    }

    /// Leaves because of this exception: the others are told, since they would wait in vain.
    fn fail(&self, py: Python<'_>, error: &Bound<'_, PyAny>) -> PyResult<()> {
        let inner = self.inner(py)?;
        if inner.state() != State::Running {
            return Ok(());
        }
        let text = format!("{}: {}", error.get_type().name()?, error.str()?);
        let told = wait_for(py, inner.report_error(Code::Aborted, &text));
        // The exception itself says more than that nobody could be told of it.
        if let Err(untold) = told {
            untold.write_unraisable(py, None);
        }
        Ok(())
    }
}

#[pymethods]
impl Agent {
    #[new]
    #[pyo3(signature = (
        server = None, task = None, *, cluster = None, job = "jax_worker", incarnation = None,
        recoverable = false, polls_for_errors = true, register_timeout = 300.0, heartbeat_timeout = 100.0,
        shutdown_timeout = 300.0, direct = false, on_error = None,
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are the keywords of Python's constructor")]
    fn new(
        py: Python<'_>,
        server: Option<String>,
        task: Option<i32>,
        cluster: Option<&Bound<'_, PyAny>>,
        job: &str,
        incarnation: Option<u64>,
        recoverable: bool,
        polls_for_errors: bool,
        register_timeout: f64,
        heartbeat_timeout: f64,
        shutdown_timeout: f64,
        direct: bool,
        on_error: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let mut place = Place::of(cluster);
        let (server, task) = (place.fill(py, "server", server)?, place.fill(py, "task", task)?);
        let mut entropy = Entropy::from_system().map_err(|error| {
            raised(py, &Status::new(Code::Unavailable, format!("no randomness to be had: {error}")))
        })?;
        let incarnation = Incarnation::new(incarnation.unwrap_or_else(|| entropy.next()));
        let config = Config {
            recoverable,
            polls_for_errors,
            register_timeout: span(seconds(py, "register_timeout", register_timeout)?),
            heartbeat_timeout: span(seconds(py, "heartbeat_timeout", heartbeat_timeout)?),
            shutdown_timeout: span(seconds(py, "shutdown_timeout", shutdown_timeout)?),
            ..Config::of(job, TaskIndex::new(task), incarnation)
        };
        let given = config.clone();
        let at = server.clone();
        let inner = wait_for(py, async move {
            let way = match direct {
                true => Way::direct(&at, std::sync::Arc::new(Client::new())),
                false => Way::surviving(&at, &mut entropy),
            };
            let inner = Inner::start(way, Clock::start(), entropy);
            inner.initialize(given, move |status| tell(on_error.as_ref(), &status)).await?;
            Ok(inner)
        })?;
        let inner = Mutex::new(Some(inner));
        Ok(Self { inner, config, server, opened: Opened::here() })
    }

    /// The server, as it was given.
    #[getter]
    fn server(&self) -> &str {
        &self.server
    }

    /// Which task of the job this is.
    #[getter]
    fn task(&self) -> i32 {
        self.config.task.get()
    }

    /// The job.
    #[getter]
    fn job(&self) -> &str {
        &self.config.job
    }

    /// This run of the task.
    #[getter]
    fn incarnation(&self) -> u64 {
        self.config.incarnation.get()
    }

    /// How it stands: "uninitialized", "disconnected", "running" or "error".
    #[getter]
    fn state(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(state_name(self.inner(py)?.state()))
    }

    /// Why it is in error, if it is.
    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.inner(py)?.error().map(|status| exception(py, &status)).transpose()
    }

    /// The life of the namespace in which it registered.
    #[getter]
    fn life(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(self.inner(py)?.life().map(|life| life.get()))
    }

    /// Registers, once everybody else does, and begins to show that the task lives. Returns the life.
    fn connect(&self, py: Python<'_>) -> PyResult<u64> {
        let inner = self.inner(py)?;
        wait_for(py, inner.connect()).map(|life| life.get())
    }

    /// Leaves, together with everybody else.
    fn shutdown(&self, py: Python<'_>) -> PyResult<()> {
        let inner = self.inner(py)?;
        wait_for(py, inner.shutdown())
    }

    /// Has the server forget this task's error, and forgets it too.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        let inner = self.inner(py)?;
        wait_for(py, inner.reset())
    }

    /// Tells the job of an error of this task, which puts this agent in error.
    fn report_error(&self, py: Python<'_>, code: &Bound<'_, PyAny>, message: &str) -> PyResult<()> {
        let (inner, code) = (self.inner(py)?, self::code(code)?);
        wait_for(py, inner.report_error(code, message))
    }

    /// Ends the agent without leaving the job: to the server the task falls silent.
    fn close(&self) {
        // Dropped, it ends. What others still wait for with clones of it ends by itself.
        drop(self.inner.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Connects, if it is not connected.
    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let py = slf.py();
        if slf.get().inner(py)?.state() == State::Disconnected {
            slf.get().connect(py)?;
        }
        Ok(slf)
    }

    #[pyo3(signature = (kind, error, traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyType>>,
        error: Option<&Bound<'_, PyAny>>,
        traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        // Python gives both, and neither says more than the exception.
        let _ = (kind, traceback);
        let is_closed = self.inner.lock().unwrap_or_else(PoisonError::into_inner).is_none();
        let left = match error {
            _ if is_closed => Ok(()),
            Some(error) => self.fail(py, error),
            None if self.inner(py)?.state() == State::Running => self.shutdown(py),
            None => Ok(()),
        };
        self.close();
        left.map(|()| false)
    }

    fn __repr__(&self) -> String {
        let (task, job, server) = (self.config.task, &self.config.job, &self.server);
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let state = inner.as_ref().map_or("closed", |inner| state_name(inner.state()));
        format!("<rondo.Agent task {task} of {job:?} at {server}: {state}>")
    }
}

/// A state's name in Python.
pub(super) const fn state_name(state: State) -> &'static str {
    match state {
        State::Uninitialized => "uninitialized",
        State::Disconnected => "disconnected",
        State::Running => "running",
        State::Error => "error",
    }
}

fn span(span: Duration) -> time::Duration {
    time::Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

/// Tells the application of an error, on a thread where it may wait for anything.
fn tell(on_error: Option<&Py<PyAny>>, status: &Status) {
    // An interpreter that ends wants to hear nothing.
    let on_error = on_error.and_then(|it| Python::try_attach(|py| it.clone_ref(py)));
    let Some(on_error) = on_error else {
        return;
    };
    let status = status.clone();
    tokio::task::spawn_blocking(move || {
        Python::try_attach(|py| {
            let told = exception(py, &status).and_then(|error| on_error.call1(py, (error,)));
            if let Err(error) = told {
                error.write_unraisable(py, Some(on_error.bind(py)));
            }
        })
    });
}

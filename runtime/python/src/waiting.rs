//! Waiting: without Python's lock, in slices between which signals are seen, on one runtime per process.

use std::future::Future;
use std::pin::pin;
use std::process;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use rondo_core::status::{Code, Status};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::error::{raised, unfit};

/// How long a Ctrl-C may go unseen.
const SLICE: Duration = Duration::from_millis(50);

/// The runtime and the process it is of: after a fork the child has none of its threads.
static RUNTIME: Mutex<Option<(u32, &'static Runtime)>> = Mutex::new(None);

/// This process's runtime, made when it is first wanted. It lives as long as the process.
///
/// # Errors
/// When the system gives no threads.
pub(crate) fn runtime(py: Python<'_>) -> PyResult<&'static Runtime> {
    // Nobody waits within: a fork, which has Python's lock as the caller has, finds it free.
    let mut made = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((process, runtime)) = *made
        && process == process::id()
    {
        return Ok(runtime);
    }
    let runtime = Builder::new_multi_thread().enable_all().thread_name("rondo").build();
    let runtime = runtime.map_err(|error| {
        raised(py, &Status::new(Code::ResourceExhausted, format!("no threads to be had: {error}")))
    })?;
    let runtime: &'static Runtime = Box::leak(Box::new(runtime));
    *made = Some((process::id(), runtime));
    Ok(runtime)
}

/// Waits for what the future comes to. Other threads of Python run meanwhile.
///
/// # Errors
/// What a signal's handler raises, such as `KeyboardInterrupt`: then the future is dropped.
pub(crate) fn wait<T: Send>(py: Python<'_>, future: impl Future<Output = T> + Send) -> PyResult<T> {
    let runtime = runtime(py)?;
    let mut future = pin!(future);
    loop {
        let slice = async { tokio::time::timeout(SLICE, future.as_mut()).await };
        match py.detach(|| runtime.block_on(slice)) {
            Ok(value) => return Ok(value),
            Err(_) => py.check_signals()?,
        }
    }
}

/// As [`wait`], and raises what is refused.
pub(crate) fn wait_for<T: Send>(
    py: Python<'_>,
    future: impl Future<Output = Result<T, Status>> + Send,
) -> PyResult<T> {
    wait(py, future)?.map_err(|status| raised(py, &status))
}

/// Where something was opened: what it has are threads and sockets of that process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened(u32);

impl Opened {
    /// Here.
    pub(crate) fn here() -> Self {
        Self(process::id())
    }

    /// # Errors
    /// When this is another process, made by a fork.
    pub(crate) fn check(self, py: Python<'_>, what: &str) -> PyResult<()> {
        let (Self(opened), here) = (self, process::id());
        if opened == here {
            return Ok(());
        }
        Err(unfit(
            py,
            format!(
                "the {what} was opened in process {opened}, and this is process {here}: open it here"
            ),
        ))
    }
}

/// Ends what waits for something, from another thread.
#[derive(Debug, Default)]
pub(crate) struct Closing(watch::Sender<bool>);

impl Closing {
    /// From now on, and whoever waits now.
    pub(crate) fn close(&self) {
        self.0.send_replace(true);
    }

    /// Waits until that.
    pub(crate) async fn closed(&self) {
        // The sender is this.
        let _ = self.0.subscribe().wait_for(|closed| *closed).await;
    }
}

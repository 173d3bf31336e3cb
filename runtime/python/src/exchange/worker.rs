//! What workers do.

use pyo3::prelude::*;
use rondo::exchange::Tensor;
use rondo::tensor::cuda::Cuda;
use rondo_core::exchange::worker::Since;
use rondo_core::exchange::{Handler, Key, ServerRank};

use super::interface::{Exchange, at_once, failed, waiting};
use super::used::Use;
use crate::error::{exception_of_lost, invalid, seconds};
use crate::tensor::{Place, TensorView};

#[pymethods]
impl Exchange {
    /// Pushes tensors to all servers, and pulls others from them: as many of each, those of server 0
    /// first. Their memory is to be let alone until the request is complete. Returns at once, with the
    /// first of the request's handlers. Tensors on GPUs are in the order of their current streams; those
    /// pushed are sent as they are if not ordered.
    #[pyo3(signature = (push_tensors, push_keys, pull_tensors, pull_keys, *, ordered = true))]
    fn exchange(
        &self,
        py: Python<'_>,
        push_tensors: &Bound<'_, PyAny>,
        push_keys: Vec<u64>,
        pull_tensors: &Bound<'_, PyAny>,
        pull_keys: Vec<u64>,
        ordered: bool,
    ) -> PyResult<u64> {
        let inner = self.inner(py)?;
        let pushes = tensors(push_tensors, "push", push_keys, Use::Sent { ordered }, inner.cuda())?;
        let pulls = tensors(pull_tensors, "pull", pull_keys, Use::Filled, inner.cuda())?;
        // SAFETY: Python's caller leaves the memory alone, as the documentation asks.
        at_once(py, || unsafe { inner.exchange(pushes, pulls) }).map(|handler| handler.get())
    }

    /// As exchange(), but pull tensors beyond a whole number for each server are ignored, as StepMesh does.
    #[pyo3(signature = (push_tensors, push_keys, pull_tensors, pull_keys, *, ordered = true))]
    fn push_pull(
        &self,
        py: Python<'_>,
        push_tensors: &Bound<'_, PyAny>,
        push_keys: Vec<u64>,
        pull_tensors: &Bound<'_, PyAny>,
        pull_keys: Vec<u64>,
        ordered: bool,
    ) -> PyResult<u64> {
        let inner = self.inner(py)?;
        let pushes = tensors(push_tensors, "push", push_keys, Use::Sent { ordered }, inner.cuda())?;
        let pulls = tensors(pull_tensors, "pull", pull_keys, Use::Filled, inner.cuda())?;
        // SAFETY: as for `exchange`.
        at_once(py, || unsafe { inner.push_pull(pushes, pulls) }).map(|handler| handler.get())
    }

    /// Waits until a request is complete, for so many seconds at most: from now on, or, with
    /// since_request, from when it was made. Then it is known no more. Returns the servers that it did
    /// without, which the policy allows, each as a PeerLost.
    #[pyo3(signature = (handler, timeout = None, *, since_request = false))]
    fn wait<'py>(
        &self,
        py: Python<'py>,
        handler: u64,
        timeout: Option<f64>,
        since_request: bool,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let inner = self.inner(py)?;
        let timeout = timeout.map(|timeout| seconds(py, "timeout", timeout)).transpose()?;
        let since = if since_request { Since::Request } else { Since::Call };
        let handler = Handler::new(handler);
        let complete = waiting(py, |goes_on| inner.wait(handler, timeout, since, goes_on))?;
        complete.missing.iter().map(|lost| exception_of_lost(py, lost)).collect()
    }

    /// Nobody will wait for a request, and nothing more is written to where it pulls to once this returns.
    /// The exchange may still read and send the tensors that the request pushes: leave their memory alone
    /// until you close the exchange.
    fn abandon(&self, py: Python<'_>, handler: u64) -> PyResult<()> {
        let inner = self.inner(py)?;
        at_once(py, || inner.abandon(Handler::new(handler)))
    }

    /// All handlers of a request that nobody has waited for; of another one, it alone.
    fn get_all_handlers(&self, py: Python<'_>, handler: u64) -> PyResult<Vec<u64>> {
        let inner = self.inner(py)?;
        let handlers = at_once(py, || inner.get_all_handlers(Handler::new(handler)))?;
        Ok(handlers.into_iter().map(|handler| handler.get()).collect())
    }

    /// When a request and its answer passed where: eight stamps in nanoseconds.
    fn fetch_trace(&self, py: Python<'_>, handler: u64) -> PyResult<Vec<u64>> {
        let inner = self.inner(py)?;
        at_once(py, || inner.fetch_trace(Handler::new(handler))).map(|stamps| stamps.get().to_vec())
    }

    /// How far the clock of a server is ahead of this process', and how far that may be wrong, in
    /// nanoseconds; None before anything is known.
    fn clock_offset(&self, py: Python<'_>, server: u32) -> PyResult<Option<(i64, u64)>> {
        let offset = self.inner(py)?.offset(ServerRank::new(server));
        let offset = offset.map_err(|error| failed(py, &error))?;
        Ok(offset.map(|offset| (offset.nanos, offset.error_nanos)))
    }
}

/// The tensors and keys of a call, each with the other.
fn tensors(
    list: &Bound<'_, PyAny>,
    what: &str,
    keys: Vec<u64>,
    used: Use,
    cuda: Option<&Cuda>,
) -> PyResult<Vec<Tensor>> {
    let (py, argument) = (list.py(), format!("{what}_tensors"));
    let views = TensorView::take_all(list, &argument)?;
    if views.len() != keys.len() {
        let (tensors, keys) = (views.len(), keys.len());
        let text =
            format!("{argument} are {tensors} and {what}_keys are {keys}: each tensor has one key");
        return Err(invalid(py, text));
    }
    let taken = views.into_iter().zip(keys).enumerate().map(|(index, (view, key))| {
        let place = Place { argument: &argument, index: Some(index) };
        let (info, payload) = (view.info, used.buffer(py, &view, place, cuda)?);
        Ok(Tensor { key: Key::new(key), info, payload })
    });
    taken.collect()
}

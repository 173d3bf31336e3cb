//! What servers do.

use pyo3::prelude::*;
use rondo::tensor::TensorBuffer;
use rondo::tensor::cuda::Cuda;
use rondo_core::exchange::server::{Partial, RowsOf};
use rondo_core::exchange::{Key, TensorInfo, UnitHandler, WorkerRank};

use super::interface::{Exchange, at_once, waiting};
use super::unit::Unit;
use super::used::Use;
use crate::error::{invalid, seconds};
use crate::tensor::{Place, TensorView};

#[pymethods]
impl Exchange {
    /// Waits for one unit of each worker, and takes them, in the order of the workers' ranks. With a
    /// timeout in seconds, DeadlineExceeded names the workers that have sent none; partial is "never",
    /// "at_deadline" (then the batch is without those) or "up_members_only" (it is without workers that do
    /// not take part at present).
    #[pyo3(signature = (timeout = None, *, partial = "never"))]
    fn get_batch(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        partial: &str,
    ) -> PyResult<Vec<Unit>> {
        let inner = self.inner(py)?;
        let timeout = timeout.map(|timeout| seconds(py, "timeout", timeout)).transpose()?;
        let partial = match partial {
            "never" => Partial::Never,
            "at_deadline" => Partial::AtDeadline,
            "up_members_only" => Partial::UpMembersOnly,
            _ => {
                let text =
                    format!("partial is {partial:?}: it is never, at_deadline or up_members_only");
                return Err(invalid(py, text));
            }
        };
        let units = waiting(py, |goes_on| inner.get_batch_within(timeout, partial, goes_on))?;
        units.into_iter().map(|unit| Unit::of(py, unit)).collect()
    }

    /// Answers a unit: one tensor for each that it pulls. Their memory is to be let alone until the worker
    /// has the answer: its next request of the same keys says so. From a GPU they are sent after what is on
    /// the current stream, or as they are if not ordered.
    #[pyo3(signature = (unit, tensors, *, ordered = true))]
    fn respond(
        &self,
        py: Python<'_>,
        unit: u64,
        tensors: &Bound<'_, PyAny>,
        ordered: bool,
    ) -> PyResult<()> {
        let inner = self.inner(py)?;
        let views = TensorView::take_all(tensors, "tensors")?;
        let taken = views.into_iter().enumerate().map(|(index, view)| {
            let place = Place { argument: "tensors", index: Some(index) };
            Ok((view.info, Use::Sent { ordered }.buffer(py, &view, place, inner.cuda())?))
        });
        let taken = taken.collect::<PyResult<Vec<_>>>()?;
        at_once(py, || inner.respond(UnitHandler::new(unit), taken))
    }

    /// Answers each unit with rows of one buffer: (unit, first row, how many).
    fn respond_rows(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        rows: Vec<(u64, u64, u64)>,
    ) -> PyResult<()> {
        let inner = self.inner(py)?;
        let buffer = one(buffer, "buffer", Use::Sent { ordered: true }, inner.cuda())?;
        let of = rows.into_iter().map(|(unit, first, rows)| {
            let unit = UnitHandler::new(unit);
            RowsOf { unit, first, rows }
        });
        let of: Vec<RowsOf> = of.collect();
        at_once(py, || inner.respond_rows(buffer, &of))
    }

    /// What a unit pushed is not read any more, though it is not answered yet: its keys may be pushed
    /// again.
    fn release(&self, py: Python<'_>, unit: u64) -> PyResult<()> {
        let inner = self.inner(py)?;
        at_once(py, || inner.release(UnitHandler::new(unit)))
    }

    /// Has pushes land in this memory, cut into as many equal slots as workers and keys are named. Leave the
    /// memory alone from now on: read a slot only from a unit that landed in it, before you answer it.
    fn register_recv_buffer(
        &self,
        py: Python<'_>,
        tensor: &Bound<'_, PyAny>,
        worker_ranks: Vec<u32>,
        push_keys: Vec<u64>,
    ) -> PyResult<()> {
        let inner = self.inner(py)?;
        let (_, region) = one(tensor, "tensor", Use::Filled, inner.cuda())?;
        let workers = worker_ranks.into_iter().map(WorkerRank::new).collect();
        let keys = push_keys.into_iter().map(Key::new).collect();
        // SAFETY: Python's caller leaves the slots alone, as the documentation asks.
        at_once(py, || unsafe { inner.register_recv_buffer(region, workers, keys) })
    }
}

/// The memory of one tensor.
fn one(
    tensor: &Bound<'_, PyAny>,
    argument: &str,
    used: Use,
    cuda: Option<&Cuda>,
) -> PyResult<(TensorInfo, TensorBuffer)> {
    let (py, place) = (tensor.py(), Place { argument, index: None });
    let view = TensorView::take(tensor, place)?;
    Ok((view.info, used.buffer(py, &view, place, cuda)?))
}

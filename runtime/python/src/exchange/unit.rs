//! A unit: all that one worker pushed in one request.

use pyo3::prelude::*;
use rondo::tensor::TensorBuffer;
use rondo_core::exchange::server::Unit as Taken;

use crate::error::raised;
use crate::tensor::{CudaTensor, HostTensor};

/// All that one worker sent in one request.
#[pyclass(frozen, get_all, module = "rondo")]
pub(crate) struct Unit {
    /// Names it when it is answered.
    handler: u64,
    /// The rank of the worker's group.
    worker: u32,
    /// What was pushed, in memory of Rondo's or of a registered buffer.
    tensors: Vec<Py<PyAny>>,
    /// The keys of those.
    keys: Vec<u64>,
    /// What is pulled: (key, bytes).
    pulls: Vec<(u64, u64)>,
}

impl Unit {
    pub(super) fn of(py: Python<'_>, unit: Taken<TensorBuffer>) -> PyResult<Self> {
        let pulls = unit.pulls.iter().map(|pull| (pull.key.get(), pull.info.bytes())).collect();
        let keys = unit.tensors.iter().map(|tensor| tensor.key.get()).collect();
        let tensors = unit.tensors.into_iter().map(|tensor| match tensor.payload {
            TensorBuffer::Host(region) => {
                let given = HostTensor::new(region, tensor.info);
                let given = given.map_err(|status| raised(py, &status))?;
                Ok(Py::new(py, given)?.into_any())
            }
            TensorBuffer::Cuda(memory) => {
                Ok(Py::new(py, CudaTensor::new(memory, tensor.info))?.into_any())
            }
        });
        let tensors = tensors.collect::<PyResult<Vec<_>>>()?;
        Ok(Self { handler: unit.handler.get(), worker: unit.worker.get(), tensors, keys, pulls })
    }
}

#[pymethods]
impl Unit {
    fn __repr__(&self) -> String {
        let (handler, worker, keys) = (self.handler, self.worker, &self.keys);
        format!("<rondo.Unit {handler} of worker {worker}: keys {keys:?}>")
    }
}

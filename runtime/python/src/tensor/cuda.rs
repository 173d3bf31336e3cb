//! Memory of GPUs in which something was received, as tensors that others see where it lies.

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rondo::tensor::TensorBuffer;
use rondo::tensor::cuda::{CudaMemory, StreamHandle};
use rondo_core::exchange::TensorInfo;
use rondo_core::status::Status;

use super::{HostTensor, dlpack, formats};
use crate::error::raised;

/// A tensor in a receive buffer on a GPU, which torch and whoever knows DLPack see where it lies.
#[pyclass(frozen, module = "rondo.tensors")]
pub(crate) struct CudaTensor {
    memory: CudaMemory,
    info: TensorInfo,
}

impl CudaTensor {
    /// A tensor in this memory.
    pub(crate) const fn new(memory: CudaMemory, info: TensorInfo) -> Self {
        Self { memory, info }
    }

    fn capsule<'py>(&self, py: Python<'py>, is_versioned: bool) -> PyResult<Bound<'py, PyAny>> {
        let dtype = formats::carrier(self.info.dtype());
        let known = formats::dlpack_of(dtype)
            .ok_or_else(|| PyBufferError::new_err(format!("DLPack has no values of {dtype}")))?;
        let buffer = TensorBuffer::Cuda(self.memory.clone());
        dlpack::capsule(py, &buffer, known, self.info.shape(), is_versioned)
    }

    /// What was received is there for this stream.
    fn before(&self, py: Python<'_>, stream: u64) -> PyResult<()> {
        // SAFETY: the library that asks for the tensor names its stream.
        let ordered = self.memory.before(unsafe { StreamHandle::from_raw(stream) });
        ordered.map_err(|error| raised(py, &Status::from(error)))
    }
}

#[pymethods]
impl CudaTensor {
    /// The address of the first byte, for the device.
    #[getter]
    const fn pointer(&self) -> u64 {
        self.memory.pointer()
    }

    /// Bytes of all values.
    #[getter]
    const fn nbytes(&self) -> u64 {
        self.info.bytes()
    }

    /// The values' type by torch's name, such as "float32".
    #[getter]
    const fn dtype(&self) -> &'static str {
        self.info.dtype().name()
    }

    /// The sizes, from the outermost to the innermost.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.info.shape())
    }

    /// The device, such as "cuda:0".
    #[getter]
    fn device(&self) -> String {
        self.memory.device().to_string()
    }

    /// A tensor of torch's in the same memory, in order with the current stream.
    fn torch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let torch = py.import("torch")?;
        let current = torch.getattr("cuda")?.call_method1("current_stream", (self.device(),))?;
        self.before(py, current.getattr("cuda_stream")?.extract()?)?;
        let given = self.capsule(py, false)?;
        let tensor =
            torch.getattr("utils")?.getattr("dlpack")?.call_method1("from_dlpack", (given,))?;
        let dtype = self.info.dtype();
        if formats::carrier(dtype) == dtype {
            return Ok(tensor);
        }
        tensor.call_method1("view", (torch.getattr(dtype.name())?,))
    }

    /// An array of NumPy's with a copy of its values.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let copied = py.detach(|| self.memory.to_host()).map_err(Status::from);
        let host = copied.and_then(|region| HostTensor::new(region, self.info));
        host.map_err(|status| raised(py, &status))?.numpy_of(py)
    }

    /// For whoever knows DLPack.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if dl_device.is_some_and(|device| device != self.__dlpack_device__()) || copy == Some(true)
        {
            let text = "memory of a GPU is given where it lies, not copied nor on another device";
            return Err(PyBufferError::new_err(text));
        }
        match stream {
            // Whoever asks has ordered his streams himself.
            Some(-1) => {}
            // No word of a stream is the default one.
            Some(..-1) => return Err(PyBufferError::new_err("no stream has a negative number")),
            None | Some(0) => self.before(py, dlpack::DEFAULT_STREAM)?,
            Some(stream) => self.before(py, stream.cast_unsigned())?,
        }
        self.capsule(py, max_version.is_some_and(|(major, _)| major >= 1))
    }

    /// For whoever knows DLPack.
    fn __dlpack_device__(&self) -> (i32, i32) {
        let number = i32::try_from(self.memory.device().0).unwrap_or(i32::MAX);
        (dlpack::DEVICE_CUDA, number)
    }

    fn __repr__(&self) -> String {
        let (dtype, shape, device) = (self.info.dtype(), self.info.shape(), self.memory.device());
        format!("<rondo.tensors.CudaTensor {dtype} {shape:?} on {device}>")
    }
}

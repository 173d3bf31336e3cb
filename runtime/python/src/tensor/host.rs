//! Memory of ours, as tensors that others see where it lies.

use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use rondo::tensor::{ALIGNMENT, Region};
use rondo_core::exchange::{ScalarType, TensorInfo};
use rondo_core::status::{Code, Status};

use super::view::{Device, Said};
use super::{dlpack, formats};
use crate::error::raised;

/// A tensor in memory of Rondo's, which NumPy, torch and whoever knows DLPack see where it lies.
#[pyclass(frozen, module = "rondo.tensors")]
pub(crate) struct HostTensor {
    region: Region,
    info: TensorInfo,
}

impl HostTensor {
    /// A tensor in this memory.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when the memory is not as large as the tensor.
    pub(crate) fn new(region: Region, info: TensorInfo) -> Result<Self, Status> {
        let (found, wanted) = (region.len(), info.bytes());
        if found as u64 == wanted {
            return Ok(Self { region, info });
        }
        let (dtype, shape) = (info.dtype(), info.shape());
        let text =
            format!("a tensor of {dtype} and the shape {shape:?} has {wanted} bytes, not {found}");
        Err(Status::new(Code::InvalidArgument, text))
    }

    /// A tensor in bytes that are shared, and so never written to.
    ///
    /// # Errors
    /// As [`HostTensor::new`], and when there is no such tensor.
    pub(crate) fn shared(bytes: Bytes, dtype: ScalarType, shape: &[i64]) -> Result<Self, Status> {
        let info = TensorInfo::new(dtype, shape);
        let info = info.map_err(|error| Status::new(Code::InvalidArgument, error.to_string()))?;
        Self::new(Region::from(bytes), info)
    }

    /// Bytes, one after the other.
    pub(crate) fn of_bytes(py: Python<'_>, bytes: Bytes) -> PyResult<Self> {
        let length = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        Self::shared(bytes, ScalarType::Byte, &[length]).map_err(|status| raised(py, &status))
    }

    /// A tensor of zeros, aligned for whoever computes on it.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when there is no memory for it.
    pub(crate) fn zeros(info: TensorInfo) -> Result<Self, Status> {
        let none = || {
            let text = format!("no {} bytes of memory for a tensor", info.bytes());
            Status::new(Code::ResourceExhausted, text)
        };
        let length = usize::try_from(info.bytes()).map_err(|_| none())?;
        let mut zeros = Vec::new();
        // Asked for in this way, memory that there is not is an error and no abort.
        zeros.try_reserve_exact(length.saturating_add(ALIGNMENT)).map_err(|_| none())?;
        zeros.resize(length.saturating_add(ALIGNMENT), 0_u8);
        let start = zeros.as_mut_ptr();
        let aligned = start.wrapping_add(start.align_offset(ALIGNMENT).min(ALIGNMENT));
        // SAFETY: from there on there are so many bytes in the vector, which stays where it is and is reached
        // by nobody else.
        let region = unsafe { Region::from_raw(aligned, length, true, Arc::new(zeros)) };
        Self::new(region, info)
    }

    /// What is to be said of it; `this` is the same in Python.
    pub(super) fn said(&self, this: &Bound<'_, PyAny>) -> Said {
        Said {
            pointer: self.pointer(),
            dtype: self.info.dtype(),
            shape: self.info.shape().to_vec(),
            strides: None,
            device: Device::Cpu,
            stream: None,
            is_writable: self.region.is_writable(),
            owner: this.clone().unbind(),
        }
    }

    /// As an array of NumPy's.
    pub(crate) fn numpy_of<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Self::numpy(&Bound::new(py, self)?)
    }
}

#[pymethods]
impl HostTensor {
    /// The address of the first byte.
    #[getter]
    fn pointer(&self) -> usize {
        self.region.as_ptr().addr()
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

    /// Whether it may be written to.
    #[getter]
    fn writable(&self) -> bool {
        self.region.is_writable()
    }

    /// For NumPy, which sees values whose type it does not have as integers.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dtype = self.info.dtype();
        let typestr =
            formats::typestr_of(dtype).or_else(|| formats::typestr_of(formats::carrier(dtype)));
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", self.shape(py)?)?;
        interface.set_item("typestr", typestr)?;
        interface.set_item("data", (self.pointer(), !self.region.is_writable()))?;
        Ok(interface)
    }

    /// An array of NumPy's in the same memory; of a type of ml_dtypes' where NumPy has none.
    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        static ASARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let (py, dtype) = (slf.py(), slf.get().info.dtype());
        let array = ASARRAY.import(py, "numpy", "asarray")?.call1((slf,))?;
        if formats::typestr_of(dtype).is_some() {
            return Ok(array);
        }
        let kind = py.import("ml_dtypes")?.getattr(dtype.name())?;
        array.call_method1("view", (kind,))
    }

    /// A tensor of torch's in the same memory. torch has no tensors that can only be read, so it gets a copy
    /// of memory that cannot be written.
    fn torch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let torch = py.import("torch")?;
        let dtype = self.info.dtype();
        // Old releases of torch know fewer types in DLPack than they have.
        let carrier = formats::carrier(dtype);
        let given = self.capsule(py, carrier, false)?;
        let tensor =
            torch.getattr("utils")?.getattr("dlpack")?.call_method1("from_dlpack", (given,))?;
        if carrier == dtype {
            return Ok(tensor);
        }
        tensor.call_method1("view", (torch.getattr(dtype.name())?,))
    }

    /// For whoever knows DLPack.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // The host's memory has no streams.
        let _ = stream;
        if dl_device.is_some_and(|(kind, _)| kind != dlpack::DEVICE_CPU) || copy == Some(true) {
            let text =
                "memory of the host is given where it lies, not copied nor on another device";
            return Err(pyo3::exceptions::PyBufferError::new_err(text));
        }
        self.capsule(py, self.info.dtype(), max_version.is_some_and(|(major, _)| major >= 1))
    }

    /// For whoever knows DLPack.
    #[expect(clippy::unused_self, reason = "a method in Python")]
    const fn __dlpack_device__(&self) -> (i32, i32) {
        (dlpack::DEVICE_CPU, 0)
    }

    fn __repr__(&self) -> String {
        let (dtype, shape) = (self.info.dtype(), self.info.shape());
        format!("<rondo.tensors.HostTensor {dtype} {shape:?}>")
    }
}

impl HostTensor {
    fn capsule<'py>(
        &self,
        py: Python<'py>,
        dtype: ScalarType,
        is_versioned: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let known = formats::dlpack_of(dtype).ok_or_else(|| {
            pyo3::exceptions::PyBufferError::new_err(format!("DLPack has no values of {dtype}"))
        })?;
        // Before version 1, DLPack could not say that memory is only to be read.
        let is_seen_in_place = is_versioned || self.region.is_writable();
        let region = if is_seen_in_place { self.region.clone() } else { copy_of(&self.region) };
        dlpack::capsule(py, &region.into(), known, self.info.shape(), is_versioned)
    }
}

/// Memory of its own with the same bytes, which can be written.
fn copy_of(region: &Region) -> Region {
    let copy = Region::allocate(region.len());
    // SAFETY: nobody else has the copy yet, and `region` is only read.
    unsafe { copy.write(0, region.bytes()) };
    copy
}

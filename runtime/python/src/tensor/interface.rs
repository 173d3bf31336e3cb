//! What Python sees of tensors by themselves.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use rondo_core::exchange::TensorInfo as Info;

use super::error::Place;
use super::formats;
use super::host::HostTensor;
use super::view::TensorView;
use crate::error::{invalid, raised};

/// A tensor as Rondo sees it: where it lies, and what it is.
#[pyclass(frozen, get_all, module = "rondo.tensors")]
pub(crate) struct TensorInfo {
    /// The address of the first byte.
    pointer: usize,
    /// Bytes of all values.
    nbytes: u64,
    /// The values' type by torch's name, such as "float32".
    dtype: &'static str,
    /// Torch's number of it, which travels with each tensor.
    scalar_type: i32,
    /// The sizes, from the outermost to the innermost.
    shape: Py<PyTuple>,
    /// Such as "cpu" or "cuda:0".
    device: String,
    /// The CUDA stream on which its values are made, for a tensor on a device.
    stream: Option<u64>,
    /// Whether it may be written to.
    writable: bool,
    /// Whose memory it is: it stays as long as this.
    owner: Py<PyAny>,
}

#[pymethods]
impl TensorInfo {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shape = self.shape.bind(py).repr()?;
        Ok(format!("<rondo.tensors.TensorInfo {} {shape} on {}>", self.dtype, self.device))
    }
}

impl TensorInfo {
    fn of(py: Python<'_>, view: TensorView) -> PyResult<Self> {
        Ok(Self {
            pointer: view.pointer,
            nbytes: view.info.bytes(),
            dtype: view.info.dtype().name(),
            scalar_type: view.info.dtype().number(),
            shape: PyTuple::new(py, view.info.shape())?.unbind(),
            device: view.device.to_string(),
            stream: view.stream,
            writable: view.is_writable,
            owner: view.owner,
        })
    }
}

/// What Rondo sees of a tensor of torch, an array of NumPy, or anything with __dlpack__. Raises
/// InvalidArgument, naming the dtype and the shape, for one that cannot be exchanged, or, with
/// writable, not be received into.
#[pyfunction]
#[pyo3(signature = (tensor, *, name = "tensor", writable = false))]
pub(super) fn describe(
    tensor: &Bound<'_, PyAny>,
    name: &str,
    writable: bool,
) -> PyResult<TensorInfo> {
    let (py, place) = (tensor.py(), Place { argument: name, index: None });
    let view = TensorView::take(tensor, place)?;
    if writable {
        view.check_writable(py, place)?;
    }
    TensorInfo::of(py, view)
}

/// As describe(), of all tensors in a list; errors name the place in it.
#[pyfunction]
#[pyo3(signature = (tensors, *, name = "tensors", writable = false))]
pub(super) fn describe_all(
    tensors: &Bound<'_, PyAny>,
    name: &str,
    writable: bool,
) -> PyResult<Vec<TensorInfo>> {
    let py = tensors.py();
    let of = |(index, view): (usize, TensorView)| {
        if writable {
            view.check_writable(py, Place { argument: name, index: Some(index) })?;
        }
        TensorInfo::of(py, view)
    };
    TensorView::take_all(tensors, name)?.into_iter().enumerate().map(of).collect()
}

/// The bytes of a tensor in the host's memory, copied: what is sent of it.
#[pyfunction]
pub(super) fn tobytes<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let (py, place) = (tensor.py(), Place { argument: "tensor", index: None });
    let view = TensorView::take(tensor, place)?;
    match view.region(py) {
        Some(region) => Ok(PyBytes::new(py, &region.to_vec())),
        None => {
            let device = view.device;
            Err(place.refused(
                py,
                format!("a tensor on {device}: its bytes are not in the host's memory"),
            ))
        }
    }
}

/// A tensor of zeros in memory of Rondo's, aligned to 64 bytes, which NumPy and torch see where it lies.
#[pyfunction]
#[pyo3(signature = (shape, dtype = "float32"))]
pub(super) fn zeros(py: Python<'_>, shape: Vec<i64>, dtype: &str) -> PyResult<HostTensor> {
    let known = formats::of_name(dtype)
        .ok_or_else(|| invalid(py, format!("dtype is {dtype:?}: a name of torch's is wanted")))?;
    let info = Info::new(known, &shape).map_err(|error| invalid(py, error.to_string()))?;
    HostTensor::zeros(info).map_err(|status| raised(py, &status))
}

//! Tensors of Python's libraries, without their libraries: taken by where they lie, and given by where
//! they lie.
//!
//! [`TensorView`] is a tensor of somebody else: torch's, by the methods that every release has; NumPy's, by
//! `__array_interface__`; anybody's, by DLPack. [`HostTensor`] is memory of ours that they may
//! see, [`CudaTensor`] memory of a GPU in which something was received.

mod cuda;
mod dlpack;
mod error;
mod formats;
mod host;
mod interface;
mod numpy;
mod torch;
mod view;

use pyo3::prelude::*;

pub(crate) use self::cuda::CudaTensor;
pub(crate) use self::error::Place;
pub(crate) use self::host::HostTensor;
pub(crate) use self::view::TensorView;

/// Adds its classes and functions.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<HostTensor>()?;
    module.add_class::<CudaTensor>()?;
    module.add_class::<interface::TensorInfo>()?;
    module.add_function(wrap_pyfunction!(interface::describe, module)?)?;
    module.add_function(wrap_pyfunction!(interface::describe_all, module)?)?;
    module.add_function(wrap_pyfunction!(interface::zeros, module)?)?;
    module.add_function(wrap_pyfunction!(interface::tobytes, module)?)
}

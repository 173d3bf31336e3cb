//! A tensor of one of Python's libraries as it lies in memory.

use std::fmt;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use rondo::tensor::cuda::{Cuda, CudaMemory, Ordinal, StreamHandle};
use rondo::tensor::{Region, TensorBuffer};
use rondo_core::exchange::{ScalarType, TensorInfo};
use rondo_core::status::Status;

use super::error::Place;
use super::host::HostTensor;
use super::{dlpack, numpy, torch};
use crate::error::raised;

/// Where a tensor's values lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// In the host's memory.
    Cpu,
    /// In that of the CUDA device with this number.
    Cuda(i32),
}

impl fmt::Display for Device {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => out.write_str("cpu"),
            Self::Cuda(number) => write!(out, "cuda:{number}"),
        }
    }
}

/// A tensor as it lies in memory: row after row, without gaps.
///
/// The memory is its owner's, which lives as long as this. What is in it changes when the owner changes it:
/// whoever reads or writes it while Python's lock is free relies on the caller to leave it alone, as the
/// exchange's contract says.
pub(crate) struct TensorView {
    /// Its first byte; for no bytes, anything.
    pub(crate) pointer: usize,
    /// The values' type, the shape, the size.
    pub(crate) info: TensorInfo,
    /// Where.
    pub(crate) device: Device,
    /// The CUDA stream (a `cudaStream_t`) on which its values are made, for a tensor on a device.
    pub(crate) stream: Option<u64>,
    /// Whether it may be written to.
    pub(crate) is_writable: bool,
    /// Whose memory it is.
    pub(crate) owner: Py<PyAny>,
}

/// What a library says of a tensor, before it is checked.
pub(super) struct Said {
    pub(super) pointer: usize,
    pub(super) dtype: ScalarType,
    pub(super) shape: Vec<i64>,
    /// In items, if they are not those of rows without gaps.
    pub(super) strides: Option<Vec<i64>>,
    pub(super) device: Device,
    pub(super) stream: Option<u64>,
    pub(super) is_writable: bool,
    pub(super) owner: Py<PyAny>,
}

impl TensorView {
    /// The tensor of a caller.
    ///
    /// # Errors
    /// InvalidArgument with the tensor's place, type and shape: when it is of no library that is known, of
    /// a type whose bytes alone do not say what they mean, not contiguous, on another device than a CUDA
    /// one, or of too many dimensions.
    pub(crate) fn take(tensor: &Bound<'_, PyAny>, place: Place<'_>) -> PyResult<Self> {
        let py = tensor.py();
        let said = if let Ok(ours) = tensor.cast::<HostTensor>() {
            ours.get().said(tensor)
        } else if let Some(said) = torch::said(tensor, place)? {
            said
        } else if let Some(said) = numpy::said(tensor, place)? {
            said
        } else if let Some(said) = dlpack::said(tensor, place)? {
            said
        } else {
            let kind = tensor.get_type().fully_qualified_name()?;
            let wanted = "a tensor of torch, an array of NumPy, or anything with __dlpack__";
            return Err(place.refused(py, format!("{kind} is no tensor: {wanted} is wanted")));
        };
        said.checked(py, place)
    }

    /// The tensors in a list of a caller.
    ///
    /// # Errors
    /// As [`TensorView::take`], and when it is no list or tuple.
    pub(crate) fn take_all(list: &Bound<'_, PyAny>, argument: &str) -> PyResult<Vec<Self>> {
        if !list.is_instance_of::<PyList>() && !list.is_instance_of::<PyTuple>() {
            let place = Place { argument, index: None };
            let kind = list.get_type().fully_qualified_name()?;
            return Err(place.refused(list.py(), format!("{kind} is no list of tensors")));
        }
        let take = |(index, tensor): (usize, PyResult<Bound<'_, PyAny>>)| {
            Self::take(&tensor?, Place { argument, index: Some(index) })
        };
        list.try_iter()?.enumerate().map(take).collect()
    }

    /// # Errors
    /// InvalidArgument when it may not be written to.
    pub(crate) fn check_writable(&self, py: Python<'_>, place: Place<'_>) -> PyResult<()> {
        if self.is_writable {
            return Ok(());
        }
        let info = Described(self.info.dtype(), self.info.shape());
        Err(place.refused(py, format!("{info} is read-only, and is to be written to")))
    }

    /// The memory. Copies of what is on a GPU wait for the stream on which it is used, if they are `ordered`.
    ///
    /// # Errors
    /// InvalidArgument when it is on a GPU and `cuda` is `None`, or there is no such GPU.
    pub(crate) fn buffer(
        &self,
        py: Python<'_>,
        place: Place<'_>,
        cuda: Option<&Cuda>,
        ordered: bool,
    ) -> PyResult<TensorBuffer> {
        if let Some(region) = self.region(py) {
            return Ok(TensorBuffer::Host(region));
        }
        let (info, device) = (Described(self.info.dtype(), self.info.shape()), self.device);
        let (Some(cuda), Device::Cuda(number)) = (cuda, device) else {
            let what = format!(
                "{info} is on {device}: give a copy of it in the host's memory, or cuda=True to Exchange"
            );
            return Err(place.refused(py, what));
        };
        let refused = |error| raised(py, &Status::from(error));
        let length = usize::try_from(self.info.bytes())?;
        let owner = Arc::new(self.owner.clone_ref(py));
        let (ordinal, pointer) = (Ordinal(u32::try_from(number)?), self.pointer as u64);
        // SAFETY: the owner, which is kept, says that so many bytes lie there, and whether they may be
        // written to.
        let memory = unsafe {
            CudaMemory::from_raw(cuda, ordinal, pointer, length, self.is_writable, owner)
        };
        let memory = memory.map_err(refused)?;
        match self.stream.filter(|_| ordered) {
            Some(stream) => {
                // SAFETY: the tensor's library names the stream on which it makes the values.
                let stream = unsafe { StreamHandle::from_raw(stream) };
                Ok(memory.after(stream).map_err(refused)?.into())
            }
            None => Ok(memory.into()),
        }
    }

    /// The memory, if it is the host's.
    pub(crate) fn region(&self, py: Python<'_>) -> Option<Region> {
        let length = usize::try_from(self.info.bytes()).ok()?;
        if self.device != Device::Cpu {
            return None;
        }
        let owner = Arc::new(self.owner.clone_ref(py));
        // SAFETY: the owner, which is kept, says that so many bytes lie there, and whether they may be
        // written to. Python's caller orders the uses of them, as the documentation asks.
        Some(unsafe { Region::from_raw(self.pointer as *mut u8, length, self.is_writable, owner) })
    }
}

impl Said {
    fn checked(self, py: Python<'_>, place: Place<'_>) -> PyResult<TensorView> {
        let info = TensorInfo::new(self.dtype, &self.shape);
        let info = info.map_err(|error| place.refused(py, error))?;
        if let Some(strides) = &self.strides
            && info.bytes() > 0
            && !is_contiguous(&self.shape, strides)
        {
            let described = Described(self.dtype, &self.shape);
            let what = format!(
                "{described} with the strides {strides:?} is not contiguous: give what contiguous() (torch) \
                 or ascontiguousarray (NumPy) makes of it"
            );
            return Err(place.refused(py, what));
        }
        if self.pointer == 0 && info.bytes() > 0 {
            let described = Described(self.dtype, &self.shape);
            return Err(place.refused(py, format!("{described} has no memory")));
        }
        let Self { pointer, device, stream, is_writable, owner, .. } = self;
        Ok(TensorView { pointer, info, device, stream, is_writable, owner })
    }
}

/// Whether values with these strides, in items, are row after row without gaps.
fn is_contiguous(shape: &[i64], strides: &[i64]) -> bool {
    let mut expected: i64 = 1;
    for (size, stride) in shape.iter().zip(strides).rev() {
        // Where there is one, the next is nowhere.
        if *size != 1 && *stride != expected {
            return false;
        }
        expected = expected.saturating_mul(*size);
    }
    true
}

/// A tensor in an error's text.
pub(super) struct Described<'a>(pub(super) ScalarType, pub(super) &'a [i64]);

impl fmt::Display for Described<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a tensor of the dtype {} and the shape {:?}", self.0, self.1)
    }
}

/// A module if the program has imported it: what has not been imported has made no tensor.
pub(super) fn imported<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    Ok(modules.get_item(name)?.filter(|module| !module.is_none()))
}

//! DLPack: tensors of any library that has it, taken and given (version 1.0 of it, and what was before).

use std::ffi::{CStr, c_void};
use std::ptr;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use rondo::tensor::TensorBuffer;
use rondo_core::exchange::ScalarType;

use super::error::Place;
use super::formats;
use super::view::{Device, Said};

/// Host memory, in DLPack's numbers of devices.
pub(super) const DEVICE_CPU: i32 = 1;
/// Memory of a CUDA device.
pub(super) const DEVICE_CUDA: i32 = 2;
/// Host memory that a CUDA device reads by itself.
const DEVICE_CUDA_HOST: i32 = 3;
/// The version of DLPack that is spoken: a newer major one is another layout.
const VERSION: (u32, u32) = (1, 0);
const FLAG_READ_ONLY: u64 = 1;
/// CUDA's default stream, in the words of DLPack.
pub(super) const DEFAULT_STREAM: u64 = 1;

const BEFORE: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

#[repr(C)]
struct DlDevice {
    kind: i32,
    number: i32,
}

#[repr(C)]
struct DlDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    dimensions: i32,
    dtype: DlDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// What a capsule named [`BEFORE`] points to.
#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// What a capsule named [`VERSIONED`] points to.
#[repr(C)]
struct ManagedVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: DlTensor,
}

/// What an object says of itself by DLPack; `None` if it does not.
///
/// The capsule is kept and never consumed: when it goes, it lets go of what it holds, as capsules do that
/// nobody has consumed.
///
/// # Errors
/// When the object refuses, or its values are of a type or on a device that is not exchanged.
pub(super) fn said(object: &Bound<'_, PyAny>, place: Place<'_>) -> PyResult<Option<Said>> {
    let py = object.py();
    if !object.hasattr("__dlpack__")? || !object.hasattr("__dlpack_device__")? {
        return Ok(None);
    }
    let (kind, number): (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
    let (device, stream) = match kind {
        DEVICE_CPU | DEVICE_CUDA_HOST => (Device::Cpu, None),
        DEVICE_CUDA => (Device::Cuda(number), Some(DEFAULT_STREAM)),
        other => {
            let what = format!(
                "a tensor on device {other} of DLPack: CPUs ({DEVICE_CPU}) and CUDA \
                 ({DEVICE_CUDA}) are exchanged"
            );
            return Err(place.refused(py, what));
        }
    };
    let capsule = capsule_of(object, stream)?.cast_into::<PyCapsule>().map_err(PyErr::from)?;
    let (tensor, is_writable) = if capsule.is_valid_checked(Some(VERSIONED)) {
        let found = capsule.pointer_checked(Some(VERSIONED))?.cast::<ManagedVersioned>();
        // SAFETY: every layout under this name begins with its version. Nothing else is looked at yet.
        let major = unsafe { (&raw const (*found.as_ptr()).major).read() };
        if major != VERSION.0 {
            let what = format!("DLPack {major} is spoken, {} is known", VERSION.0);
            return Err(place.refused(py, what));
        }
        // SAFETY: a capsule of this name and version points to this layout.
        let managed = unsafe { found.as_ref() };
        (&managed.tensor, managed.flags & FLAG_READ_ONLY == 0)
    } else {
        // What does not say whether it may be written to may not: arrays of JAX, for one, never may.
        let found = capsule.pointer_checked(Some(BEFORE))?.cast::<Managed>();
        // SAFETY: a capsule of this name, which pointer_checked has asked for, points to this layout.
        (&unsafe { found.as_ref() }.tensor, false)
    };
    let dtype = dtype_of(py, tensor, place)?;
    let shape = sizes(tensor.shape, tensor.dimensions);
    let strides = (!tensor.strides.is_null()).then(|| sizes(tensor.strides, tensor.dimensions));
    let offset = usize::try_from(tensor.byte_offset).unwrap_or(usize::MAX);
    Ok(Some(Said {
        pointer: tensor.data.addr().saturating_add(offset),
        dtype,
        shape,
        strides,
        device,
        stream,
        is_writable,
        owner: capsule.into_any().unbind(),
    }))
}

/// The object's capsule, in the newest version that both sides speak.
fn capsule_of<'py>(object: &Bound<'py, PyAny>, stream: Option<u64>) -> PyResult<Bound<'py, PyAny>> {
    let keywords = PyDict::new(object.py());
    if let Some(stream) = stream {
        keywords.set_item("stream", stream)?;
    }
    let plain = keywords.copy()?;
    keywords.set_item("max_version", VERSION)?;
    match object.call_method("__dlpack__", (), Some(&keywords)) {
        // What came before version 1 knows no such argument.
        Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => {
            object.call_method("__dlpack__", (), Some(&plain))
        }
        other => other,
    }
}

fn dtype_of(py: Python<'_>, tensor: &DlTensor, place: Place<'_>) -> PyResult<ScalarType> {
    let DlDataType { code, bits, lanes } = tensor.dtype;
    let known = formats::of_dlpack(code, bits).filter(|_| lanes == 1);
    known.ok_or_else(|| {
        let what = format!(
            "a tensor of DLPack's type code {code} with {bits} bits and {lanes} lanes, which torch has not"
        );
        place.refused(py, what)
    })
}

fn sizes(first: *const i64, count: i32) -> Vec<i64> {
    let count = usize::try_from(count).unwrap_or(0);
    if first.is_null() || count == 0 {
        return Vec::new();
    }
    // SAFETY: DLPack has so many numbers there, for as long as the capsule lives.
    unsafe { std::slice::from_raw_parts(first, count) }.to_vec()
}

/// What is given away, with all that it points to.
struct Given<M> {
    managed: M,
    shape: Vec<i64>,
    strides: Vec<i64>,
    /// Lives as long as somebody sees it.
    _buffer: TensorBuffer,
}

/// A kind of capsule.
trait Capsuled: Sized {
    const NAME: &'static CStr;
    const DESTRUCTOR: ffi::PyCapsule_Destructor;
    fn tensor(&mut self) -> &mut DlTensor;
    fn set_context(&mut self, context: *mut c_void);
}

impl Capsuled for Managed {
    const NAME: &'static CStr = BEFORE;
    const DESTRUCTOR: ffi::PyCapsule_Destructor = drop_before;

    fn tensor(&mut self) -> &mut DlTensor {
        &mut self.tensor
    }

    fn set_context(&mut self, context: *mut c_void) {
        self.context = context;
    }
}

impl Capsuled for ManagedVersioned {
    const NAME: &'static CStr = VERSIONED;
    const DESTRUCTOR: ffi::PyCapsule_Destructor = drop_versioned;

    fn tensor(&mut self) -> &mut DlTensor {
        &mut self.tensor
    }

    fn set_context(&mut self, context: *mut c_void) {
        self.context = context;
    }
}

/// A capsule through which others see this memory, in the version that they speak.
pub(super) fn capsule<'py>(
    py: Python<'py>,
    buffer: &TensorBuffer,
    (code, bits): (u8, u8),
    shape: &[i64],
    is_versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let (data, device) = place_of(buffer)?;
    let tensor = DlTensor {
        data,
        device,
        dimensions: i32::try_from(shape.len()).unwrap_or(0),
        dtype: DlDataType { code, bits, lanes: 1 },
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    };
    let context = ptr::null_mut();
    if !is_versioned {
        let managed = Managed { tensor, context, deleter: Some(delete) };
        return give(py, managed, shape, buffer.clone());
    }
    let flags = if buffer.is_writable() { 0 } else { FLAG_READ_ONLY };
    let ((major, minor), deleter) = (VERSION, Some(delete_versioned as _));
    let managed = ManagedVersioned { major, minor, context, deleter, flags, tensor };
    give(py, managed, shape, buffer.clone())
}

/// Where memory begins, and what it is of.
fn place_of(buffer: &TensorBuffer) -> PyResult<(*mut c_void, DlDevice)> {
    match buffer {
        TensorBuffer::Host(region) => {
            let device = DlDevice { kind: DEVICE_CPU, number: 0 };
            Ok((region.as_ptr().cast_mut().cast(), device))
        }
        TensorBuffer::Cuda(memory) => {
            let (number, address) =
                (i32::try_from(memory.device().0)?, usize::try_from(memory.pointer())?);
            // Only the device reads there.
            Ok((ptr::without_provenance_mut(address), DlDevice { kind: DEVICE_CUDA, number }))
        }
    }
}

fn give<'py, M: Capsuled>(
    py: Python<'py>,
    managed: M,
    shape: &[i64],
    buffer: TensorBuffer,
) -> PyResult<Bound<'py, PyAny>> {
    let (shape, strides) = (shape.to_vec(), strides_of(shape));
    let given = Box::into_raw(Box::new(Given { managed, shape, strides, _buffer: buffer }));
    // SAFETY: it was a box just now, and nobody else has it.
    let managed = unsafe {
        let (shape, strides) = ((*given).shape.as_mut_ptr(), (*given).strides.as_mut_ptr());
        let managed = &mut (*given).managed;
        (managed.tensor().shape, managed.tensor().strides) = (shape, strides);
        managed.set_context(given.cast());
        &raw mut (*given).managed
    };
    // SAFETY: Python is attached; the pointer is not null, and the destructor is that of this layout.
    unsafe {
        let capsule = ffi::PyCapsule_New(managed.cast(), M::NAME.as_ptr(), Some(M::DESTRUCTOR));
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// Row after row without gaps, in items.
fn strides_of(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    let mut next: i64 = 1;
    for (stride, size) in strides.iter_mut().zip(shape).rev() {
        *stride = next;
        next = next.saturating_mul((*size).max(1));
    }
    strides
}

/// # Safety
/// To be called once, on what [`capsule`] has made.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: the context is the box that it was made of.
    unsafe { drop(Box::from_raw((*managed).context.cast::<Given<Managed>>())) }
}

/// # Safety
/// As [`delete`].
unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: as in `delete`.
    unsafe { drop(Box::from_raw((*managed).context.cast::<Given<ManagedVersioned>>())) }
}

/// # Safety
/// Python calls it, with a capsule that [`capsule`] has made.
unsafe extern "C" fn drop_before(capsule: *mut ffi::PyObject) {
    // SAFETY: whoever has consumed it has given it another name, and deletes it.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, BEFORE.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, BEFORE.as_ptr()).cast());
        }
    }
}

/// # Safety
/// As [`drop_before`].
unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as in `drop_before`.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}

//! Tensors of libtorch, by `tch`. One in the host's memory is sent by one copy, or without one if its owner
//! promises to leave it alone ([`share_torch`]). One that is received costs one copy, be it into the host's
//! memory or onto a GPU.
//!
//! A crate of its own, outside the workspace, which needs no libtorch then
//! (`docs/decisions/0010-libtorch-in-a-crate-of-its-own.md`). libtorch itself is found at build time
//! (`LIBTORCH`) and its CUDA part at run time: [`load_cuda`].

mod buffer;

use std::ffi::c_void;
use std::slice;
use std::sync::OnceLock;

use bytes::Bytes;
use rondo_core::element::{Dtype, Shape, Tensor, TensorError, Values};
use rondo_tensor::HostBuffer;
use rondo_tensor::cuda::CudaError;
use tch::{Device, Kind, TchError};
use thiserror::Error;

pub use buffer::{buffer_of, tensor_in};

/// libtorch's CUDA part.
const CUDA_LIBRARY: &str = "libtorch_cuda.so";

/// Why a tensor cannot be taken from libtorch, or given to it.
#[derive(Debug, Error)]
pub enum TorchError {
    /// There is no such type on the other side.
    #[error("libtorch has no type for {dtype}")]
    NoKind {
        /// The type.
        dtype: Dtype,
    },
    /// There is no such type here.
    #[error(
        "tensors of libtorch's type {kind:?} cannot be sent: their bytes alone do not say what they mean"
    )]
    NoDtype {
        /// The type.
        kind: Kind,
    },
    /// The values do not stand one after the other.
    #[error(
        "the tensor of the shape {shape:?} is not contiguous: send what contiguous() makes of it"
    )]
    NotContiguous {
        /// Its shape.
        shape: Vec<i64>,
    },
    /// It has no values in a row.
    #[error("the tensor is sparse: send what to_dense() makes of it")]
    Sparse,
    /// It does not fit its shape and type.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// Its shape is none that a tensor here can have.
    #[error("the shape {shape:?} is not one that can be sent: {what}")]
    Shape {
        /// The shape.
        shape: Vec<i64>,
        /// What is wrong.
        what: String,
    },
    /// What is wrong with a tensor, and which that is.
    #[error("{name}: {error}")]
    Named {
        /// What the caller calls it.
        name: String,
        /// What is wrong.
        error: Box<Self>,
    },
    /// It is where nothing can be sent from.
    #[error(
        "the tensor is on {device:?}: the host and, with its CUDA driver loaded, GPUs are exchanged"
    )]
    Elsewhere {
        /// Where it is.
        device: Device,
    },
    /// Memory that is no such tensor.
    #[error("{found} bytes are not a tensor of {kind:?} with the shape {shape:?}")]
    Bytes {
        /// The type.
        kind: Kind,
        /// The shape.
        shape: Vec<i64>,
        /// Bytes that there are.
        found: usize,
    },
    /// The GPU's driver says so.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// libtorch says so.
    #[error("libtorch: {0}")]
    Torch(#[from] TchError),
}

/// Loads libtorch's CUDA part, which linkers leave out because nothing names it. To be called before
/// anything else of libtorch; whether there is a GPU that can be used.
pub fn load_cuda() -> bool {
    static LOADED: OnceLock<Option<libloading::os::unix::Library>> = OnceLock::new();
    let flags = libloading::os::unix::RTLD_NOW | libloading::os::unix::RTLD_GLOBAL;
    let load = || {
        // SAFETY: the library's initializers register a backend with libtorch, which is loaded, and are
        // meant to be run by whoever opens it. It is never closed.
        let library = unsafe { libloading::os::unix::Library::open(Some(CUDA_LIBRARY), flags) };
        library.inspect_err(|error| tracing::info!(%error, "no GPU is used")).ok()
    };
    LOADED.get_or_init(load).is_some() && tch::Cuda::is_available()
}

/// The type of libtorch's tensors that has these values.
///
/// # Errors
/// When there is none.
pub fn kind_of(dtype: Dtype) -> Result<Kind, TorchError> {
    KINDS
        .iter()
        .find(|(it, _)| *it == dtype)
        .map(|(_, kind)| *kind)
        .ok_or(TorchError::NoKind { dtype })
}

/// The type of tensors that have the values of libtorch's.
///
/// # Errors
/// When there is none. Quantized tensors have a scale beside their values.
pub fn dtype_of(kind: Kind) -> Result<Dtype, TorchError> {
    KINDS
        .iter()
        .find(|(_, it)| *it == kind)
        .map(|(dtype, _)| *dtype)
        .ok_or(TorchError::NoDtype { kind })
}

const KINDS: [(Dtype, Kind); 15] = [
    (Dtype::Float, Kind::Float),
    (Dtype::Double, Kind::Double),
    (Dtype::Int32, Kind::Int),
    (Dtype::Uint8, Kind::Uint8),
    (Dtype::Int16, Kind::Int16),
    (Dtype::Int8, Kind::Int8),
    (Dtype::Complex64, Kind::ComplexFloat),
    (Dtype::Int64, Kind::Int64),
    (Dtype::Bool, Kind::Bool),
    (Dtype::Bfloat16, Kind::BFloat16),
    (Dtype::Complex128, Kind::ComplexDouble),
    (Dtype::Half, Kind::Half),
    (Dtype::Float8E5m2, Kind::Float8e5m2),
    (Dtype::Float8E4m3fn, Kind::Float8e4m3fn),
    (Dtype::Float8E5m2fnuz, Kind::Float8e5m2fnuz),
];

/// A tensor to send: a copy of this one. From a GPU it is copied after all that was begun on the current
/// stream. [`share_torch`] does not copy.
///
/// # Errors
/// When its values do not stand one after the other, or their type has no name here.
pub fn from_torch(tensor: &tch::Tensor) -> Result<Tensor, TorchError> {
    // SAFETY: the values are copied before this returns, or have come from a GPU by a copy.
    let shared = unsafe { share_torch(tensor)? };
    let Values::Fixed(bytes) = shared.values() else { return Ok(shared) };
    match tensor.device() {
        Device::Cpu => {
            let copy = HostBuffer::copy_of(bytes).bytes().clone();
            Ok(Tensor::fixed(shared.dtype(), shared.shape().clone(), copy)?)
        }
        _ => Ok(shared),
    }
}

/// A tensor to send. In the host's memory it is not copied: the memory is kept as long as the result is. On
/// a GPU it is copied to the host, once, after all that was begun on the current stream.
///
/// # Errors
/// As [`from_torch`].
///
/// # Safety
/// libtorch writes its tensors through shared references. As long as the result lives, nobody writes the
/// tensor, or another one that shares its memory.
pub unsafe fn share_torch(tensor: &tch::Tensor) -> Result<Tensor, TorchError> {
    if tensor.is_sparse() {
        return Err(TorchError::Sparse);
    }
    let (dtype, sizes) = (dtype_of(tensor.f_kind()?)?, tensor.size());
    if !tensor.is_contiguous() {
        return Err(TorchError::NotContiguous { shape: sizes });
    }
    let shape = shape_of(sizes)?;
    let on_host = match tensor.device() {
        Device::Cpu => tensor.shallow_clone(),
        _ => tensor.f_to_device(Device::Cpu)?,
    };
    Ok(Tensor::fixed(dtype, shape, Bytes::from_owner(OnHost::of(on_host)))?)
}

/// A tensor of libtorch with these values, on this device: one copy.
///
/// # Errors
/// When libtorch has no such type, or no room on the device.
pub fn to_torch(tensor: &Tensor, device: Device) -> Result<tch::Tensor, TorchError> {
    let (kind, sizes) = (kind_of(tensor.dtype())?, sizes_of(tensor.shape()));
    let Values::Fixed(bytes) = tensor.values() else {
        return Err(TorchError::NoKind { dtype: tensor.dtype() });
    };
    if device == Device::Cpu {
        return Ok(tch::Tensor::f_from_data_size(bytes, &sizes, kind)?);
    }
    // SAFETY: the blob has as many bytes as type and shape take, which the tensor was checked for. It is
    // only read, and only until the copy to the device is done, which ends before this does.
    let blob = unsafe { tch::Tensor::f_from_blob(bytes.as_ptr(), &sizes, &[], kind, Device::Cpu)? };
    Ok(blob.f_to_device(device)?)
}

fn shape_of(sizes: Vec<i64>) -> Result<Shape, TorchError> {
    let shape = Shape::of(sizes.iter().copied());
    shape.map_err(|error| TorchError::Shape { what: error.to_string(), shape: sizes })
}

fn sizes_of(shape: &Shape) -> Vec<i64> {
    shape.sizes().iter().map(|size| i64::try_from(*size).unwrap_or(i64::MAX)).collect()
}

/// The memory of a contiguous tensor on the host.
struct OnHost {
    /// Holds the memory.
    _tensor: tch::Tensor,
    from: *const c_void,
    length: usize,
}

// SAFETY: the memory belongs to the tensor, which may be moved to other threads, and goes with it.
unsafe impl Send for OnHost {}

impl OnHost {
    fn of(tensor: tch::Tensor) -> Self {
        let width = tensor.kind().elt_size_in_bytes();
        let from = tensor.data_ptr().cast_const();
        Self { length: tensor.numel().saturating_mul(width), from, _tensor: tensor }
    }
}

impl AsRef<[u8]> for OnHost {
    fn as_ref(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: a contiguous tensor has its values in a row from there on, as many bytes as they take,
        // and keeps them as long as it is held here.
        unsafe { slice::from_raw_parts(self.from.cast(), self.length) }
    }
}

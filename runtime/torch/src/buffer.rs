//! The memory of libtorch's tensors where it lies, on the host and on GPUs.

use std::sync::Arc;

use rondo_tensor::cuda::{Cuda, CudaMemory, Ordinal, StreamHandle};
use rondo_tensor::{Region, TensorBuffer};
use tch::{Device, Kind};

use crate::TorchError;

/// The memory of a tensor, to be sent from and received into, of whatever type it is. Nothing is copied, and
/// the tensor is kept as long as its memory is. On a GPU, copies of it are in the order of `stream`: the
/// current one of the caller, by which `tch` has made it.
///
/// # Errors
/// [`TorchError::Named`], which says that it is `name`: when its values do not stand one after the other,
/// when it is on a GPU and `cuda` is `None`, or on a device that is neither a GPU nor the host.
///
/// # Safety
/// libtorch writes its tensors through shared references. As long as the buffer lives, nobody writes the
/// tensor, or another one that shares its memory, while the buffer is read; and nobody uses either while
/// the buffer is written.
pub unsafe fn buffer_of(
    name: &str,
    tensor: &tch::Tensor,
    cuda: Option<&Cuda>,
    stream: Option<StreamHandle>,
) -> Result<TensorBuffer, TorchError> {
    let named = |error| TorchError::Named { name: name.to_owned(), error: Box::new(error) };
    // SAFETY: the caller promises what `buffer` asks for.
    unsafe { buffer(tensor, cuda, stream) }.map_err(named)
}

/// # Safety
/// As [`buffer_of`].
unsafe fn buffer(
    tensor: &tch::Tensor,
    cuda: Option<&Cuda>,
    stream: Option<StreamHandle>,
) -> Result<TensorBuffer, TorchError> {
    if tensor.is_sparse() {
        return Err(TorchError::Sparse);
    }
    if !tensor.is_contiguous() {
        return Err(TorchError::NotContiguous { shape: tensor.size() });
    }
    let width = tensor.f_kind()?.elt_size_in_bytes();
    let length = tensor.numel().saturating_mul(width);
    let (start, owner) = (tensor.data_ptr(), Arc::new(Kept(tensor.shallow_clone())));
    let (number, cuda) = match (tensor.device(), cuda) {
        (Device::Cpu, _) => {
            // SAFETY: a contiguous tensor has so many bytes there, which stay as long as it is kept. The
            // caller promises the rest.
            let region = unsafe { Region::from_raw(start.cast(), length, true, owner) };
            return Ok(TensorBuffer::Host(region));
        }
        (Device::Cuda(number), Some(cuda)) => (number, cuda),
        (device, _) => return Err(TorchError::Elsewhere { device }),
    };
    let ordinal = Ordinal(u32::try_from(number).unwrap_or(u32::MAX));
    // SAFETY: as above, for the device.
    let memory =
        unsafe { CudaMemory::from_raw(cuda, ordinal, start.addr() as u64, length, true, owner) }?;
    Ok(TensorBuffer::Cuda(match stream {
        Some(stream) => memory.after(stream)?,
        None => memory,
    }))
}

/// A tensor in memory that is not libtorch's, where it lies. On a GPU, what was received into it is to be
/// waited for before ([`CudaMemory::before`], [`CudaMemory::wait`]).
///
/// # Errors
/// [`TorchError::Bytes`] when type and shape take more or fewer bytes than there are.
///
/// # Safety
/// The memory stays, and nobody writes it whom the caller does not know of, as long as the tensor is used,
/// or any other that shares its memory: libtorch does not keep it.
pub unsafe fn tensor_in(
    buffer: &TensorBuffer,
    kind: Kind,
    sizes: &[i64],
) -> Result<tch::Tensor, TorchError> {
    let elements = sizes.iter().try_fold(1_usize, |all, size| {
        usize::try_from(*size).ok().and_then(|size| all.checked_mul(size))
    });
    let wanted = elements.and_then(|all| all.checked_mul(kind.elt_size_in_bytes()));
    let found = buffer.len();
    if wanted != Some(found) {
        return Err(TorchError::Bytes { kind, shape: sizes.to_vec(), found });
    }
    let (start, device) = match buffer {
        TensorBuffer::Host(region) => (region.as_ptr(), Device::Cpu),
        TensorBuffer::Cuda(memory) => {
            let number = usize::try_from(memory.device().0).unwrap_or(usize::MAX);
            let pointer = usize::try_from(memory.pointer()).unwrap_or_default();
            (std::ptr::without_provenance(pointer), Device::Cuda(number))
        }
    };
    // SAFETY: so many bytes are there; the caller sees to the rest.
    Ok(unsafe { tch::Tensor::f_from_blob(start, sizes, &[], kind, device)? })
}

/// A tensor that is only kept.
struct Kept(#[expect(dead_code, reason = "kept for its memory")] tch::Tensor);

// SAFETY: a tensor may be dropped on any thread, and nothing else is done with it.
unsafe impl Sync for Kept {}

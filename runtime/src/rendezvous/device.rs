//! Tensors that come onto GPUs, and from them.

use std::time::Duration;

use rondo_core::element::{Dtype, Shape, Tensor, Values};
use rondo_core::rendezvous::{Args, Delivery, Key, Value};
use rondo_core::status::{Code, Status};
use rondo_proto::convert::content_of_fetch_chunk;

use super::manager::Ways;
use super::remote::RemoteRendezvous;
use crate::tensor::cuda::{Cuda, CudaMemory, Ordinal, StreamHandle};
use crate::tensor::{HostBuffer, Region};
use crate::transport::Client;

/// A tensor on a GPU.
#[derive(Clone, Debug)]
pub struct CudaTensor {
    dtype: Dtype,
    shape: Shape,
    memory: CudaMemory,
}

impl CudaTensor {
    /// A tensor in this memory.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when it has not as many bytes as type and shape take.
    pub fn new(dtype: Dtype, shape: Shape, memory: CudaMemory) -> Result<Self, Status> {
        let width = dtype.width().ok_or_else(|| no_width(dtype))?;
        let elements = shape.sizes().iter().try_fold(1_u64, |all, size| all.checked_mul(*size));
        let wanted = elements.and_then(|elements| elements.checked_mul(width));
        if wanted == Some(memory.len() as u64) {
            return Ok(Self { dtype, shape, memory });
        }
        let text = format!("{memory:?} are not a tensor of {dtype} with the shape {shape:?}");
        Err(Status::new(Code::InvalidArgument, text))
    }

    /// Its type.
    pub const fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Its shape.
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Its memory.
    pub const fn memory(&self) -> &CudaMemory {
        &self.memory
    }
}

impl Ways {
    /// As the default, for a process whose tensors go to this GPU: long ones are read into memory that it
    /// reads by itself, as far as there is some.
    pub fn onto(cuda: Cuda, device: Ordinal) -> Self {
        let content = |begin: &[u8]| content_of_fetch_chunk(begin).unwrap_or(0);
        let long = Client::of_tensors_onto(content, cuda, device);
        Self { long: std::sync::Arc::new(long), ..Self::default() }
    }
}

impl RemoteRendezvous {
    /// As [`RemoteRendezvous::recv`], onto a GPU, by one copy, which is under way when this returns: the
    /// stream that `args` name as device context waits for it, and who names none (0) waits for it himself
    /// ([`CudaMemory::wait`]). `place` gives the memory for what has come.
    ///
    /// # Errors
    /// As [`RemoteRendezvous::recv`]; INVALID_ARGUMENT for texts, which are the host's; what `place` says;
    /// RESOURCE_EXHAUSTED without pinned memory to copy it from.
    ///
    /// # Safety
    /// The device context of `args` is 0, or a stream of the GPU that lives until this has returned.
    pub async unsafe fn recv_onto(
        &self,
        key: &Key,
        args: Args,
        timeout: Option<Duration>,
        place: impl FnOnce(&Tensor) -> Result<CudaMemory, Status>,
    ) -> Result<Delivery<CudaTensor>, Status> {
        let Delivery { value, sent, received } = self.recv(key, args, timeout).await?;
        let Value { tensor, bytes, is_dead } = value;
        let (dtype, shape) = (tensor.dtype(), tensor.shape().clone());
        let Values::Fixed(values) = tensor.values() else { return Err(no_width(dtype)) };
        let on_gpu = CudaTensor::new(dtype, shape, place(&tensor)?)?;
        on_gpu.memory.fill(Region::from(values.clone()))?;
        if args.device_context != 0 {
            // SAFETY: the caller promises it.
            on_gpu.memory.before(unsafe { StreamHandle::from_raw(args.device_context) })?;
        }
        Ok(Delivery { value: Value { tensor: on_gpu, bytes, is_dead }, sent, received })
    }

    /// As [`RemoteRendezvous::send`], from a GPU, by one copy, which is waited for: it is made after what
    /// is on the stream now that `args` name as device context, if they do (not 0).
    ///
    /// # Errors
    /// As [`RemoteRendezvous::send`]; RESOURCE_EXHAUSTED without pinned memory to copy it to.
    ///
    /// # Safety
    /// The device context of `args` is 0, or a stream of the GPU that lives until this has returned.
    pub unsafe fn send_from(
        &self,
        key: &Key,
        args: Args,
        tensor: &CudaTensor,
        is_dead: bool,
    ) -> Result<(), Status> {
        let memory = match args.device_context {
            0 => tensor.memory.anew(),
            // SAFETY: the caller promises it.
            stream => tensor.memory.after(unsafe { StreamHandle::from_raw(stream) })?,
        };
        let staged = memory.to_host()?;
        // What waits for its receiver holds no pinned memory.
        // SAFETY: it was just made, and nobody writes it.
        let values = HostBuffer::copy_of(unsafe { staged.bytes() });
        let host = Tensor::fixed(tensor.dtype, tensor.shape.clone(), values.bytes().clone());
        let host = host.map_err(|error| Status::new(Code::Internal, error.to_string()))?;
        self.send(key, args, host, is_dead)
    }
}

fn no_width(dtype: Dtype) -> Status {
    let text = format!("tensors of {dtype} are in the host's memory: no GPU has such values");
    Status::new(Code::InvalidArgument, text)
}

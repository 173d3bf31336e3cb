//! Memory of a tensor, wherever it lies.

use crate::Region;
use crate::cuda::{CudaError, CudaMemory};

/// Memory of a tensor, read and written where it lies. A clone refers to the same memory. The memory stays
/// as long as one clone does.
#[derive(Clone, Debug)]
pub enum TensorBuffer {
    /// In the host's memory.
    Host(Region),
    /// On a GPU.
    Cuda(CudaMemory),
}

impl TensorBuffer {
    /// How many bytes it has.
    pub const fn len(&self) -> usize {
        match self {
            Self::Host(region) => region.len(),
            Self::Cuda(memory) => memory.len(),
        }
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it can be written.
    pub const fn is_writable(&self) -> bool {
        match self {
            Self::Host(region) => region.is_writable(),
            Self::Cuda(memory) => memory.is_writable(),
        }
    }

    /// A part of it; `None` if it has no such part.
    pub fn part(&self, offset: usize, length: usize) -> Option<Self> {
        match self {
            Self::Host(region) => region.part(offset, length).map(Self::Host),
            Self::Cuda(memory) => memory.part(offset, length).map(Self::Cuda),
        }
    }

    /// The host's memory that it is in; `None` on a GPU.
    pub const fn host(&self) -> Option<&Region> {
        match self {
            Self::Host(region) => Some(region),
            Self::Cuda(_) => None,
        }
    }

    /// The GPU's memory that it is in; `None` on the host.
    pub const fn cuda(&self) -> Option<&CudaMemory> {
        match self {
            Self::Host(_) => None,
            Self::Cuda(memory) => Some(memory),
        }
    }

    /// Its bytes on the host: where they are, or by one copy from a GPU, which is waited for.
    ///
    /// # Errors
    /// As [`CudaMemory::to_host`].
    pub fn to_host(&self) -> Result<Region, CudaError> {
        match self {
            Self::Host(region) => Ok(region.clone()),
            Self::Cuda(memory) => memory.to_host(),
        }
    }

    /// Copies memory of the same length from the host. A copy onto the host is done when this returns. A
    /// copy onto a GPU has begun.
    ///
    /// # Errors
    /// As [`CudaMemory::fill`]; on the host, [`CudaError::Length`] if less was written.
    ///
    /// # Safety
    /// On the host, nobody else reads or writes this memory meanwhile, and `from` either begins where it
    /// begins or has no byte in common with it.
    pub unsafe fn fill(&self, from: Region) -> Result<(), CudaError> {
        match self {
            Self::Cuda(memory) => memory.fill(from),
            Self::Host(region) if region.as_ptr() == from.as_ptr() => Ok(()),
            Self::Host(region) => {
                let wanted = from.len();
                // SAFETY: the caller promises it; `from` is only read.
                let written = unsafe { region.write(0, from.bytes()) };
                match written == wanted {
                    true => Ok(()),
                    false => Err(CudaError::Length { from: wanted, to: written }),
                }
            }
        }
    }
}

impl From<Region> for TensorBuffer {
    fn from(region: Region) -> Self {
        Self::Host(region)
    }
}

impl From<CudaMemory> for TensorBuffer {
    fn from(memory: CudaMemory) -> Self {
        Self::Cuda(memory)
    }
}

//! Why GPU memory cannot be used as was asked.

use rondo_core::status::{Code, Status};
use thiserror::Error;

use super::driver::{CallError, Ordinal, Uuid};

/// Why GPU memory cannot be used as was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CudaError {
    /// The driver is not on this machine.
    #[error(
        "no CUDA driver: {looked_for} is not found ({what}); the NVIDIA driver brings it, and containers \
         get it from their runtime"
    )]
    NoDriver {
        /// The library.
        looked_for: &'static str,
        /// What is missing.
        what: String,
    },
    /// There is no such device.
    #[error(
        "there is no device {asked}: this process sees {count}, numbered from 0 on \
         (CUDA_VISIBLE_DEVICES)"
    )]
    NoDevice {
        /// What was asked for.
        asked: Ordinal,
        /// How many there are.
        count: usize,
    },
    /// A device of another process that this one does not see.
    #[error(
        "this process does not see {device} (CUDA_VISIBLE_DEVICES), on which another has memory"
    )]
    NotSeen {
        /// The device.
        device: Uuid,
    },
    /// Memory of another process that is not as it was named.
    #[error("{length} bytes from {offset} on are not in an allocation of {bytes}")]
    NotThere {
        /// Where it should begin.
        offset: u64,
        /// Bytes that it should have.
        length: u64,
        /// Bytes that there are.
        bytes: u64,
    },
    /// A device is full.
    #[error("no {bytes} bytes on {device}: {free} of {total} are free")]
    OutOfMemory {
        /// The device.
        device: Ordinal,
        /// What was asked for.
        bytes: usize,
        /// What is free.
        free: u64,
        /// What there is.
        total: u64,
    },
    /// The bound of pinned memory is reached.
    #[error(
        "no {bytes} bytes of pinned memory: {used} of at most {max} (staging_bytes_max) are in use"
    )]
    NoStaging {
        /// What was asked for.
        bytes: usize,
        /// What is used.
        used: usize,
        /// The bound.
        max: usize,
    },
    /// A copy between places of different lengths.
    #[error("{from} bytes cannot be copied to a place of {to}")]
    Length {
        /// What there is.
        from: usize,
        /// Room for it.
        to: usize,
    },
    /// Memory that is only to be read.
    #[error("memory on {device} cannot be written")]
    ReadOnly {
        /// The device.
        device: Ordinal,
    },
    /// The driver refuses.
    #[error("CUDA on {device}: {error}")]
    Call {
        /// The device.
        device: Ordinal,
        /// What it says.
        error: CallError,
    },
}

impl CudaError {
    fn code(&self) -> Code {
        match self {
            Self::NoDriver { .. } | Self::NotSeen { .. } => Code::FailedPrecondition,
            Self::NoDevice { .. }
            | Self::NotThere { .. }
            | Self::Length { .. }
            | Self::ReadOnly { .. } => Code::InvalidArgument,
            Self::OutOfMemory { .. } | Self::NoStaging { .. } => Code::ResourceExhausted,
            Self::Call { .. } => Code::Internal,
        }
    }
}

impl From<CudaError> for Status {
    fn from(error: CudaError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

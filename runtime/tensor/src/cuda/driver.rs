//! What is asked of a CUDA driver, and how: a trait, so that who orders copies and events can be tested
//! where there is no GPU.

use std::fmt;
use std::ptr::NonNull;

use thiserror::Error;

/// A device of this process by its number, from 0 on, as `CUDA_VISIBLE_DEVICES` leaves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ordinal(pub u32);

impl fmt::Display for Ordinal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "cuda:{}", self.0)
    }
}

/// What a device is called by all processes of its host, whatever number it has there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("GPU-")?;
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// A stream of a device: a `CUstream` or `cudaStream_t`, such as torch's `Stream.cuda_stream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamHandle(u64);

impl StreamHandle {
    /// The default stream, which every device has.
    pub const DEFAULT: Self = Self(0);

    /// A stream that somebody has made. The driver follows the handle as a pointer.
    ///
    /// # Safety
    /// The handle is 0, or that of a stream that lives as long as this is used. The stream belongs to the
    /// device whose memory it is used with.
    pub const unsafe fn from_raw(handle: u64) -> Self {
        Self(handle)
    }

    /// The handle as a number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// An event of a device: a `CUevent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventHandle(pub u64);

/// A name of an allocation by which another process of the host can open it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpcHandle(pub [u8; 64]);

/// A copy on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copy {
    /// From pinned memory to the device.
    ToDevice {
        /// An address on the device.
        to: u64,
        /// An address in pinned memory.
        from: usize,
        /// Bytes.
        length: usize,
    },
    /// From the device to pinned memory.
    ToHost {
        /// An address in pinned memory.
        to: usize,
        /// An address on the device.
        from: u64,
        /// Bytes.
        length: usize,
    },
    /// From one place of devices' memory to another.
    Within {
        /// An address on the device.
        to: u64,
        /// An address on this device, or one that was opened.
        from: u64,
        /// Bytes.
        length: usize,
    },
}

/// What the driver says to a call that fails.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{call} failed: {name} ({code})")]
pub struct CallError {
    /// The driver's function.
    pub call: &'static str,
    /// Its `CUresult`.
    pub code: u32,
    /// The name of that.
    pub name: String,
}

impl CallError {
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    pub const OUT_OF_MEMORY: u32 = 2;
}

/// A CUDA driver. Devices are named by ordinals below the number of [`Driver::devices`]. Nothing is
/// changed that other code of the process sees, such as its current device.
pub trait Driver: Send + Sync + fmt::Debug {
    /// The devices of this process.
    ///
    /// # Errors
    /// What the driver says; so for all others.
    fn devices(&self) -> Result<Vec<Uuid>, CallError>;

    /// Memory on a device: its address.
    ///
    /// # Errors
    /// With [`CallError::OUT_OF_MEMORY`] if there is none.
    fn allocate(&self, device: Ordinal, bytes: usize) -> Result<u64, CallError>;

    /// Gives memory back.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Safety
    /// It was allocated here, and nothing uses it any more.
    unsafe fn free(&self, device: Ordinal, pointer: u64) -> Result<(), CallError>;

    /// Bytes of a device's memory that are free, and all.
    ///
    /// # Errors
    /// What the driver says.
    fn room(&self, device: Ordinal) -> Result<(u64, u64), CallError>;

    /// Host memory that devices copy to and from by themselves.
    ///
    /// # Errors
    /// With [`CallError::OUT_OF_MEMORY`] if there is none.
    fn pin(&self, device: Ordinal, bytes: usize) -> Result<NonNull<u8>, CallError>;

    /// Gives pinned memory back.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Safety
    /// It was pinned here, and nothing uses it any more.
    unsafe fn unpin(&self, device: Ordinal, start: NonNull<u8>) -> Result<(), CallError>;

    /// A stream of its own, which does not wait for the default stream.
    ///
    /// # Errors
    /// What the driver says.
    fn begin_stream(&self, device: Ordinal) -> Result<StreamHandle, CallError>;

    /// Ends a stream once all on it is done.
    ///
    /// # Errors
    /// What the driver says.
    fn end_stream(&self, device: Ordinal, stream: StreamHandle) -> Result<(), CallError>;

    /// An event that nothing was recorded for: it counts as done.
    ///
    /// # Errors
    /// What the driver says.
    fn make_event(&self, device: Ordinal) -> Result<EventHandle, CallError>;

    /// Ends an event.
    ///
    /// # Errors
    /// What the driver says.
    fn end_event(&self, device: Ordinal, event: EventHandle) -> Result<(), CallError>;

    /// The event is done when all is that is on this stream now.
    ///
    /// # Errors
    /// What the driver says.
    fn record(
        &self,
        device: Ordinal,
        event: EventHandle,
        stream: StreamHandle,
    ) -> Result<(), CallError>;

    /// Whether an event is done.
    ///
    /// # Errors
    /// What the driver says, and what went wrong on the stream before.
    fn is_done(&self, device: Ordinal, event: EventHandle) -> Result<bool, CallError>;

    /// Waits until it is, on this thread.
    ///
    /// # Errors
    /// As [`Driver::is_done`].
    fn wait(&self, device: Ordinal, event: EventHandle) -> Result<(), CallError>;

    /// What is put on this stream from now on waits for the event.
    ///
    /// # Errors
    /// What the driver says.
    fn order(
        &self,
        device: Ordinal,
        stream: StreamHandle,
        event: EventHandle,
    ) -> Result<(), CallError>;

    /// Puts a copy on a stream, and returns.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Safety
    /// Both places are there, so long, and left alone until the copy is done.
    unsafe fn copy(
        &self,
        device: Ordinal,
        copy: Copy,
        stream: StreamHandle,
    ) -> Result<(), CallError>;

    /// A name of the allocation that an address is in, and where in it that is.
    ///
    /// # Errors
    /// What the driver says of memory that cannot be shared so.
    fn export(&self, device: Ordinal, pointer: u64) -> Result<(IpcHandle, u64), CallError>;

    /// Opens an allocation of another process: its address here, and its bytes.
    ///
    /// # Errors
    /// What the driver says of a handle that is none, or that is this process' own.
    fn open(&self, device: Ordinal, handle: &IpcHandle) -> Result<(u64, u64), CallError>;

    /// Closes what was opened.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Safety
    /// Nothing uses it any more.
    unsafe fn close(&self, device: Ordinal, pointer: u64) -> Result<(), CallError>;
}

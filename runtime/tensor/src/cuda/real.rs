//! NVIDIA's driver, found when it is first asked for.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{NonNull, null, null_mut};
use std::sync::OnceLock;

use cudarc::driver::sys;

use super::driver::{CallError, Copy, Driver, EventHandle, IpcHandle, Ordinal, StreamHandle, Uuid};
use super::error::CudaError;

/// Where the driver is looked for.
pub const LIBRARY: &str = "libcuda.so.1";
/// What the driver says where there is no GPU.
const NO_DEVICE: u32 = sys::CUresult::CUDA_ERROR_NO_DEVICE as u32;
/// Waiting threads sleep, and nobody asks an event how long something took.
const EVENT_FLAGS: u32 = sys::CUevent_flags_enum::CU_EVENT_BLOCKING_SYNC as u32
    | sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32;

/// NVIDIA's driver. A device's memory and streams are those of its primary context, which torch and the
/// CUDA runtime use too; a context is begun when its device is first used.
#[derive(Debug)]
pub(super) struct NvidiaDriver {
    devices: Vec<Device>,
}

#[derive(Debug)]
struct Device {
    handle: sys::CUdevice,
    uuid: Uuid,
    /// Kept for ever.
    context: OnceLock<Context>,
}

#[derive(Clone, Copy, Debug)]
struct Context(sys::CUcontext);

// SAFETY: the driver's contexts may be made current on any thread.
unsafe impl Send for Context {}
// SAFETY: as for Send; the driver locks for itself.
unsafe impl Sync for Context {}

/// A context that is current on this thread, until the one before it is again.
struct Current;

impl Drop for Current {
    fn drop(&mut self) {
        let mut popped = null_mut();
        // SAFETY: the context was pushed on this thread when this was made.
        unsafe { sys::cuCtxPopCurrent_v2(&mut popped) };
    }
}

impl NvidiaDriver {
    /// Looks for the driver and its devices.
    pub(super) fn load() -> Result<Self, CudaError> {
        let none = |what: String| CudaError::NoDriver { looked_for: LIBRARY, what };
        // SAFETY: the library's initializers are meant to be run by whoever opens it.
        if !unsafe { sys::is_culib_present() } {
            return Err(none("it is in none of the folders that the loader looks through".into()));
        }
        // SAFETY: it may be called at any time, and again.
        let begun = done("cuInit", unsafe { sys::cuInit(0) });
        match begun {
            Ok(()) => {}
            Err(error) if error.code == NO_DEVICE => return Ok(Self { devices: Vec::new() }),
            Err(error) => return Err(none(error.to_string())),
        }
        found().map(|devices| Self { devices }).map_err(|error| none(error.to_string()))
    }

    fn device(&self, device: Ordinal) -> Result<&Device, CallError> {
        let found = usize::try_from(device.0).ok().and_then(|at| self.devices.get(at));
        found.ok_or_else(|| {
            let code = sys::CUresult::CUDA_ERROR_INVALID_DEVICE as u32;
            CallError { call: "cuDeviceGet", code, name: "CUDA_ERROR_INVALID_DEVICE".into() }
        })
    }

    /// Makes a device's context current as long as what is returned is there.
    fn current(&self, device: Ordinal) -> Result<Current, CallError> {
        let device = self.device(device)?;
        let context = match device.context.get() {
            Some(context) => *context,
            None => {
                let mut context = null_mut();
                // SAFETY: the device is one of the driver's.
                let retained =
                    unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device.handle) };
                done("cuDevicePrimaryCtxRetain", retained)?;
                *device.context.get_or_init(|| Context(context))
            }
        };
        // SAFETY: the context is kept for ever.
        done("cuCtxPushCurrent", unsafe { sys::cuCtxPushCurrent_v2(context.0) })?;
        Ok(Current)
    }
}

fn found() -> Result<Vec<Device>, CallError> {
    let mut count: c_int = 0;
    // SAFETY: the driver is initialized.
    done("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })?;
    let device = |ordinal: c_int| {
        let (mut handle, mut uuid) = (0, sys::CUuuid { bytes: [0; 16] });
        // SAFETY: the ordinal is below the number of devices.
        done("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut handle, ordinal) })?;
        // SAFETY: the device is one of the driver's. Where a GPU is divided, this names the part.
        done("cuDeviceGetUuid", unsafe { sys::cuDeviceGetUuid_v2(&mut uuid, handle) })?;
        let uuid = Uuid(uuid.bytes.map(unsigned));
        Ok(Device { handle, uuid, context: OnceLock::new() })
    };
    (0..count).map(device).collect()
}

/// What a call came to.
fn done(call: &'static str, result: sys::CUresult) -> Result<(), CallError> {
    let code = result as u32;
    if code == 0 {
        return Ok(());
    }
    let mut name = null();
    // SAFETY: what it points to, if to anything, is a text that stays.
    let text = unsafe {
        sys::cuGetErrorName(result, &mut name);
        (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    };
    Err(CallError { call, code, name: text.unwrap_or_else(|| "no name".into()) })
}

/// A byte, whatever sign C gives it here.
fn unsigned(byte: c_char) -> u8 {
    let [byte] = byte.to_ne_bytes();
    byte
}

fn stream_of(stream: StreamHandle) -> sys::CUstream {
    std::ptr::with_exposed_provenance_mut(usize::try_from(stream.get()).unwrap_or_default())
}

fn event_of(event: EventHandle) -> sys::CUevent {
    std::ptr::with_exposed_provenance_mut(usize::try_from(event.0).unwrap_or_default())
}

impl Driver for NvidiaDriver {
    fn devices(&self) -> Result<Vec<Uuid>, CallError> {
        Ok(self.devices.iter().map(|device| device.uuid).collect())
    }

    fn allocate(&self, device: Ordinal, bytes: usize) -> Result<u64, CallError> {
        let _current = self.current(device)?;
        let mut pointer = 0;
        // SAFETY: a context is current.
        done("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut pointer, bytes) })?;
        Ok(pointer)
    }

    unsafe fn free(&self, device: Ordinal, pointer: u64) -> Result<(), CallError> {
        let _current = self.current(device)?;
        // SAFETY: the caller says that it is there and not used.
        done("cuMemFree", unsafe { sys::cuMemFree_v2(pointer) })
    }

    fn room(&self, device: Ordinal) -> Result<(u64, u64), CallError> {
        let _current = self.current(device)?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: a context is current.
        done("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok((free as u64, total as u64))
    }

    fn pin(&self, device: Ordinal, bytes: usize) -> Result<NonNull<u8>, CallError> {
        let _current = self.current(device)?;
        let mut start: *mut c_void = null_mut();
        // SAFETY: a context is current; with this flag the memory is pinned for all of them.
        let result =
            unsafe { sys::cuMemHostAlloc(&mut start, bytes, sys::CU_MEMHOSTALLOC_PORTABLE) };
        done("cuMemHostAlloc", result)?;
        NonNull::new(start.cast()).ok_or_else(|| CallError {
            call: "cuMemHostAlloc",
            code: CallError::OUT_OF_MEMORY,
            name: "it gave no address".into(),
        })
    }

    unsafe fn unpin(&self, device: Ordinal, start: NonNull<u8>) -> Result<(), CallError> {
        let _current = self.current(device)?;
        // SAFETY: the caller says that it is there and not used.
        done("cuMemFreeHost", unsafe { sys::cuMemFreeHost(start.as_ptr().cast()) })
    }

    fn begin_stream(&self, device: Ordinal) -> Result<StreamHandle, CallError> {
        let _current = self.current(device)?;
        let mut stream = null_mut();
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a context is current.
        done("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut stream, flags) })?;
        // SAFETY: the driver has just made it.
        Ok(unsafe { StreamHandle::from_raw(stream.expose_provenance() as u64) })
    }

    fn end_stream(&self, device: Ordinal, stream: StreamHandle) -> Result<(), CallError> {
        let _current = self.current(device)?;
        // SAFETY: it was begun here; the driver lets what is on it end.
        done("cuStreamDestroy", unsafe { sys::cuStreamDestroy_v2(stream_of(stream)) })
    }

    fn make_event(&self, device: Ordinal) -> Result<EventHandle, CallError> {
        let _current = self.current(device)?;
        let mut event = null_mut();
        // SAFETY: a context is current.
        done("cuEventCreate", unsafe { sys::cuEventCreate(&mut event, EVENT_FLAGS) })?;
        Ok(EventHandle(event.expose_provenance() as u64))
    }

    fn end_event(&self, device: Ordinal, event: EventHandle) -> Result<(), CallError> {
        let _current = self.current(device)?;
        // SAFETY: it was made here; the driver lets those wait who do.
        done("cuEventDestroy", unsafe { sys::cuEventDestroy_v2(event_of(event)) })
    }

    fn record(
        &self,
        device: Ordinal,
        event: EventHandle,
        stream: StreamHandle,
    ) -> Result<(), CallError> {
        let _current = self.current(device)?;
        // SAFETY: the event was made here; a stream that is none is an error.
        done("cuEventRecord", unsafe { sys::cuEventRecord(event_of(event), stream_of(stream)) })
    }

    fn is_done(&self, device: Ordinal, event: EventHandle) -> Result<bool, CallError> {
        let _current = self.current(device)?;
        // SAFETY: the event was made here.
        match unsafe { sys::cuEventQuery(event_of(event)) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => done("cuEventQuery", result).map(|()| true),
        }
    }

    fn wait(&self, device: Ordinal, event: EventHandle) -> Result<(), CallError> {
        let _current = self.current(device)?;
        // SAFETY: the event was made here.
        done("cuEventSynchronize", unsafe { sys::cuEventSynchronize(event_of(event)) })
    }

    fn order(
        &self,
        device: Ordinal,
        stream: StreamHandle,
        event: EventHandle,
    ) -> Result<(), CallError> {
        let _current = self.current(device)?;
        // SAFETY: the event was made here; a stream that is none is an error.
        let result = unsafe { sys::cuStreamWaitEvent(stream_of(stream), event_of(event), 0) };
        done("cuStreamWaitEvent", result)
    }

    unsafe fn copy(
        &self,
        device: Ordinal,
        copy: Copy,
        stream: StreamHandle,
    ) -> Result<(), CallError> {
        let _current = self.current(device)?;
        let stream = stream_of(stream);
        let at = std::ptr::with_exposed_provenance_mut::<c_void>;
        // SAFETY: the caller says that both places are there and left alone.
        match copy {
            Copy::ToDevice { to, from, length } => done("cuMemcpyHtoDAsync", unsafe {
                sys::cuMemcpyHtoDAsync_v2(to, at(from), length, stream)
            }),
            Copy::ToHost { to, from, length } => done("cuMemcpyDtoHAsync", unsafe {
                sys::cuMemcpyDtoHAsync_v2(at(to), from, length, stream)
            }),
            Copy::Within { to, from, length } => done("cuMemcpyDtoDAsync", unsafe {
                sys::cuMemcpyDtoDAsync_v2(to, from, length, stream)
            }),
        }
    }

    fn export(&self, device: Ordinal, pointer: u64) -> Result<(IpcHandle, u64), CallError> {
        let _current = self.current(device)?;
        let (mut base, mut length) = (0, 0);
        // SAFETY: an address that is none is an error.
        let range = unsafe { sys::cuMemGetAddressRange_v2(&mut base, &mut length, pointer) };
        done("cuMemGetAddressRange", range)?;
        let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
        // SAFETY: it is the beginning of an allocation.
        done("cuIpcGetMemHandle", unsafe { sys::cuIpcGetMemHandle(&mut handle, base) })?;
        Ok((IpcHandle(handle.reserved.map(unsigned)), pointer.saturating_sub(base)))
    }

    fn open(&self, device: Ordinal, handle: &IpcHandle) -> Result<(u64, u64), CallError> {
        let _current = self.current(device)?;
        let handle =
            sys::CUipcMemHandle { reserved: handle.0.map(|byte| c_char::from_ne_bytes([byte])) };
        let flags = sys::CUipcMem_flags_enum::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        let mut pointer = 0;
        // SAFETY: a handle that is none is an error.
        let opened = unsafe { sys::cuIpcOpenMemHandle_v2(&mut pointer, handle, flags) };
        done("cuIpcOpenMemHandle", opened)?;
        let (mut base, mut length) = (0, 0);
        // SAFETY: it was just opened.
        let range = unsafe { sys::cuMemGetAddressRange_v2(&mut base, &mut length, pointer) };
        done("cuMemGetAddressRange", range)?;
        Ok((pointer, length as u64))
    }

    unsafe fn close(&self, device: Ordinal, pointer: u64) -> Result<(), CallError> {
        let _current = self.current(device)?;
        // SAFETY: the caller says that it was opened and is not used.
        done("cuIpcCloseMemHandle", unsafe { sys::cuIpcCloseMemHandle(pointer) })
    }
}

//! The first GPU of this machine, by NVIDIA's driver: streams of a program's own, and work on them that ends
//! when a test says so. No kernel is needed: the work is the driver's own.

use std::ffi::c_void;
use std::io::Write;
use std::ptr::null_mut;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use cudarc::driver::sys;
use rondo_tensor::cuda::{Cuda, CudaSettings, StreamHandle};

/// A gate that nobody opens opens by itself: a failed test ends.
const LONGEST: Duration = Duration::from_secs(20);

/// The GPUs of this machine; `None` after saying that there are none. `what` names what is skipped then.
///
/// # Panics
/// When there are none and `RONDO_CUDA_REQUIRED=1`.
pub(crate) fn cuda(what: &str, staging_bytes_max: usize) -> Option<Cuda> {
    let why = match Cuda::load(CudaSettings { staging_bytes_max }) {
        Ok(cuda) if !cuda.devices().is_empty() => return Some(cuda),
        Ok(_) => "the CUDA driver sees no device".to_owned(),
        Err(error) => error.to_string(),
    };
    let is_required = std::env::var("RONDO_CUDA_REQUIRED").is_ok_and(|it| it == "1");
    assert!(!is_required, "RONDO_CUDA_REQUIRED is 1, but {why}");
    // Shown although the test passes, which `println!` is not.
    let _ = writeln!(std::io::stderr(), "skipped: {what}: {why}");
    None
}

#[track_caller]
fn done(result: sys::CUresult) {
    assert_eq!(result as u32, 0, "{result:?}");
}

/// Makes the first device's primary context current on this thread, for good.
fn enter() {
    let mut context = null_mut();
    // SAFETY: the driver is loaded, and the device is there: `cuda` has found it.
    unsafe {
        done(sys::cuDevicePrimaryCtxRetain(&mut context, 0));
        done(sys::cuCtxSetCurrent(context));
    }
}

/// A stream of a program's own on the first GPU.
#[derive(Debug)]
pub(crate) struct Stream(sys::CUstream);

// SAFETY: the driver's streams may be used on any thread.
unsafe impl Send for Stream {}
// SAFETY: as for Send.
unsafe impl Sync for Stream {}

/// Keeps a stream from going on, until it is opened or dropped.
#[derive(Debug)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Stream {
    pub(crate) fn new() -> Self {
        enter();
        let mut stream = null_mut();
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a context is current.
        done(unsafe { sys::cuStreamCreate(&mut stream, flags) });
        Self(stream)
    }

    pub(crate) fn handle(&self) -> StreamHandle {
        // SAFETY: the stream stays until the end of the test's process.
        unsafe { StreamHandle::from_raw(self.0.expose_provenance() as u64) }
    }

    /// What is put on the stream from now on happens when the gate is open.
    pub(crate) fn gate(&self) -> Gate {
        enter();
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let kept = Arc::into_raw(Arc::clone(&gate)).cast_mut().cast();
        // SAFETY: the function gets what it expects, once.
        done(unsafe { sys::cuLaunchHostFunc(self.0, Some(stand_at), kept) });
        Gate(gate)
    }

    /// Writes bytes that are all the same, when its turn comes.
    pub(crate) fn write(&self, to: u64, byte: u8, length: usize) {
        enter();
        // SAFETY: tests write to memory that is there, and so long.
        done(unsafe { sys::cuMemsetD8Async(to, byte, length, self.0) });
    }

    /// Copies from one place of the device to another, when its turn comes.
    pub(crate) fn copy(&self, to: u64, from: u64, length: usize) {
        enter();
        // SAFETY: tests copy memory that is there, and so long.
        done(unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, length, self.0) });
    }

    /// Waits for all that is on it.
    pub(crate) fn finish(&self) {
        enter();
        // SAFETY: the stream is there.
        done(unsafe { sys::cuStreamSynchronize(self.0) });
    }

    /// Whether all is done that is on it.
    pub(crate) fn is_done(&self) -> bool {
        enter();
        // SAFETY: the stream is there.
        unsafe { sys::cuStreamQuery(self.0) as u32 == 0 }
    }
}

impl Gate {
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    /// Opens it after a while.
    pub(crate) fn open_in(self, wait: Duration) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            std::thread::sleep(wait);
            self.open();
        })
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

/// # Safety
/// It is given what `Stream::gate` keeps for it.
unsafe extern "C" fn stand_at(gate: *mut c_void) {
    // SAFETY: as above.
    let gate = unsafe { Arc::from_raw(gate.cast::<(Mutex<bool>, Condvar)>()) };
    let is_open = gate.0.lock().unwrap_or_else(PoisonError::into_inner);
    drop(gate.1.wait_timeout_while(is_open, LONGEST, |is_open| !*is_open));
}

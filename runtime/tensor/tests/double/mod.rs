//! A CUDA driver without a GPU, as slow as one may be: what is put on a stream happens when somebody waits
//! for it, and not before. What no program may do with a GPU is noted, and fails the test that did it.

mod machine;

use std::ptr::NonNull;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rondo_tensor::cuda::{
    CallError, Copy, Cuda, CudaSettings, Driver, EventHandle, IpcHandle, Ordinal, StreamHandle,
    Uuid,
};

pub(crate) use machine::{Counts, Seen};
use machine::{Machine, Mapping};

/// GPUs that several processes may see. A clone is of the same.
#[derive(Clone, Debug)]
pub(crate) struct Hardware(Arc<Mutex<Machine>>);

/// A process' driver.
#[derive(Debug)]
struct Process {
    number: u32,
    /// The devices that it sees, by their place among all.
    sees: Vec<usize>,
    hardware: Hardware,
}

/// A device's name.
pub(crate) fn uuid(number: u8) -> Uuid {
    Uuid([number; 16])
}

impl Hardware {
    /// So many GPUs, with so many bytes each.
    pub(crate) fn new(devices: u8, bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(Machine::new(devices, bytes))))
    }

    /// A process that sees these GPUs.
    pub(crate) fn process(&self, sees: &[usize], staging_bytes_max: usize) -> Cuda {
        let number = self.lock().next_process();
        let driver = Process { number, sees: sees.to_vec(), hardware: self.clone() };
        Cuda::with(Arc::new(driver), CudaSettings { staging_bytes_max }).unwrap()
    }

    fn lock(&self) -> MutexGuard<'_, Machine> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has been copied, and pinned.
    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// A program's kernel on its stream that writes bytes when its turn comes.
    pub(crate) fn kernel(&self, stream: StreamHandle, to: u64, bytes: &[u8]) {
        self.lock().enqueue_write(stream, to, bytes.to_vec());
    }

    /// A program's kernel on its stream that runs until what is returned is true.
    pub(crate) fn gate(&self, stream: StreamHandle) -> Arc<AtomicBool> {
        let gate = Arc::new(AtomicBool::new(false));
        self.lock().enqueue_gate(stream, Arc::clone(&gate));
        gate
    }

    /// A program's kernel on its stream that reads bytes when its turn comes.
    pub(crate) fn reads(&self, stream: StreamHandle, from: u64, length: usize) -> Seen {
        let seen = Seen::default();
        self.lock().enqueue_read(stream, (from, length), seen.clone());
        seen
    }

    /// What a program's kernel on its stream sees: all that is on the stream is waited for.
    pub(crate) fn seen_by(&self, stream: StreamHandle, from: u64, length: usize) -> Vec<u8> {
        let mut machine = self.lock();
        machine.finish(stream);
        machine.read(from, length)
    }

    /// A stream of a program's own.
    pub(crate) fn stream(&self) -> StreamHandle {
        self.lock().new_stream()
    }

    /// Everything that is on streams happens, as far as nothing orders them that on the newest first: Rondo's
    /// before a program's.
    pub(crate) fn finish_all(&self) {
        self.lock().finish_all();
    }

    /// As NVIDIA's driver does before it gives something back.
    fn wait_for_gates(&self) {
        while self.lock().has_gates() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Allocations that processes have open which are not theirs.
    pub(crate) fn opened(&self) -> usize {
        self.lock().opened()
    }

    /// Nothing was done that no program may do.
    #[track_caller]
    pub(crate) fn assert_sound(&self) {
        let machine = self.lock();
        assert!(machine.violations.is_empty(), "{:#?}", machine.violations);
    }

    /// What was done that no program may do.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    /// Nobody has memory of the GPUs any more, nor pinned memory.
    #[track_caller]
    pub(crate) fn assert_empty(&self) {
        let machine = self.lock();
        assert_eq!(machine.left(), (0, 0), "allocations and pinned memory are left");
    }
}

fn error(call: &'static str, code: u32) -> CallError {
    CallError { call, code, name: format!("CUDA_ERROR_{code}") }
}

impl Process {
    fn device(&self, device: Ordinal) -> Result<usize, CallError> {
        let found = self.sees.get(device.0 as usize).copied();
        found.ok_or_else(|| error("cuDeviceGet", 101))
    }
}

impl Driver for Process {
    fn devices(&self) -> Result<Vec<Uuid>, CallError> {
        Ok(self.sees.iter().map(|at| uuid(*at as u8)).collect())
    }

    fn allocate(&self, device: Ordinal, bytes: usize) -> Result<u64, CallError> {
        let device = self.device(device)?;
        self.hardware
            .lock()
            .allocate(device, self.number, bytes)
            .ok_or_else(|| error("cuMemAlloc", CallError::OUT_OF_MEMORY))
    }

    unsafe fn free(&self, _device: Ordinal, pointer: u64) -> Result<(), CallError> {
        self.hardware.lock().free(pointer);
        Ok(())
    }

    fn room(&self, device: Ordinal) -> Result<(u64, u64), CallError> {
        let device = self.device(device)?;
        Ok(self.hardware.lock().room(device))
    }

    fn pin(&self, device: Ordinal, bytes: usize) -> Result<NonNull<u8>, CallError> {
        self.device(device)?;
        Ok(self.hardware.lock().pin(bytes))
    }

    unsafe fn unpin(&self, _device: Ordinal, start: NonNull<u8>) -> Result<(), CallError> {
        self.hardware.wait_for_gates();
        self.hardware.lock().unpin(start);
        Ok(())
    }

    fn begin_stream(&self, device: Ordinal) -> Result<StreamHandle, CallError> {
        self.device(device)?;
        Ok(self.hardware.lock().new_stream())
    }

    fn end_stream(&self, _device: Ordinal, stream: StreamHandle) -> Result<(), CallError> {
        self.hardware.lock().finish(stream);
        Ok(())
    }

    fn make_event(&self, device: Ordinal) -> Result<EventHandle, CallError> {
        self.device(device)?;
        Ok(self.hardware.lock().new_event())
    }

    fn end_event(&self, _device: Ordinal, event: EventHandle) -> Result<(), CallError> {
        self.hardware.lock().end_event(event);
        Ok(())
    }

    fn record(
        &self,
        _device: Ordinal,
        event: EventHandle,
        stream: StreamHandle,
    ) -> Result<(), CallError> {
        self.hardware.lock().record(event, stream);
        Ok(())
    }

    fn is_done(&self, _device: Ordinal, event: EventHandle) -> Result<bool, CallError> {
        Ok(self.hardware.lock().is_done(event))
    }

    fn wait(&self, _device: Ordinal, event: EventHandle) -> Result<(), CallError> {
        while !self.hardware.lock().wait(event) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Ok(())
    }

    fn order(
        &self,
        _device: Ordinal,
        stream: StreamHandle,
        event: EventHandle,
    ) -> Result<(), CallError> {
        self.hardware.lock().hold(stream, event);
        Ok(())
    }

    unsafe fn copy(
        &self,
        device: Ordinal,
        copy: Copy,
        stream: StreamHandle,
    ) -> Result<(), CallError> {
        self.device(device)?;
        self.hardware.lock().enqueue_copy(stream, copy, self.number);
        Ok(())
    }

    fn export(&self, _device: Ordinal, pointer: u64) -> Result<(IpcHandle, u64), CallError> {
        let (base, _) = self
            .hardware
            .lock()
            .allocation_of(pointer)
            .ok_or_else(|| error("cuMemGetAddressRange", 1))?;
        let mut handle = [0; 64];
        handle[..8].copy_from_slice(&base.to_le_bytes());
        Ok((IpcHandle(handle), pointer - base))
    }

    fn open(&self, device: Ordinal, handle: &IpcHandle) -> Result<(u64, u64), CallError> {
        let device = self.device(device)?;
        let base = u64::from_le_bytes(handle.0[..8].try_into().unwrap());
        let mapping = Mapping { base, process: self.number, device };
        self.hardware.lock().open(mapping).ok_or_else(|| error("cuIpcOpenMemHandle", 400))
    }

    unsafe fn close(&self, _device: Ordinal, pointer: u64) -> Result<(), CallError> {
        self.hardware.wait_for_gates();
        self.hardware.lock().close(pointer);
        Ok(())
    }
}

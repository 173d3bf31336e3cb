//! Memory on GPUs: how tensors get there and from there.
//!
//! Tensors that come over a wire are read into pinned memory of the host and copied from there to the
//! device, once; those that are sent are copied to pinned memory, once. Copies are made on streams of their
//! own; events order them with the caller's streams, and nobody waits for a copy who does not need what it
//! brings.

mod driver;
mod error;
mod event;
mod memory;
mod real;
mod shared;
mod staging;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub use self::driver::{
    CallError, Copy, Driver, EventHandle, IpcHandle, Ordinal, StreamHandle, Uuid,
};
pub use self::error::CudaError;
pub use self::memory::CudaMemory;
pub use self::real::LIBRARY;
pub use self::shared::Named;

use self::event::{Event, Streams, said};
use self::memory::Owner;
use self::real::NvidiaDriver;
use self::shared::Opened;
use self::staging::{NotTaken, Staging};
use crate::Region;

/// What GPUs may be used with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaSettings {
    /// Pinned memory of the host that copies go through, in bytes.
    pub staging_bytes_max: usize,
}

impl Default for CudaSettings {
    fn default() -> Self {
        Self { staging_bytes_max: 1 << 30 }
    }
}

/// The GPUs of this process. A clone is of the same.
#[derive(Clone)]
pub struct Cuda {
    all: Arc<All>,
}

struct All {
    driver: Arc<dyn Driver>,
    devices: Vec<Device>,
    staging: Arc<Staging>,
    /// What copies under way need, the oldest first.
    under_way: Mutex<VecDeque<UnderWay>>,
    opened: Arc<Mutex<Opened>>,
}

struct Device {
    uuid: Uuid,
    /// Begun with the first copy.
    streams: OnceLock<Streams>,
}

/// What stays where it is until a copy is done.
struct UnderWay {
    done: Arc<Event>,
    _from: Owner,
    _to: Owner,
}

/// A copy that was begun. Its places are kept until it is done, whether this is or not.
#[derive(Clone, Debug)]
pub struct Copying {
    done: Option<Arc<Event>>,
}

impl Copying {
    /// One of nothing.
    const fn over() -> Self {
        Self { done: None }
    }

    const fn of(done: Arc<Event>) -> Self {
        Self { done: Some(done) }
    }

    /// Whether it is done.
    ///
    /// # Errors
    /// What the driver says, and what went wrong on the device before.
    pub fn is_done(&self) -> Result<bool, CudaError> {
        self.done.as_ref().map_or(Ok(true), |done| done.is_done())
    }

    /// Waits for it, on this thread.
    ///
    /// # Errors
    /// As [`Copying::is_done`].
    pub fn wait(&self) -> Result<(), CudaError> {
        self.done.as_ref().map_or(Ok(()), |done| done.wait())
    }
}

impl Cuda {
    /// Loads NVIDIA's driver.
    ///
    /// # Errors
    /// [`CudaError::NoDriver`] if it is not there, with what was looked for.
    pub fn load(settings: CudaSettings) -> Result<Self, CudaError> {
        Self::with(Arc::new(NvidiaDriver::load()?), settings)
    }

    /// The GPUs of a driver.
    ///
    /// # Errors
    /// What it says when it is asked for its devices.
    pub fn with(driver: Arc<dyn Driver>, settings: CudaSettings) -> Result<Self, CudaError> {
        let uuids = driver.devices().map_err(said(Ordinal(0)))?;
        let device = |uuid| Device { uuid, streams: OnceLock::new() };
        let staging = Staging::new(Arc::clone(&driver), settings.staging_bytes_max);
        let all = All {
            devices: uuids.into_iter().map(device).collect(),
            staging,
            under_way: Mutex::default(),
            opened: Arc::new(Mutex::new(Opened::new(Arc::clone(&driver)))),
            driver,
        };
        Ok(Self { all: Arc::new(all) })
    }

    /// The names of the devices, by their ordinals.
    pub fn devices(&self) -> Vec<Uuid> {
        self.all.devices.iter().map(|device| device.uuid).collect()
    }

    /// The device of this name, if this process sees it.
    pub fn device_of(&self, uuid: Uuid) -> Option<Ordinal> {
        let at = self.all.devices.iter().position(|device| device.uuid == uuid)?;
        u32::try_from(at).ok().map(Ordinal)
    }

    /// Memory of its own on a device.
    ///
    /// # Errors
    /// [`CudaError::NoDevice`], and [`CudaError::OutOfMemory`] with what there is.
    pub fn allocate(&self, device: Ordinal, length: usize) -> Result<CudaMemory, CudaError> {
        self.device(device)?;
        CudaMemory::allocate(self, device, length)
    }

    /// Pinned memory of the host. When none is left within the bound, copies that are under way are waited
    /// for.
    ///
    /// # Errors
    /// [`CudaError::NoStaging`] with the bound, and what the driver says.
    pub fn stage(&self, device: Ordinal, length: usize) -> Result<Region, CudaError> {
        loop {
            // Looked for before room is: if there is none of either, others hold all that there is.
            let oldest = self.oldest();
            match (self.take(device, length)?, oldest) {
                (Ok(region), _) => return Ok(region),
                (Err(_), Some(oldest)) => oldest.wait()?,
                (Err(NotTaken { is_soon: true, .. }), None) => self.all.staging.wait_for_room(),
                (Err(NotTaken { error, .. }), None) => return Err(error),
            }
        }
    }

    /// As [`Cuda::stage`], but does not wait: `None` if there is no room yet, but copies under way, or
    /// blocks on their way back to the system, will make some.
    ///
    /// # Errors
    /// As [`Cuda::stage`].
    pub fn stage_if_room(
        &self,
        device: Ordinal,
        length: usize,
    ) -> Result<Option<Region>, CudaError> {
        let oldest = self.oldest();
        match self.take(device, length)? {
            Ok(region) => Ok(Some(region)),
            Err(NotTaken { is_soon, .. }) if is_soon || oldest.is_some() => Ok(None),
            Err(NotTaken { error, .. }) => Err(error),
        }
    }

    /// Pinned memory if there is room: the inner error is that there is none.
    fn take(&self, device: Ordinal, length: usize) -> Result<Result<Region, NotTaken>, CudaError> {
        self.device(device)?;
        self.tidy();
        match self.all.staging.take(device, length) {
            Err(NotTaken { error, .. }) if !matches!(error, CudaError::NoStaging { .. }) => {
                Err(error)
            }
            taken => Ok(taken),
        }
    }

    /// Whether so much pinned memory can be had at once at all.
    ///
    /// # Errors
    /// [`CudaError::NoStaging`] with the bound.
    pub fn check_room(&self, lengths: &[usize]) -> Result<(), CudaError> {
        self.all.staging.check(lengths)
    }

    /// What the copy waits for that was begun first of those under way.
    fn oldest(&self) -> Option<Arc<Event>> {
        self.under_way().front().map(|it| Arc::clone(&it.done))
    }

    /// Waits, on this thread, for all copies onto devices that are under way.
    ///
    /// # Errors
    /// The first that failed.
    pub fn finish(&self) -> Result<(), CudaError> {
        let all: Vec<Arc<Event>> = self.under_way().iter().map(|it| Arc::clone(&it.done)).collect();
        let ended: Vec<Result<(), CudaError>> = all.iter().map(|done| done.wait()).collect();
        self.tidy();
        ended.into_iter().collect()
    }

    /// Whether these are the same.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.all, &other.all)
    }

    /// Bytes of pinned memory there are, and those of them that are used.
    pub fn staging_bytes(&self) -> (usize, usize) {
        self.all.staging.bytes()
    }

    /// Pinned memory of the host, if there is some without waiting for a copy.
    ///
    /// # Errors
    /// As [`Cuda::stage`].
    pub fn try_stage(&self, device: Ordinal, length: usize) -> Result<Region, CudaError> {
        self.take(device, length)?.map_err(|not_taken| not_taken.error)
    }

    fn device(&self, device: Ordinal) -> Result<&Device, CudaError> {
        let devices = &self.all.devices;
        let found = usize::try_from(device.0).ok().and_then(|at| devices.get(at));
        found.ok_or(CudaError::NoDevice { asked: device, count: devices.len() })
    }

    fn streams(&self, ordinal: Ordinal) -> Result<&Streams, CudaError> {
        let device = self.device(ordinal)?;
        if let Some(streams) = device.streams.get() {
            return Ok(streams);
        }
        let streams = Streams::new(&self.all.driver, ordinal)?;
        Ok(device.streams.get_or_init(|| streams))
    }

    fn under_way(&self) -> MutexGuard<'_, VecDeque<UnderWay>> {
        self.all.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of what copies needed that are done.
    fn tidy(&self) {
        let mut over = Vec::new();
        let mut under_way = self.under_way();
        for it in std::mem::take(&mut *under_way) {
            // A copy that failed is over, too: whoever needs what it should have brought is told.
            match it.done.is_done() {
                Ok(false) => under_way.push_back(it),
                Ok(true) | Err(_) => over.push(it),
            }
        }
        // Owners are let go of when nobody waits for the lock.
        drop(under_way);
        drop(over);
    }

    /// Keeps what a copy needs until it is done.
    fn keep(&self, done: Arc<Event>, from: Owner, to: Owner) {
        self.under_way().push_back(UnderWay { done, _from: from, _to: to });
    }
}

impl Drop for All {
    fn drop(&mut self) {
        for it in std::mem::take(self.under_way.get_mut().unwrap_or_else(PoisonError::into_inner)) {
            if let Err(error) = it.done.wait() {
                tracing::warn!(%error, "a copy did not end");
            }
        }
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pinned, used) = self.staging_bytes();
        write!(out, "{} GPUs, {used} of {pinned} pinned bytes in use", self.all.devices.len())
    }
}

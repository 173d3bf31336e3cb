//! Memory of other processes' devices, opened by its name.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use super::Cuda;
use super::driver::{Copy, Driver, IpcHandle, Ordinal, Uuid};
use super::error::CudaError;
use super::event::{Event, said};
use super::memory::lost;
use crate::Region;

/// Allocations that are open at once; the one opened first is closed for the next.
const OPENED_MAX: usize = 32;

/// Memory on a device, as another process of the same host can find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The device.
    pub device: Uuid,
    /// The allocation that it is in.
    pub handle: IpcHandle,
    /// Where in it it begins.
    pub offset: u64,
    /// How many bytes it has.
    pub length: u64,
}

impl Named {
    /// Bytes of a name.
    pub const BYTES: usize = 16 + 64 + 8 + 8;

    /// As bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (offset, length) = (self.offset.to_le_bytes(), self.length.to_le_bytes());
        [&self.device.0[..], &self.handle.0, &offset, &length].concat()
    }

    /// What bytes name; `None` if they are too few or too many.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (device, rest) = bytes.split_first_chunk()?;
        let (handle, rest) = rest.split_first_chunk()?;
        let (offset, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        rest.is_empty().then(|| Self {
            device: Uuid(*device),
            handle: IpcHandle(*handle),
            offset: u64::from_le_bytes(*offset),
            length: u64::from_le_bytes(*length),
        })
    }
}

/// Allocations of other processes that are open here.
#[derive(Debug)]
pub(super) struct Opened {
    driver: Arc<dyn Driver>,
    /// The oldest first.
    all: VecDeque<Allocation>,
}

/// One that is open.
#[derive(Clone, Copy, Debug)]
struct Allocation {
    device: Ordinal,
    handle: IpcHandle,
    pointer: u64,
    bytes: u64,
}

impl Opened {
    pub(super) const fn new(driver: Arc<dyn Driver>) -> Self {
        Self { driver, all: VecDeque::new() }
    }

    /// What a handle names, opened if it was not open.
    fn find(&mut self, device: Ordinal, handle: IpcHandle) -> Result<Allocation, CudaError> {
        let mut all = self.all.iter();
        if let Some(known) = all.find(|it| it.device == device && it.handle == handle) {
            return Ok(*known);
        }
        if self.all.len() >= OPENED_MAX
            && let Some(oldest) = self.all.pop_front()
        {
            self.close(&oldest);
        }
        let (pointer, bytes) = self.driver.open(device, &handle).map_err(said(device))?;
        let found = Allocation { device, handle, pointer, bytes };
        self.all.push_back(found);
        Ok(found)
    }

    fn close(&self, Allocation { device, pointer, .. }: &Allocation) {
        // SAFETY: it was opened here. Copies from it are waited for before the next is looked for.
        if let Err(error) = unsafe { self.driver.close(*device, *pointer) } {
            tracing::warn!(%error, %device, "memory of another process stays open");
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        for it in std::mem::take(&mut self.all) {
            self.close(&it);
        }
    }
}

impl Cuda {
    /// Bytes of another process' memory on the host, by one copy into pinned memory. When this returns it is
    /// done.
    ///
    /// # Errors
    /// [`CudaError::NotSeen`], [`CudaError::NotThere`], [`CudaError::NoStaging`], and what the driver says.
    pub fn fetch(&self, other: &Named) -> Result<Region, CudaError> {
        let device = self.device_of(other.device);
        let device = device.ok_or(CudaError::NotSeen { device: other.device })?;
        let length = usize::try_from(other.length).unwrap_or(usize::MAX);
        let staged = self.stage(device, length)?;
        let (stream, done) = (self.streams(device)?.down, Event::new(&self.all.driver, device)?);
        let to = staged.as_ptr().expose_provenance();
        let copied = self.with_opened(other, |from| {
            let copy = Copy::ToHost { to, from, length };
            // SAFETY: both places are there and so long, and are kept until it is done.
            unsafe { self.all.driver.copy(device, copy, stream) }.map_err(said(device))?;
            done.record(stream)?;
            done.wait()
        });
        match copied {
            Ok(()) => Ok(staged),
            Err(error) => Err(lost(error, staged)),
        }
    }

    /// Does something with memory of another process, of which nothing is under way when it returns.
    pub(super) fn with_opened(
        &self,
        named: &Named,
        what: impl FnOnce(u64) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        let Named { device, handle, offset, length } = *named;
        let ordinal = self.device_of(device).ok_or(CudaError::NotSeen { device })?;
        let mut opened = self.all.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let Allocation { pointer, bytes, .. } = opened.find(ordinal, handle)?;
        if offset.checked_add(length).is_none_or(|end| end > bytes) {
            return Err(CudaError::NotThere { offset, length, bytes });
        }
        what(pointer.saturating_add(offset))
    }
}

//! Memory of other processes' devices, opened by its name.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::driver::{Copy, Driver, IpcHandle, Ordinal, Uuid};
use super::error::CudaError;
use super::event::{Event, said};
use super::memory::lost;
use super::{Copying, Cuda, CudaMemory};
use crate::Region;

/// Allocations that are open at once; the one used longest ago is closed for the next.
const OPENED_MAX: usize = 32;
/// Allocations that may wait to be closed by a thread of its own. The driver closes none before the device
/// has done all that it was asked for.
const CLOSING_MAX: usize = 128;
/// Allocations from which nothing was copied for so long are closed: their owner may have freed them, and
/// the device has them as long as anybody has them open.
const UNUSED: Duration = Duration::from_secs(1);

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
    /// The one used last is the last; and when that was.
    all: VecDeque<(Arc<Mapping>, Instant)>,
    /// To be closed.
    closing: Vec<Arc<Mapping>>,
    /// The thread that closes what is not used.
    watch: Option<Thread>,
}

/// An allocation of another process that is open as long as this is there.
#[derive(Debug)]
struct Mapping {
    driver: Arc<dyn Driver>,
    device: Ordinal,
    handle: IpcHandle,
    pointer: u64,
    bytes: u64,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was opened here. A copy from it keeps it until the copy is done.
        if let Err(error) = unsafe { self.driver.close(self.device, self.pointer) } {
            tracing::warn!(%error, device = %self.device, "memory of another process stays open");
        }
    }
}

impl Opened {
    pub(super) const fn new(driver: Arc<dyn Driver>) -> Self {
        Self { driver, all: VecDeque::new(), closing: Vec::new(), watch: None }
    }

    /// The allocation a handle names, opened unless it is open.
    fn find(&mut self, device: Ordinal, handle: IpcHandle) -> Result<Arc<Mapping>, CudaError> {
        let mut all = self.all.iter();
        let known = all.position(|(it, _)| it.device == device && it.handle == handle);
        let found = match known.and_then(|at| self.all.remove(at)) {
            Some((known, _)) => known,
            None => {
                self.make_room();
                let (pointer, bytes) = self.driver.open(device, &handle).map_err(said(device))?;
                let driver = Arc::clone(&self.driver);
                Arc::new(Mapping { driver, device, handle, pointer, bytes })
            }
        };
        self.all.push_back((Arc::clone(&found), Instant::now()));
        Ok(found)
    }

    /// Closes one that is open if as many are as may be.
    fn make_room(&mut self) {
        if self.all.len() < OPENED_MAX {
            return;
        }
        let oldest = self.all.pop_front().map(|(mapping, _)| mapping);
        if let Some(watch) = &self.watch
            && self.closing.len() < CLOSING_MAX
        {
            self.closing.extend(oldest);
            watch.unpark();
        }
    }

    /// Takes out those that are to be closed, and those that were not used of late. An allocation stays while
    /// a copy holds it: else the thread that finds the copy done would close it.
    fn take_unused(&mut self) -> Vec<Arc<Mapping>> {
        let is_free = |mapping: &Arc<Mapping>| Arc::strong_count(mapping) == 1;
        let all = std::mem::take(&mut self.all).into_iter();
        let (unused, used): (VecDeque<_>, VecDeque<_>) =
            all.partition(|(mapping, used)| used.elapsed() >= UNUSED && is_free(mapping));
        self.all = used;
        let unused = unused.into_iter().map(|(mapping, _)| mapping);
        self.closing.extract_if(.., |mapping| is_free(mapping)).chain(unused).collect()
    }

    fn is_empty(&self) -> bool {
        self.all.is_empty() && self.closing.is_empty()
    }
}

/// Closes what is not used, until nothing is open.
fn watch(opened: &Weak<Mutex<Opened>>) {
    loop {
        std::thread::park_timeout(UNUSED / 2);
        let Some(shared) = opened.upgrade() else { return };
        let mut opened = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = opened.take_unused();
        let is_over = opened.is_empty();
        opened.watch.take_if(|_| is_over);
        drop(opened);
        // The driver may be long about it: nobody waits for the lock meanwhile.
        drop(unused);
        if is_over {
            return;
        }
    }
}

impl CudaMemory {
    /// Copies memory of another process onto it, from one device's memory to the other's. When this
    /// returns it is done: the other process may use its memory again.
    ///
    /// # Errors
    /// [`CudaError::Length`], [`CudaError::ReadOnly`], [`CudaError::NotSeen`], [`CudaError::NotThere`],
    /// and what the driver says.
    pub fn fill_from(&self, other: &Named) -> Result<(), CudaError> {
        self.begin_fill_from(other)?.wait()
    }

    /// As [`CudaMemory::fill_from`], but the copy is under way when this returns: the other process may
    /// use its memory again when it is done.
    ///
    /// # Errors
    /// As [`CudaMemory::fill_from`].
    pub fn begin_fill_from(&self, other: &Named) -> Result<Copying, CudaError> {
        self.check(usize::try_from(other.length).unwrap_or(usize::MAX))?;
        if self.is_empty() {
            return Ok(Copying::over());
        }
        let (mapping, from) = self.cuda().opened(other)?;
        let copy = Copy::Within { to: self.pointer(), from, length: self.len() };
        let owner = self.owner();
        match self.put(copy, self.cuda().streams(self.device())?.across) {
            Ok(done) => {
                self.cuda().keep(Arc::clone(&done), mapping, owner);
                Ok(Copying::of(done))
            }
            Err(error) => Err(lost(error, (mapping, owner))),
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
        let staged = self.stage(self.device_named(other.device)?, other.length_here())?;
        self.begin_fetch(other, &staged)?.wait()?;
        Ok(staged)
    }

    /// As [`Cuda::fetch`], into pinned memory of the same length: the copy is under way when this returns.
    ///
    /// # Errors
    /// As [`Cuda::fetch`]; [`CudaError::Length`].
    pub fn begin_fetch(&self, other: &Named, staged: &Region) -> Result<Copying, CudaError> {
        let length = other.length_here();
        if staged.len() != length {
            return Err(CudaError::Length { from: length, to: staged.len() });
        }
        let device = self.device_named(other.device)?;
        let (mapping, from) = self.opened(other)?;
        let (stream, done) = (self.streams(device)?.fetched, Event::new(&self.all.driver, device)?);
        let to = staged.as_ptr().expose_provenance();
        let copy = Copy::ToHost { to, from, length };
        // SAFETY: both places are there and so long, and are kept until it is done.
        let begun = unsafe { self.all.driver.copy(device, copy, stream) }.map_err(said(device));
        match begun.and_then(|()| done.record(stream)) {
            Ok(()) => {
                let done = Arc::new(done);
                self.keep(Arc::clone(&done), mapping, Arc::new(staged.clone()));
                Ok(Copying::of(done))
            }
            Err(error) => Err(lost(error, (mapping, staged.clone()))),
        }
    }

    /// The device of another process' memory.
    ///
    /// # Errors
    /// [`CudaError::NotSeen`].
    pub fn device_named(&self, device: Uuid) -> Result<Ordinal, CudaError> {
        self.device_of(device).ok_or(CudaError::NotSeen { device })
    }

    /// Memory of another process: its allocation, and its address here.
    fn opened(&self, named: &Named) -> Result<(Arc<Mapping>, u64), CudaError> {
        let Named { device, handle, offset, length } = *named;
        let ordinal = self.device_named(device)?;
        let mut opened = self.lock_opened();
        let mapping = opened.find(ordinal, handle)?;
        if opened.watch.is_none() {
            let shared = Arc::downgrade(&self.all.opened);
            let thread = std::thread::Builder::new().name("rondo-cuda-close".into());
            let begun = thread.spawn(move || watch(&shared)).ok();
            opened.watch = begun.map(|begun| begun.thread().clone());
        }
        drop(opened);
        let bytes = mapping.bytes;
        if offset.checked_add(length).is_none_or(|end| end > bytes) {
            return Err(CudaError::NotThere { offset, length, bytes });
        }
        let from = mapping.pointer.saturating_add(offset);
        Ok((mapping, from))
    }

    fn lock_opened(&self) -> MutexGuard<'_, Opened> {
        self.all.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Named {
    fn length_here(&self) -> usize {
        usize::try_from(self.length).unwrap_or(usize::MAX)
    }
}

//! Memory on a GPU, and copies to it and from it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;

use super::driver::{CallError, Copy, Driver, Ordinal, StreamHandle, Uuid};
use super::error::CudaError;
use super::event::{Event, said};
use super::{Cuda, Named};
use crate::Region;

/// Whoever frees memory when it goes.
pub(super) type Owner = Arc<dyn Any + Send + Sync>;

/// Memory on a GPU, which is sent from and received into. A clone is of the same memory, which stays as
/// long as one of them does.
///
/// As with [`Region`], who hands it over leaves it alone until it is his again. What was begun on a stream
/// before, and what is begun on one afterwards, is ordered by [`CudaMemory::after`] and
/// [`CudaMemory::before`].
#[derive(Clone)]
pub struct CudaMemory {
    cuda: Cuda,
    device: Ordinal,
    pointer: u64,
    length: usize,
    is_writable: bool,
    /// The caller's, if he has named one.
    stream: Option<StreamHandle>,
    owner: Owner,
    order: Arc<Order>,
}

/// How copies of memory are ordered, and what was made of it.
#[derive(Default)]
struct Order {
    /// Work of others that copies wait for.
    after: Option<Arc<Event>>,
    /// The last copy onto it.
    ready: Mutex<Option<Arc<Event>>>,
    /// Why what should have come onto it did not.
    failed: OnceLock<CudaError>,
    /// A copy on the host, for who sends it.
    staged: OnceLock<(Region, Arc<Event>)>,
    /// Its name for other processes, once one was asked for.
    named: OnceLock<Named>,
}

impl Order {
    fn ready(&self) -> MutexGuard<'_, Option<Arc<Event>>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that a copy waits for.
    fn events(&self) -> impl Iterator<Item = Arc<Event>> {
        [self.after.clone(), self.ready().clone()].into_iter().flatten()
    }
}

impl CudaMemory {
    /// Memory of somebody else.
    ///
    /// # Errors
    /// [`CudaError::NoDevice`].
    ///
    /// # Safety
    /// From the address `pointer` of this device on, `length` bytes can be read as long as `owner` lives; if
    /// `is_writable`, they can be written too.
    pub unsafe fn from_raw(
        cuda: &Cuda,
        device: Ordinal,
        pointer: u64,
        length: usize,
        is_writable: bool,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self, CudaError> {
        cuda.device(device)?;
        let (cuda, order) = (cuda.clone(), Arc::default());
        Ok(Self { cuda, device, pointer, length, is_writable, stream: None, owner, order })
    }

    pub(super) fn allocate(cuda: &Cuda, device: Ordinal, length: usize) -> Result<Self, CudaError> {
        let driver = Arc::clone(&cuda.all.driver);
        // Nobody gives no memory.
        let pointer = driver.allocate(device, length.max(1)).map_err(|error| {
            let (free, total) = driver.room(device).unwrap_or_default();
            match error.code {
                CallError::OUT_OF_MEMORY => {
                    CudaError::OutOfMemory { device, bytes: length, free, total }
                }
                _ => said(device)(error),
            }
        })?;
        let owner = Arc::new(Allocation { driver, device, pointer });
        // SAFETY: the memory is the owner's, and so long.
        unsafe { Self::from_raw(cuda, device, pointer, length, true, owner) }
    }

    /// The device it is on.
    pub const fn device(&self) -> Ordinal {
        self.device
    }

    /// What that is called by all processes.
    pub fn uuid(&self) -> Option<Uuid> {
        self.cuda.device(self.device).ok().map(|device| device.uuid)
    }

    /// Where it begins, for the device.
    pub const fn pointer(&self) -> u64 {
        self.pointer
    }

    /// How many bytes it has.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether it can be written.
    pub const fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// The GPUs of this process.
    pub const fn cuda(&self) -> &Cuda {
        &self.cuda
    }

    /// A part of it; `None` if it has no such part. Copies of the two are ordered as they were until now,
    /// each by itself from now on.
    pub fn part(&self, offset: usize, length: usize) -> Option<Self> {
        let end = offset.checked_add(length)?;
        let pointer = self.pointer.checked_add(offset as u64)?;
        let order = || Arc::new(self.ordered(self.order.after.clone()));
        (end <= self.length).then(|| Self { pointer, length, order: order(), ..self.clone() })
    }

    /// The same memory, used on this stream of its device: copies of it wait for what is on the stream now.
    ///
    /// # Errors
    /// What the driver says.
    pub fn after(&self, stream: StreamHandle) -> Result<Self, CudaError> {
        let event = Event::after(&self.cuda.all.driver, self.device, stream)?;
        let order = Arc::new(self.ordered(Some(Arc::new(event))));
        Ok(Self { order, stream: Some(stream), ..self.clone() })
    }

    /// The same memory; where a stream was named, copies of it wait for what is on that now.
    ///
    /// # Errors
    /// What the driver says.
    pub fn again(&self) -> Result<Self, CudaError> {
        self.stream.map_or_else(|| Ok(self.anew()), |stream| self.after(stream))
    }

    /// What was received is there for its user: where he has named a stream ([`CudaMemory::after`]), that
    /// waits for it, else this thread does.
    ///
    /// # Errors
    /// As [`CudaMemory::wait`].
    pub fn hand_over(&self) -> Result<(), CudaError> {
        self.stream.map_or_else(|| self.wait(), |stream| self.before(stream))
    }

    /// What should have come onto it did not: who waits for it, or orders his stream behind it, is told.
    pub fn fail(&self, error: CudaError) {
        // The first reason stays.
        drop(self.order.failed.set(error));
    }

    fn failure(&self) -> Result<(), CudaError> {
        self.order.failed.get().cloned().map_or(Ok(()), Err)
    }

    /// The same memory with what is in it now: a copy on the host that was made before is made again.
    #[must_use]
    pub fn anew(&self) -> Self {
        let order = Arc::new(self.ordered(self.order.after.clone()));
        Self { order, ..self.clone() }
    }

    fn ordered(&self, after: Option<Arc<Event>>) -> Order {
        let ready = Mutex::new(self.order.ready().clone());
        Order { after, ready, ..Order::default() }
    }

    /// What is put on this stream of its device from now on waits until what was received is there.
    ///
    /// # Errors
    /// What the driver says, and why nothing was received.
    pub fn before(&self, stream: StreamHandle) -> Result<(), CudaError> {
        self.failure()?;
        self.cuda.tidy();
        let ready = self.order.ready().clone();
        ready.map_or(Ok(()), |event| event.hold(stream))
    }

    /// Waits, on this thread, for all that copies of it wait for, and for the last one onto it.
    ///
    /// # Errors
    /// What the driver says, what went wrong on the device before, and why nothing was received.
    pub fn wait(&self) -> Result<(), CudaError> {
        self.failure()?;
        self.order.events().try_for_each(|event| event.wait())?;
        self.cuda.tidy();
        Ok(())
    }

    /// Copies host memory of the same length onto it: from pinned memory by one copy, which is under way
    /// when this returns; from any other through pinned memory. `from` is kept until the copy is done.
    ///
    /// # Errors
    /// [`CudaError::Length`], [`CudaError::ReadOnly`], [`CudaError::NoStaging`], and what the driver says.
    pub fn fill(&self, from: Region) -> Result<(), CudaError> {
        self.check(from.len())?;
        if self.length == 0 {
            return Ok(());
        }
        let from = self.pinned(from)?;
        self.fill_pinned(from)
    }

    /// As [`CudaMemory::fill`], but does not wait for pinned memory: whether the copy has begun. If not,
    /// copies are under way that give some back.
    ///
    /// # Errors
    /// As [`CudaMemory::fill`].
    pub fn fill_if_room(&self, from: &Region) -> Result<bool, CudaError> {
        self.check(from.len())?;
        if self.length == 0 {
            return Ok(true);
        }
        if self.cuda.all.staging.has(from) {
            return self.fill_pinned(from.clone()).map(|()| true);
        }
        let Some(staged) = self.cuda.stage_if_room(self.device, self.length)? else {
            return Ok(false);
        };
        // SAFETY: nobody else has the staged memory yet, and `from` is only read.
        unsafe { staged.write(0, from.bytes()) };
        self.fill_pinned(staged).map(|()| true)
    }

    fn fill_pinned(&self, from: Region) -> Result<(), CudaError> {
        let streams = self.cuda.streams(self.device)?;
        let copy = Copy::ToDevice {
            to: self.pointer,
            from: from.as_ptr().expose_provenance(),
            length: self.length,
        };
        let owner = Arc::clone(&self.owner);
        match self.put(copy, streams.up) {
            Ok(done) => self.cuda.keep(done, Arc::new(from), owner),
            Err(error) => return Err(lost(error, (from, owner))),
        }
        Ok(())
    }

    /// The same bytes in pinned memory.
    fn pinned(&self, from: Region) -> Result<Region, CudaError> {
        if self.cuda.all.staging.has(&from) {
            return Ok(from);
        }
        let staged = self.cuda.stage(self.device, self.length)?;
        // SAFETY: nobody else has the staged memory yet, and `from` is only read.
        unsafe { staged.write(0, from.bytes()) };
        Ok(staged)
    }

    /// Its bytes on the host, by one copy into pinned memory, which is waited for.
    ///
    /// # Errors
    /// [`CudaError::NoStaging`], and what the driver says.
    pub fn to_host(&self) -> Result<Region, CudaError> {
        if self.length == 0 {
            return Ok(Region::from(Bytes::new()));
        }
        let staged = self.cuda.stage(self.device, self.length)?;
        let streams = self.cuda.streams(self.device)?;
        let to = staged.as_ptr().expose_provenance();
        let copy = Copy::ToHost { to, from: self.pointer, length: self.length };
        match self.begin(copy, streams.down).and_then(|done| done.wait()) {
            Ok(()) => Ok(staged),
            Err(error) => Err(lost(error, staged)),
        }
    }

    /// Begins to copy its bytes to pinned memory, unless that was begun before for it or its clones.
    ///
    /// # Errors
    /// As [`CudaMemory::to_host`].
    pub fn stage(&self) -> Result<(), CudaError> {
        if self.length == 0 || self.is_staged() {
            return Ok(());
        }
        let staged = self.cuda.stage(self.device, self.length)?;
        let streams = self.cuda.streams(self.device)?;
        let to = staged.as_ptr().expose_provenance();
        let copy = Copy::ToHost { to, from: self.pointer, length: self.length };
        let owner = Arc::clone(&self.owner);
        match self.begin(copy, streams.down) {
            Ok(done) => {
                self.cuda.keep(Arc::clone(&done), Arc::new(staged.clone()), owner);
                // Who was first stays.
                drop(self.order.staged.set((staged, done)));
                Ok(())
            }
            Err(error) => Err(lost(error, (staged, owner))),
        }
    }

    /// Its bytes on the host as they were when [`CudaMemory::stage`] or this was first asked of it, or its
    /// clones.
    ///
    /// # Errors
    /// As [`CudaMemory::to_host`].
    pub fn staged(&self) -> Result<Region, CudaError> {
        self.stage()?;
        let Some((staged, done)) = self.order.staged.get() else {
            return Ok(Region::from(Bytes::new()));
        };
        done.wait()?;
        Ok(staged.clone())
    }

    /// Whether that was asked before.
    pub fn is_staged(&self) -> bool {
        self.order.staged.get().is_some()
    }

    /// A name by which another process of this host, that sees the device, can copy from it.
    ///
    /// # Errors
    /// What the driver says of memory that cannot be shared.
    pub fn name(&self) -> Result<Named, CudaError> {
        if let Some(named) = self.order.named.get() {
            return Ok(*named);
        }
        let device = self.cuda.device(self.device)?.uuid;
        let named = self.cuda.all.driver.export(self.device, self.pointer);
        let (handle, offset) = named.map_err(said(self.device))?;
        let named = Named { device, handle, offset, length: self.length as u64 };
        Ok(*self.order.named.get_or_init(|| named))
    }

    /// Whether so many bytes can be copied onto it.
    pub(super) fn check(&self, length: usize) -> Result<(), CudaError> {
        if length != self.length {
            return Err(CudaError::Length { from: length, to: self.length });
        }
        match self.is_writable || self.length == 0 {
            true => Ok(()),
            false => Err(CudaError::ReadOnly { device: self.device }),
        }
    }

    /// The owner. The memory is freed when nobody holds it any more.
    pub(super) fn owner(&self) -> Owner {
        Arc::clone(&self.owner)
    }

    /// Puts a copy onto it on a stream. What is to be waited for.
    pub(super) fn put(&self, copy: Copy, stream: StreamHandle) -> Result<Arc<Event>, CudaError> {
        let done = self.begin(copy, stream)?;
        *self.order.ready() = Some(Arc::clone(&done));
        Ok(done)
    }

    fn begin(&self, copy: Copy, stream: StreamHandle) -> Result<Arc<Event>, CudaError> {
        let driver = &self.cuda.all.driver;
        let done = Event::new(driver, self.device)?;
        self.order.events().try_for_each(|event| event.hold(stream))?;
        // SAFETY: both places are there and so long; they are kept, or waited for, until it is done.
        unsafe { driver.copy(self.device, copy, stream) }.map_err(said(self.device))?;
        done.record(stream)?;
        Ok(Arc::new(done))
    }
}

impl fmt::Debug for CudaMemory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.is_writable { "writable" } else { "read-only" };
        write!(out, "{} bytes at {:#x} of {}, {access}", self.length, self.pointer, self.device)
    }
}

/// What a device may still use, although it says that something is wrong: it is never given to others.
pub(super) fn lost<T>(error: CudaError, used: T) -> CudaError {
    std::mem::forget(used);
    error
}

/// Memory that was allocated here.
#[derive(Debug)]
struct Allocation {
    driver: Arc<dyn Driver>,
    device: Ordinal,
    pointer: u64,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: it was allocated here; who copies to or from it has this until the copy is done.
        if let Err(error) = unsafe { self.driver.free(self.device, self.pointer) } {
            tracing::warn!(%error, device = %self.device, "memory is not given back");
        }
    }
}

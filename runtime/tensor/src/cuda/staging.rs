//! Pinned memory that copies to and from devices go through: bounded, and used again.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::driver::{CallError, Driver, Ordinal};
use super::error::CudaError;
use super::event::said;
use crate::Region;

/// Blocks have a multiple of so many bytes.
const GRAIN_BYTES: usize = 64 << 10;

/// The pinned memory of a process.
#[derive(Debug)]
pub(super) struct Staging {
    driver: Arc<dyn Driver>,
    bytes_max: usize,
    blocks: Mutex<Blocks>,
    /// Blocks were given back to the system.
    left: Condvar,
}

/// Why no pinned memory was taken.
#[derive(Debug)]
pub(super) struct NotTaken {
    pub(super) error: CudaError,
    /// Blocks are on their way back to the system, which makes room.
    pub(super) is_soon: bool,
}

#[derive(Debug, Default)]
struct Blocks {
    /// Nobody uses these; the newest last.
    idle: Vec<Block>,
    /// All, used or not: where each begins, and how long it is.
    all: BTreeMap<usize, usize>,
    /// Bytes of all.
    pinned: usize,
    /// Bytes of those that are used.
    used: usize,
    /// Of these, bytes that their users did not ask for: their blocks are longer.
    surplus: usize,
    /// The most bytes of which [`Staging::check`] said that they can be had together.
    promised: usize,
    /// Bytes of those that are on their way back to the system.
    leaving: usize,
}

#[derive(Debug)]
struct Block {
    start: NonNull<u8>,
    length: usize,
    device: Ordinal,
    /// Bytes of it that its user did not ask for; 0 while nobody uses it.
    surplus: usize,
}

// SAFETY: it is memory, which does not belong to a thread.
unsafe impl Send for Block {}
// SAFETY: as for Send; it is only reached by whom it was given to.
unsafe impl Sync for Block {}

/// A block that somebody uses, as long as this is there.
struct Used {
    staging: Arc<Staging>,
    block: Option<Block>,
}

impl Drop for Used {
    fn drop(&mut self) {
        if let Some(mut block) = self.block.take() {
            let mut blocks = self.staging.lock();
            blocks.used = blocks.used.saturating_sub(block.length);
            let surplus = std::mem::take(&mut block.surplus);
            blocks.surplus = blocks.surplus.saturating_sub(surplus);
            blocks.idle.push(block);
        }
    }
}

impl Blocks {
    /// A block that is long enough: the shortest of at most `most` bytes.
    fn take(&mut self, length: usize, most: usize) -> Option<Block> {
        let fit = self.idle.iter().enumerate();
        let fit = fit.filter(|(_, block)| (length..=most).contains(&block.length));
        let (at, _) = fit.min_by_key(|(_, block)| block.length)?;
        let mut block = self.idle.swap_remove(at);
        self.used = self.used.saturating_add(block.length);
        block.surplus = block.length.saturating_sub(length);
        self.surplus = self.surplus.saturating_add(block.surplus);
        Some(block)
    }
}

impl Staging {
    pub(super) fn new(driver: Arc<dyn Driver>, bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { driver, bytes_max, blocks: Mutex::default(), left: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pinned memory, which is used again when nobody has it any more.
    ///
    /// # Errors
    /// [`CudaError::NoStaging`] at the bound. Blocks that nobody uses are given back to make room, which is
    /// not waited for: the driver gives none back before the device has done all that it was asked for.
    pub(super) fn take(
        self: &Arc<Self>,
        device: Ordinal,
        length: usize,
    ) -> Result<Region, NotTaken> {
        let block = self.block(device, length)?;
        let start = block.start.as_ptr();
        let owner = Arc::new(Used { staging: Arc::clone(self), block: Some(block) });
        // SAFETY: the block has so many bytes, which nobody else is given as long as its owner is there.
        Ok(unsafe { Region::from_raw(start, length, true, owner) })
    }

    fn block(self: &Arc<Self>, device: Ordinal, length: usize) -> Result<Block, NotTaken> {
        let mut blocks = self.lock();
        let wanted = length.max(1).checked_next_multiple_of(GRAIN_BYTES);
        let Some(wanted) = wanted.filter(|wanted| *wanted <= self.bytes_max) else {
            return Err(self.full(&blocks, length, false));
        };
        let most = wanted.saturating_add(self.surplus_left(&blocks));
        if let Some(block) = blocks.take(wanted, most.min(wanted.saturating_mul(2))) {
            return Ok(block);
        }
        if blocks.pinned.saturating_add(wanted) > self.bytes_max {
            // What nobody uses makes room, unless something of it is long enough after all.
            if let Some(block) = blocks.take(wanted, most) {
                return Ok(block);
            }
            self.make_room(&mut blocks, wanted);
            let is_soon = blocks.leaving > 0;
            return Err(self.full(&blocks, length, is_soon));
        }
        let start = self.driver.pin(device, wanted).map_err(|error| match error.code {
            CallError::OUT_OF_MEMORY => self.full(&blocks, length, false),
            _ => NotTaken { error: said(device)(error), is_soon: false },
        })?;
        blocks.all.insert(start.as_ptr().addr(), wanted);
        blocks.pinned = blocks.pinned.saturating_add(wanted);
        blocks.used = blocks.used.saturating_add(wanted);
        Ok(Block { start, length: wanted, device, surplus: 0 })
    }

    /// How many bytes more than was asked for may be given out, so that what was promised still fits.
    fn surplus_left(&self, blocks: &Blocks) -> usize {
        self.bytes_max.saturating_sub(blocks.promised).saturating_sub(blocks.surplus)
    }

    fn full(&self, blocks: &Blocks, length: usize, is_soon: bool) -> NotTaken {
        let error = CudaError::NoStaging { bytes: length, used: blocks.used, max: self.bytes_max };
        NotTaken { error, is_soon }
    }

    /// Gives back as many unused blocks as are in the way of so many bytes, on a thread of its own.
    fn make_room(self: &Arc<Self>, blocks: &mut Blocks, wanted: usize) {
        let mut leaving = Vec::new();
        let stays = |blocks: &Blocks| blocks.pinned.saturating_sub(blocks.leaving);
        while stays(blocks).saturating_add(wanted) > self.bytes_max && !blocks.idle.is_empty() {
            let block = blocks.idle.remove(0);
            blocks.leaving = blocks.leaving.saturating_add(block.length);
            leaving.push(block);
        }
        if leaving.is_empty() {
            return;
        }
        let bytes = leaving.iter().fold(0_usize, |sum, block| sum.saturating_add(block.length));
        let staging = Arc::clone(self);
        let unpin = move || staging.let_go(leaving);
        let thread = std::thread::Builder::new().name("rondo-cuda-unpin".into());
        if let Err(error) = thread.spawn(unpin) {
            // They are lost, and count until the end.
            tracing::error!(%error, "pinned memory is not given back");
            blocks.leaving = blocks.leaving.saturating_sub(bytes);
        }
    }

    fn let_go(&self, leaving: Vec<Block>) {
        for block in leaving {
            self.give_back(&block);
            let mut blocks = self.lock();
            blocks.all.remove(&block.start.as_ptr().addr());
            blocks.pinned = blocks.pinned.saturating_sub(block.length);
            blocks.leaving = blocks.leaving.saturating_sub(block.length);
            drop(blocks);
            self.left.notify_all();
        }
    }

    /// Waits until some of the blocks are back that are on their way.
    pub(super) fn wait_for_room(&self) {
        let blocks = self.lock();
        let before = blocks.leaving;
        let waited =
            self.left.wait_while(blocks, |blocks| blocks.leaving > 0 && blocks.leaving >= before);
        drop(waited);
    }

    fn give_back(&self, block: &Block) {
        // SAFETY: it was pinned here, and is used by nobody.
        if let Err(error) = unsafe { self.driver.unpin(block.device, block.start) } {
            tracing::warn!(%error, "pinned memory is not given back");
        }
    }

    /// Whether blocks of these lengths are within the bound together. If so, no surplus of blocks that are
    /// used from now on is in their way.
    pub(super) fn check(&self, lengths: &[usize]) -> Result<(), CudaError> {
        let block = |length: &usize| length.max(&1).checked_next_multiple_of(GRAIN_BYTES);
        let all = lengths.iter().try_fold(0_usize, |sum, length| sum.checked_add(block(length)?));
        if let Some(all) = all.filter(|all| *all <= self.bytes_max) {
            let mut blocks = self.lock();
            blocks.promised = blocks.promised.max(all);
            return Ok(());
        }
        let bytes = lengths.iter().fold(0_usize, |sum, length| sum.saturating_add(*length));
        Err(CudaError::NoStaging { bytes, used: self.bytes().1, max: self.bytes_max })
    }

    /// Whether memory is pinned here.
    pub(super) fn has(&self, region: &Region) -> bool {
        let (start, length) = (region.as_ptr().addr(), region.len());
        let blocks = self.lock();
        let block = blocks.all.range(..=start).next_back();
        block.is_some_and(|(from, all)| start.saturating_add(length) <= from.saturating_add(*all))
    }

    /// Bytes that are pinned, and those of them that are used.
    pub(super) fn bytes(&self) -> (usize, usize) {
        let blocks = self.lock();
        (blocks.pinned, blocks.used)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let blocks = self.blocks.get_mut().unwrap_or_else(PoisonError::into_inner);
        for block in std::mem::take(&mut blocks.idle) {
            self.give_back(&block);
        }
    }
}

//! Pinned memory that copies to and from devices go through: bounded, and used again.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
}

#[derive(Debug)]
struct Block {
    start: NonNull<u8>,
    length: usize,
    device: Ordinal,
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
        if let Some(block) = self.block.take() {
            let mut blocks = self.staging.lock();
            blocks.used = blocks.used.saturating_sub(block.length);
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
        let block = self.idle.swap_remove(at);
        self.used = self.used.saturating_add(block.length);
        Some(block)
    }
}

impl Staging {
    pub(super) fn new(driver: Arc<dyn Driver>, bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { driver, bytes_max, blocks: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pinned memory, which is used again when nobody has it any more.
    ///
    /// # Errors
    /// [`CudaError::NoStaging`] at the bound.
    pub(super) fn take(
        self: &Arc<Self>,
        device: Ordinal,
        length: usize,
    ) -> Result<Region, CudaError> {
        let block = self.block(device, length)?;
        let start = block.start.as_ptr();
        let owner = Arc::new(Used { staging: Arc::clone(self), block: Some(block) });
        // SAFETY: the block has so many bytes, which nobody else is given as long as its owner is there.
        Ok(unsafe { Region::from_raw(start, length, true, owner) })
    }

    fn block(&self, device: Ordinal, length: usize) -> Result<Block, CudaError> {
        let full = |used: usize| CudaError::NoStaging { bytes: length, used, max: self.bytes_max };
        let mut blocks = self.lock();
        let wanted = length.max(1).checked_next_multiple_of(GRAIN_BYTES);
        let wanted = wanted.filter(|wanted| *wanted <= self.bytes_max);
        let wanted = wanted.ok_or_else(|| full(blocks.used))?;
        if let Some(block) = blocks.take(wanted, wanted.saturating_mul(2)) {
            return Ok(block);
        }
        // What nobody uses makes room, unless something of it is long enough after all.
        while blocks.pinned.saturating_add(wanted) > self.bytes_max {
            if let Some(block) = blocks.take(wanted, usize::MAX) {
                return Ok(block);
            }
            if blocks.idle.is_empty() {
                return Err(full(blocks.used));
            }
            let block = blocks.idle.remove(0);
            self.unpin(&mut blocks, &block);
        }
        let start = self.driver.pin(device, wanted).map_err(|error| match error.code {
            CallError::OUT_OF_MEMORY => full(blocks.used),
            _ => said(device)(error),
        })?;
        blocks.all.insert(start.as_ptr().addr(), wanted);
        blocks.pinned = blocks.pinned.saturating_add(wanted);
        blocks.used = blocks.used.saturating_add(wanted);
        Ok(Block { start, length: wanted, device })
    }

    fn unpin(&self, blocks: &mut Blocks, block: &Block) {
        blocks.all.remove(&block.start.as_ptr().addr());
        blocks.pinned = blocks.pinned.saturating_sub(block.length);
        // SAFETY: it was pinned here, and is used by nobody.
        if let Err(error) = unsafe { self.driver.unpin(block.device, block.start) } {
            tracing::warn!(%error, "pinned memory is not given back");
        }
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
        let mut blocks =
            std::mem::take(self.blocks.get_mut().unwrap_or_else(PoisonError::into_inner));
        for block in std::mem::take(&mut blocks.idle) {
            self.unpin(&mut blocks, &block);
        }
    }
}

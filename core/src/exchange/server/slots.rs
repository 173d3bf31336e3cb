//! Registered memory where pushes land.

use alloc::collections::BTreeSet;

use super::machine::{Server, Slot};
use crate::exchange::ids::{Key, WorkerRank};
use crate::exchange::refusal::Refusal;

impl<T: Clone> Server<T> {
    /// Cuts a buffer into equal slots. A slot that is not in use may be replaced.
    pub(super) fn register(
        &mut self,
        buffer: &T,
        bytes: u64,
        workers: &[WorkerRank],
        keys: &[Key],
    ) -> Result<(), Refusal> {
        let chunks = workers.len() as u64;
        let divides = bytes.checked_rem(chunks) == Some(0);
        if !divides || workers.len() != keys.len() {
            return Err(Refusal::Chunks { bytes, workers: workers.len(), keys: keys.len() });
        }
        let chunk = bytes.checked_div(chunks).unwrap_or_default();
        let mut named = BTreeSet::new();
        for (worker, key) in workers.iter().zip(keys) {
            self.check_slot(*worker, *key)?;
            if !named.insert((*worker, *key)) {
                return Err(Refusal::SlotTaken { key: *key, worker: *worker });
            }
        }
        let new = named.iter().filter(|named| !self.slots.contains_key(named)).count();
        let max = self.config.slots_max;
        if self.slots.len().saturating_add(new) > max {
            return Err(Refusal::TooManySlots { max });
        }
        let mut offset = 0_u64;
        for (worker, key) in workers.iter().zip(keys) {
            let slot = Slot { buffer: buffer.clone(), offset, bytes: chunk, is_taken: false };
            self.slots.insert((*worker, *key), slot);
            offset = offset.saturating_add(chunk);
        }
        Ok(())
    }

    fn check_slot(&self, worker: WorkerRank, key: Key) -> Result<(), Refusal> {
        let workers = self.membership.as_ref().map(|it| it.sizes.workers);
        if let Some(workers) = workers.filter(|workers| worker.get() >= *workers) {
            return Err(Refusal::NoWorker { worker, workers });
        }
        match self.slots.get(&(worker, key)) {
            Some(slot) if slot.is_taken => Err(Refusal::SlotTaken { key, worker }),
            _ => Ok(()),
        }
    }

    /// Nothing that lies in these slots is read any more.
    pub(super) fn free(&mut self, worker: WorkerRank, keys: &[Key]) {
        for key in keys {
            if let Some(slot) = self.slots.get_mut(&(worker, *key)) {
                slot.is_taken = false;
            }
        }
    }
}

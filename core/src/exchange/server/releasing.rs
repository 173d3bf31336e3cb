//! What was pushed and is not read any more.

use alloc::vec::Vec;

use super::answering::Known;
use super::machine::Server;
use super::peer::Phase;
use super::types::Effect;
use crate::exchange::ids::{RequestNumber, UnitHandler, WorkerRank};
use crate::exchange::message::ToWorker;
use crate::exchange::refusal::{PeerLost, Refusal};
use crate::limits::PARKED_CALLS_MAX;

/// Units that owed no answer and are over, and of which is remembered that none was given.
pub(in crate::exchange) const EXCUSED_MAX: usize = PARKED_CALLS_MAX;

impl<T: Clone> Server<T> {
    /// The application does not read any more what a unit pushed.
    pub(super) fn release_unit(
        &mut self,
        unit: UnitHandler,
        out: &mut Vec<Effect<T>>,
    ) -> Result<(), Refusal> {
        match self.known(unit)? {
            Known::Open { .. } if self.unowing.contains(&unit) => self.release_unowing(unit, out),
            Known::Open { worker, number, .. } => self.release(worker, number, true, out),
            Known::Orphan => {
                self.end_orphan(unit);
            }
            Known::Excused => {}
        }
        Ok(())
    }

    /// The same of a unit that is known to be given out, and owes no answer. The application may say so
    /// later, by an answer of nothing.
    pub(super) fn release_unowing(&mut self, unit: UnitHandler, out: &mut Vec<Effect<T>>) {
        self.excused.insert(unit);
        while self.excused.len() > EXCUSED_MAX {
            self.excused.pop_first();
        }
        if let Some((worker, number)) = self.units.get(&unit).copied() {
            self.release(worker, number, true, out);
        } else {
            self.end_orphan(unit);
        }
    }

    /// What a lost worker pushed in a unit is not read any more.
    pub(super) fn end_orphan(&mut self, unit: UnitHandler) -> Option<PeerLost> {
        let orphan = self.orphans.remove(&unit)?;
        self.unowing.remove(&unit);
        self.free(orphan.worker, &orphan.slots);
        Some(orphan.lost)
    }

    /// What a request pushed is not read any more, which the worker is told if it does not learn it
    /// otherwise.
    pub(super) fn release(
        &mut self,
        worker: WorkerRank,
        number: RequestNumber,
        tells: bool,
        out: &mut Vec<Effect<T>>,
    ) {
        let Some(peer) = self.peers.get_mut(&worker) else {
            return;
        };
        let Some(record) = peer.records.get_mut(&number).filter(|it| !it.is_released) else {
            return;
        };
        record.is_released = true;
        let (bytes, keys) = (record.bytes, core::mem::take(&mut record.keys));
        let slots = core::mem::take(&mut record.slots);
        let over = match &record.phase {
            Phase::GivenOut { unit } if !record.owes_answer() => Some(*unit),
            _ => None,
        };
        peer.uncount(bytes, &keys);
        if let Some(unit) = over {
            peer.records.remove(&number);
            self.units.remove(&unit);
            self.unowing.remove(&unit);
        }
        if tells && let Some(connection) = peer.connection {
            out.push(Effect::Send { connection, message: ToWorker::Released { number } });
        }
        self.free(worker, &slots);
    }
}

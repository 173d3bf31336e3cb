//! Workers that are lost, and what they sent.

use alloc::format;
use alloc::vec::Vec;

use super::machine::{Orphan, Server};
use super::peer::{Phase, Record};
use super::types::{Effect, Event};
use crate::exchange::ids::WorkerRank;
use crate::exchange::refusal::{PeerLost, Refusal};
use crate::limits::PARKED_CALLS_MAX;
use crate::time::Time;

/// Units that were given out before their workers were lost, and are remembered until they are answered.
const ORPHANS_MAX: usize = PARKED_CALLS_MAX;

impl<T: Clone> Server<T> {
    /// A worker is lost, unless it was before. What it sent is of no use any more.
    pub(super) fn lose(&mut self, worker: WorkerRank, why: &str, out: &mut Vec<Effect<T>>) {
        self.up.remove(&worker);
        self.ready.remove(&worker);
        let Some(peer) = self.peers.get_mut(&worker).filter(|peer| peer.lost.is_none()) else {
            return;
        };
        let loss = peer.loss(why);
        peer.lost = Some(loss.clone());
        peer.given_up = peer.received;
        peer.queue.clear();
        peer.keys.clear();
        peer.bytes = 0;
        let records = core::mem::take(&mut peer.records);
        if let Some(connection) = peer.connection.take() {
            self.connections.remove(&connection);
            out.push(Effect::Close { connection });
        }
        for record in records.into_values() {
            self.orphan(worker, &loss, record);
        }
        out.push(Effect::Observe(Event::Lost(loss)));
    }

    /// A request's worker is lost. What the application has of it it may still read.
    fn orphan(&mut self, worker: WorkerRank, lost: &PeerLost, record: Record<T>) {
        match record.phase {
            Phase::GivenOut { unit } => {
                self.units.remove(&unit);
                let slots = record.slots;
                self.orphans.insert(unit, Orphan { worker, lost: lost.clone(), slots });
                // The slots of those forgotten stay taken: they may still be read.
                while self.orphans.len() > ORPHANS_MAX {
                    if let Some((forgotten, _)) = self.orphans.pop_first() {
                        self.unowing.remove(&forgotten);
                    }
                }
            }
            Phase::Queued { unit, .. } => {
                self.units.remove(&unit);
                self.free(worker, &record.slots);
            }
            Phase::Answered { .. } | Phase::Refused { .. } => {}
        }
    }

    /// A worker's connection has been broken for as long as it may be.
    pub(super) fn gone_for_too_long(
        &mut self,
        now: Time,
        worker: WorkerRank,
        out: &mut Vec<Effect<T>>,
    ) {
        let grace = self.config.reconnect_grace;
        let is_due = |down: Time| down.after(grace) <= now;
        if self.peers.get(&worker).and_then(|peer| peer.down).is_some_and(is_due) {
            let why = format!(
                "its connection was not made again within {} ms (reconnect_grace)",
                grace.as_millis()
            );
            self.lose(worker, &why, out);
            self.serve(out);
        }
    }

    /// The server stops.
    pub(super) fn stop(&mut self, out: &mut Vec<Effect<T>>) {
        self.is_stopped = true;
        self.dues.clear();
        self.strangers.clear();
        for parked in core::mem::take(&mut self.parked) {
            out.push(Effect::Batch { call: parked.call, result: Err(Refusal::Stopped) });
        }
        for (connection, worker) in core::mem::take(&mut self.connections) {
            if let Some(peer) = self.peers.get_mut(&worker) {
                peer.connection = None;
            }
            out.push(Effect::Close { connection });
        }
    }
}

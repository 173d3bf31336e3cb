//! What a server tells of itself.

use super::machine::Server;
use super::peer::{Peer, Phase};

/// What a server has in hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Units that wait to be given out.
    pub queued: usize,
    /// Units that were given out and not answered.
    pub given_out: usize,
    /// Units that were given out and whose workers were lost since.
    pub orphans: usize,
    /// Answers and refusals that are kept until the worker has them.
    pub kept: usize,
    /// Bytes of what was pushed and may be read.
    pub bytes: u64,
    /// Calls that wait for a batch.
    pub calls: usize,
    /// Slots that are registered.
    pub slots: usize,
    /// Of these, those in use.
    pub taken: usize,
    /// Workers that are connected.
    pub connected: usize,
}

impl<T: Clone> Server<T> {
    /// What it has in hand.
    pub fn report(&self) -> Report {
        let kept = |peer: &Peer<T>| {
            let is_kept =
                |phase: &Phase<T>| matches!(phase, Phase::Answered { .. } | Phase::Refused { .. });
            peer.records.values().filter(|record| is_kept(&record.phase)).count()
        };
        let queued = self.peers.values().map(|peer| peer.queue.len()).sum();
        Report {
            queued,
            given_out: self.units.len().saturating_sub(queued),
            orphans: self.orphans.len(),
            kept: self.peers.values().map(kept).sum(),
            bytes: self.peers.values().fold(0, |sum, peer| peer.bytes.saturating_add(sum)),
            calls: self.parked.len(),
            slots: self.slots.len(),
            taken: self.slots.values().filter(|slot| slot.is_taken).count(),
            connected: self.connections.len(),
        }
    }
}

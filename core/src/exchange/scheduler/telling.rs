//! What everybody is told, a slice at a time: who takes part, and how barriers ended.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::machine::Scheduler;
use super::seat::{Kind, Peer};
use super::types::Effect;
use crate::exchange::ids::NodeId;
use crate::exchange::membership::Membership;
use crate::exchange::message::ToMember;
use crate::limits::ANSWERS_PER_STEP_MAX;

/// Who is to be told something.
#[derive(Clone, Debug, Default)]
pub(super) struct Telling {
    /// The latest membership.
    pub(super) membership: Option<Arc<Membership>>,
    /// Who has not been told of it.
    pub(super) untold: BTreeSet<Peer>,
    /// Who is to hear how a barrier ended.
    pub(super) ended: VecDeque<(Peer, Kind)>,
}

impl Telling {
    pub(super) fn is_pending(&self) -> bool {
        !self.untold.is_empty() || !self.ended.is_empty()
    }
}

impl Scheduler {
    /// Makes a membership of the seats if they differ from the last one.
    pub(super) fn publish(&mut self) {
        let Some(sizes) = self.sizes.filter(|_| self.is_changed) else {
            return;
        };
        self.is_changed = false;
        self.version = self.version.next();
        let members = self.seats.iter().map(|(peer, seat)| seat.member(*peer)).collect();
        let membership = Membership { version: self.version, sizes, members };
        self.telling.membership = Some(Arc::new(membership));
        self.telling.untold = self.up().map(|(peer, _)| *peer).collect();
        self.count_up();
    }

    /// Tells some of those who have not been told yet.
    pub(super) fn tell(&mut self, out: &mut Vec<Effect>) {
        for _ in 0..ANSWERS_PER_STEP_MAX {
            // Nobody hears of a barrier before it knows who takes part.
            if let Some(peer) = self.telling.untold.pop_first() {
                self.tell_membership(peer, out);
            } else if let Some((peer, kind)) = self.telling.ended.pop_front() {
                self.tell_result(peer, kind, out);
            } else {
                return;
            }
        }
    }

    fn tell_membership(&mut self, peer: Peer, out: &mut Vec<Effect>) {
        let passed = self.meetings.passed();
        let (Some(seat), Some(membership)) =
            (self.seats.get_mut(&peer), self.telling.membership.clone())
        else {
            return;
        };
        // Who is not connected is told when it is again.
        let Some(connection) = seat.connection() else {
            return;
        };
        let (role, rank) = peer;
        let message = match NodeId::of(role, rank) {
            Some(node) if !seat.is_assigned => {
                ToMember::Assigned { node, rank, membership, passed }
            }
            _ => ToMember::Membership(membership),
        };
        seat.is_assigned = true;
        seat.is_movable = false;
        out.push(Effect::Send { connection, message });
    }

    fn tell_result(&self, peer: Peer, kind: Kind, out: &mut Vec<Effect>) {
        let Some(seat) = self.seats.get(&peer) else {
            return;
        };
        // Who is not connected asks again.
        if let (Some(connection), Some(asked)) = (seat.connection(), seat.asked.get(&kind))
            && let Some(result) = asked.result.clone()
        {
            let message = ToMember::BarrierDone { number: asked.number, result };
            out.push(Effect::Send { connection, message });
        }
    }
}

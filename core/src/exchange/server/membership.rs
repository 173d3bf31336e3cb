//! Which workers there are.

use alloc::format;
use alloc::vec::Vec;

use super::machine::Server;
use super::peer::Peer;
use super::types::Effect;
use crate::exchange::ids::WorkerRank;
use crate::exchange::membership::{Member, Membership, State};
use crate::exchange::role::Role;

impl<T: Clone> Server<T> {
    /// Learns who takes part.
    pub(super) fn learn(&mut self, new: Membership, out: &mut Vec<Effect<T>>) {
        let known = self.membership.as_ref().map(|known| known.version);
        if self.is_stopped || known.is_some_and(|known| new.version <= known) {
            return;
        }
        let (sizes, index) = (new.sizes, new.sizes.index(self.rank));
        let workers: Vec<(WorkerRank, Member)> = (0..sizes.workers)
            .map(WorkerRank::new)
            .filter_map(|worker| {
                let member = new.member(Role::Worker, sizes.worker(worker, index))?;
                Some((worker, member.clone()))
            })
            .collect();
        self.membership = Some(new);
        for (worker, member) in workers {
            match member.state {
                State::Up => self.is_up(worker, &member, out),
                State::Left | State::Lost => self.is_gone(worker, &member, out),
            }
        }
        self.serve(out);
    }

    /// A worker takes part, as this run of it.
    fn is_up(&mut self, worker: WorkerRank, member: &Member, out: &mut Vec<Effect<T>>) {
        let is_known =
            self.peers.get(&worker).is_some_and(|peer| peer.incarnation == member.incarnation);
        if !is_known {
            self.lose(worker, "another run of it took its rank", out);
            self.disarm(worker);
            self.peers.insert(worker, Peer::new(member.rank, member.incarnation));
            self.up.insert(worker);
            return;
        }
        let Some(peer) = self.peers.get_mut(&worker).filter(|peer| !peer.is_member) else {
            return;
        };
        peer.is_member = true;
        peer.lost = None;
        self.up.insert(worker);
    }

    /// A worker does not take part any more.
    fn is_gone(&mut self, worker: WorkerRank, member: &Member, out: &mut Vec<Effect<T>>) {
        let how = if member.state == State::Left { "it left" } else { "it is lost" };
        let new = || Peer::new(member.rank, member.incarnation);
        self.peers.entry(worker).or_insert_with(new).is_member = false;
        self.lose(worker, &format!("the scheduler says that {how}"), out);
        self.disarm(worker);
    }
}

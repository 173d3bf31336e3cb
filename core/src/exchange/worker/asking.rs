//! Requests: what is asked, and whether it can be.

use alloc::vec::Vec;

use super::batch::{Batch, Part, Trace};
use super::machine::{Due, Worker};
use super::types::Effect;
use crate::exchange::config::Policy;
use crate::exchange::ids::{Handler, ServerRank};
use crate::exchange::message::Tensor;
use crate::exchange::refusal::{Refusal, Side};
use crate::time::Time;

impl<T: Clone> Worker<T> {
    /// Takes a request. It is sent afterwards.
    pub(super) fn exchange(
        &mut self,
        now: Time,
        pushes: Vec<Tensor<T>>,
        mut pulls: Vec<Tensor<T>>,
        ignores_rest: bool,
        out: &mut Vec<Effect<T>>,
    ) -> Result<Handler, Refusal> {
        let per_server = self.check_counts(pushes.len(), pulls.len(), ignores_rest)?;
        pulls.truncate(per_server.saturating_mul(self.peers.len()));
        self.check_sizes(&pushes, &pulls, per_server)?;
        let parts = self.parts()?;
        let first = self.next;
        let handlers = (pushes.len() as u64).saturating_add(per_server as u64);
        self.next = Handler::new(first.get().saturating_add(handlers));
        let trace = Trace { pushes: pushes.len() as u64, handlers, ..Trace::default() };
        let missing = parts.iter().filter(|part| !part.is_over()).count();
        let batch = Batch {
            started: now,
            pushes,
            pulls,
            per_server,
            parts,
            missing,
            landings: 0,
            failure: None,
            is_abandoned: false,
            calls: Vec::new(),
            trace,
        };
        for server in batch.awaited() {
            self.queue(now, first, server);
        }
        self.batches.insert(first, batch);
        self.settle(first, out);
        Ok(first)
    }

    /// How many of the pulls are of each server.
    fn check_counts(
        &self,
        pushes: usize,
        pulls: usize,
        ignores_rest: bool,
    ) -> Result<usize, Refusal> {
        if self.is_stopped {
            return Err(Refusal::Stopped);
        }
        let servers = self.membership.as_ref().ok_or(Refusal::NoMembership)?.sizes.servers;
        let count = usize::try_from(servers).unwrap_or(usize::MAX);
        let per_server = pulls.checked_div(count).unwrap_or_default();
        let rest = pulls.checked_rem(count).unwrap_or_default();
        if (rest > 0 && !ignores_rest) || (pulls > 0 && per_server == 0) {
            return Err(Refusal::Pulls { pulls, servers });
        }
        if pushes == 0 && per_server == 0 {
            return Err(Refusal::Empty);
        }
        let (tensors, max) = (pushes.saturating_add(per_server), self.config.tensors_max);
        if tensors > max {
            return Err(Refusal::TooManyTensors { tensors, max });
        }
        let max = self.config.handlers_max;
        if self.batches.len() >= max {
            return Err(Refusal::TooManyHandlers { max });
        }
        Ok(per_server)
    }

    fn check_sizes(
        &self,
        pushes: &[Tensor<T>],
        pulls: &[Tensor<T>],
        per_server: usize,
    ) -> Result<(), Refusal> {
        let max = self.config.request_bytes_max;
        let bytes_of = |tensors: &[Tensor<T>]| {
            tensors.iter().fold(0_u64, |sum, tensor| tensor.info.bytes().saturating_add(sum))
        };
        let bytes = bytes_of(pushes);
        if bytes > max {
            return Err(Refusal::RequestTooLarge { side: Side::Push, bytes, max });
        }
        let of_servers = pulls.chunks(per_server.max(1)).map(bytes_of);
        match of_servers.max().filter(|bytes| *bytes > max) {
            Some(bytes) => Err(Refusal::RequestTooLarge { side: Side::Pull, bytes, max }),
            None => Ok(()),
        }
    }

    /// What is to be done with each server: those that are lost are done without if that is allowed.
    fn parts(&self) -> Result<Vec<Part>, Refusal> {
        let lost = |peer: &super::peer::Peer| peer.lost.as_ref().map(|(lost, _)| lost.clone());
        let part = |peer| match (lost(peer), self.config.policy) {
            (None, _) | (Some(_), Policy::WaitForReturn { .. }) => Ok(Part::Queued),
            (Some(lost), Policy::Fail) => Err(Refusal::PeerLost(lost)),
            (Some(lost), Policy::Partial) => Ok(Part::Missing(lost)),
        };
        let parts = self.peers.values().map(part).collect::<Result<Vec<Part>, Refusal>>()?;
        match parts.first() {
            Some(Part::Missing(lost)) if parts.iter().all(Part::is_over) => {
                Err(Refusal::PeerLost(lost.clone()))
            }
            _ => Ok(parts),
        }
    }

    /// A request is to be sent to a server.
    pub(super) fn queue(&mut self, now: Time, first: Handler, server: ServerRank) {
        let Some(peer) = self.peers.get_mut(&server) else {
            return;
        };
        peer.queue.insert(first);
        if let (Some(_), Policy::WaitForReturn { timeout }) = (&peer.lost, self.config.policy) {
            self.dues.insert((now.after(timeout), Due::Return(first, server)));
        }
    }
}

//! Servers that are lost, and what becomes of requests that need them.

use alloc::format;
use alloc::vec::Vec;

use super::batch::Part;
use super::machine::{Due, Worker};
use super::types::{Effect, Event};
use crate::exchange::config::Policy;
use crate::exchange::ids::{Handler, ServerRank};
use crate::exchange::refusal::{PeerLost, Refusal};
use crate::time::Time;

impl<T: Clone> Worker<T> {
    /// A server is lost, unless it was before.
    pub(super) fn lose(
        &mut self,
        now: Time,
        server: ServerRank,
        why: &str,
        out: &mut Vec<Effect<T>>,
    ) {
        let Some(peer) = self.peers.get_mut(&server).filter(|peer| peer.lost.is_none()) else {
            return;
        };
        let loss = peer.loss(why);
        peer.lost = Some((loss.clone(), now));
        let sent = peer.open.values().filter(|open| !open.is_over).map(|open| open.handler);
        let needing: Vec<Handler> = sent.chain(peer.queue.iter().copied()).collect();
        out.push(Effect::Observe(Event::Lost(loss.clone())));
        for first in needing {
            match self.config.policy {
                Policy::Fail => self.fail(first, Refusal::PeerLost(loss.clone()), out),
                Policy::Partial => self.do_without(first, server, &loss, out),
                Policy::WaitForReturn { timeout } => {
                    self.dues.insert((now.after(timeout), Due::Return(first, server)));
                }
            }
        }
    }

    /// A request does without a server, unless no other one is left.
    fn do_without(
        &mut self,
        first: Handler,
        server: ServerRank,
        loss: &PeerLost,
        out: &mut Vec<Effect<T>>,
    ) {
        self.unqueue(first, server);
        let Some(batch) = self.batches.get_mut(&first).filter(|batch| batch.is_alive()) else {
            return;
        };
        if batch.part(server).is_none_or(|part| part.is_over()) {
            return;
        }
        let others = batch.parts.iter().filter(|part| !matches!(part, Part::Missing(_))).count();
        if others <= 1 {
            return self.fail(first, Refusal::PeerLost(loss.clone()), out);
        }
        batch.set(server, Part::Missing(loss.clone()));
        self.settle(first, out);
    }

    /// The connection to a server has been broken for as long as it may be.
    pub(super) fn gone_for_too_long(
        &mut self,
        now: Time,
        server: ServerRank,
        out: &mut Vec<Effect<T>>,
    ) {
        let grace = self.config.reconnect_grace;
        let is_due = |down: Time| down.after(grace) <= now;
        if self.peers.get(&server).and_then(|peer| peer.down).is_some_and(is_due) {
            let why = format!(
                "the connection to it was not made again within {} ms (reconnect_grace)",
                grace.as_millis()
            );
            self.lose(now, server, &why, out);
        }
    }

    /// A request has waited for the return of a server for as long as it may.
    pub(super) fn not_returned(
        &mut self,
        first: Handler,
        server: ServerRank,
        out: &mut Vec<Effect<T>>,
    ) {
        let lost = self.peers.get(&server).and_then(|peer| peer.lost.as_ref());
        let Some((lost, _)) = lost else {
            return;
        };
        let refusal = Refusal::PeerLost(lost.clone());
        let part = self.batches.get_mut(&first).and_then(|batch| batch.part(server));
        if part.is_some_and(|part| !part.is_over()) {
            self.fail(first, refusal, out);
        }
    }

    /// A server has returned.
    pub(super) fn wait_no_more_for(&mut self, server: ServerRank) {
        self.dues.retain(|(_, due)| !matches!(due, Due::Return(_, of) if *of == server));
    }
}

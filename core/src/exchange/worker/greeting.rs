//! What a server says to a worker that introduces itself.

use alloc::format;
use alloc::vec::Vec;

use super::batch::Part;
use super::machine::{Due, Worker};
use super::peer::Link;
use super::types::{Effect, Event};
use crate::exchange::config::Policy;
use crate::exchange::ids::{Handler, RequestNumber, ServerRank};
use crate::exchange::message::Welcome;
use crate::ids::ConnectionId;
use crate::time::Time;

impl<T: Clone> Worker<T> {
    pub(super) fn welcome(
        &mut self,
        now: Time,
        (server, connection): (ServerRank, ConnectionId),
        welcome: &Welcome,
        out: &mut Vec<Effect<T>>,
    ) {
        let Some(peer) = self.peers.get_mut(&server) else {
            return;
        };
        if welcome.incarnation != peer.incarnation || welcome.received > peer.last {
            let what = format!(
                "it is run {} and has request {}; run {} was greeted, and request {} is the last",
                welcome.incarnation, welcome.received, peer.incarnation, peer.last
            );
            return self.offended(now, server, &what, out);
        }
        peer.credits = welcome.credits;
        peer.link = Link::Ready { connection };
        peer.attempts = 0;
        let is_back = peer.lost.take().is_some();
        if let Some(since) = peer.down.take() {
            self.dues.remove(&(since.after(self.config.reconnect_grace), Due::Grace(server)));
        }
        let incarnation = peer.incarnation;
        out.push(Effect::Observe(Event::Ready { server, incarnation }));
        self.take_back(server, welcome.received);
        if is_back {
            self.wait_no_more_for(server);
        }
        self.send_queued(now, server, out);
    }

    /// What a server has not received is sent again, before what was not sent yet.
    fn take_back(&mut self, server: ServerRank, received: RequestNumber) {
        let Some(peer) = self.peers.get_mut(&server) else {
            return;
        };
        let not_received: Vec<RequestNumber> =
            peer.open.range(received.next()..).map(|(number, _)| *number).collect();
        peer.last = received;
        let handlers: Vec<Handler> =
            not_received.into_iter().filter_map(|number| peer.take_back(number)).collect();
        for first in handlers {
            self.requeue(first, server);
        }
    }

    /// A request is sent to a server again, if anybody waits for that.
    pub(super) fn requeue(&mut self, first: Handler, server: ServerRank) {
        let batch = self.batches.get_mut(&first).filter(|batch| batch.is_alive());
        if let (Some(batch), Some(peer)) = (batch, self.peers.get_mut(&server))
            && !batch.is_over(server)
        {
            batch.set(server, Part::Queued);
            peer.queue.insert(first);
        }
    }

    /// Whether requests wait until a server returns that is lost.
    pub(super) const fn waits_for_return(&self) -> bool {
        matches!(self.config.policy, Policy::WaitForReturn { .. })
    }

    /// A server says that this worker is not welcome.
    pub(super) fn rejected(
        &mut self,
        now: Time,
        server: ServerRank,
        why: &str,
        out: &mut Vec<Effect<T>>,
    ) {
        out.push(Effect::Observe(Event::Rejected { server, why: why.into() }));
        self.unlink(server, Link::Idle, out);
        self.pause(now, server);
    }

    /// A server does not keep to the protocol.
    pub(super) fn offended(
        &mut self,
        now: Time,
        server: ServerRank,
        what: &str,
        out: &mut Vec<Effect<T>>,
    ) {
        out.push(Effect::Observe(Event::Protocol { server, what: what.into() }));
        self.unlink(server, Link::Idle, out);
        self.pause(now, server);
    }
}

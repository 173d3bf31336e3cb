//! What is sent to servers, as far as they have room for it.

use alloc::vec::Vec;

use super::batch::Part;
use super::machine::{Due, Worker};
use super::peer::{Link, Open};
use super::types::Effect;
use crate::exchange::ids::{Handler, Key, RequestNumber, ServerRank};
use crate::exchange::message::{Request, ToServer};
use crate::exchange::refusal::{Refusal, Side};
use crate::exchange::stamps::{Point, Stamps};
use crate::ids::ConnectionId;
use crate::time::Time;

/// So many answers are acknowledged without waiting for a request to go along with.
const ACKNOWLEDGED_AT_ONCE: usize = 32;

impl<T: Clone> Worker<T> {
    /// Sends what a new request asks of each server, if that has room.
    pub(super) fn send_all(&mut self, now: Time, first: Handler, out: &mut Vec<Effect<T>>) {
        let Some(batch) = self.batches.get(&first) else {
            return;
        };
        for server in batch.awaited() {
            self.send_queued(now, server, out);
        }
    }

    /// Sends what waits for a server, as far as that has room.
    pub(super) fn send_queued(&mut self, now: Time, server: ServerRank, out: &mut Vec<Effect<T>>) {
        loop {
            let Some(peer) = self.peers.get(&server) else {
                return;
            };
            let (Link::Ready { connection }, Some(first)) = (peer.link, peer.queue.first()) else {
                return;
            };
            let first = *first;
            let Some(batch) = self.batches.get(&first).filter(|batch| batch.is_alive()) else {
                self.unqueue(first, server);
                continue;
            };
            let (bytes, keys, max) = (batch.bytes(), batch.keys(), peer.credits.bytes);
            if bytes > max {
                let refusal = Refusal::RequestTooLarge { side: Side::Push, bytes, max };
                self.unqueue(first, server);
                self.fail(first, refusal, out);
                continue;
            }
            if !peer.has_credit(bytes, &keys) {
                return;
            }
            self.send(now, (first, server, connection), bytes, keys, out);
        }
    }

    fn send(
        &mut self,
        now: Time,
        (first, server, connection): (Handler, ServerRank, ConnectionId),
        bytes: u64,
        keys: Vec<Key>,
        out: &mut Vec<Effect<T>>,
    ) {
        let (Some(peer), Some(batch)) = (self.peers.get_mut(&server), self.batches.get_mut(&first))
        else {
            return;
        };
        let number = peer.last.next();
        peer.queue.remove(&first);
        let awaits_answer = batch.awaits_answer();
        let (is_over, is_released) = (false, false);
        let open = Open { handler: first, bytes, keys, awaits_answer, is_over, is_released };
        peer.open(number, open);
        batch.set(
            server,
            Part::Sent { is_pushed: !batch.awaits_pushed(), is_answered: !awaits_answer },
        );
        let mut stamps = Stamps::default();
        stamps.set(Point::RequestStart, now);
        let request = Request {
            number,
            acknowledged: core::mem::take(&mut peer.acknowledge),
            pushes: batch.pushes.clone(),
            pulls: batch.asked_of(server),
            stamps,
        };
        if let Some(at) = peer.acknowledge_at.take() {
            self.dues.remove(&(at, Due::Acknowledge(server)));
        }
        out.push(Effect::Send { connection, message: ToServer::Request(request) });
    }

    /// The answer to a request has come: the server learns that with the next request, or soon.
    pub(super) fn will_acknowledge(
        &mut self,
        now: Time,
        server: ServerRank,
        number: RequestNumber,
        out: &mut Vec<Effect<T>>,
    ) {
        let at = now.after(self.config.acknowledge_pause);
        let Some(peer) = self.peers.get_mut(&server) else {
            return;
        };
        peer.acknowledge.push(number);
        if peer.acknowledge.len() >= ACKNOWLEDGED_AT_ONCE {
            self.acknowledge(server, out);
        } else if peer.acknowledge_at.is_none() {
            peer.acknowledge_at = Some(at);
            self.dues.insert((at, Due::Acknowledge(server)));
        }
    }

    /// Tells a server which answers have come.
    pub(super) fn acknowledge(&mut self, server: ServerRank, out: &mut Vec<Effect<T>>) {
        let Some(peer) = self.peers.get_mut(&server) else {
            return;
        };
        if let Some(at) = peer.acknowledge_at.take() {
            self.dues.remove(&(at, Due::Acknowledge(server)));
        }
        if let Link::Ready { connection } = peer.link
            && !peer.acknowledge.is_empty()
        {
            let numbers = core::mem::take(&mut peer.acknowledge);
            out.push(Effect::Send { connection, message: ToServer::Acknowledge { numbers } });
        }
    }
}

//! Where answers are written while they arrive.

use alloc::vec::Vec;

use super::batch::Part;
use super::hearing::fits;
use super::machine::{Worker, Written};
use super::peer::Link;
use super::types::{Effect, Landing};
use crate::exchange::ids::RequestNumber;
use crate::exchange::message::Tensor;
use crate::ids::ConnectionId;

impl<T: Clone> Worker<T> {
    /// Where the tensors of an answer are to be written, which the driver has seen the beginning of:
    /// of `tensors` the payloads mean nothing. What it says holds until the driver reports the answer,
    /// or that the connection is over.
    pub fn land<U>(
        &mut self,
        connection: ConnectionId,
        number: RequestNumber,
        tensors: &[Tensor<U>],
    ) -> Landing<T> {
        let Some((written, at)) = self.landing(connection, number, tensors) else {
            return Landing::Nowhere;
        };
        if let Some(batch) = self.batches.get_mut(&written.handler)
            && self.landings.insert(connection, written).is_none()
        {
            batch.landings = batch.landings.saturating_add(1);
        }
        Landing::At(at)
    }

    fn landing<U>(
        &mut self,
        connection: ConnectionId,
        number: RequestNumber,
        tensors: &[Tensor<U>],
    ) -> Option<(Written, Vec<T>)> {
        let server = *self.connections.get(&connection)?;
        let peer = self.peers.get(&server)?;
        let open = peer.open.get(&number).filter(|open| !open.is_over)?;
        let handler = open.handler;
        if peer.link != (Link::Ready { connection }) || self.landings.contains_key(&connection) {
            return None;
        }
        let batch = self.batches.get_mut(&handler).filter(|batch| batch.is_alive())?;
        if !matches!(batch.part(server), Some(Part::Sent { is_answered: false, .. })) {
            return None;
        }
        fits(server, batch.pulls_of(server), tensors).ok()?;
        let at = batch.pulls_of(server).iter().map(|pull| pull.payload.clone()).collect();
        Some((Written { handler, server, number }, at))
    }

    /// Nothing of this connection is being written any more.
    pub(super) fn no_longer_written(&mut self, connection: ConnectionId, out: &mut Vec<Effect<T>>) {
        let Some(written) = self.landings.remove(&connection) else {
            return;
        };
        if let Some(batch) = self.batches.get_mut(&written.handler) {
            batch.landings = batch.landings.saturating_sub(1);
        }
        self.settle(written.handler, out);
    }
}

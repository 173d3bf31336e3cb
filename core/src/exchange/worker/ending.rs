//! How requests end, and who is told.

use alloc::vec::Vec;

use super::batch::Batch;
use super::machine::{Due, Worker};
use super::peer::Link;
use super::types::{Complete, Effect};
use crate::exchange::ids::{Handler, ServerRank};
use crate::exchange::refusal::Refusal;
use crate::ids::CallId;

impl<T: Clone> Worker<T> {
    /// Tells who waits for a request, if it is complete.
    pub(super) fn settle(&mut self, first: Handler, out: &mut Vec<Effect<T>>) {
        let Some(batch) = self.batches.get_mut(&first).filter(|batch| batch.is_complete()) else {
            return;
        };
        let calls = core::mem::take(&mut batch.calls);
        let (result, mut is_forgotten) = (result(batch), batch.is_abandoned);
        for call in calls {
            let waited = self.end_call(call);
            is_forgotten |= waited == Some(first);
            out.push(Effect::Waited { call, result: result.clone() });
        }
        if is_forgotten {
            self.forget(first);
        }
    }

    /// A call waits no more. What it waited for.
    pub(super) fn end_call(&mut self, call: CallId) -> Option<Handler> {
        let waiting = self.calls.remove(&call)?;
        if let Some((at, _)) = waiting.due {
            self.dues.remove(&(at, Due::Call(call)));
        }
        Some(waiting.handler)
    }

    /// Nothing is known of a request any more but its stamps.
    pub(super) fn forget(&mut self, first: Handler) {
        let Some(batch) = self.batches.remove(&first) else {
            return;
        };
        self.traces.insert(first, batch.trace);
        while self.traces.len() > self.config.traces_max {
            self.traces.pop_first();
        }
    }

    /// A request fails. What still comes for it is of no use.
    pub(super) fn fail(&mut self, first: Handler, refusal: Refusal, out: &mut Vec<Effect<T>>) {
        let Some(batch) = self.batches.get_mut(&first).filter(|batch| batch.is_alive()) else {
            return;
        };
        if batch.missing == 0 {
            // It is complete, and nobody has asked.
            return;
        }
        batch.failure = Some(refusal);
        self.send_no_more(first);
        self.settle(first, out);
    }

    /// What is not sent of a request is not sent any more.
    fn send_no_more(&mut self, first: Handler) {
        let awaited = self.batches.get(&first).map(Batch::awaited).unwrap_or_default();
        for server in awaited {
            self.unqueue(first, server);
        }
    }

    pub(super) fn unqueue(&mut self, first: Handler, server: ServerRank) {
        if let Some(peer) = self.peers.get_mut(&server) {
            peer.queue.remove(&first);
        }
    }

    /// Nobody will wait for a request.
    pub(super) fn abandon(&mut self, first: Handler, out: &mut Vec<Effect<T>>) {
        let Some(batch) = self.batches.get_mut(&first) else {
            return;
        };
        batch.is_abandoned = true;
        if batch.missing > 0 && batch.failure.is_none() {
            batch.failure = Some(Refusal::Abandoned { handler: first });
        }
        self.send_no_more(first);
        self.settle(first, out);
    }

    /// The worker stops.
    pub(super) fn stop(&mut self, out: &mut Vec<Effect<T>>) {
        self.is_stopped = true;
        let servers: Vec<ServerRank> = self.peers.keys().copied().collect();
        for server in servers {
            self.acknowledge(server, out);
            self.unlink(server, Link::Idle, out);
        }
        let batches: Vec<Handler> = self.batches.keys().copied().collect();
        for first in batches {
            self.fail(first, Refusal::Stopped, out);
        }
        self.dues.retain(|(_, due)| matches!(due, Due::Call(_)));
    }
}

/// What who waits for a request is told.
pub(super) fn result<T>(batch: &Batch<T>) -> Result<Complete, Refusal> {
    match &batch.failure {
        Some(refusal) => Err(refusal.clone()),
        None => Ok(Complete { missing: batch.without() }),
    }
}

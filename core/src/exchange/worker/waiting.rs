//! Who waits for requests, and for how long.

use alloc::vec::Vec;

use super::batch::Batch;
use super::ending::result;
use super::machine::{Due, Waiting, Worker};
use super::types::{Effect, Since};
use crate::exchange::ids::{Handler, ServerRank};
use crate::exchange::refusal::Refusal;
use crate::ids::CallId;
use crate::time::{Duration, Time};

impl<T: Clone> Worker<T> {
    pub(super) fn wait(
        &mut self,
        now: Time,
        call: CallId,
        handler: Handler,
        timeout: Option<(Duration, Since)>,
        out: &mut Vec<Effect<T>>,
    ) {
        let Some((first, batch)) = self.batch_of(handler).filter(|(_, it)| !it.is_abandoned) else {
            let refusal = Refusal::UnknownHandler { handler, next: self.next };
            return out.push(Effect::Waited { call, result: Err(refusal) });
        };
        if batch.is_complete() {
            let result = result(batch);
            if first == handler {
                self.forget(first);
            }
            return out.push(Effect::Waited { call, result });
        }
        let due = timeout.map(|(timeout, since)| match since {
            Since::Request => (batch.started.after(timeout), timeout),
            Since::Call => (now.after(timeout), timeout),
        });
        let max = self.config.calls_max;
        let refusal = match due {
            Some((at, after)) if at <= now => {
                Some(Refusal::Late { handler, after, missing: self.late_ones(first, batch) })
            }
            _ if self.calls.len() >= max => Some(Refusal::TooManyCalls { max }),
            _ => None,
        };
        if let Some(refusal) = refusal {
            return out.push(Effect::Waited { call, result: Err(refusal) });
        }
        self.dues.extend(due.map(|(at, _)| (at, Due::Call(call))));
        self.calls.insert(call, Waiting { handler, first, due });
        if let Some(batch) = self.batches.get_mut(&first) {
            batch.calls.push(call);
        }
    }

    /// The request that a handler is of, and its first one.
    pub(super) fn batch_of(&self, handler: Handler) -> Option<(Handler, &Batch<T>)> {
        let (first, batch) = self.batches.range(..=handler).next_back()?;
        let is_of_it = handler.get().saturating_sub(first.get()) < batch.trace.handlers;
        is_of_it.then_some((*first, batch))
    }

    /// Servers of which a request awaits something, or whose answer, though it does without it by now, is
    /// still being written.
    fn late_ones(&self, first: Handler, batch: &Batch<T>) -> Vec<ServerRank> {
        let writes = self.landings.values().filter(|written| written.handler == first);
        let mut servers = batch.awaited();
        servers.extend(writes.map(|written| written.server));
        servers.sort_unstable();
        servers.dedup();
        servers
    }

    /// A call's time is over. The request stays open.
    pub(super) fn too_late(&mut self, call: CallId, out: &mut Vec<Effect<T>>) {
        let Some(Waiting { handler, first, due }) = self.calls.get(&call).copied() else {
            return;
        };
        let batch = self.batches.get(&first);
        let missing = batch.map(|batch| self.late_ones(first, batch)).unwrap_or_default();
        let after = due.map(|(_, after)| after).unwrap_or_default();
        self.cancel(call);
        let result = Err(Refusal::Late { handler, after, missing });
        out.push(Effect::Waited { call, result });
    }

    /// Nobody waits for a call any more.
    pub(super) fn cancel(&mut self, call: CallId) {
        let Some(waiting) = self.calls.get(&call).copied() else {
            return;
        };
        self.end_call(call);
        if let Some(batch) = self.batches.get_mut(&waiting.first) {
            batch.calls.retain(|other| *other != call);
        }
    }
}

//! What a worker tells of itself and of its requests.

use alloc::vec::Vec;

use super::machine::Worker;
use super::peer::Link;
use crate::exchange::clock::Offset;
use crate::exchange::ids::{Handler, ServerRank};
use crate::exchange::passage::{PASSAGES_PER_PAGE_MAX, Page};
use crate::exchange::refusal::Refusal;
use crate::exchange::stamps::Stamps;
use crate::time::Time;

/// What a worker has in hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Requests that nobody has waited for.
    pub requests: usize,
    /// Calls that wait.
    pub calls: usize,
    /// What is not sent yet, counted for each server.
    pub queued: usize,
    /// What was sent and is not over, or whose memory on the server is not free.
    pub open: usize,
    /// Answers that have come and were not acknowledged.
    pub unacknowledged: usize,
    /// Servers to which requests pass.
    pub ready: usize,
    /// Servers that are lost.
    pub lost: usize,
}

impl<T: Clone> Worker<T> {
    /// What it has in hand.
    pub fn report(&self) -> Report {
        let sum = |of: fn(&super::peer::Peer) -> usize| self.peers.values().map(of).sum();
        Report {
            requests: self.batches.len(),
            calls: self.calls.len(),
            queued: sum(|peer| peer.queue.len()),
            open: sum(|peer| peer.open.len()),
            unacknowledged: sum(|peer| peer.acknowledge.len()),
            ready: sum(|peer| usize::from(matches!(peer.link, Link::Ready { .. }))),
            lost: sum(|peer| usize::from(peer.lost.is_some())),
        }
    }

    /// All handlers of a request, if this is its first one and nobody has waited for it; otherwise the
    /// handler alone, as StepMesh has it.
    pub fn all_handlers(&self, handler: Handler) -> Vec<Handler> {
        match self.batches.get(&handler) {
            Some(batch) => {
                let end = handler.get().saturating_add(batch.trace.handlers);
                (handler.get()..end).map(Handler::new).collect()
            }
            None => Vec::from([handler]),
        }
    }

    /// The stamps of a handler, also after its request was waited for: of the last server to answer.
    ///
    /// # Errors
    /// [`Refusal::UnknownHandler`] if it was never given out, or so long ago that its stamps are not
    /// kept.
    pub fn trace(&self, handler: Handler) -> Result<Stamps, Refusal> {
        let live = self.batch_of(handler).map(|(first, batch)| (first, batch.trace));
        let past = || {
            let found = self.traces.range(..=handler).next_back();
            found.map(|(first, trace)| (*first, *trace))
        };
        let found = live.or_else(past).and_then(|(first, trace)| trace.of(handler, first));
        found.ok_or(Refusal::UnknownHandler { handler, next: self.next })
    }

    /// Some of what it knows of the ways of requests to servers and back: those with greater numbers than
    /// `after`. It was asked now.
    pub fn page(&self, now: Time, after: u64) -> Page {
        let clocks = self.peers.values().filter(|_| after == 0);
        let clocks = clocks.filter_map(|peer| Some((peer.rank, peer.clock.offset()?)));
        Page {
            received: now,
            answered: now,
            last: self.passages.last(),
            passages: self.passages.after(after, PASSAGES_PER_PAGE_MAX),
            clocks: clocks.collect(),
        }
    }

    /// How far a server's clock is ahead of this worker's, as far as is known.
    pub fn offset(&self, server: ServerRank) -> Option<Offset> {
        self.peers.get(&server).and_then(|peer| peer.clock.offset())
    }
}

//! Listings of the state that wait: calls that take less time go before them, and have at least half of the
//! time.

use std::collections::VecDeque;
use std::time::Duration;

use rondo_core::status::{Code, Status};

use super::handle::Submission;

/// The listings that wait, the first one in front.
pub(super) struct Listings {
    waiting: VecDeque<Submission>,
    waiting_max: usize,
    /// How long the last listing took.
    last_took: Duration,
    /// How long the node has taken other calls since.
    waited: Duration,
}

impl Listings {
    /// None yet, and never more than so many.
    pub(super) const fn new(waiting_max: usize) -> Self {
        let (last_took, waited) = (Duration::ZERO, Duration::ZERO);
        Self { waiting: VecDeque::new(), waiting_max, last_took, waited }
    }

    /// Adds a listing. One above the bound is refused.
    pub(super) fn add(&mut self, listing: Submission) {
        if self.waiting.len() < self.waiting_max {
            return self.waiting.push_back(listing);
        }
        let bound = self.waiting_max;
        let text = format!("{bound} listings wait already, which is the bound (--queue-calls-max)");
        // Its caller may have left.
        let _unanswered = listing.answer.send(Err(Status::new(Code::ResourceExhausted, text)));
    }

    /// The node has taken other calls for so long.
    pub(super) const fn wait_for(&mut self, calls: Duration) {
        self.waited = self.waited.saturating_add(calls);
    }

    /// Whether the next listing may be taken: other calls have had as much time as the last one, or none of
    /// them waits.
    pub(super) fn may_take(&self, have_calls: impl FnOnce() -> bool) -> bool {
        !self.is_empty() && (self.waited >= self.last_took || !have_calls())
    }

    /// A listing has taken so long.
    pub(super) const fn took(&mut self, listing: Duration) {
        (self.last_took, self.waited) = (listing, Duration::ZERO);
    }

    /// Takes the first listing.
    pub(super) fn next(&mut self) -> Option<Submission> {
        self.waiting.pop_front()
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use rondo_core::control::Request;
    use rondo_core::dispatcher;
    use rondo_core::ids::CallId;
    use tokio::sync::oneshot;

    use super::*;
    use crate::node::BlobPin;

    #[test]
    fn other_calls_have_as_much_time_as_listings() {
        let mut listings = Listings::new(2);
        assert!(!listings.may_take(|| false), "there is none");
        let (answer, _answered) = oneshot::channel();
        let request = Request::Dispatcher(dispatcher::Request::GetWorkers);
        let pin = BlobPin::none();
        listings.add(Submission { call: CallId::new(1), request, pin, answer });
        assert!(listings.may_take(|| true));
        listings.took(Duration::from_millis(30));
        for _ in 0..14 {
            listings.wait_for(Duration::from_millis(2));
            assert!(!listings.may_take(|| true));
            assert!(listings.may_take(|| false), "nobody else waits");
        }
        listings.wait_for(Duration::from_millis(2));
        assert!(listings.may_take(|| true));
    }
}

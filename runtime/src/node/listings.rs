//! Listings of the state that wait: calls that take less time go before them.

use std::collections::VecDeque;

use rondo_core::status::{Code, Status};

use super::handle::Submission;

/// The listings that wait, the first one in front.
pub(super) struct Listings {
    waiting: VecDeque<Submission>,
    waiting_max: usize,
}

impl Listings {
    /// None yet, and never more than so many.
    pub(super) const fn new(waiting_max: usize) -> Self {
        Self { waiting: VecDeque::new(), waiting_max }
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

    /// Takes the first listing.
    pub(super) fn next(&mut self) -> Option<Submission> {
        self.waiting.pop_front()
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

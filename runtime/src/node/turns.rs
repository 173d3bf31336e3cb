//! The turns of a node: how many calls it takes at a time, and for how long.

use std::time::Duration;

use rondo_core::control::Input;
use tokio::time::Instant;

use super::driver::Driver;
use super::handle::Submission;
use super::journal::Journal;

/// Turns that the other tasks of this thread have between a sync and the next group, at most. In the first
/// one callers are answered, and in the second one their next calls are read.
const GATHERING_TURNS_MAX: usize = 8;
/// Turns without a new call that end the gathering.
const GATHERING_TURNS_EMPTY: usize = 3;

/// Calls that the node takes from the inbox at once. A call that comes meanwhile waits for these, and for one
/// call of each other line, 32 of a relay's.
pub(super) const CALLS_AT_ONCE: usize = 8;
/// A turn ends after this time. Connections may be served by the same thread, and wait for its end.
const TURN_MAX: Duration = Duration::from_millis(2);

impl Driver {
    /// Takes those calls, and then what is in the inbox, `most` at most, for as long as a turn may last. How
    /// many.
    pub(super) async fn take_turn(&mut self, calls: &mut Vec<Submission>, most: usize) -> usize {
        let (began, mut taken) = (Instant::now(), 0_usize);
        while began.elapsed() < TURN_MAX && self.halted.is_none() {
            if calls.is_empty() {
                self.inbox.take(calls, CALLS_AT_ONCE.min(most.saturating_sub(taken)));
            }
            if calls.is_empty() {
                break;
            }
            taken = taken.saturating_add(calls.len());
            self.take(calls).await;
        }
        self.listings.wait_for(began.elapsed());
        taken
    }

    async fn take(&mut self, calls: &mut Vec<Submission>) {
        self.tell_memory();
        for submission in calls.drain(..) {
            match submission.request.is_listing() {
                true => self.listings.add(submission),
                false => self.take_one(submission).await,
            }
        }
    }

    /// Takes a listing, if it is its turn: nobody else waits, or calls have had as much time as the last one.
    pub(super) async fn list_one(&mut self) {
        let is_its_turn = self.listings.may_take(|| self.inbox.has_calls());
        if !is_its_turn || self.halted.is_some() {
            return;
        }
        if let Some(listing) = self.listings.next() {
            let began = Instant::now();
            self.take_one(listing).await;
            self.listings.took(began.elapsed());
        }
    }

    async fn take_one(&mut self, Submission { call, request, pin, answer }: Submission) {
        // Its caller left before its turn, and may have said so before anybody knew the call.
        if answer.is_closed() {
            return;
        }
        self.waiting.insert(call, answer);
        let entropy = self.entropy.next();
        self.step(Input::Request { call, request, entropy });
        // From here on the machine knows whether it names the blob.
        drop(pin);
        if self.journal.as_ref().is_some_and(Journal::is_group_full) {
            self.append().await;
        }
    }

    /// Takes the next calls of the callers that the last sync has answered, one turn's number at most. The
    /// next sync then makes more calls durable, and each connection writes more answers at once.
    pub(super) async fn gather(&mut self, calls: &mut Vec<Submission>) {
        let (mut room, mut empty) = (self.config.batch_calls_max.max(1), 0_usize);
        for _ in 0..GATHERING_TURNS_MAX {
            // The sync may have failed.
            if self.halted.is_some() || room == 0 || empty == GATHERING_TURNS_EMPTY {
                return;
            }
            tokio::task::yield_now().await;
            // The machine takes back what callers that left hold before it answers the next calls.
            self.forget_gone();
            let taken = self.take_turn(calls, room).await;
            room = room.saturating_sub(taken);
            empty = if taken == 0 { empty.saturating_add(1) } else { 0 };
        }
    }
}

//! The end of a reader: what was consumed is acknowledged, and the dispatcher told that it leaves.

use alloc::vec::Vec;

use super::retry::is_soft;
use super::shared::{Purpose, Shared};
use super::types::{Answer, Effect, Request};
use crate::ids::CallId;
use crate::status::{Code, Status};
use crate::time::{Duration, Time};

/// A reader that is about to leave, or has left.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    until: Time,
    waits: Waits,
    /// Calls of the application that wait for what was consumed to be acknowledged.
    flushes: Vec<CallId>,
    /// Whether all that was consumed is acknowledged.
    is_acknowledged: bool,
}

/// What it still waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// To learn by which number it is to leave.
    Client,
    Acknowledgement,
    Release,
    Nothing,
}

impl Leaving {
    /// Begins to leave, with a last request to hold no more splits if there is one.
    pub(super) fn begin(
        now: Time,
        last_words: Option<Request>,
        flushes: Vec<CallId>,
        is_joining: bool,
        shared: &mut Shared,
        out: &mut Vec<Effect>,
    ) -> Self {
        let joins = |purpose: Purpose| is_joining && purpose == Purpose::Iteration;
        shared.withdraw_all_but(joins, out);
        let until = now.after(shared.config.leave_patience);
        let is_acknowledged = last_words.is_none();
        let mut leaving = Self { until, waits: Waits::Nothing, flushes, is_acknowledged };
        match last_words {
            Some(request) if shared.client.is_some() => {
                leaving.waits = Waits::Acknowledgement;
                shared.ask(Purpose::Hold, request, shared.config.leave_patience, out);
            }
            Some(_) => leaving.release(Err(unheard()), shared, out),
            None if is_joining => leaving.waits = Waits::Client,
            None => leaving.release(Ok(()), shared, out),
        }
        leaving
    }

    pub(super) fn is_over(&self) -> bool {
        self.waits == Waits::Nothing
    }

    /// Answers a call that waits for acknowledgements.
    pub(super) fn flush(&mut self, call: CallId, out: &mut Vec<Effect>) {
        if self.waits == Waits::Acknowledgement {
            return self.flushes.push(call);
        }
        let result = if self.is_acknowledged { Ok(()) } else { Err(unheard()) };
        out.push(Effect::Flushed { call, result });
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        (!self.is_over()).then_some(self.until)
    }

    pub(super) fn answered(
        &mut self,
        purpose: Purpose,
        result: Result<Answer, Status>,
        shared: &mut Shared,
        out: &mut Vec<Effect>,
    ) {
        match (self.waits, purpose) {
            (Waits::Client, Purpose::Iteration) => {
                if let Ok(Answer::Client(client)) = result {
                    shared.client = Some(client);
                }
                self.release(Ok(()), shared, out);
            }
            (Waits::Acknowledgement, Purpose::Hold) => {
                if result.as_ref().is_err_and(|status| !is_soft(status.code)) {
                    // It is no client any more.
                    shared.client = None;
                }
                self.is_acknowledged = result.is_ok();
                self.release(result.map(drop), shared, out);
            }
            (Waits::Release, Purpose::Release) => self.waits = Waits::Nothing,
            _ => {}
        }
    }

    pub(super) fn tick(&mut self, now: Time, shared: &mut Shared, out: &mut Vec<Effect>) {
        if self.is_over() || now < self.until {
            return;
        }
        shared.withdraw_all_but(|_| false, out);
        if self.waits == Waits::Acknowledgement {
            // It may be heard though nothing was heard of it.
            self.until = now.after(shared.config.leave_patience);
            return self.release(Err(unheard()), shared, out);
        }
        self.waits = Waits::Nothing;
    }

    fn release(&mut self, flushed: Result<(), Status>, shared: &mut Shared, out: &mut Vec<Effect>) {
        for call in core::mem::take(&mut self.flushes) {
            out.push(Effect::Flushed { call, result: flushed.clone() });
        }
        let Some(client) = shared.client else {
            self.waits = Waits::Nothing;
            return;
        };
        self.waits = Waits::Release;
        let deadline = shared.config.leave_patience.min(RELEASE_PATIENCE);
        shared.ask(Purpose::Release, Request::Release { client }, deadline, out);
    }
}

/// It is asked for once: a dispatcher that does not hear of it gives the reader up later.
const RELEASE_PATIENCE: Duration = Duration::from_secs(1);

fn unheard() -> Status {
    Status::new(Code::Unavailable, "the dispatcher has not said that it knows of it")
}

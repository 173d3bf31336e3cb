//! The end of a reader: what was consumed is acknowledged, and the dispatcher told that it leaves.
//! Both are said again while the dispatcher does not answer, for `leave_patience` each.

use alloc::format;
use alloc::vec::Vec;

use super::retry::Retry;
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
    /// The acknowledgement of all that was consumed, until the dispatcher has it.
    last_words: Option<Request>,
    retry: Retry,
    /// Calls of the application that wait for what was consumed to be acknowledged.
    flushes: Vec<CallId>,
    /// The application has consumed more since, and nobody tells the dispatcher.
    is_late: bool,
    /// Whether the dispatcher knows what was consumed, and that the reader leaves.
    result: Result<(), Status>,
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
        let (waits, retry, result) = (Waits::Nothing, Retry::default(), Ok(()));
        let is_late = false;
        let mut leaving = Self { until, waits, last_words, retry, flushes, is_late, result };
        match leaving.last_words {
            Some(_) if shared.client.is_some() => {
                leaving.waits = Waits::Acknowledgement;
                leaving.say(now, shared, out);
            }
            Some(_) => leaving.unacknowledged(now, &given_up(), shared, out),
            None if is_joining => leaving.waits = Waits::Client,
            None => leaving.release(now, shared, out),
        }
        leaving
    }

    pub(super) fn is_over(&self) -> bool {
        self.waits == Waits::Nothing
    }

    /// How it went: whether the dispatcher knows what was consumed, and that the reader leaves.
    pub(super) const fn result(&self) -> &Result<(), Status> {
        &self.result
    }

    /// The reader has failed, and the application has deliveries from before: the dispatcher is not told
    /// when it consumes them.
    pub(super) fn cut_off(&mut self) {
        if self.result.is_ok() {
            let why = "the reader failed before all that it delivered was consumed";
            let why = Status::new(Code::Cancelled, why);
            self.result = Err(not_told("what was consumed last", &why));
        }
    }

    /// Answers a call that waits for acknowledgements.
    pub(super) fn flush(&mut self, call: CallId, out: &mut Vec<Effect>) {
        if self.waits == Waits::Acknowledgement {
            return self.flushes.push(call);
        }
        out.push(Effect::Flushed { call, result: self.is_known() });
    }

    /// The application has consumed what it was handed before the reader began to leave.
    pub(super) fn consumed_too_late(&mut self) {
        self.is_late = true;
        if self.result.is_ok() {
            self.result = Err(not_told("what was consumed last", &unheard()));
        }
    }

    /// Whether the dispatcher knows all that was consumed.
    fn is_known(&self) -> Result<(), Status> {
        match self.last_words.is_none() && !self.is_late {
            true => Ok(()),
            false => Err(unheard()),
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let until = (!self.is_over()).then_some(self.until)?;
        Some(self.retry.at().map_or(until, |at| at.min(until)))
    }

    pub(super) fn answered(
        &mut self,
        now: Time,
        purpose: Purpose,
        (result, entropy): (Result<Answer, Status>, u64),
        shared: &mut Shared,
        out: &mut Vec<Effect>,
    ) {
        match (self.waits, purpose, result) {
            (Waits::Client, Purpose::Iteration, result) => {
                self.joined(result, shared);
                self.release(now, shared, out);
            }
            (Waits::Acknowledgement, Purpose::Hold, Ok(_)) => {
                self.last_words = None;
                self.release(now, shared, out);
            }
            (Waits::Acknowledgement, Purpose::Hold, Err(status))
                if status.code == Code::NotFound =>
            {
                shared.client = None;
                self.unacknowledged(now, &status, shared, out);
            }
            (Waits::Release, Purpose::Release, Ok(_)) => self.waits = Waits::Nothing,
            (Waits::Release, Purpose::Release, Err(status)) if status.code == Code::NotFound => {
                self.waits = Waits::Nothing;
            }
            // Another error says nothing of this client: it may be of the way.
            (Waits::Acknowledgement, Purpose::Hold, Err(status))
            | (Waits::Release, Purpose::Release, Err(status)) => {
                self.retry.failed(now, status, entropy, PAUSE_MAX);
            }
            _ => {}
        }
    }

    /// Takes the answer to the request to join. The dispatcher may have a client for this reader even
    /// if its answer got lost.
    fn joined(&mut self, result: Result<Answer, Status>, shared: &mut Shared) {
        match result {
            Ok(Answer::Client(client)) => shared.client = Some(client),
            Err(status) if status.code.may_pass() => {
                self.result = Err(not_told("that this reader leaves", &status));
            }
            Ok(_) | Err(_) => {}
        }
    }

    pub(super) fn tick(&mut self, now: Time, shared: &mut Shared, out: &mut Vec<Effect>) {
        if self.is_over() {
            return;
        }
        if now < self.until {
            if self.retry.at().is_some_and(|at| at <= now) {
                self.say(now, shared, out);
            }
            return;
        }
        shared.withdraw_all_but(|_| false, out);
        let why = self.retry.why().map_or_else(unheard, |(_, status)| status.clone());
        match self.waits {
            // The release may be heard though nothing was heard of the acknowledgement.
            Waits::Acknowledgement => {
                self.until = now.after(shared.config.leave_patience);
                self.unacknowledged(now, &why, shared, out);
            }
            Waits::Client | Waits::Release | Waits::Nothing => {
                self.waits = Waits::Nothing;
                if self.result.is_ok() {
                    self.result = Err(not_told("that this reader leaves", &why));
                }
            }
        }
    }

    /// Sends, or sends again, the request whose answer it waits for.
    fn say(&mut self, now: Time, shared: &mut Shared, out: &mut Vec<Effect>) {
        self.retry.begin();
        let left = self.until.since(now);
        match (self.waits, shared.client, &self.last_words) {
            (Waits::Acknowledgement, Some(_), Some(request)) => {
                shared.ask(Purpose::Hold, request.clone(), left, out);
            }
            (Waits::Release, Some(client), _) => {
                let deadline = left.min(RELEASE_PATIENCE);
                shared.ask(Purpose::Release, Request::Release { client }, deadline, out);
            }
            _ => {}
        }
    }

    /// The dispatcher does not have what was consumed.
    fn unacknowledged(
        &mut self,
        now: Time,
        why: &Status,
        shared: &mut Shared,
        out: &mut Vec<Effect>,
    ) {
        self.result = Err(not_told("what was consumed last", why));
        self.release(now, shared, out);
    }

    fn release(&mut self, now: Time, shared: &mut Shared, out: &mut Vec<Effect>) {
        let flushed = self.is_known();
        for call in core::mem::take(&mut self.flushes) {
            out.push(Effect::Flushed { call, result: flushed.clone() });
        }
        if shared.client.is_none() {
            self.waits = Waits::Nothing;
            return;
        }
        self.waits = Waits::Release;
        self.retry.succeeded();
        self.say(now, shared, out);
    }
}

/// Longest pause before the dispatcher is told again.
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// How long one release may take. A dispatcher that hears of none gives the reader up later.
const RELEASE_PATIENCE: Duration = Duration::from_secs(1);

fn unheard() -> Status {
    Status::new(Code::Unavailable, "the dispatcher has not said that it knows of it")
}

/// The dispatcher does not know the reader any more.
fn given_up() -> Status {
    Status::new(Code::NotFound, "it has given this reader up")
}

fn not_told(what: &str, why: &Status) -> Status {
    let text = format!("the dispatcher was not told {what}: {}", why.message);
    Status::new(why.code, text).with(why.details.clone())
}
